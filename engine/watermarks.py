"""Coalescing of watermarks: the watermark that holds for all of several inputs.

Used twice: over the queues of one edge, and over the edges of one processor. For each time column
the result is the minimum over the inputs that count. An input that is done or idle does not count.
An idle input counts again when it sends anything, or when a source of its idleness is active again:
rows of that source may be on their way to the idle input, and the watermark must not overtake them.
When all remaining inputs are idle, the largest watermark of any
input is emitted, and then the idleness.
Results increase strictly: an input that resumes with old times does not retract a watermark.

The processors of a source whose data moves between partitions have one watermark together, a
LeastWatermark.

For example, with two inputs: input 0 sends 5, nothing is emitted; input 1 sends 3, 3 is emitted;
input 1 becomes idle, 5 is emitted; input 1 sends 4, nothing is emitted, since 5 was; input 0 sends
9, nothing is emitted, since input 1 is at 4; input 1 sends 8, 8 is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock

from runnel.errors import internal
from runnel.processor import IDLE, Active, Idle, IdleOrigin, SourceWatermark, Watermark


class WatermarkCoalescer:
    """Coalesces the watermarks of inputs 0 to `count` − 1. Each method returns the items to pass
    on, in order.

    name: of the edge or the processor, for error messages.
    carriers: for a time column, the inputs that bring its watermarks; for a column that is not a
        key, all inputs do.

    Within one input and time column the times must increase strictly; InternalError otherwise.
    """

    __slots__ = (
        "_all_idle",
        "_carriers",
        "_done",
        "_emitted",
        "_idle",
        "_origins",
        "_received",
        "_resumed",
        "name",
    )

    def __init__(
        self, count: int, name: str, carriers: Mapping[int, Collection[int]] | None = None
    ) -> None:
        self.name = name
        self._carriers = carriers
        self._received: list[dict[int, int]] = [{} for _ in range(count)]
        self._emitted: dict[int, int] = {}
        self._idle = [False] * count
        self._origins: list[dict[IdleOrigin, int]] = [{} for _ in range(count)]
        self._resumed: dict[IdleOrigin, int] = {}
        self._done = [False] * count
        self._all_idle = False

    def observe(self, index: int, watermark: Watermark) -> Sequence[Watermark | Idle]:
        """Input `index` sent a watermark."""
        seen = self._received[index]
        last = seen.get(watermark.column)
        if last is not None and watermark.time <= last:
            raise internal(
                f"the watermark of {self.name}, input {index}, went from {last} to {watermark.time}"
            )
        seen[watermark.column] = watermark.time
        self.active(index)
        return self._advance((watermark.column,))

    def forget(self, index: int) -> None:
        """The watermarks of input `index` are void: it holds back the result until its next one,
        which may be smaller."""
        self._received[index] = {}

    def active(self, index: int) -> None:
        """Input `index` sent an item: it is not idle, or no longer."""
        self._idle[index] = False
        self._origins[index] = {}
        self._all_idle = False

    def resumed(self, item: Active) -> bool:
        """A source is active again, as any of the inputs reports. False: that was reported."""
        assert item.origin is not None
        if item.count <= self._resumed.get(item.origin, 0):
            return False
        self._resumed[item.origin] = item.count
        for index, origins in enumerate(self._origins):
            if origins.get(item.origin, item.count) < item.count:
                self._idle[index] = self._all_idle = False
        return True

    def idle(self, index: int, item: Idle = IDLE) -> Sequence[Watermark | Idle]:
        """Input `index` became idle, unless a source of its idleness is active again by now."""
        self._origins[index] |= item.origins
        if _is_void(item.origins):
            return []
        self._idle[index] = True
        return self._leave_out()

    def is_idle(self, index: int) -> bool:
        """Whether the input is idle, and therefore does not count."""
        # The item that reports the resumption may still be on its way.
        return self._idle[index] and not _is_void(self._origins[index])

    def done(self, index: int) -> Sequence[Watermark | Idle]:
        """Input `index` ended. When all inputs ended, nothing is emitted: the end implies it."""
        self._done[index] = True
        return [] if all(self._done) else self._leave_out()

    def emitted(self, column: int) -> int | None:
        """The last watermark of a column that was emitted; None if there is none. Other threads may
        call it."""
        return self._emitted.get(column)

    def knows(self, column: int) -> bool:
        """Whether an input brings watermarks of a column, as declared or as observed so far. Other
        threads may call it."""
        return column in (self._carriers or ()) or any(column in seen for seen in self._received)

    def least_column(self) -> int:
        """The time column with the smallest watermark emitted so far. Other threads may call
        it."""
        known = {column for seen in self._received for column in tuple(seen)}.union(
            self._carriers or ()
        )
        return min(
            known, key=lambda column: (self._emitted.get(column, -(2**63)), column), default=0
        )

    def watermark_holder(self, column: int) -> int | None:
        """The input that holds back the watermark: of those that count, the one with the smallest
        watermark, or with none yet; None if no input counts."""
        counting = self._carrying(self._counting(), column)
        return min(counting, key=lambda i: self._received[i].get(column, -(2**63)), default=None)

    def _counting(self) -> list[int]:
        return [i for i in range(len(self._received)) if not self._done[i] and not self.is_idle(i)]

    def _carrying(self, inputs: list[int], column: int) -> list[int]:
        if self._carriers is None or column not in self._carriers:
            return inputs
        return [i for i in inputs if i in self._carriers[column]]

    def _leave_out(self) -> Sequence[Watermark | Idle]:
        columns = sorted({column for seen in self._received for column in seen})
        if self._counting():
            return self._advance(columns)
        if self._all_idle:
            return []
        self._all_idle = True
        return [*self._advance(columns), self._idleness()]

    def _idleness(self) -> Idle:
        """One item with the origins of all inputs, each with its largest count."""
        origins: dict[IdleOrigin, int] = {}
        for found in self._origins:
            for origin, count in found.items():
                origins[origin] = max(count, origins.get(origin, 0))
        return Idle(origins)

    def _advance(self, columns: Sequence[int]) -> Sequence[Watermark]:
        counting = self._counting()
        passed_on = []
        for column in columns:
            carrying = self._carrying(counting, column)
            if carrying:
                times = [self._received[i].get(column) for i in carrying]
                time = None if None in times else min(value for value in times if value is not None)
            else:
                time = max(
                    (seen[column] for seen in self._received if column in seen), default=None
                )
            if time is not None and (column not in self._emitted or time > self._emitted[column]):
                self._emitted[column] = time
                passed_on.append(Watermark(time, column))
        return passed_on


class LeastWatermark:
    """The least watermark of the processors of one source. Thread-safe.

    Each processor reports the minimum over its own partitions, and emits `time` instead. So no
    processor has emitted a watermark that is greater than the minimum over all of them, and a
    partition that continues with other data, whichever processor reads it, holds back all later
    watermarks.

    For example, processor 0 reports 500 and processor 1 reports 100: both emit 100. Processor 0 has
    no more rows, and becomes idle. Then its partition begins a new file: it reports None, and
    `time` remains 100, even if processor 1 becomes idle. If processor 0 had emitted 500, the rows
    of the new file from 101 on could be late.

    time: the watermark that holds for all processors; it never decreases. None: there is none yet.
    """

    __slots__ = ("_bounds", "_counting", "_described", "_greatest", "_lock", "_wakes", "time")

    def __init__(self, count: int) -> None:
        """Begin without watermarks.

        count: the number of processors; each holds the watermark back until its first report.
        """
        self.time: int | None = None
        self._bounds: list[int | None] = [None] * count
        self._counting = [True] * count
        self._greatest: list[int | None] = [None] * count
        self._wakes: list[Callable[[], None] | None] = [None] * count
        self._described: list[Callable[[], SourceWatermark] | None] = [None] * count
        self._lock = Lock()

    def join(
        self, number: int, wake: Callable[[], None], describe: Callable[[], SourceWatermark]
    ) -> None:
        """Add a processor.

        wake: have it called, because `time` has changed. Called from any thread.
        describe: describes its own watermark. Called from any thread.
        """
        self._wakes[number], self._described[number] = wake, describe

    def report(
        self, number: int, bound: int | None, is_counting: bool, greatest: int | None
    ) -> None:
        """A processor reports the minimum over its partitions, which may have decreased.

        bound: the minimum; None: one of them has no watermark yet.
        is_counting: whether one of its partitions is not idle and has not ended.
        greatest: the greatest watermark of a partition, which counts if all processors are idle.
        """
        with self._lock:
            self._bounds[number] = bound
            self._counting[number], self._greatest[number] = is_counting, greatest
            if not self._advance():
                return
            wakes = [wake for n, wake in enumerate(self._wakes) if wake is not None and n != number]
        for wake in wakes:
            wake()

    def _advance(self) -> bool:
        """Compute the watermark; returns whether it has increased."""
        if any(self._counting):
            bounds = [b for b, counts in zip(self._bounds, self._counting, strict=True) if counts]
            if None in bounds:
                return False
        else:
            bounds = [max((item for item in self._greatest if item is not None), default=None)]
        time = min((bound for bound in bounds if bound is not None), default=None)
        if time is None or (self.time is not None and time <= self.time):
            return False
        self.time = time
        return True

    def describe(self) -> SourceWatermark:
        """Describe the watermark, and the partition that holds it back. Called from any thread."""
        with self._lock:
            counting = [number for number, counts in enumerate(self._counting) if counts]
            bounds = {n: -(2**63) if (b := self._bounds[n]) is None else b for n in counting}
        if not counting:
            return SourceWatermark(self.time, is_waiting=False)
        describe = self._described[min(counting, key=lambda number: bounds[number])]
        return SourceWatermark(self.time, is_waiting=True) if describe is None else describe()


def _is_void(origins: Mapping[IdleOrigin, int]) -> bool:
    """Whether one of these sources has become active again since it reported its idleness."""
    return any(origin.resumptions > count for origin, count in origins.items())
