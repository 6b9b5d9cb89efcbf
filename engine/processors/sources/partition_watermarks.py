"""Watermarks at their origin: what the partitions of a source promise, from the event times of
their rows.

Each partition's watermark is the greatest event time seen in it less the allowed lag, and strictly
increasing; what is passed on is the minimum over the partitions of one processor. A partition that
gave nothing for the idle time-out, or says that it is at its end for now, doesn't hold back the
others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, numbers
from runnel.expressions.context import EvaluationContext, Frame
from runnel.expressions.evaluate import compile_expression, compile_selection, evaluate
from runnel.expressions.nodes import Expression
from runnel.processor import ACTIVE, Active, Idle, Item, Watermark
from runnel.watermarks import WatermarkCoalescer

IDLE_TIMEOUT = 1_000
"""Milliseconds, where nothing else is said."""

LEAST_TIME = -(1 << 62)
GREATEST_TIME = 1 << 62
"""Event times beyond these say nothing: a watermark stays within them, so that bounds may be added
to it."""

EARLIEST = -(1 << 63)
LATEST = (1 << 63) - 1
"""The least and the greatest event time that there may be."""


@frozen
class TimeRule:
    """How event times are found in a batch: `time` (an expression over its columns) of the rows for
    which `condition` is true (None: all). `lag` in units of event time; `watermark` is its number;
    `idle_timeout` in milliseconds (None: IDLE_TIMEOUT; 0: a partition is never idle)."""

    time: Expression
    condition: Expression | None
    lag: int
    watermark: int
    idle_timeout: int | None = None


def event_times(column: pa.Array) -> pa.Array:
    """Event times as int64: integers as they are, temporal values as microseconds since 1970. NULL
    stays NULL."""
    kind = column.type
    if pa.types.is_integer(kind):
        return column if kind == pa.int64() else column.cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.timestamp("us")).cast(pa.int64())
    return column.view(pa.int64())


def less(times: Indexes, by: int) -> Indexes:
    """Times less a number; what is out of int64's range is as far out as can be."""
    with np.errstate(over="ignore"):
        found: Indexes = times - by
    if by > 0:
        found[found > times] = EARLIEST
    elif by < 0:
        found[found < times] = LATEST
    return found


class CompiledTimeRule:
    """A TimeRule made ready, shared by executions."""

    def __init__(self, rule: TimeRule) -> None:
        self.rule = rule
        self._time = compile_expression(rule.time)
        self._select = None if rule.condition is None else compile_selection(rule.condition)
        timeout = IDLE_TIMEOUT if rule.idle_timeout is None else rule.idle_timeout
        self.idle_after = timeout * 1_000_000

    def greatest(self, batch: pa.RecordBatch, context: EvaluationContext) -> int | None:
        """The greatest event time of a batch; None where there is none."""
        if self._select is not None:
            batch = self._select(batch, context)
        if not batch.num_rows:
            return None
        found = evaluate(self._time, Frame(batch.columns, batch.num_rows, context))
        times = event_times(found)
        if not times.null_count:
            return int(numbers(times, np.int64).max())
        greatest: int | None = pc.max(times).as_py()
        return greatest


class PartitionTimes:
    """The watermarks of the partitions, numbered from 0, of one processor. What the methods add to
    `items` is to be offered, in order, after the rows that were read before. `now` is monotonic
    ns."""

    def __init__(self, rule: CompiledTimeRule, count: int, now: int, origin: str = "") -> None:
        """`origin`: the name under which the processor tells its idleness."""
        self._rule = rule
        self._origin = origin
        self._is_told_idle = False
        self._resumptions = 0
        self._resumption: Active | None = None
        self._coalescer = WatermarkCoalescer(count, "a source")
        self._last = [LEAST_TIME] * count
        self._idle_at = [now + rule.idle_after] * count
        self._is_idle = [False] * count
        self.items: list[Item] = []

    def read(
        self, partition: int, batch: pa.RecordBatch, context: EvaluationContext, now: int
    ) -> None:
        """A partition gave rows."""
        self._active(partition, now)
        greatest = self._rule.greatest(batch, context)
        if greatest is not None:
            self._advance(partition, greatest - self._rule.rule.lag)

    def promise(self, partition: int, time: int, now: int) -> None:
        """The source itself says that a partition has no earlier event times from here on."""
        self._active(partition, now)
        self._advance(partition, time)

    def paused(self, partition: int, now: int, at_end: bool) -> None:
        """A partition has nothing now; `at_end`: it expects nothing soon."""
        if self._is_idle[partition] or not self._rule.idle_after:
            return
        if at_end or now >= self._idle_at[partition]:
            self._is_idle[partition] = True
            self._add(self._coalescer.idle(partition))

    def ended(self, partition: int) -> None:
        self._is_idle[partition] = True
        self._add(self._coalescer.done(partition))

    def take_resumption(self) -> Active | None:
        """What is to be offered before the rows that were read last, if these are the first after
        an idle time."""
        found, self._resumption = self._resumption, None
        return found

    def _add(self, items: Sequence[Watermark | Idle]) -> None:
        for item in items:
            if isinstance(item, Idle):
                self._is_told_idle = True
                self.items.append(Idle({self._origin: self._resumptions} if self._origin else None))
            else:
                self.items.append(item)

    def next_idle(self) -> int | None:
        """When the next of the partitions that pause becomes idle; None if there is none."""
        if not self._rule.idle_after:
            return None
        return min(
            (at for at, idle in zip(self._idle_at, self._is_idle, strict=True) if not idle),
            default=None,
        )

    def watermark(self, partition: int) -> int | None:
        """The watermark of a partition, if it has one."""
        time = self._last[partition]
        return time if time > LEAST_TIME else None

    def is_idle(self, partition: int) -> bool:
        return self._is_idle[partition]

    def restore(self, partition: int, time: int | None, is_idle: bool) -> None:
        """Goes on with what a partition had promised. One that was idle still holds nothing
        back."""
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
        if self._is_told_idle:
            self._is_told_idle = False
            self._resumptions += 1
            self._resumption = Active(self._origin, self._resumptions) if self._origin else ACTIVE

    def _advance(self, partition: int, time: int) -> None:
        time = min(time, GREATEST_TIME)
        if time > self._last[partition]:
            self._last[partition] = time
            self._add(
                self._coalescer.observe(partition, Watermark(time, self._rule.rule.watermark))
            )
