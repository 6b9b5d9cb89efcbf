"""The identity of rows: NULL equals NULL, NaN equals NaN, and −0 equals 0.

ARRAYs and ROWs are compared by their elements and fields. GROUP BY, DISTINCT and set operations
use this identity (`factorise`), and so do join keys (`same`). NULL keys of a join don't match; the
join excludes them itself.
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


BARE_TYPES = frozenset(
    kind.id
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.timestamp("us"))
)
"""Frequent types of which equal values have equal bits: by number, as a type is asked for at each
group-by."""


def is_plain(arrow: pa.DataType) -> bool:
    """Whether Arrow's own hash tables support the type as a key."""
    return not pa.types.is_nested(arrow)


def normalised(column: Column) -> Column:
    """Convert a plain column so that equal values have equal bits."""
    if not pa.types.is_floating(column.type):
        return column
    column = pc.add(column, _ZERO[column.type])
    is_nan = pc.is_nan(column)
    return pc.if_else(is_nan, _NAN[column.type], column) if pc.any(is_nan).as_py() else column


def factorise(columns: Sequence[pa.Array]) -> tuple[Indexes, Indexes]:
    """Number the distinct rows: return the number of each row, and for each number one such row.

    Rows are first distinguished by a 64-bit hash. Different rows with equal hashes are then
    numbered among themselves, so the result is exact.
    """
    # Example: the rows [a, b, a]. With the hashes [9, 4, 9] first = [1, 0] and codes = [1, 0, 1],
    # and nothing differs. If all hashes were 9, first = [0] and codes = [0, 0, 0], and row 1
    # differs from row 0: it gets the next number, codes = [0, 1, 0] and first = [0, 1].
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
    """For each i, whether row left_rows[i] of `left` equals row right_rows[i] of `right`."""
    result = np.ones(len(left_rows), np.bool_)
    for first, second in zip(left, right, strict=True):
        result &= same_values(first.take(indexes(left_rows)), second.take(indexes(right_rows)))
    return result
