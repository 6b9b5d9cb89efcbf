"""OVER on streams in order of event time: a row's value is known when no earlier row can come any
more.

Rows wait until the watermark is beyond them. Of those that are done as much is kept as later frames
may reach back to, and for frames that begin with the partition one row of running values per
partition. To look through what is kept for every single watermark would cost more the more is kept,
so a watermark waits while there are few new rows and more are coming.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runnel.columns.batches import (
    Indexes,
    Mask,
    empty_columns,
    indexes,
    join_arrays,
    join_batches,
    make_batch,
)
from runnel.columns.key_hash import hash_columns, keyed_state
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.processor import Outbox, ProcessorContext, Watermark
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.over.calls import CompiledWindow, arranged, by_arrangement, values_of
from runnel.processors.over.frames import check_offset
from runnel.processors.over.partitions import WindowPartitions
from runnel.processors.over.running_values import Going, going
from runnel.processors.sources.partition_watermarks import GREATEST_TIME
from runnel.processors.stateful.late_output import LateOutputProcessor
from runnel.processors.stateful.row_buffer import Buffering, CompiledBuffering, RowBuffer
from runnel.processors.stateful.until_watermark import WEIGHT, stepwise
from runnel.processors.stream_joins.versions import BUCKETS, Buckets, RetainedRows
from runnel.relation.over import WindowCall
from runnel.relation.window_reach import Reach, furthest

if TYPE_CHECKING:
    from runnel.processors.over.calls import CallsByArrangement

_RETAINED = "$kept"
_RUNNING = "$r"


class OrderedPlan:
    """Calls of one arrangement, compiled; shared by executions. `keys` are the places, among the
    expressions by which the calls partition, of those that are columns by which rows are divided
    among processors, and `columns` these columns."""

    def __init__(
        self,
        calls: tuple[WindowCall, ...],
        reaches: Sequence[Reach],
        shape: tuple[int, tuple[str, ...]],
        buffering: Buffering,
        keys: tuple[tuple[int, int], ...],
    ) -> None:
        width, names = shape
        self.window = CompiledWindow(
            calls, by_arrangement(enumerate(calls)), width, names, None, None
        )
        self.buffering = CompiledBuffering(buffering)
        self.partition = tuple(compile_expression(item) for item in calls[0].partition)
        self.keys = keys
        self.reach = furthest(reaches)
        framed = [place for place, reach in enumerate(reaches) if not reach.is_running]
        self.framed: CallsByArrangement = by_arrangement((place, calls[place]) for place in framed)
        self.going: list[tuple[int, Going]] = [
            (place, going(calls[place])) for place in range(len(calls)) if place not in framed
        ]
        self.running: CallsByArrangement = by_arrangement(
            enumerate(call for _, item in self.going for call in item.calls)
        )


class OrderedWindow(LateOutputProcessor):
    """Gives each row with the values of its calls when the watermark is beyond it."""

    holds = "the rows that OVER keeps"

    def __init__(self, plan: OrderedPlan, emits_late: bool) -> None:
        super().__init__(emits_late, plan.buffering.unit)
        self._plan = plan
        self._buffer = RowBuffer(plan.buffering)
        self._retained = RetainedRows(self._buckets_of_rows)
        self._running = RetainedRows(self._buckets_of_running)
        self._watermarks: dict[int, Watermark] = {}
        self._has_due_rows = False
        self._fresh = 0
        self._next_expiry = 0
        self._pruned_at = GREATEST_TIME
        """The watermark when rows were put to those that are kept last."""
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        for call in self._plan.window.calls:
            for bound in (call.frame.start, call.frame.end):
                if bound.offset is not None:
                    check_offset(bound, context.job.evaluation)

    def state_size(self) -> tuple[int, int]:
        parts = (self._buffer, self._retained, self._running)
        return sum(part.count for part in parts), sum(part.size for part in parts)

    def spilled_size(self) -> tuple[int, int]:
        return self._buffer.spilled_size

    @property
    def weight(self) -> int:
        return WEIGHT if self._buffer.can_spill else 1

    def spill(self) -> None:
        """Of the rows that wait. What frames reach back to is looked at for each watermark."""
        self._buffer.spill(self._reservation.memory)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        late = self._buffer.add(batch, self.context.job.evaluation)
        if late is not None:
            self.note_late(late.rows.num_rows, late.due, late.watermark)
            self.emit_late(late.rows)
        self._fresh += batch.num_rows
        self.check_accumulated(self._buffer.count + self._retained.count)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        self._has_due_rows |= self._buffer.advance(watermark)
        self._watermarks[watermark.column] = watermark
        if self._has_due_rows and 2 * self._fresh < self._retained.count + self._running.count // 8:
            return True
        return self._catch_up()

    def flush(self) -> bool:
        return self.drain() and self._catch_up()

    def _catch_up(self) -> bool:
        """Gives what is complete by the watermarks that were seen, then passes these on. False: not
        all yet."""
        if self._has_due_rows:
            self._has_due_rows = False
            self._fresh = 0
            number, time = next(iter(self._buffer.watermarks.items()))
            self.emit_all(self._complete(Watermark(time, number)))
        if not self.drain():
            return False
        self._forget()
        while self._watermarks:
            column, watermark = next(iter(self._watermarks.items()))
            if not self.outbox.offer(watermark):
                return False
            del self._watermarks[column]
        return True

    def _forget(self) -> None:
        """Lets go of all rows that are kept when the watermark has gone on so far that no frame
        reaches back to any."""
        reach, number = self._plan.reach, self._plan.buffering.watermarks[0]
        if self._retained.count and reach.is_bounded_in_time and number in self._buffer.watermarks:
            watermark = self._buffer.watermarks[number]
            self._pruned_at = min(self._pruned_at, watermark)
            if watermark - self._pruned_at >= reach.span:
                self._retained.clear()

    def complete(self) -> bool:
        if not self._is_done:
            if not self.drain() or not self._catch_up():
                return False
            self._is_done = True
            self.emit_all(self._complete(None))
        return self.drain()

    def _complete(self, watermark: Watermark | None) -> Iterator[pa.RecordBatch]:
        """What comes of the rows that a watermark completes (None: of all)."""
        for _, complete in stepwise(self._buffer, watermark, self._reservation):
            yield from self._results(complete)

    def _results(self, complete: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        new = join_batches(complete)
        values: dict[int, pa.Array] = {}
        for part in (self._framed_values(new), self._running_values(new)):
            for found in part:
                # An empty batch goes nowhere, and lets others have the thread.
                yield empty_columns(0)
                if found is not None:
                    values[found[0]] = found[1]
        yield from self._plan.window.output(new, [values[place] for place in range(len(values))])

    def _framed_values(self, new: pa.RecordBatch) -> Iterator[tuple[int, pa.Array] | None]:
        """The values of calls over the rows around a row."""
        if not self._plan.framed:
            return
        old = self._retained.take(self._buckets_of_rows(new)) if self._retained.count else []
        ahead = self._buffer.due() if self._plan.reach.lead else []
        rows = join_batches([*old, new, *ahead])
        before = sum(batch.num_rows for batch in old)
        done = before + new.num_rows
        ((arrangement, calls),) = self._plan.framed
        in_order = arranged(arrangement, rows, self.context)
        for found in values_of(calls, rows, in_order, self.context):
            yield None if found is None else (found[0], found[1].slice(before, new.num_rows))
        needed = np.flatnonzero(self._needed(rows, in_order, done))
        if len(needed):
            (number,) = self._plan.buffering.watermarks
            self._pruned_at = self._buffer.watermarks.get(number, GREATEST_TIME)
            self._retained.add(rows.take(indexes(needed)))
        if self._retained.count > self._next_expiry and self._plan.reach.is_bounded_in_time:
            self._retained.only(self._in_span)
            self._next_expiry = 2 * self._retained.count

    def _needed(self, rows: pa.RecordBatch, in_order: WindowPartitions, done: int) -> Mask:
        """Which rows frames of later rows may reach back to; those from `done` on still wait, and
        are the last of each partition."""
        reach = self._plan.reach
        needed = self._in_span(rows)
        if reach.rows or reach.groups > 0:
            is_done = in_order.order < done
            counted = np.concatenate(([0], np.cumsum(is_done)))
            end = in_order.start + counted[in_order.end] - counted[in_order.start]
            by_place = end - np.arange(rows.num_rows) <= reach.rows
            if reach.groups > 0:
                last = in_order.group[np.maximum(end - 1, 0)]
                by_place |= in_order.group > last - reach.groups
            needed[in_order.order] |= by_place
        needed[done:] = False
        return needed

    def _in_span(self, rows: pa.RecordBatch) -> Mask:
        """Which rows are so late that frames of later rows may still have them, by event time."""
        reach = self._plan.reach
        (number,) = self._plan.buffering.watermarks
        if reach.span < 0 or number not in self._buffer.watermarks:
            return np.zeros(rows.num_rows, np.bool_)
        (due,) = self._plan.buffering.due(rows, self.context.job.evaluation)
        mask: Mask = due >= self._buffer.watermarks[number] - reach.lead - reach.span
        return mask

    def _running_values(self, new: pa.RecordBatch) -> Iterator[tuple[int, pa.Array] | None]:
        """The values of calls over all earlier rows: those over the new rows, and what was kept."""
        if not self._plan.going:
            return
        ((arrangement, calls),) = self._plan.running
        in_order = arranged(arrangement, new, self.context)
        values: dict[int, pa.Array] = {}
        for found in values_of(calls, new, in_order, self.context):
            yield None
            if found is not None:
                values[found[0]] = found[1]
        ends = np.flatnonzero(np.diff(in_order.partition, append=-1))
        last = indexes(in_order.order[ends])
        keys = [key.take(last) for key in self._key_columns(new)]
        old = self._running.take(_buckets(keys, len(last)))
        of_partition, unchanged = _positions(old, keys, len(last))
        places = np.empty(new.num_rows, np.int64)
        places[in_order.order] = of_partition[in_order.partition]
        kept_columns = iter(_appended_columns(old, len(keys)))
        retained: list[pa.Array] = list(keys)
        at = 0
        for place, item in self._plan.going:
            given = [values[at + number] for number in range(len(item.calls))]
            at += len(item.calls)
            before = (
                [_taken(kept_columns, value, places) for value in given]
                if old
                else [_nothing(v) for v in given]
            )
            result, keeps = item.combine(before, given, places >= 0, self.context.job.evaluation)
            retained += [column.take(last) for column in (*keeps, *given[len(keeps) :])]
            yield place, result
        if unchanged is not None:
            self._running.add(unchanged)
        schema = pa.schema(
            [pa.field(f"{_RUNNING}{number}", column.type) for number, column in enumerate(retained)]
        )
        self._running.add(make_batch(retained, schema, len(last)))

    def _key_columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        frame = EvaluationInput(rows.columns, rows.num_rows, self.context.job.evaluation)
        return [evaluate(item, frame) for item in self._plan.partition]

    def _buckets_of_rows(self, rows: pa.RecordBatch) -> Buckets:
        return _buckets(self._key_columns(rows), rows.num_rows)

    def _buckets_of_running(self, rows: pa.RecordBatch) -> Buckets:
        return _buckets(rows.columns[: len(self._plan.partition)], rows.num_rows)

    def save_snapshot(self) -> bool:
        if self._saving is None and not (self.drain() and self._catch_up()):
            return False
        return super().save_snapshot()

    def state(self) -> Iterable[pa.RecordBatch]:
        """The watermarks, the rows that wait, those that are kept, and running values, by the
        columns that divide them."""
        yield from self._buffer.watermark_state()
        for batch in self._buffer.row_state():
            yield self._keyed(batch, [batch.schema.names[column] for _, column in self._plan.keys])
        for batch in self._retained.batches():
            marked = batch.append_column(_RETAINED, pa.nulls(batch.num_rows))
            yield self._keyed(marked, [batch.schema.names[column] for _, column in self._plan.keys])
        for batch in self._running.batches():
            yield self._keyed(batch, [f"{_RUNNING}{place}" for place, _ in self._plan.keys])

    def _keyed(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        return keyed_state(batch, *names) if names else batch

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if self._buffer.restores_watermarks(batch):
            return
        if batch.schema.names[-1] == _RETAINED:
            self._retained.add(batch.select(range(batch.num_columns - 1)))
        elif batch.schema.names[0] == f"{_RUNNING}0":
            self._running.add(batch)
        else:
            self._buffer.put_back(batch, self.context.job.evaluation)
        self.account_for(batch)

    def close(self) -> None:
        super().close()
        self._buffer.clear()
        self._retained.clear()
        self._running.clear()


def _buckets(keys: Sequence[pa.Array], count: int) -> Buckets:
    if not keys:
        return np.zeros(count, np.int64)
    return (hash_columns(keys) & np.uint64(BUCKETS - 1)).astype(np.int64)


def _positions(
    old: Sequence[pa.RecordBatch], keys: Sequence[pa.Array], count: int
) -> tuple[Indexes, pa.RecordBatch | None]:
    """For each of `count` different keys which of the old rows has it (−1: none), and the old rows
    that have none of them."""
    if not old:
        return np.full(count, -1), None
    rows = join_batches(old)
    if not keys:
        return np.zeros(count, np.int64), None
    both = [join_arrays([column, key]) for column, key in zip(rows.columns, keys, strict=False)]
    codes, numbered = factorise(both)
    place = np.full(len(numbered), -1)
    place[codes[: rows.num_rows]] = np.arange(rows.num_rows)
    is_new = np.zeros(len(numbered), np.bool_)
    is_new[codes[rows.num_rows :]] = True
    left = np.flatnonzero(~is_new[codes[: rows.num_rows]])
    return place[codes[rows.num_rows :]], rows.take(indexes(left)) if len(left) else None


def _appended_columns(old: Sequence[pa.RecordBatch], keys: int) -> list[pa.Array]:
    return join_batches(old).columns[keys:] if old else []


def _taken(columns: Iterator[pa.Array], value: pa.Array, places: Indexes) -> pa.Array:
    return next(columns).take(indexes(np.maximum(places, 0), places >= 0))


def _nothing(value: pa.Array) -> pa.Array:
    return pa.nulls(len(value), value.type)


def ordered_window(
    calls: tuple[WindowCall, ...],
    reaches: Sequence[Reach],
    shape: tuple[int, tuple[str, ...]],
    buffering: Buffering,
    keys: tuple[tuple[int, int], ...] = (),
    emits_late: bool = False,
) -> ProcessorFactory:
    """A supplier of processors that give so many of the input's columns and the value of each call,
    with the names of all, as `shape` says. All calls have one arrangement, ordered first by the
    expression that `holding` bounds; `reaches` say what each depends on. `keys`: of the expressions
    that they partition by those by whose columns the rows are divided among processors, each with
    its place and that of its column. `diverts`: whether late rows go to output 1."""
    plan = OrderedPlan(calls, reaches, shape, buffering, keys)
    return lambda: OrderedWindow(plan, emits_late)
