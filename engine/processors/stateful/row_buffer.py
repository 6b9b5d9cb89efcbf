"""Rows that wait until they are complete: until a watermark says that a bounded column takes their
value no more.

Where memory has no room for them they go to files, in the order in which they will be complete.
What a watermark completes of these may be more than memory has room for, too: then it is taken in
steps, as if the watermark had come in several.
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
from runnel.expressions.context import EvaluationContext, Frame
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.processor import Watermark
from runnel.processors.sources.partition_watermarks import event_times, less
from runnel.relation.streams import TimeBound
from runnel.storage.memory_budget import Memory, size_of

NEVER = np.iinfo(np.int64).max
ALWAYS = np.iinfo(np.int64).min

_SEEN = "$seen"
_SCHEMA = pa.schema([pa.field("$watermark", pa.int64()), pa.field(_SEEN, pa.int64())])


@frozen
class Holding:
    """How long rows wait: until one of the `bounds`, each that of an expression over the rows, is
    below its watermark. `lead`: how much longer, in event time, though they are late already
    without it. Rows without a value wait for the end, or (`nulls_first`) are due before all
    others."""

    bounds: tuple[tuple[Expression, TimeBound], ...]
    lead: int = 0
    nulls_first: bool = False


@frozen
class Late:
    """Rows that came too late: the least time at which one was due, and the watermark."""

    rows: pa.RecordBatch
    due: int
    watermark: int


class CompiledHolding:
    """A Holding made ready, shared by executions."""

    def __init__(self, holding: Holding) -> None:
        self.lead = holding.lead
        self.unit = "" if holding.bounds[0][0].type.is_integer else "µs"
        self.watermarks = sorted({bound.watermark for _, bound in holding.bounds})
        self._null = ALWAYS if holding.nulls_first else NEVER
        self._bounds: list[list[tuple[Evaluator, int]]] = [
            [
                (compile_expression(item), bound.offset)
                for item, bound in holding.bounds
                if bound.watermark == number
            ]
            for number in self.watermarks
        ]

    def due(self, batch: pa.RecordBatch, context: EvaluationContext) -> list[Indexes]:
        """For each watermark the time that it must exceed for each row to be due."""
        frame = Frame(batch.columns, batch.num_rows, context)
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
class _Run:
    """Rows that wait: those at `rows` of a batch, and for each watermark when they are due."""

    batch: pa.RecordBatch
    rows: Indexes
    due: list[Indexes]
    first: list[int]
    last: list[int]

    def at(self, mask: Mask) -> _Run:
        return _run(self.batch, self.rows[mask], [item[mask] for item in self.due])

    @property
    def taken(self) -> pa.RecordBatch:
        return (
            self.batch
            if len(self.rows) == self.batch.num_rows
            else self.batch.take(indexes(self.rows))
        )


def _run(batch: pa.RecordBatch, rows: Indexes, due: list[Indexes]) -> _Run:
    if 2 * len(rows) < batch.num_rows:
        batch, rows = batch.take(indexes(rows)), np.arange(len(rows))
    return _Run(
        batch, rows, due, [int(item.min()) for item in due], [int(item.max()) for item in due]
    )


@dataclass(slots=True)
class _File:
    """Rows in a file, in the order of when they are due; those before `start` were taken."""

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
        """The rows that are due before a time, and where they end."""
        end = max(self.start, int(np.searchsorted(self.due, limit)))
        return end, self.batch.slice(self.start, end - self.start)


_STEP_SAMPLES = 16
"""Due times are looked at so many times per step."""


class HeldRows:
    """The rows of one processor. `count` of them wait."""

    def __init__(self, holding: CompiledHolding) -> None:
        self._holding = holding
        self._runs: list[_Run] = []
        self._files: list[_File] = []
        self.seen: dict[int, int] = {}
        self.count = 0

    @property
    def size(self) -> int:
        """About how many bytes they take."""
        held = sum(size_of(run.batch) + 16 * len(run.rows) for run in tuple(self._runs))
        return held + self.spilled_size[1]

    @property
    def spilled_size(self) -> tuple[int, int]:
        """How many rows and bytes of that are in files."""
        files = tuple(self._files)
        return sum(file.left for file in files), sum(file.size for file in files)

    @property
    def can_spill(self) -> bool:
        """Whether one order is that in which all rows are due."""
        return len(self._holding.watermarks) == 1

    def spill(self, memory: Memory) -> None:
        """Puts the rows that are in memory into a file."""
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
        """Times of the watermark, in order, up to which rows are to be taken one after the other so
        that each time they take about so many bytes. None are needed where nothing is in files.
        `is_end`: not only what the watermark completes is taken, but all."""
        if not self._files:
            return []
        (number,) = self._holding.watermarks
        lead = self._holding.lead
        limit = NEVER if is_end else self.seen.get(number, ALWAYS) - lead
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
        """Takes in rows, but for those that are late, of which it tells."""
        due = self._holding.due(batch, context)
        late: Late | None = None
        is_late = self._before(due, 0)
        if is_late is not None and is_late.any():
            late = self._late(batch, due, is_late)
            kept = ~is_late
            self._hold(batch, np.flatnonzero(kept), [item[kept] for item in due])
        else:
            self._hold(batch, np.arange(batch.num_rows), due)
        return late

    def put_back(self, batch: pa.RecordBatch, context: EvaluationContext) -> None:
        """Takes in rows that were held before."""
        self._hold(batch, np.arange(batch.num_rows), self._holding.due(batch, context))

    def _late(self, batch: pa.RecordBatch, due: list[Indexes], is_late: Mask) -> Late:
        by = []
        for number, times in zip(self._holding.watermarks, due, strict=True):
            known = times[is_late & (times > ALWAYS)]
            if number in self.seen:
                by.append((self.seen[number] - int(known.min()) if len(known) else 0, number))
        most, number = max(by)
        return Late(batch.filter(from_flags(is_late)), self.seen[number] - most, self.seen[number])

    def _before(self, due: list[Indexes], lead: int) -> Mask | None:
        """Which rows are due, by the watermarks that were seen; None: none can be."""
        found: Mask | None = None
        for number, times in zip(self._holding.watermarks, due, strict=True):
            if number in self.seen:
                here = times < self.seen[number] - lead
                found = here if found is None else found | here
        return found

    def _hold(self, batch: pa.RecordBatch, rows: Indexes, due: list[Indexes]) -> None:
        """Small runs are put together, so that there are few."""
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
        """Notes a watermark. Whether it is news."""
        if watermark.column not in self._holding.watermarks or watermark.time <= self.seen.get(
            watermark.column, ALWAYS
        ):
            return False
        self.seen[watermark.column] = watermark.time
        return True

    def see(self, time: int) -> None:
        """The only watermark counts as being there for now."""
        (number,) = self._holding.watermarks
        self.seen[number] = time

    def complete(self) -> list[pa.RecordBatch]:
        """The rows that are complete now; they wait no more."""
        return self._select(self._holding.lead, is_taken=True)

    def due(self) -> list[pa.RecordBatch]:
        """The rows that wait, though no later one will be due before them."""
        return self._select(0, is_taken=False)

    def _select(self, lead: int, is_taken: bool) -> list[pa.RecordBatch]:
        found: list[_Run] = []
        kept: list[_Run] = []
        for run in self._runs:
            limits = [self.seen.get(number, ALWAYS) for number in self._holding.watermarks]
            if all(
                first >= limit - lead or limit == ALWAYS
                for first, limit in zip(run.first, limits, strict=True)
            ):
                kept.append(run)
                continue
            mask = self._before(run.due, lead)
            assert mask is not None
            if mask.all():
                found.append(run)
            else:
                found.append(run.at(mask))
                kept.append(run.at(~mask))
        if is_taken:
            self._runs = kept
            self.count -= sum(len(run.rows) for run in found)
        return [*self._from_files(lead, is_taken), *(run.taken for run in found)]

    def _from_files(self, lead: int, is_taken: bool) -> list[pa.RecordBatch]:
        (number, *_) = self._holding.watermarks
        if not self._files or number not in self.seen:
            return []
        found = []
        for file in self._files:
            end, rows = file.before(self.seen[number] - lead)
            if rows.num_rows:
                found.append(rows)
            if is_taken:
                file.start = end
                self.count -= rows.num_rows
        self._files = [file for file in self._files if file.left]
        return found

    def take_all(self) -> list[pa.RecordBatch]:
        """All rows that wait; they do no more."""
        found = [*self._spilled_rows(), *(run.taken for run in self._runs)]
        self.clear()
        return found

    @property
    def count_in_memory(self) -> int:
        """How many rows wait that are in no file."""
        return self.count - sum(file.left for file in self._files)

    def take_held(self) -> list[pa.RecordBatch]:
        """The rows that are in memory; they wait no more."""
        runs, self._runs = self._runs, []
        self.count -= sum(len(run.rows) for run in runs)
        return [run.taken for run in runs]

    def take_last_file(self, most_rows: int, most_bytes: int) -> pa.RecordBatch | None:
        """The rows of the file that was written last, unless there are more than so many, which
        then wait no more."""
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
        """The watermarks that were seen, for a snapshot."""
        if self.seen:
            known = sorted(self.seen.items())
            columns = [
                from_numbers(np.array(column, np.int64), pa.int64())
                for column in zip(*known, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def row_state(self) -> Iterator[pa.RecordBatch]:
        """The rows that wait, for a snapshot."""
        yield from self._spilled_rows()
        for run in self._runs:
            yield run.taken

    def restores_watermarks(self, batch: pa.RecordBatch) -> bool:
        """Whether a batch of state is about watermarks, which it takes in then: of several
        processors', the least."""
        if batch.schema.names != _SCHEMA.names:
            return False
        for number, time in zip(
            *(numbers(column, np.int64).tolist() for column in batch.columns), strict=True
        ):
            self.seen[number] = min(time, self.seen.get(number, time))
        return True
