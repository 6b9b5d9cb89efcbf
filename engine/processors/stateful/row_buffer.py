"""A buffer of rows that wait until the watermark passes their event time.

If the rows exceed the memory limit, they are written to files in the order in which the watermark
will complete them. If a watermark completes more rows than memory has room for, they are read in
steps, as if the watermark had advanced in several steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    from_flags,
    from_numbers,
    indexes,
    join_batches,
    make_batch,
    numbers,
    validity,
)
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.processor import Watermark
from runnel.processors.sources.partition_watermarks import event_times, less
from runnel.processors.stateful.late_event import LateEvent, time_unit
from runnel.processors.stateful.late_rows import LateRows
from runnel.relation.streams import TimeBound
from runnel.sqltypes import to_arrow
from runnel.storage.memory_budget import Memory, size_of

NEVER = np.iinfo(np.int64).max
"""The due time of a row that only the end of the input completes."""
ALWAYS = np.iinfo(np.int64).min
"""The due time of a row that any watermark completes."""

_WATERMARK_TIME = "$seen"
_SCHEMA = pa.schema([pa.field("$watermark", pa.int64()), pa.field(_WATERMARK_TIME, pa.int64())])


@frozen
class Buffering:
    """How long rows wait.

    bounds: pairs of an expression over the row and its bound. A row waits until one of the
        expressions is below the watermark of its bound, plus the offset.
    lead: how much longer a row waits, in event time. It doesn't affect which rows are late.
    nulls_first: whether rows whose expression is NULL are due before all other rows; if not, they
        wait for the end of the input.
    """

    bounds: tuple[tuple[Expression, TimeBound], ...]
    lead: int = 0
    nulls_first: bool = False


@frozen
class Late:
    """Rows that arrived late.

    rows: the rows.
    due: the time at which each of them was due.
    watermark: the time of the watermark that they missed.
    """

    rows: pa.RecordBatch
    due: Indexes
    watermark: int

    def report_to(self, late: LateRows) -> None:
        """Count, log and emit the rows."""

        def event(number: int) -> LateEvent:
            return LateEvent(self.rows.slice(number, 1), int(self.due[number]))

        # The rows of ALWAYS come before all others, and were never due at a time.
        lateness = np.where(self.due > ALWAYS, self.watermark - self.due, 0)
        late.add(self.rows.num_rows, lateness, self.watermark, event)
        late.emit(self.rows)


class CompiledBuffering:
    """A compiled Buffering, shared by executions.

    lead: as in Buffering.
    unit: the unit of event times; see `time_unit`.
    watermarks: the numbers of the watermarks, ascending.
    """

    def __init__(self, buffering: Buffering) -> None:
        self.lead = buffering.lead
        self.unit = time_unit(to_arrow(buffering.bounds[0][0].type))
        self.watermarks = sorted({bound.watermark for _, bound in buffering.bounds})
        self._null = ALWAYS if buffering.nulls_first else NEVER
        self._bounds: list[list[tuple[Evaluator, int]]] = [
            [
                (compile_expression(item), bound.offset)
                for item, bound in buffering.bounds
                if bound.watermark == number
            ]
            for number in self.watermarks
        ]

    def due(self, batch: pa.RecordBatch, context: EvaluationContext) -> list[Indexes]:
        """Return for each watermark the due times of the rows: it must exceed them."""
        frame = EvaluationInput(batch.columns, batch.num_rows, context)
        found = []
        for bounds in self._bounds:
            times = [
                self._less(event_times(evaluate(item, frame)), offset) for item, offset in bounds
            ]
            found.append(times[0] if len(times) == 1 else np.minimum.reduce(times))
        return found

    def _less(self, column: pa.Array, offset: int) -> Indexes:
        times = less(numbers(column, np.int64), offset)
        valid = validity(column)
        return times if valid is None else np.where(valid, times, self._null)


@dataclass(slots=True)
class _DueRun:
    """Some rows of a batch that wait in memory.

    batch: the batch.
    rows: the numbers of the rows.
    due: for each watermark, the due time of each row.
    first: for each watermark, the least due time.
    last: for each watermark, the greatest due time.
    """

    batch: pa.RecordBatch
    rows: Indexes
    due: list[Indexes]
    first: list[int]
    last: list[int]

    def at(self, mask: Mask) -> _DueRun:
        """Return the rows where `mask` is true."""
        return _run(self.batch, self.rows[mask], [item[mask] for item in self.due])

    @property
    def taken(self) -> pa.RecordBatch:
        """The rows as a batch."""
        return (
            self.batch
            if len(self.rows) == self.batch.num_rows
            else self.batch.take(indexes(self.rows))
        )


def _run(batch: pa.RecordBatch, rows: Indexes, due: list[Indexes]) -> _DueRun:
    """Make a run; a batch of which fewer than half of the rows wait is copied to free memory."""
    if 2 * len(rows) < batch.num_rows:
        batch, rows = batch.take(indexes(rows)), np.arange(len(rows))
    return _DueRun(
        batch, rows, due, [int(item.min()) for item in due], [int(item.max()) for item in due]
    )


@dataclass(slots=True)
class _File:
    """Rows in a file, in the order of their due times.

    batch: the rows, memory-mapped.
    due: their due times.
    file_bytes: the size of the file.
    start: the number of rows that were already taken.
    """

    batch: pa.RecordBatch
    due: Indexes
    file_bytes: int
    start: int = 0

    @property
    def left(self) -> int:
        return len(self.due) - self.start

    @property
    def size(self) -> int:
        return self.file_bytes * self.left // len(self.due)

    def before(self, limit: int) -> tuple[int, pa.RecordBatch]:
        """Return the rows whose due time is less than `limit`, and the index of their end."""
        end = max(self.start, int(np.searchsorted(self.due, limit)))
        return end, self.batch.slice(self.start, end - self.start)


_STEP_SAMPLES = 16
"""Number of due times that are sampled per step."""


class RowBuffer:
    """The buffered rows of one processor.

    watermarks: the time of each observed watermark, by its number.
    count: the number of rows.
    """

    def __init__(self, buffering: CompiledBuffering) -> None:
        self._buffering = buffering
        self._runs: list[_DueRun] = []
        self._files: list[_File] = []
        self.watermarks: dict[int, int] = {}
        self.count = 0

    @property
    def size(self) -> int:
        """The approximate size of the rows in bytes."""
        in_memory = sum(size_of(run.batch) + 16 * len(run.rows) for run in tuple(self._runs))
        return in_memory + self.spilled_size[1]

    @property
    def spilled_size(self) -> tuple[int, int]:
        """The number of rows in files, and their bytes."""
        files = tuple(self._files)
        return sum(file.left for file in files), sum(file.size for file in files)

    @property
    def can_spill(self) -> bool:
        """Whether the rows have one order of due times: there is only one watermark."""
        return len(self._buffering.watermarks) == 1

    def spill(self, memory: Memory) -> None:
        """Write the rows in memory to a file, if that is possible."""
        if not self._runs or not self.can_spill:
            return
        runs, self._runs = self._runs, []
        due = np.concatenate([run.due[0] for run in runs])
        order = np.argsort(due, kind="stable")
        rows = join_batches([run.taken for run in runs]).take(indexes(order))
        names = [str(number) for number in range(rows.num_columns + 1)]
        columns = [*rows.columns, from_numbers(due[order], pa.int64())]
        written = memory.mapped(pa.RecordBatch.from_arrays(columns, names=names))
        batch = make_batch(written.columns[:-1], rows.schema, rows.num_rows)
        self._files.append(
            _File(batch, numbers(written.column(rows.num_columns), np.int64), written.nbytes)
        )

    def steps(self, most: int, is_end: bool = False) -> list[int]:
        """Return increasing watermark times, so that each completes about `most` bytes of rows.

        The result is empty if no rows are in files.

        most: the approximate size of a step in bytes.
        is_end: whether all rows are to be taken, not only the rows that the watermark completes.
        """
        # Due times are sampled at every nth row of each file, 16 samples per step. Sorted, every
        # 16th sample is the end of a step. Example with 2 samples per step: the due times
        # [1, 2, 3, 4, 5, 6] and every = 1: sorted and then from index 1 in strides of 2 the steps
        # end at [2, 4, 6]; a watermark must exceed a due time, hence time + 1.
        if not self._files:
            return []
        (number,) = self._buffering.watermarks
        lead = self._buffering.lead
        limit = NEVER if is_end else self.watermarks.get(number, ALWAYS) - lead
        per_step = max(1, most * self.count // max(self.size, 1))
        every = max(1, per_step // _STEP_SAMPLES)
        sampled = [file.due[file.start : file.before(limit)[0] : every] for file in self._files]
        chosen = np.unique(np.sort(np.concatenate(sampled))[_STEP_SAMPLES - 1 :: _STEP_SAMPLES])
        return [
            time + 1 + lead
            for time in chosen.tolist()
            if time > ALWAYS and time + 1 + lead < min(limit + lead, NEVER)
        ]

    def add(self, batch: pa.RecordBatch, context: EvaluationContext) -> Late | None:
        """Add rows, except late ones, which are returned; None if none is late."""
        due = self._buffering.due(batch, context)
        late: Late | None = None
        is_late = self._before(due, 0)
        if is_late is not None and is_late.any():
            late = self._late(batch, due, is_late)
            on_time = ~is_late
            self._buffer(batch, np.flatnonzero(on_time), [item[on_time] for item in due])
        else:
            self._buffer(batch, np.arange(batch.num_rows), due)
        return late

    def put_back(self, batch: pa.RecordBatch, context: EvaluationContext) -> None:
        """Add rows that were in the buffer before, without checking whether they are late."""
        self._buffer(batch, np.arange(batch.num_rows), self._buffering.due(batch, context))

    def _late(self, batch: pa.RecordBatch, due: list[Indexes], is_late: Mask) -> Late:
        by = []
        for number, times in zip(self._buffering.watermarks, due, strict=True):
            known = times[is_late & (times > ALWAYS)]
            if number in self.watermarks:
                by.append((self.watermarks[number] - int(known.min()) if len(known) else 0, number))
        _, number = max(by)
        times = due[self._buffering.watermarks.index(number)]
        return Late(batch.filter(from_flags(is_late)), times[is_late], self.watermarks[number])

    def _before(self, due: list[Indexes], lead: int) -> Mask | None:
        """Return a mask of the rows that are due by the watermarks; None if no row can be.

        due: for each watermark, the due time of each row.
        lead: how much longer rows wait.
        """
        found: Mask | None = None
        for number, times in zip(self._buffering.watermarks, due, strict=True):
            if number in self.watermarks:
                here = times < self.watermarks[number] - lead
                found = here if found is None else found | here
        return found

    def _buffer(self, batch: pa.RecordBatch, rows: Indexes, due: list[Indexes]) -> None:
        """Add a run, merged with preceding runs that aren't larger, so that there are few runs."""
        if not len(rows):
            return
        self.count += len(rows)
        run = _run(batch, rows, due)
        while self._runs and len(self._runs[-1].rows) <= len(run.rows) < MAX_ROWS:
            last = self._runs.pop()
            both = join_batches([last.taken, run.taken])
            times = [np.concatenate(pair) for pair in zip(last.due, run.due, strict=True)]
            run = _run(both, np.arange(both.num_rows), times)
        self._runs.append(run)

    def advance(self, watermark: Watermark) -> bool:
        """Record a watermark; returns whether it is relevant and later than the one before."""
        if (
            watermark.column not in self._buffering.watermarks
            or watermark.time <= self.watermarks.get(watermark.column, ALWAYS)
        ):
            return False
        self.watermarks[watermark.column] = watermark.time
        return True

    def see(self, time: int) -> None:
        """Set the only watermark to `time`, which may be temporary."""
        (number,) = self._buffering.watermarks
        self.watermarks[number] = time

    def complete(self) -> list[pa.RecordBatch]:
        """Remove and return the rows that are complete."""
        return self._select(self._buffering.lead, is_taken=True)

    def due(self) -> list[pa.RecordBatch]:
        """Return, without removing them, the rows that are due if `lead` is disregarded."""
        return self._select(0, is_taken=False)

    def _select(self, lead: int, is_taken: bool) -> list[pa.RecordBatch]:
        found: list[_DueRun] = []
        retained: list[_DueRun] = []
        for run in self._runs:
            limits = [self.watermarks.get(number, ALWAYS) for number in self._buffering.watermarks]
            if all(
                first >= limit - lead or limit == ALWAYS
                for first, limit in zip(run.first, limits, strict=True)
            ):
                retained.append(run)
                continue
            mask = self._before(run.due, lead)
            assert mask is not None
            if mask.all():
                found.append(run)
            else:
                found.append(run.at(mask))
                retained.append(run.at(~mask))
        if is_taken:
            self._runs = retained
            self.count -= sum(len(run.rows) for run in found)
        return [*self._from_files(lead, is_taken), *(run.taken for run in found)]

    def _from_files(self, lead: int, is_taken: bool) -> list[pa.RecordBatch]:
        (number, *_) = self._buffering.watermarks
        if not self._files or number not in self.watermarks:
            return []
        found = []
        for file in self._files:
            end, rows = file.before(self.watermarks[number] - lead)
            if rows.num_rows:
                found.append(rows)
            if is_taken:
                file.start = end
                self.count -= rows.num_rows
        self._files = [file for file in self._files if file.left]
        return found

    def take_all(self) -> list[pa.RecordBatch]:
        """Remove and return all rows."""
        found = [*self._spilled_rows(), *(run.taken for run in self._runs)]
        self.clear()
        return found

    @property
    def count_in_memory(self) -> int:
        """The number of rows in memory."""
        return self.count - sum(file.left for file in self._files)

    def take_in_memory(self) -> list[pa.RecordBatch]:
        """Remove and return the rows in memory."""
        runs, self._runs = self._runs, []
        self.count -= sum(len(run.rows) for run in runs)
        return [run.taken for run in runs]

    def take_last_file(self, most_rows: int, most_bytes: int) -> pa.RecordBatch | None:
        """Remove and return the rows of the file that was written last.

        None if there is no file, or if it has more than `most_rows` rows or `most_bytes` bytes.
        """
        if not self._files or self._files[-1].left > most_rows or self._files[-1].size > most_bytes:
            return None
        file = self._files.pop()
        self.count -= file.left
        return file.batch.slice(file.start)

    def _spilled_rows(self) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            yield file.batch.slice(file.start)

    def clear(self) -> None:
        self._runs, self._files = [], []
        self.count = 0

    def watermark_state(self) -> Iterator[pa.RecordBatch]:
        """Yield the observed watermarks, for a snapshot."""
        if self.watermarks:
            known = sorted(self.watermarks.items())
            columns = [
                from_numbers(np.array(column, np.int64), pa.int64())
                for column in zip(*known, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def row_state(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, for a snapshot."""
        yield from self._spilled_rows()
        for run in self._runs:
            yield run.taken

    def restores_watermarks(self, batch: pa.RecordBatch) -> bool:
        """Restore watermarks from a batch of state; returns whether the batch contains watermarks.

        If several processors saved a watermark, the least time counts.
        """
        if batch.schema.names != _SCHEMA.names:
            return False
        for number, time in zip(
            *(numbers(column, np.int64).tolist() for column in batch.columns), strict=True
        ):
            self.watermarks[number] = min(time, self.watermarks.get(number, time))
        return True
