"""Groups whose rows were kept, in order: what aggregates that depend on the order of rows are
computed from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, indexes
from runnel.expressions.aggregates.function import AggregateFunction, directions_of
from runnel.expressions.aggregates.rows import Rows
from runnel.expressions.aggregates.states import State, filled
from runnel.expressions.kernels.sorting import sortable, sorted_rows
from runnel.expressions.nodes import Aggregate
from runnel.sqltypes import SqlType, to_arrow


class Groups:
    """The rows of all groups in order, one group after the other. `columns` are the fields that
    Rows has kept."""

    def __init__(self, kept: pa.Array, call: Aggregate) -> None:
        lengths = lengths_of(kept)
        columns = kept.flatten().flatten()
        keys = columns[len(columns) - len(call.order) :] if call.order else []
        group = np.repeat(np.arange(len(kept)), lengths)
        if keys:
            by = [indexes(group), *(sortable(item) for item in keys)]
            rows = sorted_rows(by, [(False, True), *directions_of(call.order)])
            columns = [item.take(rows) for item in columns]
        self.columns: list[pa.Array] = columns
        self.group: Indexes = group
        self.counts: Indexes = lengths
        self.starts: Indexes = np.cumsum(lengths) - lengths


def lengths_of(lists: pa.Array) -> Indexes:
    return filled(pc.list_value_length(lists), np.int32).astype(np.int64)  # type: ignore[no-any-return]


def null_where_empty(lists: pa.Array, groups: Groups) -> pa.Array:
    if (groups.counts > 0).all():
        return lists
    return lists.take(indexes(np.arange(len(lists)), groups.counts > 0))


def rows_states(function: AggregateFunction, call: Aggregate) -> tuple[State, ...]:
    """The state that keeps the arguments and keys of a call."""
    values = [to_arrow(item.type) for item in call.arguments[: function.evaluated(call)]]
    return (Rows((*values, *key_types(call)), function.keeps_nulls),)


def key_types(call: Aggregate) -> list[pa.DataType]:
    """The Arrow types of the keys of a call's order."""
    return [to_arrow(key.expression.type) for key in call.order]


def no_states(kind: SqlType) -> tuple[State, ...]:
    """For functions whose states depend on the whole call."""
    raise AssertionError("states depend on the call")
