"""What most operators share: results that wait for room in the outbox."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, slices
from runnel.errors import OperationalError
from runnel.processor import Inbox, Item, Processor, Watermark

BATCHES_PER_CALL = 16
"""How many batches are made in one call at most. A queue that its consumer has closed takes
everything, so room alone is no bound."""

MAKING_TIME = 500_000
"""Nanoseconds after which a call makes no further batch."""


class EmittingProcessor(Processor):
    """Hands out batches in pieces of at most MAX_ROWS rows. Results come either from `emit` (few,
    at hand) or from `emit_all` (many, made one after the other as room allows). While any wait, no
    new input is taken."""

    def __init__(self) -> None:
        self._waiting: deque[Item] = deque()
        self._making: Iterator[pa.RecordBatch] | None = None
        self._saving: Iterator[pa.RecordBatch] | None = None
        self._refused: pa.RecordBatch | None = None

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        """Deals with one batch of input; `emit` or `emit_all` what comes of it."""
        raise NotImplementedError(f"{type(self).__name__}.take")

    def emit(self, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        if rows > MAX_ROWS:
            self._waiting.extend(slices(batch))
        elif rows:
            self._waiting.append(batch)

    def emit_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        """The batches are asked for one at a time, so that they needn't all be in memory at
        once."""
        assert self._making is None
        self._making = batches

    def drain(self) -> bool:
        """Offers what waits. False: not all yet, because the outbox is full or a cooperative call
        should end."""
        if not self._offer_waiting():
            return False
        if self._making is None:
            return True
        until = self.context.job.clock() + MAKING_TIME
        for _ in range(BATCHES_PER_CALL):
            made = next(self._making, None)
            if made is None:
                self._making = None
                return True
            self.emit(made)
            if not self._offer_waiting():
                return False
            if self.context.job.clock() > until:
                break
        self.context.wake()
        return False

    def _offer_waiting(self) -> bool:
        while self._waiting:
            if not self.outbox.offer(self._waiting[0]):
                return False
            self._waiting.popleft()
        return True

    def process(self, ordinal: int, inbox: Inbox) -> None:
        """Takes one batch: whoever calls sees how long that took, and goes on if there is time."""
        if self.drain():
            batch = inbox.poll()
            if batch is not None:
                self.take(ordinal, batch)
                self.drain()

    def flush(self) -> bool:
        return self.drain()

    def process_watermark(self, watermark: Watermark) -> bool:
        return self.drain() and self.outbox.offer(watermark)

    def complete_edge(self, ordinal: int) -> bool:
        return self.drain()

    def complete(self) -> bool:
        return self.drain()

    def state(self) -> Iterable[pa.RecordBatch]:
        """What `restore_snapshot` needs to go on from here, when nothing waits to be emitted. It is
        asked for bit by bit, and nothing else is called before it has all been given. What it gives
        doesn't change afterwards."""
        return ()

    def save_snapshot(self) -> bool:
        if self._saving is None:
            if not self.drain():
                return False
            self._saving = (piece for batch in self.state() for piece in _pieces(batch))
        until = self.context.job.clock() + MAKING_TIME
        while True:
            piece = next(self._saving, None) if self._refused is None else self._refused
            if piece is None:
                self._saving = None
                return True
            self._refused = None if self.outbox.offer_snapshot(piece) else piece
            if self._refused is not None:
                return False
            if self.context.job.clock() > until:
                self.context.wake()
                return False

    def check_accumulated(self, rows: int) -> None:
        """Fails where the processor holds more rows than the job allows."""
        limit = self.context.job.accumulation_limit
        if 0 < limit < rows:
            raise accumulated_too_much(self.context.vertex, limit)

    def close(self) -> None:
        self._waiting.clear()
        self._making = self._saving = self._refused = None


def _pieces(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """A batch that is short enough stays the same object, by which a snapshot knows what it has
    already."""
    return (batch,) if 0 < batch.num_rows <= MAX_ROWS else slices(batch)


def accumulated_too_much(vertex: str, limit: int) -> OperationalError:
    return OperationalError(
        f'vertex "{vertex}" would hold more than {limit} rows at once',
        hint=(
            "raise the setting max_processor_accumulated_records, of a job its option "
            "maxProcessorAccumulatedRecords; or let the query keep less (filter earlier, "
            "group by less)"
        ),
    )
