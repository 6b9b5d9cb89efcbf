"""GROUP BY and DISTINCT over rows without an end: emits the net changes of the groups at the end of
each epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from runnel.columns.batches import make_batch, slices
from runnel.dag import ProcessorFactory
from runnel.expressions.aggregates.registry import states_of
from runnel.expressions.aggregates.states import (
    Count,
    Extreme,
    SumDecimal,
    SumDouble,
    SumInteger,
)
from runnel.expressions.nodes import AggregateCall, Column
from runnel.processor import Epoch, Outbox, ProcessorContext
from runnel.processors.grouping.aggregate import AggregateProcessor
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage
from runnel.processors.live.accumulated_groups import AccumulatedGroups, Changes
from runnel.processors.live.consolidation import weight_column
from runnel.processors.live.recomputed_groups import RecomputedGroups
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.relation.live import WEIGHT
from runnel.relation.nodes import Field
from runnel.sqltypes import to_arrow


class LiveGroups(Protocol):
    """The groups of a live aggregation; see `AccumulatedGroups` and `RecomputedGroups`."""

    @property
    def size(self) -> tuple[int, int]: ...
    def add(self, batch: pa.RecordBatch) -> None: ...
    def changes(self) -> Iterator[Changes]: ...


def needs_rows(aggregates: tuple[AggregateCall, ...], *, is_changing: bool) -> bool:
    """Whether the rows of each group must be retained to maintain it. Otherwise its states are
    enough: if rows only appear, for aggregates whose states do not grow."""
    if is_changing:
        return True
    return any(
        call.distinct or call.python is not None or any(state.grows for state in states_of(call))
        for call in aggregates
    )


class LiveAggregateProcessor(EmittingProcessor):
    """Collects the rows of an epoch, and emits the changes of the groups at its end.

    aggregation: the keys and aggregates, in one stage.
    schema: the columns of the input, without weights.
    is_changing: whether the last column of the input is the weight.
    """

    def __init__(self, aggregation: Aggregation, schema: pa.Schema, is_changing: bool) -> None:
        super().__init__()
        self._aggregation = aggregation
        self._schema = schema
        self._is_changing = is_changing
        self._groups: LiveGroups | None = None
        self._is_ended = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        aggregation = self._aggregation
        evaluation = context.job.evaluation
        if not needs_rows(aggregation.aggregates, is_changing=self._is_changing):
            self._groups = AccumulatedGroups(aggregation, evaluation, self.check_accumulated)
            return
        states = aggregation.layout.states
        self._groups = RecomputedGroups(
            aggregation.layout.key_types,
            self._schema,
            self._is_changing,
            self._computed,
            is_ordered=not all(isinstance(state, _UNORDERED) for state in states),
        )

    def _computed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The groups of rows, by the operator of bounded queries."""
        operator = AggregateProcessor(self._aggregation, stays=True)
        operator.init(self.outbox, self.context)
        try:
            for batch in slices(rows):
                operator.take(0, batch)
            return operator.finished()
        finally:
            operator.close()

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        assert self._groups is not None
        self._groups.add(batch)
        self.check_accumulated(self._groups.size[0])

    def _emit_changes(self) -> bool:
        """Emits the changes of the epoch that ends. False: not all are emitted."""
        if not self._is_ended:
            self._is_ended = True
            self.emit_all(self._changes())
        return self.drain()

    def _changes(self) -> Iterator[pa.RecordBatch]:
        assert self._groups is not None
        schema = self._aggregation.schema.append(pa.field(WEIGHT, pa.int64()))
        for columns, weights in self._groups.changes():
            yield from slices(make_batch([*columns, weight_column(weights)], schema, len(weights)))

    def process_epoch(self, epoch: Epoch) -> bool:
        if not self._emit_changes() or not self.outbox.offer(epoch):
            return False
        self._is_ended = False
        return True

    def complete(self) -> bool:
        return self._emit_changes()

    def state_size(self) -> tuple[int, int]:
        groups = self._groups
        return (0, 0) if groups is None else groups.size

    def close(self) -> None:
        super().close()
        self._groups = None


_UNORDERED = (Count, Extreme, SumDecimal, SumDouble, SumInteger)
"""States that are the same in any order of the rows, but for the rounding of sums."""


def live_aggregate(
    keys: tuple[Column, ...],
    aggregates: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    fields: tuple[Field, ...],
    *,
    is_changing: bool,
) -> ProcessorFactory:
    """Return a supplier of processors that maintain an aggregation.

    They emit the keys, the aggregates and the weight. All rows of a group must reach one processor.

    keys: the first columns of the input.
    names: the names of keys and aggregates.
    fields: the columns of the input, without the weight.
    is_changing: whether the weight is the last column of the input.
    """
    aggregation = Aggregation(keys, aggregates, names, AggregationStage.SINGLE)
    schema = pa.schema([pa.field(f"c{i}", to_arrow(item.type)) for i, item in enumerate(fields)])
    return lambda: LiveAggregateProcessor(aggregation, schema, is_changing)
