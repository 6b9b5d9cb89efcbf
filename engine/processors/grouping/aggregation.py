"""A compiled aggregation: its states, their argument columns, and how they yield the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import from_flags, make_batch
from runnel.expressions.aggregates.registry import function_of, row_arguments, states_of
from runnel.expressions.aggregates.states import AggregateState, Count
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate, is_volatile
from runnel.expressions.nodes import WINDOW_FINAL, AggregateCall, Column, Expression
from runnel.processors.grouping.group_state import GroupLayout, GroupState, Partial
from runnel.sqltypes import to_arrow


class AggregationStage(Enum):
    """A stage of an aggregation.

    SINGLE: computes the result from the rows.
    ACCUMULATE: emits the keys and the partial states of its own rows.
    COMBINE: computes the result from the partial states.
    """

    SINGLE = "single"
    ACCUMULATE = "accumulate"
    COMBINE = "combine"


@frozen
class DistinctSet:
    """Arguments of aggregates with DISTINCT, whose duplicates are dropped within each group.

    arguments: the indexes of the argument columns.
    has_flag: whether the last argument is a BOOLEAN that selects the rows that count.
    layout: the groups of the set: their keys are the keys of the aggregation, then the arguments.
    states: the indexes of the aggregation's states that are computed from this set.
    """

    arguments: tuple[int, ...]
    has_flag: bool
    layout: GroupLayout
    states: tuple[int, ...]


class Aggregation:
    """A compiled aggregation, shared by executions."""

    def __init__(
        self,
        keys: tuple[Expression, ...],
        aggregates: tuple[AggregateCall, ...],
        names: tuple[str, ...],
        stage: AggregationStage,
        counts_rows: bool = False,
    ) -> None:
        """Compile an aggregation.

        names: the names of the result's columns.
        counts_rows: whether the rows of each group are counted too, in the plain state at
            `count_slot`.
        """
        self.keys, self.aggregates, self.stage = keys, aggregates, stage
        self._arguments: list[Expression] = []
        self._positions: dict[Expression, int] = {}
        # Each different state, with its index. A statement may have thousands.
        indexes: dict[tuple[AggregateState, tuple[int, ...], bool], int] = {}
        flagged: dict[tuple[int, ...], bool] = {}
        self.slots: list[list[int]] = []
        for call in aggregates:
            if call.function == WINDOW_FINAL:
                self.slots.append([])
                continue
            row = row_arguments(call)
            positions = self._argument_positions(row.expressions)
            flagged[positions] = row.has_flag
            items = [(state, positions, call.distinct) for state in states_of(call)]
            self.slots.append([indexes.setdefault(item, len(indexes)) for item in items])
        count = (Count(of_rows=True), (), False)
        if counts_rows:
            indexes.setdefault(count, len(indexes))
        requested = list(indexes)
        key_types = tuple(to_arrow(item.type) for item in keys)
        argument_types = tuple(to_arrow(item.type) for item in self._arguments)

        def layout(slots: Sequence[int]) -> GroupLayout:
            states = tuple(requested[i][0] for i in slots)
            return GroupLayout(
                key_types, argument_types, states, tuple(requested[i][1] for i in slots)
            )

        self.layout = layout(range(len(requested)))
        self.plain = [i for i, item in enumerate(requested) if not item[2]]
        self.plain_layout = layout(self.plain)
        self.count_slot = self.plain.index(indexes[count]) if counts_rows else -1
        self.distinct_sets = []
        for positions in dict.fromkeys(item[1] for item in requested if item[2]):
            types = (*key_types, *(argument_types[i] for i in positions))
            slots = tuple(i for i, item in enumerate(requested) if item[1:] == (positions, True))
            self.distinct_sets.append(
                DistinctSet(positions, flagged[positions], GroupLayout(types, (), (), ()), slots)
            )
        inputs = (*keys, *self._arguments)
        self._columns = _columns_of(inputs)
        self.evaluators: list[Evaluator] = [compile_expression(item) for item in inputs]
        self.state_schema = self.schema = self.plain_layout.schema
        if stage is not AggregationStage.ACCUMULATE:
            self.schema = self._result_schema(names)

    def inputs_of(self, batch: pa.RecordBatch, evaluation: EvaluationContext) -> list[pa.Array]:
        """Return the key columns, then the argument columns of rows."""
        columns = batch.columns
        if self._columns is not None:
            return [columns[i] for i in self._columns]
        frame = EvaluationInput(columns, batch.num_rows, evaluation)
        return [evaluate(item, frame) for item in self.evaluators]

    def _argument_positions(self, expressions: Sequence[Expression]) -> tuple[int, ...]:
        """Return the indexes of a call's argument columns; equal arguments share a column."""
        positions = []
        for expression in expressions:
            position = None if is_volatile(expression) else self._positions.get(expression)
            if position is None:
                position = len(self._arguments)
                self._positions.setdefault(expression, position)
                self._arguments.append(expression)
            positions.append(position)
        return tuple(positions)

    def _result_schema(self, names: tuple[str, ...]) -> pa.Schema:
        types = [*self.layout.key_types, *(to_arrow(call.type) for call in self.aggregates)]
        return pa.schema([pa.field(name, kind) for name, kind in zip(names, types, strict=True)])

    def distinct_rows(self, item: DistinctSet, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the keys and arguments of a set of distinct arguments, for the rows that count.

        columns: the results of the evaluators.
        """
        keys = len(self.keys)
        arguments = [columns[keys + i] for i in item.arguments]
        rows = [*columns[:keys], *arguments]
        valid = arguments[-1] if item.has_flag else None
        if valid is None and arguments[0].null_count and not self._keeps_nulls(item):
            valid = pc.is_valid(arguments[0])
        return rows if valid is None else [column.filter(valid) for column in rows]

    def _keeps_nulls(self, item: DistinctSet) -> bool:
        calls = zip(self.aggregates, self.slots, strict=True)
        return any(
            set(slots) & set(item.states) and function_of(call).keeps_nulls for call, slots in calls
        )

    def of_distinct(
        self, item: DistinctSet, rows: Partial, check: Callable[[int], None]
    ) -> Partial:
        """Compute the states over distinct arguments by group; the other states are NULL."""
        layout = self.layout
        states = tuple(layout.states[i] for i in item.states)
        over = tuple(tuple(range(len(item.arguments))) for _ in states)
        types = tuple(layout.argument_types[i] for i in item.arguments)
        again = GroupState(GroupLayout(layout.key_types, types, states, over), check)
        again.add(rows.keys, rows.num_rows)
        return spread_out(again.combined(), item.states, layout)

    def result_of(
        self, partial: Partial, evaluation: EvaluationContext, is_final: bool = True
    ) -> pa.RecordBatch:
        """Return the keys and the values of the aggregates.

        is_final: whether the result isn't an early one, for WINDOW_FINAL.
        """
        columns = list(partial.keys)
        for call, slots in zip(self.aggregates, self.slots, strict=True):
            if call.function == WINDOW_FINAL:
                columns.append(from_flags(np.full(partial.num_rows, is_final)))
                continue
            states = [column for slot in slots for column in partial.columns[slot]]
            columns.append(function_of(call).finish(states, call, evaluation))
        return make_batch(columns, self.schema, partial.num_rows)


def _columns_of(expressions: Sequence[Expression]) -> list[int] | None:
    """Return the indexes of the columns that the expressions are; None if one is more."""
    found = [item.index for item in expressions if isinstance(item, Column)]
    return found if len(found) == len(expressions) else None


def spread_out(partial: Partial, slots: Sequence[int], layout: GroupLayout) -> Partial:
    """Extend a partial to all states of the layout; states that aren't in `slots` are NULL."""
    columns = [
        [pa.nulls(partial.num_rows, kind) for kind in state.types] for state in layout.states
    ]
    for slot, values in zip(slots, partial.columns, strict=True):
        columns[slot] = values
    return Partial(partial.keys, columns, partial.num_rows)
