"""Joins of all kinds. Input 0 is the build side (the right relation), read to its end first; input
1 the probe side (left).

The build side is held in memory with an index, and probe batches stream past it. A build side that
memory has no room for goes to files, as the probe side then does: see `spilled_join`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runnel.columns.batches import flags, from_flags, join_batches, no_rows
from runnel.columns.key_hash import keyed_state
from runnel.dag import ProcessorFactory
from runnel.errors import OperationalError
from runnel.expressions.nodes import Expression
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.joins.build_side import (
    KEEPS_RIGHT,
    NEEDS_RIGHT,
    UNKNOWNS,
    JoinPlan,
    JoinShape,
    JoinTable,
)
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.relation.nodes import Field
from runnel.storage.memory_budget import Reservation, size_of, too_large

if TYPE_CHECKING:
    from runnel.processors.joins.spilled import SpilledJoin

__all__ = ["Join", "JoinPlan", "JoinShape", "join"]

WEIGHT = 2
"""How much memory a build side needs for each byte: its rows in one piece, and the index."""

MOST_BYTES = 1 << 30
"""A larger build side is divided, whatever the limit: one column of texts in one piece holds 2 GiB
at most."""


class Join(EmittingProcessor):
    """Joins probe batches with the build side, which it holds."""

    def __init__(self, plan: JoinPlan, divided_by: Sequence[str]) -> None:
        super().__init__()
        self._plan = plan
        self._divided_by = divided_by
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._reservation = Reservation(None)
        self._restored_matched = np.zeros(0, np.bool_)
        self._table: JoinTable | None = None
        self._spilled: SpilledJoin | None = None
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._reservation = Reservation(context.job.memory, WEIGHT)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self._spilled is not None:
            if ordinal == 0:
                self._spilled.take_build(batch)
            else:
                self._spilled.take_probe(batch)
        elif ordinal == 0:
            self._hold(batch)
        else:
            self.emit_all(self._built().probe(batch))

    def _hold(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self._held_bytes += size_of(batch)
        self.check_accumulated(self._held_rows)
        if self._reservation.is_trifle(self._held_bytes):
            return
        self._reservation.set(self._held_bytes)
        memory = self.context.job.memory
        if memory is None or not (self._reservation.must_spill or self._held_bytes > MOST_BYTES):
            return
        plan = self._plan
        # Each probe row must be compared with all build rows, for a NULL in any of them may make it
        # unknown.
        compares_all = plan.kind in UNKNOWNS and (
            len(plan.right_keys) > 1 or plan.condition is not None
        )
        # From files nothing comes before the probe side ended, which a stream doesn't.
        is_stream = self.context.job.is_unbounded
        if compares_all or plan.answers_at_once or is_stream:
            if memory.limit and self._held_bytes > memory.limit:
                what = (
                    "the rows that a stream is joined with"
                    if is_stream
                    else "the rows that a recursion joins"
                )
                raise too_large(
                    "the rows of the subquery of NOT IN" if compares_all else what, memory
                )
            return
        # Loaded on first use: few joins need it.
        from runnel.processors.joins.spilled import SpilledJoin

        self._spilled = SpilledJoin(plan, self.context.job.evaluation, memory)
        for rows in self._held:
            self._spilled.take_build(rows)
        self._held = []
        self._reservation.release()

    def complete_edge(self, ordinal: int) -> bool:
        if ordinal == 0 and self._spilled is None:
            self._built()
        return self.drain()

    def _built(self) -> JoinTable:
        """The table; made when the build side ended, or, after a restore, when that turns out."""
        if self._table is None:
            plan = self._plan
            build = join_batches(self._held) if self._held else no_rows(plan.right_schema)
            self._held = []
            self._table = JoinTable(
                plan, build, self.context.job.evaluation, None, self._restored_matched
            )
            if not build.num_rows and plan.kind in NEEDS_RIGHT:
                self.is_satisfied = True
        return self._table

    def state(self) -> Iterator[pa.RecordBatch]:
        """The build side, each row with whether it was matched. Where every processor has all of it
        one of them saves it."""
        if self._spilled is not None:
            raise OperationalError(
                "no snapshot is possible of a join that is in files", hint="raise memory_limit"
            )
        if self._is_done or not (self._divided_by or self.context.index == 0):
            return
        for batch in self._held if self._table is None else [self._table.build]:
            matched = np.zeros(batch.num_rows, np.bool_)
            if self._table is not None and self._plan.kind in KEEPS_RIGHT:
                matched = self._table.matched
            rows = pa.RecordBatch.from_arrays(
                [*batch.columns, from_flags(matched)], names=[*batch.schema.names, "matched"]
            )
            yield keyed_state(rows, *self._divided_by) if self._divided_by else rows

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        matched = flags(batch.column(batch.num_columns - 1))
        if self._plan.kind in KEEPS_RIGHT:
            self._restored_matched = np.concatenate((self._restored_matched, matched))
        self.take(0, batch.select(range(batch.num_columns - 1)))

    def complete(self) -> bool:
        if not self._is_done:
            self._is_done = True
            if self._spilled is not None:
                self.emit_all(self._spilled.results())
            else:
                table = self._built()
                if self._plan.kind in KEEPS_RIGHT:
                    self.emit_all(table.lonely_build_rows())
        return self.drain()

    def close(self) -> None:
        super().close()
        self._held, self._table = [], None
        if self._spilled is not None:
            self._spilled.close()
        self._reservation.release()


def join(
    shape: JoinShape,
    keys: tuple[Sequence[Expression], Sequence[Expression]],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
    divided_by: tuple[str, ...] = (),
) -> ProcessorFactory:
    """A supplier of processors that join; keys and condition as in `relation.Join`, keys and fields
    of the left side first. The result's columns are called by `names`; `divided_by` are the right
    side's columns by which several processors are given their rows, () if they are given all.

    Input 0 is the right relation and must have a smaller priority than input 1, the left one. With
    several processors the right side is broadcast to all, or both are partitioned by the keys;
    RIGHT and FULL (every processor emits the build rows that it didn't match) and MARK, NULL_ANTI
    with NULLs among the keys (which concern every row) don't go with the former and the latter,
    respectively.
    """
    plan = JoinPlan(shape, keys, fields, names)
    return lambda: Join(plan, divided_by)
