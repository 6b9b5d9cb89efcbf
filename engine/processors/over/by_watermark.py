"""OVER on streams whose partitions a watermark completes: buffers rows until then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.columns.batches import empty_columns, join_batches, slices
from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import Expression
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.constants import constant
from runnel.processors.over.calls import CompiledWindow, by_arrangement
from runnel.processors.over.frames import check_offset
from runnel.processors.stateful.row_buffer import Buffering, CompiledBuffering
from runnel.processors.stateful.until_watermark import TAKEN_SHARE, UntilWatermarkProcessor
from runnel.relation.over import WindowCall

if TYPE_CHECKING:
    from runnel.processors.over.spilled import SpilledWindow

PRUNE_ROWS = 1 << 14
"""Smallest number of buffered rows at which rows that cannot be needed are removed."""


class EventTimeWindowProcessor(UntilWatermarkProcessor):
    """Computes the calls over the rows of the partitions that a watermark completes."""

    def __init__(
        self,
        plan: CompiledWindow,
        buffering: CompiledBuffering,
        keys: tuple[int, ...],
        emits_late: bool,
    ) -> None:
        super().__init__(buffering, keys, emits_late)
        self._plan = plan
        self._most = 0
        self._next_prune = PRUNE_ROWS
        self._window: SpilledWindow | None = None

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        for call in self._plan.calls:
            for bound in (call.frame.start, call.frame.end):
                if bound.offset is not None:
                    check_offset(bound, context.job.evaluation)
        if self._plan.most is not None:
            self._most = constant(self._plan.most[1], context.job.evaluation) or 0

    def spill(self) -> None:
        if self._plan.most is not None and self.can_spill:
            self._prune(self._plan.most[0], self._reservation.memory.allowed // TAKEN_SHARE)
        super().spill()

    def results_of(self, batches: Sequence[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        if not self.can_spill or not most or sum(batch.nbytes for batch in batches) <= 2 * most:
            yield from super().results_of(batches, most)
            return
        # Loaded on first use: few queries need it.
        from runnel.processors.over.spilled import SpilledWindow

        self._window = SpilledWindow(self._plan, self._reservation.memory, self.context)
        for batch in batches:
            for part in slices(batch):
                self._window.take(part)
                yield empty_columns(0)
        yield from self._window.results()
        self._window.close()
        self._window = None

    def close(self) -> None:
        super().close()
        if self._window is not None:
            self._window.close()

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        super().take(ordinal, batch)
        if self._plan.most is not None and self.buffer.count_in_memory > self._next_prune:
            self._prune(self._plan.most[0])

    def _prune(self, call: int, most_bytes: int = 0) -> None:
        """Remove the rows in memory that cannot be among the first `most` of their partition.

        With `most_bytes`, rows in small spill files are included, so that few such files remain.
        """
        in_memory = self.buffer.take_in_memory()
        if in_memory:
            rows = self._plan.first_rows(join_batches(in_memory), call, self._most, self.context)
            while (more := self.buffer.take_last_file(2 * rows.num_rows, most_bytes)) is not None:
                rows = self._plan.first_rows(
                    join_batches([more, rows]), call, self._most, self.context
                )
            self.buffer.put_back(rows, self.context.job.evaluation)
        self._expect_more()

    def _expect_more(self) -> None:
        self._next_prune = max(2 * self.buffer.count_in_memory, PRUNE_ROWS)

    def results(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._expect_more()
        yield from self._plan.results(rows, self.context)


def event_time_window(
    calls: tuple[WindowCall, ...],
    shape: tuple[int, tuple[str, ...]],
    buffering: Buffering,
    most: tuple[int, Expression] | None = None,
    keys: tuple[int, ...] = (),
    emits_late: bool = False,
) -> ProcessorFactory:
    """A supplier of processors that append the values of `calls` to the input rows.

    calls: all partition by the expressions that `buffering` bounds.
    shape: the number of input columns in the output, and the names of all output columns.
    keys: indexes of columns; rows that are equal in them must reach the same processor.
    most: as in `window.window`.
    emits_late: whether late rows are emitted on output 1.
    """
    width, names = shape
    plan = CompiledWindow(calls, by_arrangement(enumerate(calls)), width, names, most, None)
    compiled = CompiledBuffering(buffering)
    return lambda: EventTimeWindowProcessor(plan, compiled, keys, emits_late)
