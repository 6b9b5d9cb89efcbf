"""Columns that Arrow's kernels sort and compare in SQL's order: NaN is the largest number, and −0
equals 0.

`sort_indices` puts NaN next to NULL, at whichever end NULL goes. So floating-point keys are
converted to integers of the same order. Arrays and rows become VARBINARY of the same order.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.kernels.order_keys import nested_keys, ordered_integers

Direction = tuple[bool, bool]
"""The direction of one sort key: (whether it is descending, whether NULLs come first)."""


def sortable(array: pa.Array) -> pa.Array:
    """A column that Arrow's kernels sort and compare in SQL's order."""
    if pa.types.is_floating(array.type):
        return ordered_integers(array)
    if pa.types.is_duration(array.type):
        return array.view(pa.int64())
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int64())
    if pa.types.is_nested(array.type):
        return nested_keys(array)
    return array


def sorted_rows(columns: list[pa.Array], directions: list[Direction]) -> pa.UInt64Array:
    """The indexes of the rows in sorted order, by columns that `sortable` returned. The sort is
    stable.
    """
    names = [f"k{i}" for i in range(len(columns))]
    keys = [
        (name, "descending" if descending else "ascending", "at_start" if nulls_first else "at_end")
        for name, (descending, nulls_first) in zip(names, directions, strict=True)
    ]
    return pc.sort_indices(pa.RecordBatch.from_arrays(columns, names=names), sort_keys=keys)
