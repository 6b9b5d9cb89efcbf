"""ORDER BY, also with LIMIT (top-N).

Rows are sorted as they arrive, in runs of a few hundred thousand rows, and the runs are merged at
the end, so that no call takes long. Runs that exceed the memory limit are merged into one run in a
file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, join_batches
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationInput
from runnel.expressions.nodes import Expression, SortKey
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.constants import row_count
from runnel.processors.sorting.ordering import Ordering
from runnel.processors.sorting.sorted_runs import Chunks, RunLayout, bounded, chunks, merged
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.storage.memory_budget import Reservation, size_of

if TYPE_CHECKING:
    from runnel.storage.spill import SpillFile

LEAST_BUFFER = 8192
"""Minimum number of rows that a top-N buffers before it drops rows.

It drops rows when it has buffered twice the number of rows that it needs.
"""

RUN_ROWS = 1 << 18
"""Number of rows from which the buffered rows are sorted into a run."""
RUN_BYTES = 1 << 28
"""Size in bytes from which the buffered rows are sorted into a run."""

MOST_FILES = 32
"""Maximum number of files that are merged at the same time."""


class SortProcessor(EmittingProcessor):
    """Buffers all its input, then emits it in order.

    Each of several processors sorts its own input.

    With a count, it retains only rows that may be among the first ones: after it has seen enough
    rows, the first key of the last needed row is a bound for further rows.
    """

    holds_snapshots = True

    def __init__(
        self, ordering: Ordering, count: Expression | None, offset: Expression | None
    ) -> None:
        super().__init__()
        self._ordering = ordering
        self._count = count
        self._offset = offset
        self._skip = 0
        self._needed: int | None = None
        self._batches: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._layout: RunLayout | None = None
        self._runs: list[pa.RecordBatch] = []
        self._run_rows = 0
        self._run_bytes = 0
        self._files: list[SpillFile] = []
        self._reservation = Reservation(None)
        self._bound: pa.Scalar | None = None
        self._is_sorted = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._reservation = Reservation(context.job.memory)
        evaluation = context.job.evaluation
        self._skip = row_count(self._offset, evaluation, "OFFSET") or 0
        count = row_count(self._count, evaluation, "LIMIT")
        if count is not None:
            self._needed = count + self._skip
            self.is_satisfied = count == 0

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self._bound is not None:
            keep = self._ordering.not_after(self._frame(batch), self._bound)
            if keep is not None:
                batch = batch.filter(keep)
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self._buffered_rows += batch.num_rows
        self._buffered_bytes += size_of(batch)
        if self._needed is not None and self._buffered_rows > max(2 * self._needed, LEAST_BUFFER):
            self._prune(self._needed)
        if self._buffered_rows >= RUN_ROWS or self._buffered_bytes >= RUN_BYTES:
            self._end_run()
        self.check_accumulated(self._buffered_rows + self._run_rows)
        size = self._buffered_bytes + self._run_bytes
        if not self._reservation.is_trifle(size):
            self._reservation.set(size)
            if self._reservation.must_spill:
                self._spill()

    def _prune(self, needed: int) -> None:
        """Retain only the first `needed` of the buffered rows, and set the bound."""
        rows = join_batches(self._batches)
        columns = self._ordering.columns(self._frame(rows))
        first = self._ordering.indices(columns).slice(0, needed)
        self._batches = [rows.take(first)]
        self._buffered_rows = len(first)
        self._buffered_bytes = size_of(self._batches[0])
        if self._buffered_rows:
            self._bound = columns[0][first[-1].as_py()]

    def _end_run(self) -> None:
        """Sort the rows that arrived since the last run into a new run."""
        if not self._batches:
            return
        rows = join_batches(self._batches)
        keys = self._ordering.columns(self._frame(rows))
        if self._layout is None:
            self._layout = RunLayout(
                rows.schema, [item.type for item in keys], self._ordering.directions
            )
        run = self._layout.run(rows, keys)
        if self._needed is not None:
            run = run.slice(0, self._needed)
        self._runs.append(run)
        self._run_rows += run.num_rows
        self._run_bytes += size_of(run)
        self._batches, self._buffered_rows, self._buffered_bytes = [], 0, 0

    def _spill(self) -> None:
        """Merge all rows in memory into one run in a file."""
        self._end_run()
        if self._runs and self._layout is not None:
            self._write(merged(self._layout, [chunks(run) for run in self._runs]))
        self._runs, self._run_rows, self._run_bytes = [], 0, 0
        self._reservation.set(0)
        if len(self._files) > MOST_FILES and self._layout is not None:
            files, self._files = self._files, []
            self._write(merged(self._layout, [file.read() for file in files]))
            for file in files:
                file.close()

    def _write(self, run: Chunks) -> None:
        file = self._reservation.memory.file()
        self._files.append(file)
        for chunk in run:
            file.write(chunk)

    def complete(self) -> bool:
        if not self._is_sorted:
            self._is_sorted = True
            if not self.is_satisfied:
                if self._runs or self._files:
                    self.emit_all(self._merged())
                elif self._batches:
                    self.emit_all(self._in_order())
        return self.drain()

    def _in_order(self) -> Iterator[pa.RecordBatch]:
        rows = join_batches(self._batches)
        self._batches = []
        order = self._ordering.indices(self._ordering.columns(self._frame(rows)))
        end = len(order) if self._needed is None else min(len(order), self._needed)
        for start in range(self._skip, end, MAX_ROWS):
            yield rows.take(order.slice(start, min(MAX_ROWS, end - start)))
        self._reservation.release()

    def _merged(self) -> Iterator[pa.RecordBatch]:
        if self._files:
            self._spill()
            sources = [file.read() for file in self._files]
        else:
            self._end_run()
            sources = [chunks(run) for run in self._runs]
        assert self._layout is not None
        count = None if self._needed is None else self._needed - self._skip
        rows = (self._layout.rows(chunk) for chunk in merged(self._layout, sources))
        yield from bounded(rows, self._skip, count)
        self._let_go()

    def state(self) -> Iterator[pa.RecordBatch]:
        """Yield the buffered rows.

        After the end of the input there is none: the sorted rows are emitted before the snapshot.
        """
        if self._is_sorted:
            return
        if self._layout is not None:
            for run in self._runs:
                yield self._layout.rows(run)
            for file in self._files:
                for chunk in file.read():
                    yield self._layout.rows(chunk)
        yield from self._batches

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.take(0, batch)

    def _frame(self, batch: pa.RecordBatch) -> EvaluationInput:
        return EvaluationInput(batch.columns, batch.num_rows, self.context.job.evaluation)

    def _let_go(self) -> None:
        self._batches, self._runs = [], []
        for file in self._files:
            file.close()
        self._files = []
        self._reservation.release()

    def close(self) -> None:
        super().close()
        self._let_go()


def sort(
    keys: tuple[SortKey, ...], count: Expression | None, offset: Expression | None
) -> ProcessorFactory:
    """Return a supplier of processors that emit their input ordered by `keys`.

    count: the number of rows to emit after `offset` rows; None: all.
    offset: the number of rows to skip; None: 0.
    """
    ordering = Ordering(keys)
    return lambda: SortProcessor(ordering, count, offset)
