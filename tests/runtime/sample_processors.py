"""Processors for the runtime's tests, as a user would write them: they know nothing of the
runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from runnel.dag import DAG, between
from runnel.processor import (
    Inbox,
    Item,
    Outbox,
    Processor,
    ProcessorContext,
    StatelessProcessor,
    Watermark,
)


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], names=["x"])


def values_of(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch.column(0).to_pylist()]


class ItemSource(Processor):
    """Offers the given items, one after the other."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = list(items)
        self.place = 0

    def complete(self) -> bool:
        while self.place < len(self.items):
            if not self.outbox.offer(self.items[self.place]):
                return False
            self.place += 1
        return True

    def save_snapshot(self) -> bool:
        return self.outbox.offer_snapshot(numbers(self.place))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.place = batch.column(0)[0].as_py()


class Pass(StatelessProcessor):
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


class ToResults(Processor):
    """Hands batches to the job's results; swallows watermarks."""

    def process(self, ordinal: int, inbox: Inbox) -> None:
        results = self.context.job.results
        assert results is not None
        while (batch := inbox.peek()) is not None:
            if not results.offer(batch):
                return
            inbox.poll()

    def process_watermark(self, watermark: Watermark) -> bool:
        return True


class Collect(Processor):
    """A sink that keeps what it is told of, in order."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self.log.extend((ordinal, value) for value in values_of([batch]))

    def process_watermark(self, watermark: Watermark) -> bool:
        self.log.append(watermark)
        return True

    def complete_edge(self, ordinal: int) -> bool:
        self.log.append(("end", ordinal))
        return True

    def close(self) -> None:
        self.log.append("closed")


class BuildThenProbe(Processor):
    """Passes on rows of input 1 that are in input 0, which it must have to the end before; fails if
    it hasn't."""

    def __init__(self) -> None:
        self.built: set[int] = set()
        self.is_built = False
        self.waiting: pa.RecordBatch | None = None

    def process(self, ordinal: int, inbox: Inbox) -> None:
        if ordinal == 0:
            assert not self.is_built
            while (batch := inbox.poll()) is not None:
                self.built.update(values_of([batch]))
            return
        assert self.is_built
        while self.drain() and (batch := inbox.poll()) is not None:
            self.waiting = numbers(*(value for value in values_of([batch]) if value in self.built))

    def drain(self) -> bool:
        if self.waiting is not None and self.outbox.offer(self.waiting):
            self.waiting = None
        return self.waiting is None

    def complete_edge(self, ordinal: int) -> bool:
        self.is_built = self.is_built or ordinal == 0
        return self.drain()

    def flush(self) -> bool:
        return self.drain()

    def process_watermark(self, watermark: Watermark) -> bool:
        return self.drain() and self.outbox.offer(watermark)


class Recording(Processor):
    """Notes which of its methods are called, in a list shared by all; `fail_in` names one that
    raises."""

    def __init__(
        self, log: list[str], fail_in: str = "", error: BaseException | None = None
    ) -> None:
        self.log = log
        self.fail_in = fail_in
        self.error = error or ValueError("boom")

    def note(self, method: str) -> None:
        self.log.append(method)
        if method == self.fail_in:
            raise self.error

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self.note("init")

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while inbox.poll() is not None:
            self.note("process")

    def process_watermark(self, watermark: Watermark) -> bool:
        self.note("process_watermark")
        return True

    def flush(self) -> bool:
        self.note("flush")
        return True

    def complete_edge(self, ordinal: int) -> bool:
        self.note("complete_edge")
        return True

    def complete(self) -> bool:
        self.note("complete")
        return True

    def close(self) -> None:
        self.note("close")


def chain(*suppliers: Callable[[], Processor], parallelism: int = 1) -> DAG:
    """A DAG of vertices v0 → v1 → …"""
    dag = DAG()
    vertices = [dag.vertex(f"v{i}", supplier, parallelism) for i, supplier in enumerate(suppliers)]
    for source, target in pairwise(vertices):
        dag.edge(between(source, target))
    return dag


def source(*items: Item) -> Callable[[], ItemSource]:
    return lambda: ItemSource(items)
