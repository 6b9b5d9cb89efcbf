"""GROUP BY, DISTINCT and aggregates without groups: in one stage, or accumulated where the rows are and combined by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import make_batch, no_rows
from runnel.dag import ProcessorFactory
from runnel.expressions.aggregate_states import State
from runnel.expressions.aggregates import AGGREGATES, row_arguments, states_of
from runnel.expressions.context import Frame
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate, is_volatile
from runnel.expressions.nodes import Aggregate, Expression
from runnel.frozen import frozen
from runnel.memory import Reservation
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.group_state import WEIGHT, GroupState, Layout, Partial, exported, partial_of
from runnel.sqltypes import to_arrow

PASS_ON_SHARE = 0.5
"""An accumulating stage whose groups are more than this share of its rows passes its states on at once: keeping them would
need memory and save little."""


class Stage(Enum):
    """SINGLE does everything. ACCUMULATE emits the keys and partial states of its own rows; COMBINE reads those."""

    SINGLE = "single"
    ACCUMULATE = "accumulate"
    COMBINE = "combine"


@frozen
class DistinctSet:
    """Arguments of which repetitions are dropped: the columns of its own groups are the keys, then these arguments."""

    arguments: tuple[int, ...]
    has_flag: bool
    """Whether the last argument says which rows count."""
    layout: Layout
    states: tuple[int, ...]
    """The states of the whole aggregation that are made of this set."""


class Aggregation:
    """A compiled aggregation, shared by executions."""

    def __init__(
        self, keys: tuple[Expression, ...], aggregates: tuple[Aggregate, ...], names: tuple[str, ...], stage: Stage
    ) -> None:
        self.keys, self.aggregates, self.stage = keys, aggregates, stage
        self._arguments: list[Expression] = []
        wanted: list[tuple[State, tuple[int, ...], bool]] = []
        flagged: dict[tuple[int, ...], bool] = {}
        self.slots: list[list[int]] = []
        for call in aggregates:
            row = row_arguments(call)
            places = self._argument_places(row.expressions)
            flagged[places] = row.has_flag
            items = [(state, places, call.distinct) for state in states_of(call)]
            wanted += [item for item in items if item not in wanted]
            self.slots.append([wanted.index(item) for item in items])
        key_types = tuple(to_arrow(item.type) for item in keys)
        argument_types = tuple(to_arrow(item.type) for item in self._arguments)

        def layout(slots: Sequence[int]) -> Layout:
            states = tuple(wanted[i][0] for i in slots)
            return Layout(key_types, argument_types, states, tuple(wanted[i][1] for i in slots))

        self.layout = layout(range(len(wanted)))
        self.plain = [i for i, item in enumerate(wanted) if not item[2]]
        self.plain_layout = layout(self.plain)
        self.distinct_sets = []
        for places in dict.fromkeys(item[1] for item in wanted if item[2]):
            types = (*key_types, *(argument_types[i] for i in places))
            slots = tuple(i for i, item in enumerate(wanted) if item[1:] == (places, True))
            self.distinct_sets.append(DistinctSet(places, flagged[places], Layout(types, (), (), ()), slots))
        self.evaluators: list[Evaluator] = [compile_expression(item) for item in (*keys, *self._arguments)]
        self.state_schema = self.plain_layout.schema
        self.schema = self.state_schema if stage is Stage.ACCUMULATE else self._result_schema(names)

    def _argument_places(self, expressions: Sequence[Expression]) -> tuple[int, ...]:
        """The argument columns of a call, each kept once."""
        places = []
        for expression in expressions:
            if expression not in self._arguments or is_volatile(expression):
                places.append(len(self._arguments))
                self._arguments.append(expression)
            else:
                places.append(self._arguments.index(expression))
        return tuple(places)

    def _result_schema(self, names: tuple[str, ...]) -> pa.Schema:
        types = [*self.layout.key_types, *(to_arrow(call.type) for call in self.aggregates)]
        return pa.schema([pa.field(name, kind) for name, kind in zip(names, types, strict=True)])


class AggregateProcessor(EmittingProcessor):
    """Holds the groups of its input and emits them when it ends. One that `stays` in memory, whatever the limit, is for the
    few rows of an operator that accounts for them itself."""

    def __init__(self, aggregation: Aggregation, *, stays: bool = False) -> None:
        super().__init__()
        self._aggregation = aggregation
        self._stays = stays
        self._distinct: list[GroupState] = []
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        aggregation = self._aggregation
        alone = context.parallelism == 1
        memory = None if self._stays else context.job.memory
        self._groups = GroupState(aggregation.plain_layout, self.check_accumulated, alone, Reservation(memory, WEIGHT))
        self._distinct = [
            GroupState(s.layout, self.check_accumulated, alone, Reservation(memory, WEIGHT)) for s in aggregation.distinct_sets
        ]
        if aggregation.stage is Stage.ACCUMULATE:
            self._groups.can_spill = False

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        aggregation = self._aggregation
        if aggregation.stage is Stage.COMBINE:
            self._groups.add_partial(partial_of(batch, aggregation.layout))
            return
        frame = Frame(batch.columns, batch.num_rows, self.context.job.evaluation)
        columns = [evaluate(item, frame) for item in aggregation.evaluators]
        self._groups.add(columns, batch.num_rows)
        if aggregation.distinct_sets:
            self._take_distinct(columns, batch.num_rows)
        if aggregation.stage is Stage.ACCUMULATE and aggregation.keys:
            groups = self._groups
            for partial in groups.take_all() if groups.must_spill else groups.take_if_sparse(PASS_ON_SHARE):
                self.emit(self._accumulated(partial))

    def _take_distinct(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        keys = len(self._aggregation.keys)
        for item, groups in zip(self._aggregation.distinct_sets, self._distinct, strict=True):
            arguments = [columns[keys + i] for i in item.arguments]
            kept = [*columns[:keys], *arguments]
            valid = arguments[-1] if item.has_flag else None
            if valid is None and arguments[0].null_count and not self._keeps_nulls(item):
                valid = pc.is_valid(arguments[0])
            if valid is not None:
                kept = [column.filter(valid) for column in kept]
            groups.add(kept, len(kept[0]))

    def _keeps_nulls(self, item: DistinctSet) -> bool:
        calls = zip(self._aggregation.aggregates, self._aggregation.slots, strict=True)
        return any(AGGREGATES[call.function].keeps_nulls for call, slots in calls if set(slots) & set(item.states))

    def state(self) -> list[pa.RecordBatch]:
        """The groups; then for each set of distinct arguments its rows, in columns d<number of the set>_<number>."""
        if self._is_done:
            return []
        aggregation = self._aggregation
        saved = []
        if not self._groups.is_empty and len(aggregation.state_schema):
            parts = self._groups.partials()
            saved += [exported(item, aggregation.plain_layout, aggregation.state_schema) for item in parts]
        for i, groups in enumerate(self._distinct):
            if not groups.is_empty:
                for item in groups.partials():
                    names = [f"d{i}_{j}" for j in range(len(item.keys))]
                    saved.append(pa.RecordBatch.from_arrays(item.keys, names=names))
        return saved

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        first = batch.schema.names[0]
        if first.startswith("d"):
            groups = self._distinct[int(first[1:].partition("_")[0])]
            groups.add_partial(Partial(batch.columns, [], batch.num_rows))
        else:
            self._groups.add_partial(partial_of(batch, self._aggregation.plain_layout))

    def complete(self) -> bool:
        if not self._is_done:
            self._is_done = True
            aggregation = self._aggregation
            if aggregation.stage is Stage.ACCUMULATE:
                if not self._groups.is_empty:
                    self.emit(self._accumulated(self._groups.combined()))
                self._let_go()
            elif self._groups.is_spilled or any(item.is_spilled for item in self._distinct):
                self.emit_all(self._results(self._groups, self._distinct))
            else:
                self.emit(self.finished())
                self._let_go()
        return self.drain()

    def _accumulated(self, partial: Partial) -> pa.RecordBatch:
        return exported(partial, self._aggregation.layout, self._aggregation.schema)

    def finished(self) -> pa.RecordBatch:
        """The result over all that was taken, where none of it is in files."""
        return self._result_of(self._with_distinct(self._groups.combined()))

    def _result_of(self, partial: Partial) -> pa.RecordBatch:
        aggregation = self._aggregation
        columns = list(partial.keys)
        for call, slots in zip(aggregation.aggregates, aggregation.slots, strict=True):
            states = [column for slot in slots for column in partial.columns[slot]]
            columns.append(AGGREGATES[call.function].finish(states, call, self.context.job.evaluation))
        return make_batch(columns, aggregation.schema, partial.num_rows)

    def _results(self, groups: GroupState, distinct: Sequence[GroupState]) -> Iterator[pa.RecordBatch]:
        """The result where groups are in files: some groups at a time. An empty batch is a pause."""
        nothing = no_rows(self._aggregation.schema)
        for partial in self._brought_together(groups, distinct) if distinct else groups.results():
            yield nothing if partial is None else self._result_of(partial)

    def _brought_together(self, groups: GroupState, distinct: Sequence[GroupState]) -> Iterator[Partial | None]:
        """All groups with all their states. Rows of one group may be in several partials of distinct arguments, so all
        partials are combined by group once more."""
        aggregation = self._aggregation
        memory = Reservation(self.context.job.memory, WEIGHT)
        self._whole = whole = GroupState(aggregation.layout, self.check_accumulated, False, memory)
        for partial in groups.results():
            if partial is not None:
                whole.add_partial(_spread_out(partial, aggregation.plain, aggregation.layout))
            yield None
        for item, rows in zip(aggregation.distinct_sets, distinct, strict=True):
            for partial in rows.results():
                if partial is not None:
                    whole.add_partial(self._of_distinct(item, partial))
                yield None
        yield from whole.results()

    def _with_distinct(self, plain: Partial) -> Partial:
        """Adds the states that are made of distinct arguments. Each set gives a partial in which the other states are NULL;
        combining them all brings the rows of a group together."""
        aggregation = self._aggregation
        if not aggregation.distinct_sets:
            return plain
        parts = [_spread_out(plain, aggregation.plain, aggregation.layout)]
        for item, groups in zip(aggregation.distinct_sets, self._distinct, strict=True):
            parts.append(self._of_distinct(item, groups.combined()))
        return GroupState(aggregation.layout, self.check_accumulated).combine(parts)

    def _of_distinct(self, item: DistinctSet, rows: Partial) -> Partial:
        """The states over distinct arguments, by group."""
        layout = self._aggregation.layout
        states = tuple(layout.states[i] for i in item.states)
        over = tuple(tuple(range(len(item.arguments))) for _ in states)
        types = tuple(layout.argument_types[i] for i in item.arguments)
        again = GroupState(Layout(layout.key_types, types, states, over), self.check_accumulated)
        again.add(rows.keys, rows.num_rows)
        return _spread_out(again.combined(), item.states, layout)

    def close(self) -> None:
        super().close()
        self._let_go()

    def _let_go(self) -> None:
        groups, whole = self.__dict__.pop("_groups", None), self.__dict__.pop("_whole", None)
        for item in (groups, whole, *self._distinct):
            if item is not None:
                item.close()
        self._distinct = []


def _spread_out(partial: Partial, slots: Sequence[int], layout: Layout) -> Partial:
    """The partial with all states of the layout; those that aren't among `slots` are NULL."""
    columns = [[pa.nulls(partial.num_rows, kind) for kind in state.types] for state in layout.states]
    for slot, values in zip(slots, partial.columns, strict=True):
        columns[slot] = values
    return Partial(partial.keys, columns, partial.num_rows)


def has_stages(aggregates: Sequence[Aggregate]) -> bool:
    """Whether the aggregates can be computed in two stages; those with DISTINCT need all rows of a group in one place."""
    return not any(call.distinct for call in aggregates)


def aggregate(
    keys: tuple[Expression, ...], aggregates: tuple[Aggregate, ...], names: tuple[str, ...], stage: Stage
) -> ProcessorFactory:
    """A supplier of processors that group by `keys` and aggregate.

    SINGLE and COMBINE emit the keys, then the aggregates, called by `names`; without keys exactly one row. ACCUMULATE emits
    the keys as k0, k1, … and its partial states, which COMBINE (made with the same keys and aggregates) reads; between the
    two the edge must be partitioned by all of k0, k1, … or lead to a single processor. See `has_stages`.
    """
    aggregation = Aggregation(keys, aggregates, names, stage)
    return lambda: AggregateProcessor(aggregation)
