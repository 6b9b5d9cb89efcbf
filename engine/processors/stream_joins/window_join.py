"""Joins of two streams by a time that both sides share, such as the end of a window.

Input 0 is the left side. The rows of both sides wait until both watermarks have passed their time;
then they are joined like tables. Therefore joins of every kind are possible, also kinds that must
know all rows of the other side before they can emit a row.

If rows are in files, as many times are joined in one step as fit into memory. If one time has too
many rows on the right side, these are joined in chunks: the left rows are read once for each chunk,
and the results that depend on all chunks are emitted at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, Indexes, Mask, indexes, join_batches, no_rows
from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import Expression
from runnel.processor import Watermark
from runnel.processors.joins.build_side import (
    KEEPS_LEFT,
    KEEPS_RIGHT,
    UNKNOWNS,
    JoinPlan,
    JoinShape,
    JoinTable,
)
from runnel.processors.sources.partition_watermarks import less
from runnel.processors.stateful.late_event import time_unit
from runnel.processors.stateful.until_watermark import TAKEN_SHARE
from runnel.processors.stream_joins.interval_plan import watermark_limits
from runnel.processors.stream_joins.sorted_runs import NEVER, JoinRows, SortedRun, times_of
from runnel.processors.stream_joins.stream_join import StreamJoin, StreamJoinProcessor
from runnel.relation.nodes import Field
from runnel.relation.stream_joins import BufferedSide, WindowJoinShape
from runnel.sqltypes import to_arrow
from runnel.storage.memory_budget import LEAST_BYTES

LEFT, RIGHT = 0, 1

STEP_SAMPLES = 16
"""Number of times that are sampled per step."""


class WindowJoinPlan:
    """A compiled join, shared by executions."""

    def __init__(
        self,
        shape: tuple[JoinShape, WindowJoinShape],
        keys: tuple[Sequence[Expression], Sequence[Expression]],
        fields: tuple[Sequence[Field], Sequence[Field]],
        names: tuple[str, ...],
    ) -> None:
        join, self.times = shape
        link = self.times.time_bounds
        assert link.low is not None and link.low == link.high
        self.rows = JoinPlan(join, keys, fields, names)
        self.sides = tuple(BufferedSide(bounds=bounds) for bounds in self.times.bounds)
        self.columns = (link.left, link.right)
        self.apart = (0, link.low)
        """For each side, the difference of its time and the shared time."""
        self.bounds = tuple(
            dict(bounds)[column]
            for bounds, column in zip(self.times.bounds, self.columns, strict=True)
        )
        self.unit = time_unit(to_arrow(fields[LEFT][link.left].type))

    def rows_of(self, side: int, batch: pa.RecordBatch) -> tuple[JoinRows, Mask | None]:
        """Return the rows of a batch that have a time, and their mask (None: all)."""
        times, there = times_of(batch.column(self.columns[side]))
        expiry = less(times, self.apart[side])
        rows = JoinRows(
            batch,
            None,
            [],
            None,
            expiry,
            watermark_limits(self.sides[side], batch),
            np.zeros(batch.num_rows, np.bool_),
        )
        return (rows, None) if there is None or there.all() else (rows.filtered(there), there)


class _RowSelection:
    """Rows that are joined.

    batch: the batch that has them.
    chosen: the numbers of the rows; None: all.
    """

    def __init__(self, batch: pa.RecordBatch, chosen: Indexes | None) -> None:
        self._batch = batch
        self._chosen = None if chosen is None or len(chosen) == batch.num_rows else chosen
        self._count = batch.num_rows if chosen is None else len(chosen)

    @property
    def size(self) -> int:
        """The approximate size of the rows in bytes."""
        return int(self._batch.nbytes * self._count // max(self._batch.num_rows, 1))

    @property
    def all(self) -> pa.RecordBatch:
        return self._batch if self._chosen is None else self._batch.take(indexes(self._chosen))

    def chunks(self, most: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most about `most` bytes (0: in one batch)."""
        if not most or self.size <= most:
            yield self.all
            return
        step = min(MAX_ROWS, max(1, most * self._count // self.size))
        for start in range(0, self._count, step):
            if self._chosen is None:
                yield self._batch.slice(start, step)
            else:
                yield self._batch.take(indexes(self._chosen[start : start + step]))


class WindowStreamJoin(StreamJoin):
    """Buffers the rows of both inputs until both watermarks have passed their time."""

    def __init__(self, plan: WindowJoinPlan) -> None:
        emits_right = not plan.rows.is_left_only
        self.unit = plan.unit
        self.numbers = (plan.sides[LEFT].numbers, plan.sides[RIGHT].numbers if emits_right else ())
        self.pair = (plan.bounds[LEFT].watermark, plan.bounds[RIGHT].watermark)
        self.partition_columns = tuple((column,) for column in plan.columns)
        self._plan = plan

    def _horizon(self) -> int | None:
        """Return the least shared time that later rows can have; None: any."""
        limits = []
        for side in (LEFT, RIGHT):
            bound = self._plan.bounds[side]
            if not self.inputs.ended[side]:
                if bound.watermark not in self.inputs.observed:
                    return None
                limits.append(
                    self.inputs.observed[bound.watermark] + bound.offset - self._plan.apart[side]
                )
        return min(limits, default=None)

    def arrive(self, ordinal: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch] | None:
        rows, valid = self._plan.rows_of(ordinal, batch)
        alone = [] if valid is None else [_RowSelection(batch, np.flatnonzero(~valid))]
        horizon = self._horizon()
        if horizon is not None and rows.count:
            assert rows.expiry is not None
            late = rows.expiry < horizon
            if late.any():
                number = self._plan.bounds[ordinal].watermark
                self.count_late(late, rows, rows.expiry, horizon, number)
                alone.append(_RowSelection(rows.batch, np.flatnonzero(late)))
                rows = rows.filtered(~late)
        if rows.count:
            self.inputs.buffers[ordinal].add(SortedRun(rows))
            self.check_size()
        if not alone:
            return None
        # These rows match nothing, as their time is NULL or they are late.
        return self._joined(*((alone, []) if ordinal == LEFT else ([], alone)))

    def _joined(
        self, left: Sequence[_RowSelection], right: Sequence[_RowSelection]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results of completed rows."""
        plan = self._plan.rows
        most = self._most_bytes
        if most and sum(part.size for part in right) > most:
            yield from self._joined_by_parts(left, right, most)
            return
        table = self._table([part.all for part in right])
        for part in left:
            for batch in part.chunks(most):
                yield from table.probe(batch)
        if plan.kind in KEEPS_RIGHT:
            yield from table.lonely_build_rows()

    def _joined_by_parts(
        self, left: Sequence[_RowSelection], right: Sequence[_RowSelection], most: int
    ) -> Iterator[pa.RecordBatch]:
        """Like `_joined` for a right side that exceeds `most` bytes.

        An empty batch is a point where the cooperative call may end.
        """
        plan = self._plan.rows
        pause = no_rows(plan.schema)
        counts = [batch.num_rows for part in left for batch in part.chunks(most)]
        matches = [np.zeros(count, np.int64) for count in counts]
        unknown = [np.zeros(count, np.bool_) if plan.kind in UNKNOWNS else None for count in counts]
        for build in _gathered((batch for part in right for batch in part.chunks(most)), most):
            table = self._table(build)
            chunks = (batch for part in left for batch in part.chunks(most))
            for batch, found, maybe in zip(chunks, matches, unknown, strict=True):
                yield from table.probe_part(batch, found, maybe)
                yield pause
            if plan.kind in KEEPS_RIGHT:
                yield from table.lonely_build_rows()
        if plan.is_left_only or plan.kind in KEEPS_LEFT:
            table = self._table([])
            chunks = (batch for part in left for batch in part.chunks(most))
            for batch, found, maybe in zip(chunks, matches, unknown, strict=True):
                yield from table.finish(batch, found, maybe)

    def _table(self, right: Sequence[pa.RecordBatch]) -> JoinTable:
        plan = self._plan.rows
        build = join_batches(right) if right else no_rows(plan.right_schema)
        if build.schema.names != plan.right_schema.names:
            build = pa.RecordBatch.from_arrays(build.columns, schema=plan.right_schema)
        return JoinTable(plan, build, self.context.job.evaluation)

    @property
    def _most_bytes(self) -> int:
        """The maximum size in bytes of the rows from files that are joined in one step; 0: none."""
        return (
            max(LEAST_BYTES, self.reservation.memory.allowed // TAKEN_SHARE)
            if self.reservation.is_limited
            else 0
        )

    def _complete(self) -> Iterator[pa.RecordBatch]:
        """Yield the results of the completed rows, in several steps if some are in files."""
        is_end = all(self.inputs.ended)
        horizon = NEVER if is_end else self._horizon()
        if horizon is None:
            return
        for step in [*self._steps(horizon), horizon]:
            taken = [
                [_RowSelection(rows.batch, gone) for rows, gone in buffer.expire(step)]
                for buffer in self.inputs.buffers
            ]
            if is_end and step == horizon:
                for parts, buffer in zip(taken, self.inputs.buffers, strict=True):
                    parts.extend(
                        _RowSelection(rows.batch, None) for rows in buffer.take_all() if rows.count
                    )
            if taken[LEFT] or taken[RIGHT]:
                yield from self._joined(*taken)

    def _steps(self, horizon: int) -> list[int]:
        """Return increasing times up to which rows are joined step by step.

        Each step has about the maximum size. The times are sampled as in `RowBuffer.steps`.
        """
        most = self._most_bytes
        if not most or not any(buffer.is_spilled for buffer in self.inputs.buffers):
            return []
        count, size = self.inputs.size
        every = max(1, most * count // max(size, 1) // STEP_SAMPLES)
        times = np.sort(
            np.concatenate([buffer.expiries_before(horizon) for buffer in self.inputs.buffers])
        )
        chosen = np.unique(times[every * STEP_SAMPLES - 1 :: every * STEP_SAMPLES])
        return [time + 1 for time in chosen.tolist() if time + 1 < horizon]

    def on_watermark(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        yield from self._complete()

    def on_end(self, ordinal: int) -> Iterator[pa.RecordBatch]:
        yield from self._complete()

    def rest(self) -> Iterator[pa.RecordBatch]:
        self.inputs.ended = [True, True]
        yield from self._complete()

    def restored(self, side: int, batch: pa.RecordBatch, matched: Mask) -> JoinRows:
        return self._plan.rows_of(side, batch)[0]


def _gathered(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Group batches so that each group has at most about `most` bytes."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if gathered and size + batch.nbytes > most:
            yield gathered
            gathered, size = [], 0
        gathered.append(batch)
        size += batch.nbytes
    if gathered:
        yield gathered


def window_join(
    shape: tuple[JoinShape, WindowJoinShape],
    keys: tuple[Sequence[Expression], Sequence[Expression]],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
) -> ProcessorFactory:
    """Return a supplier of processors that join two streams by a time that both sides share.

    With several processors both sides must be partitioned by that time.

    shape: the join, whose condition also requires the times to be equal, and the times.
    keys: the keys of the left side, then of the right side, as in `nodes.Join`.
    fields: the fields of the left side, then of the right side.
    names: the names of the result's columns.
    """
    plan = WindowJoinPlan(shape, keys, fields, names)
    return lambda: StreamJoinProcessor(WindowStreamJoin(plan))
