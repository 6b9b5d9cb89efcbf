"""When two rows are the same: NULL as NULL, NaN as NaN, −0 as 0, ARRAY and ROW by their parts.

This is the identity of GROUP BY, DISTINCT and set operations (`factorise`), and of join keys
(`same`; there a NULL key doesn't match, which is the join's business).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, Mask, from_numbers, indexes
from runnel.columns.key_hash import hash_columns
from runnel.expressions.aggregates.states import Column
from runnel.expressions.kernels.sameness import same_values

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
    """Numbers the distinct rows: gives the number of each row, and for each number a row that has
    it.

    Rows are told apart by a 64-bit hash first. Rows that share a hash and aren't the same are
    numbered anew among themselves, so the result is exact.
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


def same(
    left: Sequence[pa.Array], left_rows: Indexes, right: Sequence[pa.Array], right_rows: Indexes
) -> Mask:
    """For each i, whether row left_rows[i] of the left columns is the same as row right_rows[i] of
    the right ones."""
    result = np.ones(len(left_rows), np.bool_)
    for first, second in zip(left, right, strict=True):
        result &= same_values(first.take(indexes(left_rows)), second.take(indexes(right_rows)))
    return result
