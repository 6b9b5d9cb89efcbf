"""Generates watermarks from the event times of the rows of a source's partitions.

The watermark of a partition is its greatest observed event time minus the allowed lag. It is
strictly increasing, until the partition continues with other data. A processor emits the minimum
over its partitions; if data moves between the partitions, the minimum over the partitions of all
processors. A partition that returned no rows for the idle timeout, or reports that it is at its end
for now, doesn't hold back the watermark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, numbers
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, compile_selection, evaluate
from runnel.expressions.nodes import Expression
from runnel.processor import Active, Idle, IdleOrigin, Item, SourceWatermark, Watermark
from runnel.watermarks import LeastWatermark, WatermarkCoalescer

IDLE_TIMEOUT = 1_000
"""The default idle timeout in milliseconds."""

LEAST_TIME = -(1 << 62)
"""A watermark is greater than this, so that offsets of bounds can be added without overflow."""
GREATEST_TIME = 1 << 62
"""A watermark is at most this, for the same reason."""

EARLIEST = -(1 << 63)
"""The least possible event time."""
LATEST = (1 << 63) - 1
"""The greatest possible event time."""


@frozen
class TimeRule:
    """How watermarks are generated from a batch.

    time: the event time, an expression over the columns of the batch.
    condition: only rows for which it is true count; None: all rows.
    lag: the difference between the greatest event time and the watermark, in units of event time.
    watermark: the number of the watermark.
    idle_timeout: in milliseconds; None: IDLE_TIMEOUT; 0: a partition is never idle.
    """

    time: Expression
    condition: Expression | None
    lag: int
    watermark: int
    idle_timeout: int | None = None


def event_times(column: pa.Array) -> pa.Array:
    """Convert a column of event times to int64.

    Integers remain unchanged, temporal values become microseconds since 1970, NULL stays NULL.
    """
    kind = column.type
    if pa.types.is_integer(kind):
        return column if kind == pa.int64() else column.cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.timestamp("us")).cast(pa.int64())
    return column.view(pa.int64())


def less(times: Indexes, by: int) -> Indexes:
    """Subtract a number from times; a result outside of int64 becomes EARLIEST or LATEST."""
    with np.errstate(over="ignore"):
        found: Indexes = times - by
    if by > 0:
        found[found > times] = EARLIEST
    elif by < 0:
        found[found < times] = LATEST
    return found


class CompiledTimeRule:
    """A compiled TimeRule, shared by executions.

    rule: the rule.
    idle_after: the idle timeout in nanoseconds; 0: a partition is never idle.
    """

    def __init__(self, rule: TimeRule) -> None:
        self.rule = rule
        self._time = compile_expression(rule.time)
        self._select = None if rule.condition is None else compile_selection(rule.condition)
        timeout = IDLE_TIMEOUT if rule.idle_timeout is None else rule.idle_timeout
        self.idle_after = timeout * 1_000_000

    def greatest(self, batch: pa.RecordBatch, context: EvaluationContext) -> int | None:
        """Return the greatest event time of a batch; None if it has none."""
        if self._select is not None:
            batch = self._select(batch, context)
        if not batch.num_rows:
            return None
        found = evaluate(self._time, EvaluationInput(batch.columns, batch.num_rows, context))
        times = event_times(found)
        if not times.null_count:
            return int(numbers(times, np.int64).max())
        greatest: int | None = pc.max(times).as_py()
        return greatest


class PartitionTimes:
    """The watermarks of the partitions of one processor.

    Partitions are numbered from 0. The methods add items to `items`, which must be offered in order
    after the rows that were read before. The parameter `now` is a monotonic time in nanoseconds.
    """

    def __init__(
        self,
        rule: CompiledTimeRule,
        count: int,
        now: int,
        shared: tuple[LeastWatermark, int] | None = None,
    ) -> None:
        """Begin without watermarks.

        count: the number of partitions.
        shared: the watermark of all processors of the source, which is emitted in place of the
            minimum over these partitions, and the number of the processor; None: there is none.
        """
        self._rule = rule
        self._shared = shared
        self._followed: int | None = None
        self._origin = IdleOrigin()
        self._is_reported_idle = False
        self._resumption: Active | None = None
        self._coalescer = WatermarkCoalescer(count, "a source")
        self._last = [LEAST_TIME] * count
        self._idle_at = [now + rule.idle_after] * count
        self._is_idle = [False] * count
        self.items: list[Item] = []

    def read(
        self, partition: int, batch: pa.RecordBatch, context: EvaluationContext, now: int
    ) -> None:
        """Process the event times of a batch that a partition returned."""
        self._active(partition, now)
        greatest = self._rule.greatest(batch, context)
        if greatest is not None:
            self._advance(partition, greatest - self._rule.rule.lag)

    def advance(self, partition: int, time: int, now: int) -> None:
        """Process a mark of the source: later rows of the partition have no earlier event times."""
        self._active(partition, now)
        self._advance(partition, time)

    def has_other_data(self, partition: int, now: int) -> None:
        """Process that a partition continues with other data, and has no watermark until it returns
        rows."""
        self._active(partition, now)
        self._last[partition] = LEAST_TIME
        self._coalescer.forget(partition)
        self._report()

    def paused(self, partition: int, now: int, at_end: bool, is_finished: bool = False) -> None:
        """Process that a partition has no rows now.

        at_end: it expects none soon.
        is_finished: its data has ended, so that it is idle even if the idle timeout is 0.
        """
        if self._is_idle[partition] or not (self._rule.idle_after or is_finished):
            return
        if at_end or is_finished or now >= self._idle_at[partition]:
            self._is_idle[partition] = True
            self._add(self._coalescer.idle(partition))

    def ended(self, partition: int) -> None:
        """Process the end of a partition."""
        self._is_idle[partition] = True
        self._add(self._coalescer.done(partition))

    def take_resumption(self) -> Active | None:
        """Remove and return the item to offer before the rows that were read last.

        There is one only if these rows are the first ones after an idle time.
        """
        found, self._resumption = self._resumption, None
        return found

    def _add(self, items: Sequence[Watermark | Idle]) -> None:
        self._report()
        self.follow()
        for item in items:
            if isinstance(item, Idle):
                self._is_reported_idle = True
                self.items.append(Idle({self._origin: self._origin.resumptions}))
            elif self._shared is None:
                self.items.append(item)

    def _report(self) -> None:
        """Report the minimum over these partitions, if there is a watermark of all processors."""
        if self._shared is None:
            return
        shared, processor = self._shared
        number, greatest = self.holder(), max(self._last, default=LEAST_TIME)
        shared.report(
            processor,
            None if number is None else self.watermark(number),
            number is not None,
            greatest if greatest > LEAST_TIME else None,
        )

    def follow(self) -> None:
        """Add the watermark of all processors if it has increased. While this processor is idle, it
        adds none, since an idle input that sends a watermark counts again."""
        if self._shared is None or self._is_reported_idle:
            return
        if not self._last:
            self._report()  # without partitions it reports at no other time
        time = self._shared[0].time
        if time is not None and (self._followed is None or time > self._followed):
            self._followed = time
            self.items.append(Watermark(time, self._rule.rule.watermark))

    def next_idle(self) -> int | None:
        """Return when the next partition without rows becomes idle; None if there is none."""
        if not self._rule.idle_after:
            return None
        return min(
            (at for at, idle in zip(self._idle_at, self._is_idle, strict=True) if not idle),
            default=None,
        )

    def watermark(self, partition: int) -> int | None:
        """Return the watermark of a partition; None if it has none."""
        time = self._last[partition]
        return time if time > LEAST_TIME else None

    def is_idle(self, partition: int) -> bool:
        return self._is_idle[partition]

    def emitted(self) -> int | None:
        """Return the last watermark of the processor; None if there is none. From any thread."""
        if self._shared is not None:
            return self._followed
        return self._coalescer.emitted(self._rule.rule.watermark)

    def holder(self) -> int | None:
        """Return the partition that holds back the watermark of the processor.

        None if all partitions are idle or have ended. From any thread.
        """
        return self._coalescer.watermark_holder(self._rule.rule.watermark)

    def source_watermark(self, names: Sequence[str], begun: Sequence[bool]) -> SourceWatermark:
        """Describe the watermark of the processor, and the partition that holds it back.

        names: the name of each partition; "" for an only partition.
        begun: whether something was read from each partition.
        """
        number = self.holder()
        # Another thread calls this while a restore may replace the partitions.
        if number is None or number >= min(len(names), len(begun), len(self._last)):
            return SourceWatermark(self.emitted(), is_waiting=False)
        note = ""
        if self.watermark(number) is None:
            note = "no event time yet" if begun[number] else "no rows yet"
        return SourceWatermark(self.emitted(), True, names[number], note)

    def restore(self, partition: int, time: int | None, is_idle: bool) -> None:
        """Resume with the watermark of a partition; a partition that was idle remains idle."""
        if time is not None:
            self._advance(partition, time)
        if is_idle:
            self._is_idle[partition] = True
            self._add(self._coalescer.idle(partition))

    def _active(self, partition: int, now: int) -> None:
        self._idle_at[partition] = now + self._rule.idle_after
        if self._is_idle[partition]:
            self._is_idle[partition] = False
            self._coalescer.active(partition)
            self._report()
        if self._is_reported_idle:
            self._is_reported_idle = False
            self._origin.resumptions += 1
            self._resumption = Active(self._origin, self._origin.resumptions)
            self.follow()

    def _advance(self, partition: int, time: int) -> None:
        time = min(time, GREATEST_TIME)
        if time > self._last[partition]:
            self._last[partition] = time
            self._add(
                self._coalescer.observe(partition, Watermark(time, self._rule.rule.watermark))
            )
