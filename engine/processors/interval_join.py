"""Joins of two streams whose times bound each other. Input 0 is the left side, input 1 the right one; they take turns.

The rows of both sides wait for each other. A batch is matched with the other side's rows as it comes; a row goes when the
other side's watermark says that nothing can match it any more, and comes out alone then where the join keeps rows without a
match. A row that can't match by itself (NULL in its key or times) doesn't wait.

Of each time column no more is promised further on than the rows that wait allow: they may come out with their own times. A
row is late where rows that it could match may have gone: it is matched with those that are left, and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa

from runnel.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    empty_columns,
    flags,
    from_flags,
    from_numbers,
    indexes,
    make_batch,
    numbers,
    validity,
)
from runnel.dag import ProcessorFactory
from runnel.errors import DataError
from runnel.expressions.nodes import Expression
from runnel.key_hash import keyed_state
from runnel.memory import Reservation, too_large
from runnel.processor import Outbox, ProcessorContext, Watermark
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.event_time import GREATEST_TIME, LEAST_TIME
from runnel.processors.interval_matching import Matching
from runnel.processors.interval_plan import LEFT, RIGHT, IntervalPlan
from runnel.processors.join_table import JoinShape
from runnel.processors.late_rows import LateRows
from runnel.processors.time_runs import Rows, Run, RunBuffer
from runnel.relation import Field, JoinKind
from runnel.stream_joins import IntervalShape

_SEEN, _TOLD = "$seen", "$told"
_MARKS = ("$left", "$right")


class _Step(Enum):
    """How far the work on a watermark, or on the end of an input, has got."""

    NONE = 0
    EXPIRING = 1
    PROMISING = 2


class IntervalJoin(EmittingProcessor):
    """Joins two inputs as they come."""

    def __init__(self, plan: IntervalPlan) -> None:
        super().__init__()
        self._plan = plan
        self._buffers = (RunBuffer(), RunBuffer())
        self._ended = [False, False]
        self._seen: dict[int, int] = {}
        self._told: dict[int, int] = {}
        self._promises: deque[Watermark] = deque()
        self._step = _Step.NONE
        self._reservation = Reservation(None)
        self._late_rows: LateRows | None = None

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._reservation = Reservation(context.job.memory)
        self._late_rows = LateRows(context, self._plan.unit)

    @property
    def late_rows(self) -> int:
        return 0 if self._late_rows is None else self._late_rows.count

    def state_size(self) -> tuple[int, int]:
        runs = [run for buffer in self._buffers for run in buffer]
        return sum(run.living for run in runs), sum(run.size for run in runs)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self.emit_all(self._arrive(ordinal, batch))

    def _arrive(self, side: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What comes of a batch; at the end its rows wait."""
        plan = self._plan
        rows, valid = plan.rows_of(side, batch, self.context.job.evaluation)
        if valid is not None:
            yield from self._alone(side, batch, np.flatnonzero(~valid))
        if not rows.count:
            return
        matching = Matching(plan, side, self.context.job.evaluation)
        matching.late, matching.horizon = self._late(side, rows), self._buffers[1 - side].horizon
        run = Run(rows)
        for other in self._buffers[1 - side]:
            for mine, theirs in matching.pairs(run, other):
                yield from self._matched(run, mine, other, theirs) if side == LEFT else self._matched(other, theirs, run, mine)
        waits = self._waits(side, rows)
        if not waits.all():
            yield from self._alone(side, rows.batch, np.flatnonzero(~waits & ~rows.matched))
            run = Run(rows.kept(waits))
        if run.rows.count:
            self._buffers[side].add(run)
            self._account()

    def _late(self, side: int, rows: Rows) -> Mask | None:
        """The rows for which rows of the other side may be gone already; None if there are none."""
        horizon, place = self._buffers[1 - side].horizon, self._plan.late_by[side]
        if horizon is None or place is None:
            return None
        late: Mask = rows.holds[place] < horizon
        if not late.any():
            return None
        assert self._late_rows is not None
        self._late_rows.add(int(np.count_nonzero(late)), int(rows.holds[place][late].min()), horizon)
        return late

    def _waits(self, side: int, rows: Rows) -> Mask:
        """The rows of a side that something may still match."""
        if self._ended[1 - side]:
            return np.zeros(rows.count, np.bool_)
        waits = np.ones(rows.count, np.bool_)
        horizon = self._buffers[side].horizon
        if horizon is not None and rows.expiry is not None:
            waits = rows.expiry >= horizon
        if side == LEFT and self._plan.is_once:
            waits &= ~rows.matched
        return waits

    def _account(self) -> None:
        self.check_accumulated(sum(buffer.held for buffer in self._buffers))
        if self._reservation.is_limited:
            self._reservation.set(sum(buffer.size for buffer in self._buffers))
            memory = self._reservation.memory
            if self._reservation.bytes > memory.limit:
                raise too_large("the rows that wait in a join of streams", memory)

    def _matched(self, first: Run, left: Indexes, second: Run, right: Indexes) -> Iterator[pa.RecordBatch]:
        """What pairs that belong together give."""
        plan = self._plan
        if plan.is_once:
            settled = np.unique(left)
            settled = settled[~first.rows.matched[settled]]
            first.rows.matched[settled] = True
            if plan.kind is not JoinKind.ANTI:
                yield from self._left_rows(first.rows.batch, settled, True)
            return
        if plan.kind is JoinKind.SINGLE and len(left) and (first.rows.matched[left].any() or np.bincount(left).max() > 1):
            raise DataError(
                "more than one row returned by a subquery used as an expression",
                hint="let the subquery return at most one row, with an aggregate or LIMIT 1",
            )
        if plan.keeps[LEFT]:
            first.rows.matched[left] = True
        if plan.keeps[RIGHT]:
            second.rows.matched[right] = True
        columns = [first.rows.batch.column(i).take(indexes(left)) for i in plan.rows.left_output]
        columns += [second.rows.batch.column(i).take(indexes(right)) for i in plan.rows.right_output]
        yield plan.rows.row_batch(columns, len(left))

    def _alone(self, side: int, batch: pa.RecordBatch, rows: Indexes) -> Iterator[pa.RecordBatch]:
        """What rows give that have no match and never will."""
        plan = self._plan
        if not plan.keeps[side] or plan.kind is JoinKind.SEMI:
            return
        if plan.is_once:
            yield from self._left_rows(batch, rows, False)
            return
        left, right = plan.rows.left_output, plan.rows.right_output
        for start in range(0, len(rows), MAX_ROWS):
            chosen = indexes(rows[start : start + MAX_ROWS])
            count = len(chosen)
            columns = [
                batch.column(i).take(chosen) if side == LEFT else pa.nulls(count, plan.rows.left_schema.field(i).type)
                for i in left
            ]
            columns += [
                batch.column(i).take(chosen) if side == RIGHT else pa.nulls(count, plan.rows.right_schema.field(i).type)
                for i in right
            ]
            yield plan.rows.row_batch(columns, count)

    def _left_rows(self, batch: pa.RecordBatch, rows: Indexes, mark: bool) -> Iterator[pa.RecordBatch]:
        plan = self._plan.rows
        for start in range(0, len(rows), MAX_ROWS):
            chosen = indexes(rows[start : start + MAX_ROWS])
            columns = [batch.column(i).take(chosen) for i in plan.left_output]
            if plan.right_output:
                columns.append(from_flags(np.full(len(chosen), mark)))
            yield plan.row_batch(columns, len(chosen))

    def process_watermark(self, watermark: Watermark) -> bool:
        if self._step is _Step.NONE:
            if not self.drain():
                return False
            self._seen[watermark.column] = watermark.time
            self._step = _Step.EXPIRING
            self.emit_all(self._expired(watermark))
        return self._concluded()

    def _expired(self, watermark: Watermark) -> Iterator[pa.RecordBatch]:
        for side, buffer in enumerate(self._buffers):
            if self._plan.waiting[side].watermark == watermark.column:
                for rows, gone in buffer.expire(watermark.time):
                    yield from self._alone(side, rows.batch, gone[~rows.matched[gone]])

    def complete_edge(self, ordinal: int) -> bool:
        """Nothing can match the rows of the other side any more."""
        if self._step is _Step.NONE:
            if not self.drain():
                return False
            self._ended[ordinal] = True
            self._step = _Step.EXPIRING
            self.emit_all(self._last(1 - ordinal))
        return self._concluded()

    def _last(self, side: int) -> Iterator[pa.RecordBatch]:
        for rows in self._buffers[side].take_all():
            yield from self._alone(side, rows.batch, np.flatnonzero(~rows.matched))

    def _concluded(self) -> bool:
        """Hands out what came of a watermark or an end, then what may be promised since. False: not all yet."""
        if self._step is _Step.EXPIRING:
            if not self.drain():
                return False
            self._promises.extend(self._new_promises())
            self._step = _Step.PROMISING
        while self._promises:
            if not self.outbox.offer(self._promises[0]):
                return False
            self._promises.popleft()
        self._step = _Step.NONE
        return True

    def _new_promises(self) -> list[Watermark]:
        if all(self._ended):
            return []
        limits: dict[int, list[int | None]] = {}
        for side, waiting in enumerate(self._plan.waiting):
            for place, number in enumerate(waiting.numbers):
                seen = GREATEST_TIME if self._ended[side] else self._seen.get(number)
                limits.setdefault(number, []).extend((seen, self._buffers[side].least_hold(place)))
        found = []
        for number, times in sorted(limits.items()):
            known = [time for time in times if time is not None]
            if len(known) == len(times) and min(known) > self._told.get(number, LEAST_TIME):
                self._told[number] = min(known)
                found.append(Watermark(min(known), number))
        return found

    def complete(self) -> bool:
        for side in (LEFT, RIGHT):
            if self._buffers[side].runs:
                if not self.drain():
                    return False
                self.emit_all(self._last(side))
        return self.drain()

    def state(self) -> Iterator[pa.RecordBatch]:
        """The rows that wait, each with whether it was matched, and the watermarks."""
        for side, buffer in enumerate(self._buffers):
            keys = self._plan.state_keys[side]
            for run in buffer:
                rows = run.living_rows(buffer.horizon)
                columns = [*rows.batch.columns, from_flags(rows.matched)]
                batch = pa.RecordBatch.from_arrays(columns, names=[*rows.batch.schema.names, _MARKS[side]])
                yield keyed_state(batch, *keys) if keys else batch
        known = sorted(self._seen.keys() | self._told.keys())
        if known:
            columns = [from_numbers(np.array(known, np.int64), pa.int64())]
            columns += [_times(known, times) for times in (self._seen, self._told)]
            yield pa.RecordBatch.from_arrays(columns, names=["$watermark", _SEEN, _TOLD])

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        names = batch.schema.names
        if names[-1] == _TOLD:
            self._restore_watermarks(batch)
            return
        side = _MARKS.index(names[-1])
        columns = batch.columns[:-1]
        schema = pa.schema([pa.field(name, column.type) for name, column in zip(names, columns, strict=False)])
        given = make_batch(columns, schema, batch.num_rows) if columns else empty_columns(batch.num_rows)
        rows, _ = self._plan.rows_of(side, given, self.context.job.evaluation)
        rows.matched = flags(batch.column(len(columns))).copy()
        if rows.count:
            self._buffers[side].add(Run(rows))

    def _restore_watermarks(self, batch: pa.RecordBatch) -> None:
        """Of what several processors had seen and promised, the least."""
        known = numbers(batch.column(0), np.int64).tolist()
        for times, column in ((self._seen, batch.column(1)), (self._told, batch.column(2))):
            valid = validity(column)
            for place, time in enumerate(numbers(column, np.int64).tolist()):
                if valid is None or valid[place]:
                    times[known[place]] = min(time, times.get(known[place], time))

    def finish_restore(self) -> bool:
        for side, buffer in enumerate(self._buffers):
            number = self._plan.waiting[side].watermark
            if number is not None and number in self._seen:
                # What is gone for this watermark was gone before the snapshot.
                for _ in buffer.expire(self._seen[number]):
                    pass
        return True

    def close(self) -> None:
        super().close()
        for buffer in self._buffers:
            buffer.runs = []
        self._reservation.release()


def _times(known: list[int], times: dict[int, int]) -> pa.Array:
    values = np.array([times.get(number, 0) for number in known], np.int64)
    return from_numbers(values, pa.int64(), np.array([number in times for number in known], np.bool_))


def interval_join(
    shape: tuple[JoinShape, IntervalShape],
    keys: tuple[Sequence[Expression], Sequence[Expression]],
    fields: tuple[Sequence[Field], Sequence[Field]],
    names: tuple[str, ...],
    state_keys: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
) -> ProcessorFactory:
    """A supplier of processors that join two streams: the pairs of equal keys within the link for which the condition of the
    join is true, and what its kind makes of rows without a match. Keys and condition are as in `relation.Join`, keys and
    fields of the left side first; the kind is one of `interval_plan.KINDS`. Several processors need both sides divided by
    keys, of which `state_keys` has the names."""
    plan = IntervalPlan(shape, keys, fields, names, state_keys)
    return lambda: IntervalJoin(plan)
