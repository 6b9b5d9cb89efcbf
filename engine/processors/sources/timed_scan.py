"""A scan that also emits watermarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from runnel.connector import EventTimeMark, Pause, Source
from runnel.expressions.nodes import Expression
from runnel.processors.calc import compile_transform, works_slowly
from runnel.processors.sources.partition_watermarks import (
    CompiledTimeRule,
    PartitionTimes,
    TimeRule,
)
from runnel.processors.sources.scan import (
    FAR_FUTURE,
    OpenPartition,
    ReadItem,
    ScanMetaSupplier,
    ScanObserver,
    ScanProcessor,
)
from runnel.processors.sources.scan_state import SavedPartition


class ScanWatermarks(ScanObserver):
    """Emits watermarks after the rows that they were generated from."""

    def __init__(self, rule: CompiledTimeRule) -> None:
        self._rule = rule
        self._woken_at = 0

    def init(self, scan: ScanProcessor, partitions: int) -> None:
        self._scan = scan
        self._context = scan.context
        self._begin(partitions)

    def _begin(self, partitions: int) -> None:
        context, idle_after = self._context, self._rule.idle_after
        now = context.job.clock()
        name = f"{context.vertex}#{context.index}"
        self._times = PartitionTimes(self._rule, partitions, now, name)
        self._next_look = now + idle_after if partitions > 1 and idle_after else FAR_FUTURE

    def saved(self, number: int, item: SavedPartition) -> SavedPartition:
        watermark, is_idle = self._times.watermark(number), self._times.is_idle(number)
        return replace(item, watermark=watermark, is_idle=is_idle)

    def restored(self, known: Sequence[SavedPartition | None]) -> None:
        self._begin(len(known))
        for number, item in enumerate(known):
            if item is not None:
                self._times.restore(number, item.watermark, item.is_idle)

    def observe(self, partition: OpenPartition, item: ReadItem) -> None:
        now, number = self._context.job.clock(), partition.number
        if isinstance(item, pa.RecordBatch):
            self._times.read(number, item, self._context.job.evaluation, now)
        elif isinstance(item, Pause):
            self._times.paused(number, now, item.is_idle)
        elif isinstance(item, EventTimeMark):
            self._times.advance(number, item.time, now)
        else:
            self._times.ended(number)
        resumption = self._times.take_resumption()
        if resumption is not None:
            self._scan.emit_item(resumption)
        if now >= self._next_look:
            self._look_for_idle(now)

    def _look_for_idle(self, now: int) -> None:
        """Mark pausing partitions as idle, also while other partitions always have rows."""
        for item in self._scan.open_partitions:
            if item.due > now:
                self._times.paused(item.number, now, False)
        self._next_look = self._times.next_idle() or now + self._rule.idle_after

    def offer(self) -> bool:
        items = self._times.items
        while items:
            if not self._scan.outbox.offer(items[0]):
                return False
            items.pop(0)
        return True

    def nothing_due(self, partitions: Sequence[OpenPartition]) -> None:
        now = self._context.job.clock()
        for partition in partitions:
            self._times.paused(partition.number, now, False)

    def wait(self) -> None:
        now, idle_at = self._context.job.clock(), self._times.next_idle()
        # One pending wake-up is enough, as it requests the next one. Each row postpones the idle
        # time, so that requesting one for each row would result in many.
        if idle_at is not None and not now < self._woken_at <= idle_at:
            self._woken_at = idle_at
            self._context.wake_at(idle_at)


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
        lambda share: ScanProcessor(share, transform, is_slow, ScanWatermarks(rule)),
    )
