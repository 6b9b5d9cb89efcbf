"""Coalescing watermarks: what is promised by all of several inputs.

Used twice: over the queues of one edge, and over the edges of one processor. For each time column
the result is the minimum of the inputs that count. An input that is done, or idle, doesn't count;
an idle one counts again as soon as it gives anything, or another one tells that a source of its
idleness is active again: rows of that source may be on their way here, too, and the watermark may
not overtake them. When all that are left are idle, the largest promise of any is made, and the
idleness passed on.
Results increase strictly: an input that comes back from idleness with old times doesn't take a
promise back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from runnel.errors import internal
from runnel.processor import IDLE, Active, Idle, Watermark


class WatermarkCoalescer:
    """Over inputs numbered from 0 to `count` − 1. Each method gives what is to be passed on, in
    order.

    `carriers` says which inputs bring the watermarks of a time column; a column that isn't in it is
    brought by all. Within one input and time column the times must increase strictly; InternalError
    otherwise.
    """

    __slots__ = (
        "_active",
        "_all_idle",
        "_carriers",
        "_done",
        "_idle",
        "_origins",
        "_seen",
        "_told",
        "name",
    )

    def __init__(
        self, count: int, name: str, carriers: Mapping[int, Collection[int]] | None = None
    ) -> None:
        self.name = name
        self._carriers = carriers
        self._seen: list[dict[int, int]] = [{} for _ in range(count)]
        self._told: dict[int, int] = {}
        self._idle = [False] * count
        self._origins: list[dict[str, int]] = [{} for _ in range(count)]
        self._active: dict[str, int] = {}
        self._done = [False] * count
        self._all_idle = False

    def observe(self, index: int, watermark: Watermark) -> Sequence[Watermark | Idle]:
        """Input `index` gave a watermark."""
        seen = self._seen[index]
        last = seen.get(watermark.column)
        if last is not None and watermark.time <= last:
            raise internal(
                f"the watermark of {self.name}, input {index}, went from {last} to {watermark.time}"
            )
        seen[watermark.column] = watermark.time
        self.active(index)
        return self._advance((watermark.column,))

    def active(self, index: int) -> None:
        """Input `index` gave something: it isn't idle (any more)."""
        self._idle[index] = False
        self._origins[index] = {}
        self._all_idle = False

    def resumed(self, item: Active) -> bool:
        """A source is active again, whichever input tells it. False: that was known."""
        if item.count <= self._active.get(item.origin, 0):
            return False
        self._active[item.origin] = item.count
        for index, origins in enumerate(self._origins):
            if origins.get(item.origin, item.count) < item.count:
                self._idle[index] = self._all_idle = False
        return True

    def idle(self, index: int, item: Idle = IDLE) -> Sequence[Watermark | Idle]:
        """Input `index` expects nothing for now; or so it was before a source that is active again
        by now."""
        self._origins[index] |= item.origins
        if any(self._active.get(origin, 0) > count for origin, count in item.origins.items()):
            return []
        self._idle[index] = True
        return self._leave_out()

    def is_idle(self, index: int) -> bool:
        """Whether the input doesn't count for now."""
        return self._idle[index]

    def done(self, index: int) -> Sequence[Watermark | Idle]:
        """Input `index` ended. When all have, nothing is passed on: the end says it."""
        self._done[index] = True
        return [] if all(self._done) else self._leave_out()

    def behind(self) -> int:
        """The time column of which least was promised. May be asked by other threads."""
        known = {column for seen in self._seen for column in tuple(seen)}.union(
            self._carriers or ()
        )
        return min(known, key=lambda column: (self._told.get(column, -(2**63)), column), default=0)

    def holding(self, column: int) -> int | None:
        """The input that holds the watermark back: it counts and has the smallest, or none; None if
        none counts."""
        counting = self._carrying(self._counting(), column)
        return min(counting, key=lambda i: self._seen[i].get(column, -(2**63)), default=None)

    def _counting(self) -> list[int]:
        return [i for i in range(len(self._seen)) if not self._done[i] and not self._idle[i]]

    def _carrying(self, inputs: list[int], column: int) -> list[int]:
        if self._carriers is None or column not in self._carriers:
            return inputs
        return [i for i in inputs if i in self._carriers[column]]

    def _leave_out(self) -> Sequence[Watermark | Idle]:
        columns = sorted({column for seen in self._seen for column in seen})
        if self._counting():
            return self._advance(columns)
        if self._all_idle:
            return []
        self._all_idle = True
        return [*self._advance(columns), self._idleness()]

    def _idleness(self) -> Idle:
        """That of all inputs."""
        origins: dict[str, int] = {}
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
                promises = [self._seen[i].get(column) for i in carrying]
                time = (
                    None
                    if None in promises
                    else min(promise for promise in promises if promise is not None)
                )
            else:
                time = max((seen[column] for seen in self._seen if column in seen), default=None)
            if time is not None and (column not in self._told or time > self._told[column]):
                self._told[column] = time
                passed_on.append(Watermark(time, column))
        return passed_on
