"""Joins of two streams value by value of a time that both share, such as the end of a window. Input 0 is the left side.

The rows of both sides wait until both watermarks have passed their value; then they are joined as if they were tables. So
this takes joins of every kind, also those that must know all rows of the other side before they can say anything of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.batches import Indexes, Mask, indexes, join_batches, no_rows
from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import Expression
from runnel.processor import Watermark
from runnel.processors.event_time import less
from runnel.processors.interval_plan import holds_of
from runnel.processors.join_table import KEEPS_RIGHT, JoinPlan, JoinShape, JoinTable
from runnel.processors.time_runs import Rows, Run, times_of
from runnel.processors.waiting import WaitingProcessor, restored_rows, rows_state
from runnel.relation import Field
from runnel.stream_joins import TimedShape, WaitingSide

LEFT, RIGHT = 0, 1


class TimedPlan:
    """A compiled join, shared by executions."""

    def __init__(
        self,
        shape: tuple[JoinShape, TimedShape],
        keys: tuple[Sequence[Expression], Sequence[Expression]],
        fields: tuple[Sequence[Field], Sequence[Field]],
        names: tuple[str, ...],
    ) -> None:
        join, self.times = shape
        link = self.times.link
        assert link.low is not None and link.low == link.high
        self.rows = JoinPlan(join, keys, fields, names)
        self.sides = tuple(WaitingSide(bounds=bounds) for bounds in self.times.bounds)
        self.columns = (link.left, link.right)
        self.apart = (0, link.low)
        """What a side's time has more than the value that both share."""
        self.bounds = tuple(dict(bounds)[column] for bounds, column in zip(self.times.bounds, self.columns, strict=True))
        self.unit = "" if fields[LEFT][link.left].type.is_integer else "µs"

    def rows_of(self, side: int, batch: pa.RecordBatch) -> tuple[Rows, Mask | None]:
        """The rows of a batch that have a time, and which these are (None: all)."""
        times, there = times_of(batch.column(self.columns[side]))
        expiry = less(times, self.apart[side])
        rows = Rows(batch, None, [], None, expiry, holds_of(self.sides[side], batch), np.zeros(batch.num_rows, np.bool_))
        return (rows, None) if there is None or there.all() else (rows.kept(there), there)


class TimedJoin(WaitingProcessor):
    """Holds the rows of both inputs until they are complete."""

    def __init__(self, plan: TimedPlan) -> None:
        gives_right = not plan.rows.is_left_only
        numbers = (plan.sides[LEFT].numbers, plan.sides[RIGHT].numbers if gives_right else ())
        super().__init__(plan.unit, numbers, (plan.bounds[LEFT].watermark, plan.bounds[RIGHT].watermark))
        self._plan = plan

    def _horizon(self) -> int | None:
        """The value that both sides still may have; None: any."""
        limits = []
        for side in (LEFT, RIGHT):
            bound = self._plan.bounds[side]
            if not self.ended[side]:
                if bound.watermark not in self.seen:
                    return None
                limits.append(self.seen[bound.watermark] + bound.offset - self._plan.apart[side])
        return min(limits, default=None)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        rows, valid = self._plan.rows_of(ordinal, batch)
        alone = [] if valid is None else [batch.take(indexes(np.flatnonzero(~valid)))]
        horizon = self._horizon()
        if horizon is not None and rows.count:
            assert rows.expiry is not None
            late = rows.expiry < horizon
            if late.any():
                self.count_late(late, rows.expiry, horizon)
                alone.append(rows.batch.take(indexes(np.flatnonzero(late))))
                rows = rows.kept(~late)
        if rows.count:
            self.buffers[ordinal].add(Run(rows))
            self.account()
        if alone:
            # Nothing matches them: they have no time, or come too late.
            self.emit_all(self._joined(*((alone, []) if ordinal == LEFT else ([], alone))))

    def _joined(self, left: list[pa.RecordBatch], right: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What complete rows give."""
        plan = self._plan.rows
        build = join_batches(right) if right else no_rows(plan.right_schema)
        if build.schema.names != plan.right_schema.names:
            build = pa.RecordBatch.from_arrays(build.columns, schema=plan.right_schema)
        table = JoinTable(plan, build, self.context.job.evaluation)
        for batch in left:
            yield from table.probe(batch)
        if plan.kind in KEEPS_RIGHT:
            yield from table.lonely_build_rows()

    def _complete(self) -> Iterator[pa.RecordBatch]:
        if all(self.ended):
            taken = [[rows.batch for rows in buffer.take_all()] for buffer in self.buffers]
        else:
            horizon = self._horizon()
            if horizon is None:
                return
            taken = [[_at(rows, gone) for rows, gone in buffer.expire(horizon)] for buffer in self.buffers]
        if taken[LEFT] or taken[RIGHT]:
            yield from self._joined(*taken)

    def on_watermark(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        yield from self._complete()

    def on_end(self, ordinal: int) -> Iterator[pa.RecordBatch]:
        yield from self._complete()

    def held_back(self, ordinal: int, place: int) -> int:
        return self.buffers[ordinal].least_hold(place)

    def complete(self) -> bool:
        if any(buffer.runs for buffer in self.buffers):
            if not self.drain():
                return False
            self.ended = [True, True]
            self.emit_all(self._complete())
        return self.drain()

    def state(self) -> Iterator[pa.RecordBatch]:
        """The rows that wait, and the watermarks."""
        for side, buffer in enumerate(self.buffers):
            for run in buffer:
                yield rows_state(side, run.living_rows(buffer.horizon), (self._plan.columns[side],))
        yield from self.watermark_state()

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if self.restores_watermarks(batch):
            return
        side, given, _ = restored_rows(batch)
        rows, _ = self._plan.rows_of(side, given)
        if rows.count:
            self.buffers[side].add(Run(rows))
            self.account_for(batch)


def _at(rows: Rows, chosen: Indexes) -> pa.RecordBatch:
    return rows.batch if len(chosen) == rows.count else rows.batch.take(indexes(chosen))


def timed_join(
    shape: tuple[JoinShape, TimedShape],
    keys: tuple[Sequence[Expression], Sequence[Expression]],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
) -> ProcessorFactory:
    """A supplier of processors that join two streams by a time that both share. Keys and condition are as in `relation.Join`,
    keys and fields of the left side first; the condition says that the times are equal, too. Several processors need
    both sides divided by that time."""
    plan = TimedPlan(shape, keys, fields, names)
    return lambda: TimedJoin(plan)
