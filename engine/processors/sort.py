"""ORDER BY, and the first rows of an order (top-N)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from runnel.batches import MAX_ROWS, join_batches
from runnel.dag import ProcessorFactory
from runnel.expressions.context import Frame
from runnel.expressions.nodes import Expression, SortKey
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.constants import row_count
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.ordering import Ordering

LEAST_BUFFER = 8192
"""A top-N sorts again when it holds twice the rows it needs, but not before it holds this many."""


class Sort(EmittingProcessor):
    """Holds all its input, then emits it in order; each of several processors sorts its own input.

    With a count, only rows that may still be among the first ones are held: once there are enough, the last of them bounds
    the first key of those that are taken in.
    """

    def __init__(self, ordering: Ordering, count: Expression | None, offset: Expression | None) -> None:
        super().__init__()
        self._ordering = ordering
        self._count = count
        self._offset = offset
        self._skip = 0
        self._needed: int | None = None
        self._batches: list[pa.RecordBatch] = []
        self._held = 0
        self._bound: pa.Scalar | None = None
        self._is_sorted = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
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
        self._held += batch.num_rows
        if self._needed is not None and self._held > max(2 * self._needed, LEAST_BUFFER):
            self._prune(self._needed)
        self.check_accumulated(self._held)

    def _prune(self, needed: int) -> None:
        """Keeps the first `needed` rows."""
        rows = join_batches(self._batches)
        columns = self._ordering.columns(self._frame(rows))
        first = self._ordering.indices(columns).slice(0, needed)
        self._batches = [rows.take(first)]
        self._held = len(first)
        if self._held:
            self._bound = columns[0][first[-1].as_py()]

    def complete(self) -> bool:
        if not self._is_sorted:
            self._is_sorted = True
            if self._batches and not self.is_satisfied:
                self.emit_all(self._in_order())
        return self.drain()

    def _in_order(self) -> Iterator[pa.RecordBatch]:
        rows = join_batches(self._batches)
        self._batches = []
        order = self._ordering.indices(self._ordering.columns(self._frame(rows)))
        end = len(order) if self._needed is None else min(len(order), self._needed)
        for start in range(self._skip, end, MAX_ROWS):
            yield rows.take(order.slice(start, min(MAX_ROWS, end - start)))

    def state(self) -> list[pa.RecordBatch]:
        """The rows that are held; once they are in order they are emitted before a snapshot, and nothing is left."""
        return self._batches

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.take(0, batch)

    def _frame(self, batch: pa.RecordBatch) -> Frame:
        return Frame(batch.columns, batch.num_rows, self.context.job.evaluation)

    def close(self) -> None:
        super().close()
        self._batches = []


def sort(keys: tuple[SortKey, ...], count: Expression | None, offset: Expression | None) -> ProcessorFactory:
    """A supplier of processors that emit their input ordered by `keys`, leaving out `offset` rows and then giving at most
    `count` (None: all)."""
    ordering = Ordering(keys)
    return lambda: Sort(ordering, count, offset)
