"""A scan that gives watermarks beside the rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.connector import End, EventTimeMark, Pause, SourcePartition
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.calc import Transform
from runnel.processors.event_time import CompiledTimeRule, PartitionTimes, TimeRule
from runnel.processors.scan import FAR_FUTURE, Scan


def compile_time_rule(rule: TimeRule) -> CompiledTimeRule:
    """The rule made ready, for all scans of a plan."""
    return CompiledTimeRule(rule)


class TimedScan(Scan):
    """Watermarks follow the rows that they come from."""

    def __init__(
        self,
        partitions: Sequence[SourcePartition],
        transform: Transform,
        cooperative: bool,
        slow: bool,
        rule: CompiledTimeRule,
    ) -> None:
        super().__init__(partitions, transform, cooperative, slow)
        self._rule = rule
        self._count = len(partitions)
        self._woken_at = 0

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        now = context.job.clock()
        self._times = PartitionTimes(self._rule, self._count, now)
        self._next_look = now + self._rule.idle_after if self._count > 1 and self._rule.idle_after else FAR_FUTURE

    def observe(self, partition: int, item: pa.RecordBatch | EventTimeMark | Pause | End) -> None:
        now = self.context.job.clock()
        if isinstance(item, pa.RecordBatch):
            self._times.read(partition, item, self.context.job.evaluation, now)
        elif isinstance(item, Pause):
            self._times.paused(partition, now, item.is_idle)
        elif isinstance(item, EventTimeMark):
            self._times.promise(partition, item.time, now)
        else:
            self._times.ended(partition)
        if now >= self._next_look:
            self._look_for_idle(now)

    def _look_for_idle(self, now: int) -> None:
        """A partition that pauses becomes idle in time, also beside others that always have rows."""
        for item in self._open or ():
            if item.due > now:
                self._times.paused(item.number, now, False)
        self._next_look = self._times.next_idle() or now + self._rule.idle_after

    def drain(self) -> bool:
        """What waits, then the watermarks that follow it."""
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
        # One wake-up is enough: it asks for the next one. Each row moves the time, and with one for each there would be many.
        if idle_at is not None and not now < self._woken_at <= idle_at:
            self._woken_at = idle_at
            self.context.wake_at(idle_at)
        return True
