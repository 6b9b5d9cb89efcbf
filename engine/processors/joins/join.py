"""Joins of all kinds.

Input 0 is the build side (the right relation), which is read to its end first. Input 1 is the probe
side (the left relation). The build side is in memory with an index, and the batches of the probe
side are processed one by one. If the build side exceeds the memory limit, both sides are written to
files: see `spilled`.
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
from runnel.processors.joins.spilled import SpilledJoin
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.relation.nodes import Field
from runnel.storage.memory_budget import Reservation, size_of, too_large

if TYPE_CHECKING:
    from runnel.processors.joins.spilled import SpilledJoin

__all__ = ["HashJoinProcessor", "JoinPlan", "JoinShape", "join"]

WEIGHT = 2
"""Bytes of memory that a build side needs per byte: its rows in one batch, and the index."""

MOST_BYTES = 1 << 30
"""Size in bytes above which a build side is spilled, whatever the limit.

A contiguous column of texts can have at most 2 GiB.
"""


class HashJoinProcessor(EmittingProcessor):
    """Buffers the build side, and joins the probe batches with it.

    divided_by: the columns of the build side by which several processors share its rows; () if each
        processor has all rows.
    """

    def __init__(self, plan: JoinPlan, divided_by: Sequence[str]) -> None:
        super().__init__()
        self._plan = plan
        self._divided_by = divided_by
        self._build_batches: list[pa.RecordBatch] = []
        self._build_rows = 0
        self._build_bytes = 0
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
            self._buffer(batch)
        else:
            self.emit_all(self.built().probe(batch))

    def _buffer(self, batch: pa.RecordBatch) -> None:
        self._build_batches.append(batch)
        self._build_rows += batch.num_rows
        self._build_bytes += size_of(batch)
        self.check_accumulated(self._build_rows)
        if self._reservation.is_trifle(self._build_bytes):
            return
        self._reservation.set(self._build_bytes)
        memory = self.context.job.memory
        if memory is None or not (self._reservation.must_spill or self._build_bytes > MOST_BYTES):
            return
        plan = self._plan
        # Each probe row must be compared with all build rows, as a NULL in any of them may make the
        # result unknown.
        compares_all = plan.kind in UNKNOWNS and (
            len(plan.right_keys) > 1 or plan.condition is not None
        )
        # A spilled join emits rows only after the end of the probe side; a stream has no end.
        is_stream = self.context.job.is_unbounded
        if compares_all or plan.answers_at_once or is_stream:
            if memory.limit and self._build_bytes > memory.limit:
                what = (
                    "the rows that a stream is joined with"
                    if is_stream
                    else "the rows that a recursion joins"
                )
                raise too_large(
                    "the rows of the subquery of NOT IN" if compares_all else what, memory
                )
            return
        self._spilled = SpilledJoin(plan, self.context.job.evaluation, memory)
        for rows in self._build_batches:
            self._spilled.take_build(rows)
        self._build_batches = []
        self._reservation.release()

    def complete_edge(self, ordinal: int) -> bool:
        if ordinal == 0 and self._spilled is None:
            self.built()
        return self.drain()

    def built(self) -> JoinTable:
        """Return the indexed build side; it is built at the end of the build side.

        After a restore, it is built when the first probe batch arrives.
        """
        if self._table is None:
            plan = self._plan
            build = (
                join_batches(self._build_batches)
                if self._build_batches
                else no_rows(plan.right_schema)
            )
            self._build_batches = []
            self._table = JoinTable(
                plan, build, self.context.job.evaluation, None, self._restored_matched
            )
            if not build.num_rows and plan.kind in NEEDS_RIGHT:
                self.is_satisfied = True
        return self._table

    def state(self) -> Iterator[pa.RecordBatch]:
        """Yield the build rows, with a column for whether the row was matched.

        If every processor has all rows, only the first processor saves them.
        """
        if self._spilled is not None:
            raise OperationalError(
                "a join that has spilled to files can't take a snapshot", hint="raise memory_limit"
            )
        if self._is_done or not (self._divided_by or self.context.index == 0):
            return
        for batch in self._build_batches if self._table is None else [self._table.build]:
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
                table = self.built()
                if self._plan.kind in KEEPS_RIGHT:
                    self.emit_all(table.lonely_build_rows())
        return self.drain()

    def close(self) -> None:
        super().close()
        self._build_batches, self._table = [], None
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
    """Return a supplier of processors that join.

    Input 0 is the right relation and must have an earlier priority than input 1, the left relation.
    With several processors, either the right side is broadcast to all, or both sides are
    partitioned by the keys. RIGHT and FULL can't be used with a broadcast, since every processor
    emits the build rows that it didn't match. MARK and NULL_ANTI with NULLs among the keys can't be
    used with partitioning, since such a NULL affects every row.

    shape: the kind and the condition, as in `nodes.Join`.
    keys: the keys of the left side, then the keys of the right side, as in `nodes.Join`.
    fields: the fields of the left side, then the fields of the right side.
    names: the names of the result's columns.
    divided_by: the columns of the right side by which its rows are partitioned; () if it is
        broadcast.
    """
    plan = JoinPlan(shape, keys, fields, names)
    return lambda: HashJoinProcessor(plan, divided_by)
