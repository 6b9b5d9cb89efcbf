"""Groups whose rows were retained, in order: the input of aggregates that depend on the order of
rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, indexes
from runnel.expressions.aggregates.function import AggregateFunction, directions_of
from runnel.expressions.aggregates.rows import RowListState
from runnel.expressions.aggregates.states import AggregateState, filled
from runnel.expressions.kernels.sorting import sortable, sorted_rows
from runnel.expressions.nodes import AggregateCall
from runnel.sqltypes import SqlType, to_arrow


# For two groups whose retained rows are [(b, 2), (a, 1)] and [(c, 3)], ordered by the second field:
#     lengths  [2, 1]
#     group    [0, 0, 1]
#     columns  [b, a, c] and [2, 1, 3]; sorted by group and key [a, b, c] and [1, 2, 3]
#     starts   [0, 2]
class Groups:
    """The rows of all groups, sorted, one group after another.

    columns: the fields that `RowListState` has retained.
    group: the group of each row.
    counts: the number of rows of each group.
    starts: the index of each group's first row.
    """

    def __init__(self, row_lists: pa.Array, call: AggregateCall) -> None:
        lengths = lengths_of(row_lists)
        columns = row_lists.flatten().flatten()
        keys = columns[len(columns) - len(call.order) :] if call.order else []
        group = np.repeat(np.arange(len(row_lists)), lengths)
        if keys:
            by = [indexes(group), *(sortable(item) for item in keys)]
            rows = sorted_rows(by, [(False, True), *directions_of(call.order)])
            columns = [item.take(rows) for item in columns]
        self.columns: list[pa.Array] = columns
        self.group: Indexes = group
        self.counts: Indexes = lengths
        self.starts: Indexes = np.cumsum(lengths) - lengths


def lengths_of(lists: pa.Array) -> Indexes:
    """The number of rows of each list; 0 for NULL."""
    return filled(pc.list_value_length(lists), np.int32).astype(np.int64)  # type: ignore[no-any-return]


def null_where_empty(lists: pa.Array, groups: Groups) -> pa.Array:
    if (groups.counts > 0).all():
        return lists
    return lists.take(indexes(np.arange(len(lists)), groups.counts > 0))


def rows_states(function: AggregateFunction, call: AggregateCall) -> tuple[AggregateState, ...]:
    """The state that retains the arguments and the sort keys of a call."""
    values = [to_arrow(item.type) for item in call.arguments[: function.evaluated(call)]]
    return (RowListState((*values, *key_types(call)), function.keeps_nulls),)


def key_types(call: AggregateCall) -> list[pa.DataType]:
    """The Arrow types of the keys of a call's order."""
    return [to_arrow(key.expression.type) for key in call.order]


def no_states(kind: SqlType) -> tuple[AggregateState, ...]:
    """The `states` of functions whose states depend on the whole call."""
    raise AssertionError("states depend on the call")
