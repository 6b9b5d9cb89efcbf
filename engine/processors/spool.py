"""Spools the rows of a shared input until the input has ended.

If one of several readers of the same rows waits for another reader, it needs a spool: without it
the waiting reader would block the producer. Rows that exceed the memory limit or MOST_BYTES are
stored in a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.storage.memory_budget import Memory, Reservation, size_of

if TYPE_CHECKING:
    from runnel.storage.spill import SpillFile

MOST_BYTES = 1 << 28
"""Maximum number of bytes of rows in memory, even without a memory limit."""


class SpoolProcessor(EmittingProcessor):
    """Buffers all its input, then emits it in the order of arrival."""

    holds_snapshots = True

    def __init__(self) -> None:
        super().__init__()
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._file: SpillFile | None = None
        self._reservation = Reservation(None)
        self._is_emitted = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._reservation = Reservation(context.job.memory)

    def state_size(self) -> tuple[int, int]:
        return self._rows, self._bytes

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += size_of(batch)
        self.check_accumulated(self._rows)
        if self._reservation.is_trifle(self._bytes):
            return
        self._reservation.set(self._bytes)
        if self._reservation.must_spill or self._bytes > MOST_BYTES:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = (self.context.job.memory or Memory()).file()
        for batch in self._batches:
            self._file.write(batch)
        self._batches, self._bytes = [], 0
        self._reservation.set(0)

    def complete(self) -> bool:
        if not self._is_emitted:
            self._is_emitted = True
            self.emit_all(self._spooled())
        return self.drain()

    def _spooled(self) -> Iterator[pa.RecordBatch]:
        if self._file is not None:
            yield from self._file.read()
            self._file.close()
        self._batches.reverse()
        while self._batches:
            yield self._batches.pop()
        self._reservation.release()

    def state(self) -> Iterator[pa.RecordBatch]:
        if self._file is not None and not self._is_emitted:
            yield from self._file.read()
        yield from self._batches

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.take(0, batch)

    def close(self) -> None:
        super().close()
        self._batches = []
        if self._file is not None:
            self._file.close()
        self._reservation.release()


def spool() -> ProcessorFactory:
    """Return a supplier of processors that spool their input until it has ended."""
    return SpoolProcessor
