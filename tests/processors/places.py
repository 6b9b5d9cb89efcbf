"""A place for a processor to be in: contexts and an outbox, where `verify_processor` is too
much."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from runnel.expressions.context import EvaluationContext
from runnel.processor import Item, JobContext, ProcessorContext
from runnel.testing import ManualClock


class CollectingOutbox:
    """Takes everything, or `room` items."""

    def __init__(self, room: int | None = None) -> None:
        self.items: list[Item] = []
        self.room = room

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if self.room is not None and len(self.items) >= self.room:
            return False
        self.items.append(item)
        return True

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        raise AssertionError("no snapshot was asked for")

    @property
    def values(self) -> list[Any]:
        """The first column of all batches."""
        return [
            value
            for item in self.items
            if isinstance(item, pa.RecordBatch)
            for value in item.column(0).to_pylist()
        ]


class Wakes:
    """Counts wake-ups and remembers the times asked for."""

    def __init__(self) -> None:
        self.count = 0
        self.times: list[int] = []

    def wake(self) -> None:
        self.count += 1


def job_context(clock: Callable[[], int] | None = None, **options: Any) -> JobContext:
    return JobContext(1, EvaluationContext(), clock or ManualClock().monotonic, **options)


def place(
    job: JobContext | None = None, wakes: Wakes | None = None, index: int = 0, parallelism: int = 1
) -> tuple[CollectingOutbox, ProcessorContext]:
    """An outbox with room for everything, and a context."""
    wakes = wakes or Wakes()
    logger = logging.getLogger("tests")
    context = ProcessorContext(
        job or job_context(), "tested", index, parallelism, wakes.wake, wakes.times.append, logger
    )
    return CollectingOutbox(), context
