"""An aggregation made ready: which states it keeps over which columns, and how its result comes
from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import from_flags, make_batch
from runnel.expressions.aggregates.registry import function_of, row_arguments, states_of
from runnel.expressions.aggregates.states import Count, State
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import Evaluator, compile_expression, is_volatile
from runnel.expressions.nodes import WINDOW_FINAL, Aggregate, Expression
from runnel.processors.grouping.group_state import GroupState, Layout, Partial
from runnel.sqltypes import to_arrow


class Stage(Enum):
    """SINGLE does everything. ACCUMULATE emits the keys and partial states of its own rows; COMBINE
    reads those."""

    SINGLE = "single"
    ACCUMULATE = "accumulate"
    COMBINE = "combine"


@frozen
class DistinctSet:
    """Arguments of which repetitions are dropped: the columns of its own groups are the keys, then
    these arguments."""

    arguments: tuple[int, ...]
    has_flag: bool
    """Whether the last argument says which rows count."""
    layout: Layout
    states: tuple[int, ...]
    """The states of the whole aggregation that are made of this set."""


class Aggregation:
    """A compiled aggregation, shared by executions."""

    def __init__(
        self,
        keys: tuple[Expression, ...],
        aggregates: tuple[Aggregate, ...],
        names: tuple[str, ...],
        stage: Stage,
        counts_rows: bool = False,
    ) -> None:
        """`counts_rows`: whether the rows of each group are counted too, in the plain state at
        `count_slot`."""
        self.keys, self.aggregates, self.stage = keys, aggregates, stage
        self._arguments: list[Expression] = []
        self._places: dict[Expression, int] = {}
        wanted: list[tuple[State, tuple[int, ...], bool]] = []
        flagged: dict[tuple[int, ...], bool] = {}
        self.slots: list[list[int]] = []
        for call in aggregates:
            if call.function == WINDOW_FINAL:
                self.slots.append([])
                continue
            row = row_arguments(call)
            places = self._argument_places(row.expressions)
            flagged[places] = row.has_flag
            items = [(state, places, call.distinct) for state in states_of(call)]
            wanted += [item for item in items if item not in wanted]
            self.slots.append([wanted.index(item) for item in items])
        count = (Count(of_rows=True), (), False)
        if counts_rows and count not in wanted:
            wanted.append(count)
        key_types = tuple(to_arrow(item.type) for item in keys)
        argument_types = tuple(to_arrow(item.type) for item in self._arguments)

        def layout(slots: Sequence[int]) -> Layout:
            states = tuple(wanted[i][0] for i in slots)
            return Layout(key_types, argument_types, states, tuple(wanted[i][1] for i in slots))

        self.layout = layout(range(len(wanted)))
        self.plain = [i for i, item in enumerate(wanted) if not item[2]]
        self.plain_layout = layout(self.plain)
        self.count_slot = self.plain.index(wanted.index(count)) if counts_rows else -1
        self.distinct_sets = []
        for places in dict.fromkeys(item[1] for item in wanted if item[2]):
            types = (*key_types, *(argument_types[i] for i in places))
            slots = tuple(i for i, item in enumerate(wanted) if item[1:] == (places, True))
            self.distinct_sets.append(
                DistinctSet(places, flagged[places], Layout(types, (), (), ()), slots)
            )
        self.evaluators: list[Evaluator] = [
            compile_expression(item) for item in (*keys, *self._arguments)
        ]
        self.state_schema = self.plain_layout.schema
        self.schema = self.state_schema if stage is Stage.ACCUMULATE else self._result_schema(names)

    def _argument_places(self, expressions: Sequence[Expression]) -> tuple[int, ...]:
        """The argument columns of a call, each kept once."""
        places = []
        for expression in expressions:
            place = None if is_volatile(expression) else self._places.get(expression)
            if place is None:
                place = len(self._arguments)
                self._places.setdefault(expression, place)
                self._arguments.append(expression)
            places.append(place)
        return tuple(places)

    def _result_schema(self, names: tuple[str, ...]) -> pa.Schema:
        types = [*self.layout.key_types, *(to_arrow(call.type) for call in self.aggregates)]
        return pa.schema([pa.field(name, kind) for name, kind in zip(names, types, strict=True)])

    def distinct_rows(self, item: DistinctSet, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Of the columns of the evaluators, those that a set of distinct arguments keeps, and the
        rows that count there."""
        keys = len(self.keys)
        arguments = [columns[keys + i] for i in item.arguments]
        kept = [*columns[:keys], *arguments]
        valid = arguments[-1] if item.has_flag else None
        if valid is None and arguments[0].null_count and not self._keeps_nulls(item):
            valid = pc.is_valid(arguments[0])
        return kept if valid is None else [column.filter(valid) for column in kept]

    def _keeps_nulls(self, item: DistinctSet) -> bool:
        calls = zip(self.aggregates, self.slots, strict=True)
        return any(
            set(slots) & set(item.states) and function_of(call).keeps_nulls for call, slots in calls
        )

    def of_distinct(
        self, item: DistinctSet, rows: Partial, check: Callable[[int], None]
    ) -> Partial:
        """The states over distinct arguments, by group; the other states are NULL."""
        layout = self.layout
        states = tuple(layout.states[i] for i in item.states)
        over = tuple(tuple(range(len(item.arguments))) for _ in states)
        types = tuple(layout.argument_types[i] for i in item.arguments)
        again = GroupState(Layout(layout.key_types, types, states, over), check)
        again.add(rows.keys, rows.num_rows)
        return spread_out(again.combined(), item.states, layout)

    def result_of(
        self, partial: Partial, evaluation: EvaluationContext, is_final: bool = True
    ) -> pa.RecordBatch:
        """The keys and the values of the aggregates; `is_final`: not an early result."""
        columns = list(partial.keys)
        for call, slots in zip(self.aggregates, self.slots, strict=True):
            if call.function == WINDOW_FINAL:
                columns.append(from_flags(np.full(partial.num_rows, is_final)))
                continue
            states = [column for slot in slots for column in partial.columns[slot]]
            columns.append(function_of(call).finish(states, call, evaluation))
        return make_batch(columns, self.schema, partial.num_rows)


def spread_out(partial: Partial, slots: Sequence[int], layout: Layout) -> Partial:
    """The partial with all states of the layout; those that aren't among `slots` are NULL."""
    columns = [
        [pa.nulls(partial.num_rows, kind) for kind in state.types] for state in layout.states
    ]
    for slot, values in zip(slots, partial.columns, strict=True):
        columns[slot] = values
    return Partial(partial.keys, columns, partial.num_rows)
