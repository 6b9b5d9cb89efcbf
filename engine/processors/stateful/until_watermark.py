"""The base of operators that process rows only when a watermark completes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from runnel.columns.batches import join_batches
from runnel.columns.key_hash import keyed_state
from runnel.processor import Watermark
from runnel.processors.stateful.late_output import LateOutputProcessor
from runnel.processors.stateful.row_buffer import CompiledBuffering, RowBuffer
from runnel.storage.memory_budget import Reservation

WEIGHT = 2
"""Bytes of memory that are needed per buffered byte, to sort rows."""

TAKEN_SHARE = 4
"""Completed rows are read from files in steps of 1/TAKEN_SHARE of the bytes that operators may
hold."""


class UntilWatermarkProcessor(LateOutputProcessor):
    """Emits `results` of the rows that a watermark completes, and at the end of the remaining rows.

    buffering: how long rows wait.
    keys: the columns by which rows are partitioned among processors.
    emits_late: whether late rows are emitted on output 1.
    """

    holds = "the rows that wait for the watermark"

    def __init__(
        self, buffering: CompiledBuffering, keys: tuple[int, ...] = (), emits_late: bool = False
    ) -> None:
        super().__init__(emits_late, buffering.unit)
        self.buffer = RowBuffer(buffering)
        self._keys = keys
        self._is_done = False

    def results(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results of completed rows."""
        raise NotImplementedError

    def state_size(self) -> tuple[int, int]:
        return self.buffer.count, self.buffer.size

    def results_of(self, batches: Sequence[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        """Yield the results of several batches of completed rows.

        most: their approximate total size in bytes, which is exceeded if all rows are due at the
            same time.
        """
        yield from self.results(join_batches(batches))

    def spilled_size(self) -> tuple[int, int]:
        return self.buffer.spilled_size

    @property
    def can_spill(self) -> bool:
        """Whether rows can be spilled to files."""
        return self.buffer.can_spill

    @property
    def weight(self) -> int:
        return WEIGHT if self.can_spill else 1

    def spill(self) -> None:
        if self.can_spill:
            self.buffer.spill(self._reservation.memory)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        late = self.buffer.add(batch, self.context.job.evaluation)
        if late is not None:
            self.note_late(late.rows.num_rows, late.due, late.watermark)
            self.emit_late(late.rows)
        self.check_accumulated(self.buffer.count)

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
        for most, complete in stepwise(self.buffer, watermark, self._reservation):
            yield from self.results_of(complete, most)

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
            self.account_for(batch)

    def close(self) -> None:
        super().close()
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
