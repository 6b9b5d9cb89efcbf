"""The order of rows.

NULL is smallest unless the key specifies otherwise, NaN is largest, and −0 equals 0. Otherwise the
order is Arrow's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_flags
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.kernels.order_keys import ordered_integers
from runnel.expressions.kernels.sorting import sortable
from runnel.expressions.nodes import SortKey

__all__ = ["Ordering", "ordered_integers", "sortable"]


class Ordering:
    """Compiled sort keys; shared by executions."""

    def __init__(self, keys: Sequence[SortKey]) -> None:
        self._evaluators = [compile_expression(key.expression) for key in keys]
        self._names = [f"k{i}" for i in range(len(keys))]
        self._sort_keys = [
            (
                name,
                "descending" if key.descending else "ascending",
                "at_start" if key.nulls_first else "at_end",
            )
            for name, key in zip(self._names, keys, strict=True)
        ]
        self.directions = [(key.descending, key.nulls_first) for key in keys]
        self._first = keys[0] if keys else None

    def columns(self, frame: EvaluationInput) -> list[pa.Array]:
        """Evaluate the keys, as columns that Arrow sorts in the order of SQL."""
        return [sortable(evaluate(item, frame)) for item in self._evaluators]

    def indices(self, columns: list[pa.Array]) -> pa.UInt64Array:
        """Return the row numbers in sorted order; `columns` are the result of `columns`."""
        batch = pa.RecordBatch.from_arrays(columns, names=self._names)
        return pc.sort_indices(batch, sort_keys=self._sort_keys)

    def not_after(self, frame: EvaluationInput, bound: pa.Scalar) -> pa.BooleanArray | None:
        """Return a mask of the rows whose first key isn't after `bound`; None if that is all rows.

        bound: a value of the first key, in sortable form.
        """
        assert self._first is not None
        column = sortable(evaluate(self._evaluators[0], frame))
        nulls_first = self._first.nulls_first
        if not bound.is_valid:
            return pc.is_null(column) if nulls_first else None
        compare: Callable[..., pa.BooleanArray] = (
            pc.greater_equal if self._first.descending else pc.less_equal
        )
        keep = compare(column, bound)
        if not keep.null_count:
            return keep
        return pc.fill_null(keep, _TRUE if nulls_first else _FALSE)


_TRUE = from_flags(np.ones(1, np.bool_))[0]
_FALSE = from_flags(np.zeros(1, np.bool_))[0]
