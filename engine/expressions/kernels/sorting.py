"""Columns that Arrow's kernels sort and compare in SQL's order: NULL aside, NaN largest, −0 equal
to 0.

`sort_indices` puts NaN beside NULL, wherever that goes. So floating-point keys are sorted as
integers of the same order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers, numbers, validity

_NEGATIVE = np.int64(0x7FFF_FFFF_FFFF_FFFF)

Direction = tuple[bool, bool]
"""Of one sort key: whether it is descending, and whether NULLs come first."""


def ordered_integers(array: pa.Array) -> pa.Array:
    """BIGINT values in the same order as those of a REAL or DOUBLE column."""
    values: Numbers = numbers(array, np.float32 if pa.types.is_float32(array.type) else np.float64)
    wide = np.add(values, 0.0, dtype=np.float64)
    wide[np.isnan(wide)] = np.nan
    integers = wide.view(np.int64)
    # Negative floats, as integers, are in reverse order: all bits but the sign are turned.
    integers ^= (integers >> 63) & _NEGATIVE
    return from_numbers(integers, pa.int64(), validity(array))


def sortable(array: pa.Array) -> pa.Array:
    """A column that Arrow's kernels sort and compare in SQL's order."""
    if pa.types.is_floating(array.type):
        return ordered_integers(array)
    if pa.types.is_duration(array.type):
        return array.view(pa.int64())
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int64())
    return array


def sorted_rows(columns: list[pa.Array], directions: list[Direction]) -> pa.UInt64Array:
    """Which row comes first, second, … by columns that are sortable; rows that are equal stay in
    their order."""
    names = [f"k{i}" for i in range(len(columns))]
    keys = [
        (name, "descending" if descending else "ascending", "at_start" if nulls_first else "at_end")
        for name, (descending, nulls_first) in zip(names, directions, strict=True)
    ]
    return pc.sort_indices(pa.RecordBatch.from_arrays(columns, names=names), sort_keys=keys)
