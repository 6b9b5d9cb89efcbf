"""A scan that also emits watermarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from runnel.connector import End, EventTimeMark, Pause, Source
from runnel.expressions.nodes import Expression
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.calc import Transform, compile_transform, works_slowly
from runnel.processors.sources.partition_watermarks import (
    CompiledTimeRule,
    PartitionTimes,
    TimeRule,
)
from runnel.processors.sources.scan import FAR_FUTURE, ScanMetaSupplier, ScanProcessor
from runnel.processors.sources.scan_state import SavedPartition, ScanShare


class WatermarkScanProcessor(ScanProcessor):
    """Emits watermarks after the rows that they were generated from."""

    def __init__(
        self,
        share: ScanShare,
        transform: Transform,
        cooperative: bool,
        slow: bool,
        rule: CompiledTimeRule,
    ) -> None:
        super().__init__(share, transform, cooperative, slow)
        self._rule = rule
        self._woken_at = 0

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._begin_times()

    def _begin_times(self) -> None:
        now, count = self.context.job.clock(), len(self._partitions)
        self._times = PartitionTimes(
            self._rule, count, now, f"{self.context.vertex}#{self.context.index}"
        )
        self._next_look = (
            now + self._rule.idle_after if count > 1 and self._rule.idle_after else FAR_FUTURE
        )

    def saved(self, number: int, is_open: bool) -> SavedPartition:
        item = super().saved(number, is_open)
        return (
            replace(
                item, watermark=self._times.watermark(number), is_idle=self._times.is_idle(number)
            )
            if is_open
            else item
        )

    def partitions_restored(self, known: Sequence[SavedPartition | None]) -> None:
        self._begin_times()
        for number, item in enumerate(known):
            if item is not None:
                self._times.restore(number, item.watermark, item.is_idle)

    def observe(self, partition: int, item: pa.RecordBatch | EventTimeMark | Pause | End) -> None:
        now = self.context.job.clock()
        if isinstance(item, pa.RecordBatch):
            self._times.read(partition, item, self.context.job.evaluation, now)
        elif isinstance(item, Pause):
            self._times.paused(partition, now, item.is_idle)
        elif isinstance(item, EventTimeMark):
            self._times.advance(partition, item.time, now)
        else:
            self._times.ended(partition)
        resumption = self._times.take_resumption()
        if resumption is not None:
            self._waiting.append(resumption)
        if now >= self._next_look:
            self._look_for_idle(now)

    def _look_for_idle(self, now: int) -> None:
        """Mark pausing partitions as idle, also while other partitions always have rows."""
        for item in self._open or ():
            if item.due > now:
                self._times.paused(item.number, now, False)
        self._next_look = self._times.next_idle() or now + self._rule.idle_after

    def drain(self) -> bool:
        """Offer the results that wait, then the watermarks that follow them."""
        if not super().drain():
            return False
        items = self._times.items
        while items:
            if not self.outbox.offer(items[0]):
                return False
            items.pop(0)
        return True

    def nothing_due(self, partitions: Sequence[int]) -> bool:
        now = self.context.job.clock()
        for partition in partitions:
            self._times.paused(partition, now, False)
        if not self.drain():
            return False
        idle_at = self._times.next_idle()
        # One pending wake-up is enough, as it requests the next one. Each row postpones the idle
        # time, so that requesting one for each row would result in many.
        if idle_at is not None and not now < self._woken_at <= idle_at:
            self._woken_at = idle_at
            self.context.wake_at(idle_at)
        return True


def event_time_scan(
    source: Source,
    condition: Expression | None,
    projections: tuple[Expression, ...] | None,
    names: tuple[str, ...],
    time: TimeRule,
) -> ScanMetaSupplier:
    """Like `scan`, but the processors also emit watermarks.

    time: how watermarks are generated; its expressions are over the requested columns.
    """
    transform = compile_transform(condition, projections, names)
    is_slow, rule = works_slowly(condition, projections), CompiledTimeRule(time)
    return ScanMetaSupplier(
        source,
        lambda share: WatermarkScanProcessor(share, transform, source.cooperative, is_slow, rule),
    )
