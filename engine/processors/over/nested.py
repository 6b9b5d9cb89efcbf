"""A processor inside another processor, which passes it batches and reads its results."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from threading import Event

import pyarrow as pa

from runnel.columns.batches import empty_columns
from runnel.processor import Item, Processor, ProcessorContext

PAUSE = 0.001
"""Seconds that a call may wait for the thread of another engine; other tasklets share the
worker."""


class _Inbox:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batches = deque([batch])

    def peek(self) -> pa.RecordBatch | None:
        return self._batches[0] if self._batches else None

    def poll(self) -> pa.RecordBatch | None:
        return self._batches.popleft() if self._batches else None

    def __len__(self) -> int:
        return len(self._batches)


class _Outbox:
    def __init__(self) -> None:
        self.items: deque[Item] = deque()

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if self.items:
            return False
        self.items.append(item)
        return True

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        return False


class Nested:
    """Drives `processor`, which has one input and needs no snapshots."""

    def __init__(self, processor: Processor, context: ProcessorContext) -> None:
        self._processor = processor
        self._outbox = _Outbox()
        self._woken = Event()
        inner = ProcessorContext(
            job=context.job,
            vertex=context.vertex,
            index=context.index,
            parallelism=context.parallelism,
            wake=self._woken.set,
            wake_at=context.wake_at,
            logger=context.logger,
        )
        processor.init(self._outbox, inner)

    def take(self, batch: pa.RecordBatch) -> None:
        inbox = _Inbox(batch)
        while len(inbox):
            self._processor.process(0, inbox)

    def results(self) -> Iterator[pa.RecordBatch]:
        """End the input, and yield the result batches; an empty batch while there is none yet."""
        is_complete = False
        while not is_complete:
            self._woken.clear()
            is_complete = self._processor.complete()
            if not self._outbox.items and not is_complete:
                self._woken.wait(PAUSE)
                yield empty_columns(0)
            while self._outbox.items:
                item = self._outbox.items.popleft()
                if isinstance(item, pa.RecordBatch):
                    yield item

    def close(self) -> None:
        self._processor.close()
