"""Sameness of two values of any type, and the flattened elements of list columns.

NULL is the same as NULL, NaN as NaN, and −0 as 0. Arrays, rows and maps are compared element by
element.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, Mask, flags, indexes, numbers, validity


def same_values(left: pa.Array, right: pa.Array) -> Mask:
    """For each row of two columns of one type and length, whether the two values are the same."""
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
    if pa.types.is_interval(arrow):
        left, right = left.view(_OCTETS), right.view(_OCTETS)
    return flags(pc.equal(left, right))


_OCTETS = pa.binary(16)
"""The view of an INTERVAL, which Arrow doesn't compare."""


# For the columns [[1, 2], [3], [4, 5]] and [[1, 2], [3, 3], [4, 6]] without NULLs:
#     candidates  [0, 2]        rows whose lists have equal lengths; row 1 is different already
#     first       [1, 2, 4, 5]  the elements of the candidates of the left column
#     second      [1, 2, 4, 6]  and of the right column
#     owners      [0, 0, 1, 1]  for each element, its list as an index into `candidates`
#     wrong       [0, 1]        for each candidate, how many elements differ
#     result      [True, False, False]
def _equal_lists(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    """Whether lists or maps are the same; False where one is NULL."""
    result = np.zeros(len(left), np.bool_)
    lengths_left, lengths_right = list_lengths(left), list_lengths(right)
    candidates = np.flatnonzero(both & (lengths_left == lengths_right))
    first, second = (
        list_items(left.take(indexes(candidates))),
        list_items(right.take(indexes(candidates))),
    )
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
    """The items of all lists that aren't NULL, concatenated; for maps the entries, as a struct
    column.
    """
    if pa.types.is_map(array.type):
        array = array.view(
            pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
        )
    return array.flatten()


def _valid(array: pa.Array) -> Mask:
    """Whether each value isn't NULL."""
    valid = validity(array)
    return np.ones(len(array), np.bool_) if valid is None else valid
