"""OVER on streams in order of event time: a row is emitted when the watermark has passed it.

Rows are buffered until then. Of the emitted rows, those that frames of later rows may contain are
retained. For frames that start with the partition, one row of running values per partition is
retained instead. Because each watermark costs a pass over the retained rows, a watermark is
deferred while few new rows have arrived and more are expected.
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
from runnel.processors.over.running_values import RunningValue, running_value
from runnel.processors.sources.partition_watermarks import GREATEST_TIME
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_rows import LateRows
from runnel.processors.stateful.row_buffer import Buffering, CompiledBuffering, RowBuffer
from runnel.processors.stateful.state_account import StateAccount
from runnel.processors.stateful.until_watermark import WEIGHT, stepwise
from runnel.processors.stream_joins.versions import BUCKETS, Buckets, RetainedRows
from runnel.relation.over import WindowCall
from runnel.relation.window_reach import Reach, furthest

if TYPE_CHECKING:
    from runnel.processors.over.calls import CallsByArrangement

_RETAINED = "$kept"
_RUNNING = "$r"


class OrderedPlan:
    """Compiled calls of one arrangement; shared by executions.

    window: the calls, and the shape of the output.
    buffering: when a buffered row is due.
    partition: the compiled PARTITION BY expressions.
    keys: pairs of the index of a PARTITION BY expression and the index of the input column that it
        is, for the columns by which rows are divided among processors.
    reach: the retained rows that the frames of all calls may contain.
    framed: the calls that read retained rows.
    running: the calls that are computed over new rows only, for the running values.
    running_values: the index of each call that is a running value, and how it is continued.
    """

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
        framed = [index for index, reach in enumerate(reaches) if not reach.is_running]
        self.framed: CallsByArrangement = by_arrangement((index, calls[index]) for index in framed)
        self.running_values: list[tuple[int, RunningValue]] = [
            (index, running_value(calls[index]))
            for index in range(len(calls))
            if index not in framed
        ]
        running = [
            (call, item.has_states) for _, item in self.running_values for call in item.calls
        ]
        self.running: CallsByArrangement = by_arrangement(
            enumerate(call for call, _ in running),
            {index for index, (_, has_states) in enumerate(running) if has_states},
        )


class OrderedWindow(EmittingProcessor):
    """Emits each row with the values of its calls when the watermark has passed it."""

    def __init__(self, plan: OrderedPlan, emits_late: bool) -> None:
        self._plan = plan
        self._buffer = RowBuffer(plan.buffering)
        self.late = LateRows(self, plan.buffering.unit, emits_late)
        weight = WEIGHT if self._buffer.can_spill else 1
        self.account = StateAccount(self, "the rows that OVER retains", weight)
        super().__init__(self.late, self.account)
        self._retained = RetainedRows(self._buckets_of_rows)
        self._running = RetainedRows(self._buckets_of_running)
        self._watermarks: dict[int, Watermark] = {}
        self._has_due_rows = False
        self._fresh = 0
        self._next_expiry = 0
        self._pruned_at = GREATEST_TIME
        """The watermark at which rows were last retained; GREATEST_TIME if none were."""
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        for call in self._plan.window.calls:
            for bound in (call.frame.start, call.frame.end):
                if bound.offset is not None:
                    check_offset(bound, context.job.evaluation)

    def state_size(self) -> tuple[int, int]:
        buffers = (self._buffer, self._retained, self._running)
        return sum(item.count for item in buffers), sum(item.size for item in buffers)

    def spilled_size(self) -> tuple[int, int]:
        return self._buffer.spilled_size

    def spill(self) -> None:
        """Spill buffered rows. Retained rows stay in memory, as each watermark reads them."""
        self._buffer.spill(self.account.reservation.memory)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        late = self._buffer.add(batch, self.context.job.evaluation)
        if late is not None:
            late.report_to(self.late)
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
        """Emit the rows that the received watermarks complete, then these watermarks.

        False if the outbox is full.
        """
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
        """Remove all retained rows once no frame of a later row can contain any of them."""
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
        """Yield the results of the rows that a watermark completes; of all rows for None."""
        for _, complete in stepwise(self._buffer, watermark, self.account.reservation):
            yield from self._results(complete)

    def _results(self, complete: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        new = join_batches(complete)
        values: dict[int, pa.Array] = {}
        for steps in (self._framed_values(new), self._running_values(new)):
            for found in steps:
                # An empty batch lets the tasklet return to the scheduler.
                yield empty_columns(0)
                if found is not None:
                    values[found[0]] = found[1]
        yield from self._plan.window.output(new, [values[index] for index in range(len(values))])

    def _framed_values(self, new: pa.RecordBatch) -> Iterator[tuple[int, pa.Array] | None]:
        """Yield the values of calls whose frames contain retained or following rows, and update the
        retained rows."""
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
        """Flags the rows that frames of later rows may contain.

        Rows from index `done` on are still buffered: they are the last rows of each partition, and
        not flagged.
        """
        reach = self._plan.reach
        needed = self._in_span(rows)
        if reach.rows or reach.groups > 0:
            is_done = in_order.order < done
            counted = np.concatenate(([0], np.cumsum(is_done)))
            end = in_order.start + counted[in_order.end] - counted[in_order.start]
            # `end` is the index after the last emitted row of the partition. A partition at 0 … 4
            # whose last row is still buffered: end 4, so with a reach of 2 rows 2 and 3 are needed.
            by_position = end - np.arange(rows.num_rows) <= reach.rows
            if reach.groups > 0:
                last = in_order.group[np.maximum(end - 1, 0)]
                by_position |= in_order.group > last - reach.groups
            needed[in_order.order] |= by_position
        needed[done:] = False
        return needed

    def _in_span(self, rows: pa.RecordBatch) -> Mask:
        """Flags the rows whose event time may be in the frame of a later row."""
        reach = self._plan.reach
        (number,) = self._plan.buffering.watermarks
        if reach.span < 0 or number not in self._buffer.watermarks:
            return np.zeros(rows.num_rows, np.bool_)
        (due,) = self._plan.buffering.due(rows, self.context.job.evaluation)
        mask: Mask = due >= self._buffer.watermarks[number] - reach.lead - reach.span
        return mask

    def _running_values(self, new: pa.RecordBatch) -> Iterator[tuple[int, pa.Array] | None]:
        """Yield the running values of the new rows, and update the state of each partition.

        Input rows a1 b1 a2 (a and b are partitions): `last` are the input rows b1 and a2, the last
        of each partition, `of_partition` the rows of `old` with their keys, and `state_rows` the
        row of `old` for each input row.
        """
        if not self._plan.running_values:
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
        of_partition, unchanged = _state_rows(old, keys, len(last))
        state_rows = np.empty(new.num_rows, np.int64)
        state_rows[in_order.order] = of_partition[in_order.partition]
        state_columns = iter(_state_columns(old, len(keys)))
        retained: list[pa.Array] = list(keys)
        first = 0
        for index, item in self._plan.running_values:
            fresh = [values[first + number] for number in range(len(item.calls))]
            first += len(item.calls)
            before = (
                [_rows_of(next(state_columns), state_rows) for _ in fresh]
                if old
                else [pa.nulls(len(value), value.type) for value in fresh]
            )
            has_state = state_rows >= 0
            result, state = item.combine(before, fresh, has_state, self.context.job.evaluation)
            retained += [column.take(last) for column in (*state, *fresh[len(state) :])]
            yield index, result
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
        """The watermarks, buffered rows, retained rows and running values, keyed by the columns
        that divide rows among processors."""
        yield from self._buffer.watermark_state()
        for batch in self._buffer.row_state():
            yield self._keyed(batch, [batch.schema.names[column] for _, column in self._plan.keys])
        for batch in self._retained.batches():
            marked = batch.append_column(_RETAINED, pa.nulls(batch.num_rows))
            yield self._keyed(marked, [batch.schema.names[column] for _, column in self._plan.keys])
        for batch in self._running.batches():
            yield self._keyed(batch, [f"{_RUNNING}{index}" for index, _ in self._plan.keys])

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
        self.account.add(batch)

    def close(self) -> None:
        super().close()
        self._buffer.clear()
        self._retained.clear()
        self._running.clear()


def _buckets(keys: Sequence[pa.Array], count: int) -> Buckets:
    if not keys:
        return np.zeros(count, np.int64)
    return (hash_columns(keys) & np.uint64(BUCKETS - 1)).astype(np.int64)


def _state_rows(
    old: Sequence[pa.RecordBatch], keys: Sequence[pa.Array], count: int
) -> tuple[Indexes, pa.RecordBatch | None]:
    """The index of the old row with each of `count` distinct keys (−1: none), and the old rows
    whose key is none of them.

    Old rows with keys a b, keys b c: the indexes 1 −1, and the row of a. Codes of both are
    0 1 | 1 2; `numbered` has a row for each code.
    """
    if not old:
        return np.full(count, -1), None
    rows = join_batches(old)
    if not keys:
        return np.zeros(count, np.int64), None
    both = [join_arrays([column, key]) for column, key in zip(rows.columns, keys, strict=False)]
    codes, numbered = factorise(both)
    row_of_code = np.full(len(numbered), -1)
    row_of_code[codes[: rows.num_rows]] = np.arange(rows.num_rows)
    is_new = np.zeros(len(numbered), np.bool_)
    is_new[codes[rows.num_rows :]] = True
    left = np.flatnonzero(~is_new[codes[: rows.num_rows]])
    others = rows.take(indexes(left)) if len(left) else None
    return row_of_code[codes[rows.num_rows :]], others


def _state_columns(old: Sequence[pa.RecordBatch], keys: int) -> list[pa.Array]:
    """The columns of the running values: all after the `keys` key columns."""
    return join_batches(old).columns[keys:] if old else []


def _rows_of(column: pa.Array, rows: Indexes) -> pa.Array:
    """The values at `rows`; NULL for −1."""
    return column.take(indexes(np.maximum(rows, 0), rows >= 0))


def ordered_window(
    calls: tuple[WindowCall, ...],
    reaches: Sequence[Reach],
    shape: tuple[int, tuple[str, ...]],
    buffering: Buffering,
    keys: tuple[tuple[int, int], ...] = (),
    emits_late: bool = False,
) -> ProcessorFactory:
    """A supplier of processors that append the values of `calls` to the input rows.

    calls: all have one arrangement, ordered first by the expression that `buffering` bounds.
    reaches: the rows that each call depends on.
    shape: the number of input columns in the output, and the names of all output columns.
    keys: see `OrderedPlan`.
    emits_late: whether late rows are emitted on output 1.
    """
    plan = OrderedPlan(calls, reaches, shape, buffering, keys)
    return lambda: OrderedWindow(plan, emits_late)
