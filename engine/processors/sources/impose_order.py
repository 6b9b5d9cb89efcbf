"""Watermarks for rows that don't come from a scan.

Such rows come from a generator, or from an operator that computes the event time.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.processor import (
    Inbox,
    Item,
    Outbox,
    Processor,
    ProcessorContext,
    SourceWatermark,
    Stateful,
    Watermark,
    WatermarkSource,
)
from runnel.processors.sources.partition_watermarks import (
    CompiledTimeRule,
    PartitionTimes,
    TimeRule,
)


class ImposeOrderProcessor(Processor, Stateful, WatermarkSource):
    """Emits its rows, each batch followed by a watermark. Its input counts as one partition."""

    def __init__(self, rule: CompiledTimeRule) -> None:
        self._rule = rule
        self._waiting: deque[Item] = deque()
        self._is_suspected = False
        self._restored: list[int | None] = []
        self._has_begun = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._times = PartitionTimes(self._rule, 1, context.job.clock())
        self.alarm = self._times.next_idle() or 0

    def process(self, ordinal: int, inbox: Inbox) -> None:
        self._is_suspected = False
        if not self._drain():
            return
        batch = inbox.poll()
        if batch is not None:
            self._has_begun = True
            self._times.read(0, batch, self.context.job.evaluation, self.context.job.clock())
            resumption = self._times.take_resumption()
            if resumption is not None:
                self._waiting.append(resumption)
            self._waiting.append(batch)
            self._drain()
            self.alarm = self._times.next_idle() or 0

    def source_watermark(self) -> SourceWatermark | None:
        return self._times.source_watermark([""], [self._has_begun])

    def on_alarm(self) -> bool:
        """At the second of two consecutive alarms the input is idle.

        One alarm isn't enough: while the outbox was full, rows may have waited in the inbox. They
        are processed between the two alarms.
        """
        now = self.context.job.clock()
        if not self._is_suspected:
            self._is_suspected, self.alarm = True, now
            return True
        self._times.paused(0, now, False)
        self.alarm = self._times.next_idle() or 0
        return self._drain()

    def _drain(self) -> bool:
        self._waiting.extend(self._times.items)
        self._times.items.clear()
        while self._waiting:
            if not self.outbox.offer(self._waiting[0]):
                return False
            self._waiting.popleft()
        return True

    def flush(self) -> bool:
        return self._drain()

    def process_watermark(self, watermark: Watermark) -> bool:
        """Emit watermarks with other numbers unchanged."""
        return self._drain() and (
            watermark.column == self._rule.rule.watermark or self.outbox.offer(watermark)
        )

    def complete_edge(self, ordinal: int) -> bool:
        return self._drain()

    def save_snapshot(self) -> bool:
        if not self._drain():
            return False
        times = pa.array([self._times.watermark(0)], pa.int64())
        return self.outbox.offer_snapshot(pa.RecordBatch.from_arrays([times], names=["watermark"]))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._restored.extend(batch.column(0).to_pylist())

    def finish_restore(self) -> bool:
        """Resume from the least watermark of all processors: rows of any of them may come here."""
        known = [time for time in self._restored if time is not None]
        if known and len(known) == len(self._restored):
            self._times.restore(0, min(known), is_idle=False)
        return True


def impose_order(rule: TimeRule) -> ProcessorFactory:
    """Return a supplier of processors that generate watermarks from their rows by `rule`."""
    compiled = CompiledTimeRule(rule)
    return lambda: ImposeOrderProcessor(compiled)
