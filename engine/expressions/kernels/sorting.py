"""Columns that Arrow's kernels sort and compare in SQL's order: NaN is the largest number, and −0
equals 0.

`sort_indices` puts NaN next to NULL, at whichever end NULL goes. So floating-point keys are
converted to integers of the same order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers, numbers, validity

_NEGATIVE = np.int64(0x7FFF_FFFF_FFFF_FFFF)
"""All bits but the sign."""

Direction = tuple[bool, bool]
"""The direction of one sort key: (whether it is descending, whether NULLs come first)."""


# Of two IEEE 754 numbers that aren't negative, the larger one also has the larger bits. The bits of
# negative numbers, read as a signed integer, order the wrong way round, and are inverted:
#     values                −2.0                  −0.0 (+ 0.0 = 0.0)  1.5
#     bits                  0xC000000000000000    0x0000000000000000  0x3FF8000000000000
#     bits as an integer    −4611686018427387904  0                   4609434218613702656
#     result                −4611686018427387905  0                   4609434218613702656
# NaN, made one positive bit pattern, is above infinity.
def ordered_integers(array: pa.Array) -> pa.Array:
    """BIGINT values in the same order as the values of a REAL or DOUBLE column."""
    values: Numbers = numbers(array, np.float32 if pa.types.is_float32(array.type) else np.float64)
    wide = np.add(values, 0.0, dtype=np.float64)
    wide[np.isnan(wide)] = np.nan
    integers = wide.view(np.int64)
    # The integers of negative floats are in reverse order, so all bits but the sign are inverted.
    # `integers >> 63` is −1 (all bits set) for a negative number and 0 for any other.
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
    """The indexes of the rows in sorted order, by columns that `sortable` returned. The sort is
    stable.
    """
    names = [f"k{i}" for i in range(len(columns))]
    keys = [
        (name, "descending" if descending else "ascending", "at_start" if nulls_first else "at_end")
        for name, (descending, nulls_first) in zip(names, directions, strict=True)
    ]
    return pc.sort_indices(pa.RecordBatch.from_arrays(columns, names=names), sort_keys=keys)
