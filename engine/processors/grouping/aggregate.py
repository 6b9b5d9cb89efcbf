"""GROUP BY, DISTINCT and aggregates without groups, in one stage or in two.

In two stages, each processor accumulates the groups of its own rows, and a second stage combines
the partial states by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from runnel.columns.batches import no_rows
from runnel.columns.key_hash import KEY_METADATA
from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import AggregateCall, Expression
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage, spread_out
from runnel.processors.grouping.group_state import WEIGHT, GroupState, Partial, exported, partial_of
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.storage.memory_budget import Reservation

PASS_ON_SHARE = 0.5
"""Fraction of groups among the rows above which an accumulating stage emits its states at once.

Retaining them would need memory and save little.
"""


class AggregateProcessor(EmittingProcessor):
    """Accumulates the groups of its input and emits them when the input ends.

    stays: whether the groups stay in memory, whatever the limit; for the few rows of an operator
        that accounts for them itself.
    """

    holds_snapshots = True

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
        self._groups = GroupState(
            aggregation.plain_layout, self.check_accumulated, alone, Reservation(memory, WEIGHT)
        )
        self._distinct = [
            GroupState(s.layout, self.check_accumulated, alone, Reservation(memory, WEIGHT))
            for s in aggregation.distinct_sets
        ]
        if aggregation.stage is AggregationStage.ACCUMULATE:
            self._groups.can_spill = False

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        aggregation = self._aggregation
        if aggregation.stage is AggregationStage.COMBINE:
            self._groups.add_partial(partial_of(batch, aggregation.layout))
            return
        columns = aggregation.inputs_of(batch, self.context.job.evaluation)
        self._groups.add(columns, batch.num_rows)
        if aggregation.distinct_sets:
            self._take_distinct(columns)
        if aggregation.stage is AggregationStage.ACCUMULATE and aggregation.keys:
            groups = self._groups
            for partial in (
                groups.take_all() if groups.must_spill else groups.take_if_sparse(PASS_ON_SHARE)
            ):
                self.emit(self._accumulated(partial))

    def _take_distinct(self, columns: Sequence[pa.Array]) -> None:
        for item, groups in zip(self._aggregation.distinct_sets, self._distinct, strict=True):
            rows = self._aggregation.distinct_rows(item, columns)
            groups.add(rows, len(rows[0]))

    def state(self) -> list[pa.RecordBatch]:
        """Return the groups, divided by key, then for each set of distinct arguments its rows.

        The columns of the set number i are d<i>_0, d<i>_1, ….
        """
        if self._is_done:
            return []
        aggregation = self._aggregation
        saved = []
        if not self._groups.is_empty and len(aggregation.state_schema):
            parts = self._groups.partials()
            saved += [
                exported(item, aggregation.plain_layout, aggregation.state_schema) for item in parts
            ]
        for i, groups in enumerate(self._distinct):
            if not groups.is_empty:
                for item in groups.partials():
                    names = [f"d{i}_{j}" for j in range(len(item.keys))]
                    saved.append(pa.RecordBatch.from_arrays(item.keys, names=names))
        return [self._divided(batch) for batch in saved]

    def _divided(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = batch.schema.names[: len(self._aggregation.layout.key_types)]
        metadata = {**(batch.schema.metadata or {}), KEY_METADATA: "\n".join(keys).encode()}
        return batch.replace_schema_metadata(metadata) if keys else batch

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
            if aggregation.stage is AggregationStage.ACCUMULATE:
                if not self._groups.is_empty:
                    self.emit(self._accumulated(self._groups.combined()))
                self._let_go()
            elif self._groups.is_spilled or (
                self._distinct and any(item.is_spilled for item in self._distinct)
            ):
                self.emit_all(self._results(self._groups, self._distinct))
            else:
                self.emit(self.finished())
                self._let_go()
        return self.drain()

    def _accumulated(self, partial: Partial) -> pa.RecordBatch:
        return exported(partial, self._aggregation.layout, self._aggregation.schema)

    def finished(self) -> pa.RecordBatch:
        """Return the result over all rows; none of the groups may be in files."""
        return self._result_of(self._with_distinct(self._groups.combined()))

    def _result_of(self, partial: Partial) -> pa.RecordBatch:
        return self._aggregation.result_of(partial, self.context.job.evaluation)

    def _results(
        self, groups: GroupState, distinct: Sequence[GroupState]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the result if groups are in files, some groups at a time.

        An empty batch is a point where the cooperative call may end.
        """
        nothing = no_rows(self._aggregation.schema)
        for partial in self._brought_together(groups, distinct) if distinct else groups.results():
            yield nothing if partial is None else self._result_of(partial)

    def _brought_together(
        self, groups: GroupState, distinct: Sequence[GroupState]
    ) -> Iterator[Partial | None]:
        """Yield all groups with all their states.

        Rows of one group may be in several partials of distinct arguments, so all partials are
        combined by group again.
        """
        aggregation = self._aggregation
        memory = Reservation(self.context.job.memory, WEIGHT)
        self._whole = whole = GroupState(aggregation.layout, self.check_accumulated, False, memory)
        for partial in groups.results():
            if partial is not None:
                whole.add_partial(spread_out(partial, aggregation.plain, aggregation.layout))
            yield None
        for item, rows in zip(aggregation.distinct_sets, distinct, strict=True):
            for partial in rows.results():
                if partial is not None:
                    whole.add_partial(
                        aggregation.of_distinct(item, partial, self.check_accumulated)
                    )
                yield None
        yield from whole.results()

    def _with_distinct(self, plain: Partial) -> Partial:
        """Add the states over distinct arguments to the states of the groups.

        Each set of distinct arguments yields a partial in which the other states are NULL.
        Combining all partials merges the rows of each group.
        """
        aggregation = self._aggregation
        if not aggregation.distinct_sets:
            return plain
        parts = [spread_out(plain, aggregation.plain, aggregation.layout)]
        for item, groups in zip(aggregation.distinct_sets, self._distinct, strict=True):
            parts.append(aggregation.of_distinct(item, groups.combined(), self.check_accumulated))
        return GroupState(aggregation.layout, self.check_accumulated).combine(parts)

    def close(self) -> None:
        super().close()
        self._let_go()

    def _let_go(self) -> None:
        groups, whole = self.__dict__.pop("_groups", None), self.__dict__.pop("_whole", None)
        for item in (groups, whole, *self._distinct):
            if item is not None:
                item.close()
        self._distinct = []


def aggregate(
    keys: tuple[Expression, ...],
    aggregates: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    stage: AggregationStage,
) -> ProcessorFactory:
    """Return a supplier of processors that group by `keys` and aggregate.

    SINGLE and COMBINE emit the keys, then the aggregates, with the column names `names`; without
    keys exactly one row. ACCUMULATE emits the keys as k0, k1, … and its partial states. COMBINE,
    with the same keys and aggregates, reads them. The edge between the two must be partitioned by
    all of k0, k1, … or lead to a single processor.
    An aggregate with DISTINCT has no stages: it needs all rows of a group in one processor.
    """
    aggregation = Aggregation(keys, aggregates, names, stage)
    return lambda: AggregateProcessor(aggregation)
