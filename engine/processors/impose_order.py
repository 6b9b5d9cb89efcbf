"""Watermarks for rows that don't come from a scan: from a generator, or from an operator that computes the time."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.processor import Inbox, Item, Outbox, Processor, ProcessorContext, Watermark
from runnel.processors.event_time import LEAST_TIME, CompiledTimeRule, PartitionTimes, TimeRule


class ImposeOrder(Processor):
    """Passes on rows, each batch followed by a watermark. Its input is one partition."""

    def __init__(self, rule: CompiledTimeRule) -> None:
        self._rule = rule
        self._waiting: deque[Item] = deque()

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._times = PartitionTimes(self._rule, 1, context.job.clock())
        self.alarm = self._times.next_idle() or 0

    def process(self, ordinal: int, inbox: Inbox) -> None:
        if not self._drain():
            return
        batch = inbox.poll()
        if batch is not None:
            self._times.read(0, batch, self.context.job.evaluation, self.context.job.clock())
            self._waiting.append(batch)
            self._drain()
            self.alarm = self._times.next_idle() or 0

    def on_alarm(self) -> bool:
        self._times.paused(0, self.context.job.clock(), False)
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
        """Those of other columns go on as they are."""
        return self._drain() and (watermark.column == self._rule.rule.watermark or self.outbox.offer(watermark))

    def complete_edge(self, ordinal: int) -> bool:
        return self._drain()

    def save_snapshot(self) -> bool:
        if not self._drain():
            return False
        times = pa.array(self._times.positions(), pa.int64())
        return self.outbox.offer_snapshot(pa.RecordBatch.from_arrays([times], names=["watermark"]))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        for time in batch.column(0).to_pylist():
            if time > LEAST_TIME:
                self._times.restore(0, time)


def impose_order(rule: TimeRule) -> ProcessorFactory:
    """A supplier of processors that give watermarks of their input's rows by `rule`."""
    compiled = CompiledTimeRule(rule)
    return lambda: ImposeOrder(compiled)
