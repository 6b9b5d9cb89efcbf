"""The watermarks of a scan, generated from its rows and from marks of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from runnel.connector import EventTimeMark, Pause
from runnel.processor import Item, Outbox, ProcessorContext, SourceWatermark
from runnel.processors.sources.open_partition import FAR_FUTURE, OpenPartition, ReadItem
from runnel.processors.sources.partition_watermarks import CompiledTimeRule, PartitionTimes
from runnel.processors.sources.scan_state import SavedPartition
from runnel.watermarks import LeastWatermark


class ScanWatermarks:
    """Emits watermarks after the rows that they were generated from. A part of a ScanProcessor.

    least: the watermark of all processors of the source, if data moves between its partitions.
    """

    def __init__(self, rule: CompiledTimeRule, least: LeastWatermark | None = None) -> None:
        self._rule = rule
        self._least = least
        self._woken_at = 0

    def init(
        self,
        outbox: Outbox,
        context: ProcessorContext,
        partitions: int,
        describe: Callable[[], SourceWatermark],
    ) -> None:
        """Must be called when the scan is initialised.

        partitions: the number of partitions.
        describe: describes the watermark of this processor, for other threads.
        """
        self._outbox = outbox
        self._context = context
        if self._least is not None:
            self._least.join(context.index, context.wake, describe)
        self._begin(partitions)

    def _begin(self, partitions: int) -> None:
        context, idle_after = self._context, self._rule.idle_after
        now = context.job.clock()
        shared = None if self._least is None else (self._least, context.index)
        self._times = PartitionTimes(self._rule, partitions, now, shared)
        self._next_look = now + idle_after if partitions > 1 and idle_after else FAR_FUTURE

    def saved(self, number: int, item: SavedPartition) -> SavedPartition:
        """Return the state of an open partition, completed by its watermark."""
        watermark, is_idle = self._times.watermark(number), self._times.is_idle(number)
        return replace(item, watermark=watermark, is_idle=is_idle)

    def restored(self, known: Sequence[SavedPartition | None]) -> None:
        """The partitions were restored from a snapshot.

        known: the saved state of each partition; None if it is new.
        """
        self._begin(len(known))
        for number, item in enumerate(known):
            if item is not None:
                self._times.restore(number, item.watermark, item.is_idle)

    def observe(
        self, partition: OpenPartition, item: ReadItem, partitions: Sequence[OpenPartition]
    ) -> Item | None:
        """A partition returned an item, which is not emitted yet.

        Returns an item to emit before it, or None.

        partitions: the partitions that have not ended.
        """
        now, number = self._context.job.clock(), partition.number
        if isinstance(item, pa.RecordBatch):
            self._times.read(number, item, self._context.job.evaluation, now)
        elif isinstance(item, Pause):
            self._times.paused(number, now, item.is_idle, item.is_finished)
        elif isinstance(item, EventTimeMark):
            if item.has_other_data:
                self._times.has_other_data(number, now)
            self._times.advance(number, item.time, now)
        else:
            self._times.ended(number)
        resumption = self._times.take_resumption()
        if now >= self._next_look:
            self._look_for_idle(now, partitions)
        return resumption

    def _look_for_idle(self, now: int, partitions: Sequence[OpenPartition]) -> None:
        """Mark pausing partitions as idle, also while other partitions always have rows."""
        for item in partitions:
            if item.due > now:
                self._times.paused(item.number, now, False)
        self._next_look = self._times.next_idle() or now + self._rule.idle_after

    def common_watermark(self) -> SourceWatermark | None:
        """Describe the watermark of all processors of the source, for other threads; None if each
        has its own."""
        return None if self._least is None else self._least.describe()

    def source_watermark(self, names: Sequence[str], begun: Sequence[bool]) -> SourceWatermark:
        """Describe the watermark, for other threads; see `PartitionTimes.source_watermark`."""
        return self._times.source_watermark(names, begun)

    def offer(self) -> bool:
        """Offer the watermarks that follow the rows; returns false if the outbox is full."""
        self._times.follow()
        items = self._times.items
        while items:
            if not self._outbox.offer(items[0]):
                return False
            items.pop(0)
        return True

    def nothing_due(self, partitions: Sequence[OpenPartition]) -> None:
        """None of the partitions that have not ended is due."""
        now = self._context.job.clock()
        for partition in partitions:
            self._times.paused(partition.number, now, False)

    def wait(self) -> None:
        """Request a wake-up at the time at which a partition becomes idle."""
        now, idle_at = self._context.job.clock(), self._times.next_idle()
        # One pending wake-up is enough, as it requests the next one. Each row postpones the idle
        # time, so that requesting one for each row would result in many.
        if idle_at is not None and not now < self._woken_at <= idle_at:
            self._woken_at = idle_at
            self._context.wake_at(idle_at)
