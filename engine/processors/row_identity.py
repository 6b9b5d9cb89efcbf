"""When two rows are the same: NULL as NULL, NaN as NaN, −0 as 0, ARRAY and ROW by their parts.

This is the identity of GROUP BY, DISTINCT and set operations (`factorise`), and of join keys (`same`; there a NULL key
doesn't match, which is the join's business).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import Indexes, Mask, flags, from_numbers, indexes, numbers, validity
from runnel.expressions.aggregate_states import Column
from runnel.key_hash import hash_columns

_ZERO = {
    pa.float32(): from_numbers(np.zeros(1, np.float32), pa.float32())[0],
    pa.float64(): from_numbers(np.zeros(1, np.float64), pa.float64())[0],
}
_NAN = {
    pa.float32(): from_numbers(np.full(1, np.nan, np.float32), pa.float32())[0],
    pa.float64(): from_numbers(np.full(1, np.nan, np.float64), pa.float64())[0],
}


def is_plain(arrow: pa.DataType) -> bool:
    """Whether Arrow's own hash tables take the type as a key."""
    return not pa.types.is_nested(arrow)


def normalised(column: Column) -> Column:
    """A plain column in which values that are the same have the same bits."""
    if not pa.types.is_floating(column.type):
        return column
    column = pc.add(column, _ZERO[column.type])
    is_nan = pc.is_nan(column)
    return pc.if_else(is_nan, _NAN[column.type], column) if pc.any(is_nan).as_py() else column


def factorise(columns: Sequence[pa.Array]) -> tuple[Indexes, Indexes]:
    """Numbers the distinct rows: gives the number of each row, and for each number a row that has it.

    Rows are told apart by a 64-bit hash first. Rows that share a hash and aren't the same are numbered anew among
    themselves, so the result is exact.
    """
    hashes = hash_columns(columns)
    _, first, codes = np.unique(hashes, return_index=True, return_inverse=True)
    differs = ~same(columns, np.arange(len(codes)), columns, first[codes])
    while differs.any():
        rows = np.flatnonzero(differs)
        _, among, inverse = np.unique(hashes[rows], return_index=True, return_inverse=True)
        codes[rows] = len(first) + inverse
        first = np.concatenate((first, rows[among]))
        differs[rows] = ~same(columns, rows, columns, first[codes[rows]])
    return codes.astype(np.int64, copy=False), first.astype(np.int64, copy=False)


def same(left: Sequence[pa.Array], left_rows: Indexes, right: Sequence[pa.Array], right_rows: Indexes) -> Mask:
    """For each i, whether row left_rows[i] of the left columns is the same as row right_rows[i] of the right ones."""
    result = np.ones(len(left_rows), np.bool_)
    for first, second in zip(left, right, strict=True):
        result &= same_values(first.take(indexes(left_rows)), second.take(indexes(right_rows)))
    return result


def same_values(left: pa.Array, right: pa.Array) -> Mask:
    """Pairwise, over columns of one type and length."""
    arrow = left.type
    if pa.types.is_null(arrow):
        return np.ones(len(left), np.bool_)
    valid_left, valid_right = _valid(left), _valid(right)
    both = valid_left & valid_right
    neither = ~(valid_left | valid_right)
    return neither | (both & _equal(left, right, both))


def _equal(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    """Whether values are the same where both are valid; arbitrary elsewhere."""
    arrow = left.type
    if pa.types.is_struct(arrow):
        result = np.ones(len(left), np.bool_)
        for i in range(arrow.num_fields):
            result &= same_values(left.field(i), right.field(i))
        return result
    if pa.types.is_list(arrow) or pa.types.is_map(arrow):
        return _equal_lists(left, right, both)
    if pa.types.is_floating(arrow):
        dtype = np.float32 if pa.types.is_float32(arrow) else np.float64
        first, second = numbers(left, dtype), numbers(right, dtype)
        equal_or_nan: Mask = (first == second) | (np.isnan(first) & np.isnan(second))
        return equal_or_nan
    return flags(pc.equal(left, right))


def _equal_lists(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    result = np.zeros(len(left), np.bool_)
    lengths_left, lengths_right = list_lengths(left), list_lengths(right)
    candidates = np.flatnonzero(both & (lengths_left == lengths_right))
    first, second = list_items(left.take(indexes(candidates))), list_items(right.take(indexes(candidates)))
    owners = np.repeat(np.arange(len(candidates)), lengths_left[candidates])
    wrong = np.bincount(owners[~same_values(first, second)], minlength=len(candidates))
    result[candidates] = wrong == 0
    return result


def list_lengths(array: pa.Array) -> Indexes:
    """The number of items of each list or map; 0 for NULL."""
    if not len(array):
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    lengths = np.diff(offsets).astype(np.int64)
    valid = validity(array)
    return lengths if valid is None else lengths * valid


def list_items(array: pa.Array) -> pa.Array:
    """The items of all lists that aren't NULL, one after the other; of maps the entries, as a struct column."""
    if pa.types.is_map(array.type):
        array = array.view(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    return array.flatten()


def _valid(array: pa.Array) -> Mask:
    valid = validity(array)
    return np.ones(len(array), np.bool_) if valid is None else valid
