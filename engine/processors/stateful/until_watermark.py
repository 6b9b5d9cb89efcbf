"""Processes rows when a watermark completes them. A RowCompletion computes the results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from runnel.columns.key_hash import keyed_state
from runnel.processor import Outbox, ProcessorContext, Watermark
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_rows import LateRows
from runnel.processors.stateful.row_buffer import CompiledBuffering, RowBuffer
from runnel.processors.stateful.state_account import StateAccount
from runnel.storage.memory_budget import Reservation

WEIGHT = 2
"""Bytes of memory that are needed per buffered byte, to sort rows."""

TAKEN_SHARE = 4
"""Completed rows are read from files in steps of 1/TAKEN_SHARE of the bytes that operators may
use."""


class RowCompletion(ABC):
    """The part of an UntilWatermarkProcessor that computes results from completed rows.

    Each processor has one of its own.
    """

    context: ProcessorContext
    buffer: RowBuffer
    reservation: Reservation

    def init(self, processor: UntilWatermarkProcessor) -> None:
        """Must be called when the processor is initialised."""
        self.context = processor.context
        self.buffer = processor.buffer
        self.reservation = processor.account.reservation

    @abstractmethod
    def results(self, batches: Sequence[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        """Yield the results of completed rows.

        most: the approximate total size of the batches in bytes, which is exceeded if all rows are
            due at the same time; 0: unknown.
        """

    def rows_added(self) -> None:
        """Rows were added to the buffer; it may remove rows that are not needed."""

    def before_spill(self) -> None:
        """The buffer is about to be spilled; it may remove rows that are not needed."""

    def close(self) -> None:
        """Release all resources. Called also if `init` was never called."""


class UntilWatermarkProcessor(EmittingProcessor):
    """Emits results of the rows that a watermark completes, and at the end of the remaining rows.

    buffering: how long rows wait.
    completion: computes the results.
    keys: the columns by which rows are partitioned among processors.
    emits_late: whether late rows are emitted on output 1.
    """

    def __init__(
        self,
        buffering: CompiledBuffering,
        completion: RowCompletion,
        keys: tuple[int, ...] = (),
        emits_late: bool = False,
    ) -> None:
        self.buffer = RowBuffer(buffering)
        self.late = LateRows(self, buffering.unit, emits_late)
        weight = WEIGHT if self.buffer.can_spill else 1
        self.account = StateAccount(self, "the rows that wait for the watermark", weight)
        super().__init__(self.late, self.account)
        self._completion = completion
        self._keys = keys
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._completion.init(self)

    def state_size(self) -> tuple[int, int]:
        return self.buffer.count, self.buffer.size

    def spilled_size(self) -> tuple[int, int]:
        return self.buffer.spilled_size

    def spill(self) -> None:
        if self.buffer.can_spill:
            self._completion.before_spill()
            self.buffer.spill(self.account.reservation.memory)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        late = self.buffer.add(batch, self.context.job.evaluation)
        if late is not None:
            late.report_to(self.late)
        self.check_accumulated(self.buffer.count)
        self._completion.rows_added()

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        if self.buffer.advance(watermark):
            self.emit_all(self._complete(watermark))
            if not self.drain():
                return False
        return self.outbox.offer(watermark)

    def complete(self) -> bool:
        if not self._is_done:
            if not self.drain():
                return False
            self._is_done = True
            self.emit_all(self._complete(None))
        return self.drain()

    def _complete(self, watermark: Watermark | None) -> Iterator[pa.RecordBatch]:
        """Yield the results of the rows that a recorded watermark completes (None: all rows)."""
        for most, complete in stepwise(self.buffer, watermark, self.account.reservation):
            yield from self._completion.results(complete, most)

    def state(self) -> Iterable[pa.RecordBatch]:
        """Yield the watermarks, then the rows, keyed by the columns that partition them."""
        yield from self.buffer.watermark_state()
        for batch in self.buffer.row_state():
            yield (
                keyed_state(batch, *(batch.schema.names[key] for key in self._keys))
                if self._keys
                else batch
            )

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        if not self.buffer.restores_watermarks(batch):
            self.buffer.put_back(batch, self.context.job.evaluation)
            self.account.add(batch)

    def close(self) -> None:
        super().close()
        self._completion.close()
        self.buffer.clear()


def stepwise(
    buffer: RowBuffer, watermark: Watermark | None, reservation: Reservation
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Remove the rows that a watermark completes from a buffer, in steps that fit into memory.

    Yields for each step its approximate maximum size in bytes, and the rows. Between the steps, the
    watermark of the buffer is set to the time up to which rows were removed.

    watermark: the watermark; None: all rows are removed.
    """
    most = reservation.memory.allowed // TAKEN_SHARE if reservation.is_limited else 0
    steps = buffer.steps(most, watermark is None)
    for time in steps:
        buffer.see(time)
        complete = buffer.complete()
        if complete:
            yield most, complete
    if watermark is None:
        complete = buffer.take_all()
    else:
        if steps:
            buffer.see(watermark.time)
        complete = buffer.complete()
    if complete:
        yield most, complete
