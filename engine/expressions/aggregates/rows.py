"""States of aggregates over whole rows: one that retains all rows, and one that retains the best
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Mask, from_numbers, indexes, numbers, validity
from runnel.expressions.aggregates.states import (
    AggregateState,
    Column,
    GroupByRequest,
    Items,
    Work,
    contiguous,
    filled,
)
from runnel.expressions.kernels.sorting import Direction, sortable, sorted_rows


@frozen
class RowListState(AggregateState):
    """All rows of `fields` in a list of structs, in the order of arrival; NULL without any row.

    fields: the types of the fields. An argument after the fields is a flag that says which rows
      count.
    keeps_nulls: whether a row counts although its first field is NULL, if there is no flag.
    """

    fields: tuple[pa.DataType, ...]
    keeps_nulls: bool = False

    @property
    def _items(self) -> Items:
        struct = pa.struct([(f"f{i}", kind) for i, kind in enumerate(self.fields)])
        return Items(struct, keeps_nulls=True)

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self._items.types

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        columns = [contiguous(item) for item in arguments]
        width = len(self.fields)
        names = [f"f{i}" for i in range(width)]
        rows = pa.StructArray.from_arrays(columns[:width], names=names)
        if len(columns) > width:
            return self._items.accumulate([rows, columns[width]], num_rows)
        valid = None if self.keeps_nulls else validity(columns[0])
        return self._items.accumulate(
            [rows] if valid is None else [rows, flag_column(valid)], num_rows
        )

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return self._items.combine(columns)


@frozen
class Best(AggregateState):
    """The value of the first row (or the last one) by the order of some keys.

    Among equal rows, the one that arrived first (or last) is used. Without keys, rows are in the
    order of arrival. An argument after the keys is a flag that says which rows count.

    value: the type of the value.
    keys: the types of the keys.
    directions: the direction of each key.
    is_last: whether the last row is used.
    keeps_nulls: whether rows with a NULL value count.
    needs_keys: whether rows with a NULL key don't count.
    """

    value: pa.DataType
    keys: tuple[pa.DataType, ...] = ()
    directions: tuple[Direction, ...] = ()
    is_last: bool = False
    keeps_nulls: bool = False
    needs_keys: bool = False

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.value, *self.keys, pa.int8())

    @property
    def grows(self) -> bool:
        return False

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        columns = [contiguous(item) for item in arguments]
        width = 1 + len(self.keys)
        valid = None
        if len(columns) > width:
            valid = filled(columns[width].cast(pa.int8()), np.int8) != 0
        needed = ([] if self.keeps_nulls else columns[:1]) + (
            columns[1:width] if self.needs_keys else []
        )
        for column in needed:
            valid = _both(valid, validity(column))
        return self._best(columns[:width], num_rows, valid)

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return self._best(columns[:-1], len(columns[0]), validity(columns[-1]))

    # For the values [x, y, z] with the keys [2, 1, 3], ascending:
    #     order      [1, 0, 2]  the rows in sort order
    #     positions  [1, 0, 2]  the inverse: the rank of each row
    # The group-by computes the smallest rank of each group, here [0]. `collect` maps it back to the
    # row, order[0] = 1, whose value is y.
    def _best(self, columns: Sequence[pa.Array], num_rows: int, valid: Mask | None) -> Work:
        if self.keys:
            order = numbers(
                sorted_rows([sortable(item) for item in columns[1:]], list(self.directions)),
                np.uint64,
            )
            order = order.astype(np.int64)
            positions = np.empty(num_rows, np.int64)
            positions[order] = np.arange(num_rows)
        else:
            order = positions = np.arange(num_rows)

        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows = indexes(order).take(results[0])
            present = from_numbers(np.ones(len(rows), np.int8), pa.int8(), validity(rows))
            return [*(column.take(rows) for column in columns), present]

        return [
            GroupByRequest(indexes(positions, valid), "max" if self.is_last else "min")
        ], collect


def _both(first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def flag_column(values: Any) -> pa.Array:
    """Booleans as the column that says which rows count."""
    return from_numbers(values.astype(np.int8), pa.int8())
