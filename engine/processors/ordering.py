"""The order of values: NULL smallest unless said otherwise, NaN largest, −0 equal to 0; then as Arrow sorts.

`sort_indices` puts NaN beside NULL, wherever that goes. So floating-point keys are sorted as integers of the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import Numbers, from_flags, from_numbers, numbers, validity
from runnel.expressions.context import Frame
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import SortKey

_NEGATIVE = np.int64(0x7FFF_FFFF_FFFF_FFFF)


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


class Ordering:
    """Compiled sort keys; shared by executions."""

    def __init__(self, keys: Sequence[SortKey]) -> None:
        self._evaluators = [compile_expression(key.expression) for key in keys]
        self._names = [f"k{i}" for i in range(len(keys))]
        self._sort_keys = [
            (name, "descending" if key.descending else "ascending", "at_start" if key.nulls_first else "at_end")
            for name, key in zip(self._names, keys, strict=True)
        ]
        self._first = keys[0] if keys else None

    def columns(self, frame: Frame) -> list[pa.Array]:
        """The key columns, sortable."""
        return [sortable(evaluate(item, frame)) for item in self._evaluators]

    def indices(self, columns: list[pa.Array]) -> pa.UInt64Array:
        """Which row comes first, second, … ."""
        batch = pa.RecordBatch.from_arrays(columns, names=self._names)
        return pc.sort_indices(batch, sort_keys=self._sort_keys)

    def not_after(self, frame: Frame, bound: pa.Scalar) -> pa.BooleanArray | None:
        """The rows that by their first key don't come after a row whose first key (sortable) is `bound`; None for all."""
        assert self._first is not None
        column = sortable(evaluate(self._evaluators[0], frame))
        nulls_first = self._first.nulls_first
        if not bound.is_valid:
            return pc.is_null(column) if nulls_first else None
        compare: Callable[..., pa.BooleanArray] = pc.greater_equal if self._first.descending else pc.less_equal
        keep = compare(column, bound)
        if not keep.null_count:
            return keep
        return pc.fill_null(keep, _TRUE if nulls_first else _FALSE)


_TRUE = from_flags(np.ones(1, np.bool_))[0]
_FALSE = from_flags(np.zeros(1, np.bool_))[0]
