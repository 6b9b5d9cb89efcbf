"""What windows give when they take the place of others in the middle of a stream: told from the
rows, without the engine.

A row from before the change counts by the end of its old frame, if that was still kept; one from
after it by its own time. A window comes if it ends after the watermark at the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from runnel.base.frozen import frozen
from runnel.relation.streams import WindowKind, WindowShape

Row = tuple[int, int, int]
"""A key, a time, and a value."""
Result = dict[tuple[int, int], tuple[int, ...]]
"""By the end of a window and a key: what the values come to."""


@frozen
class Shape:
    """Windows as a test wants them."""

    kind: WindowKind
    size: int
    step: int
    offset: int = 0

    def sql(self, table: str = "s") -> str:
        sizes = f"{self.size}"
        if self.kind is WindowKind.HOP:
            sizes = f"{self.size}, {self.step}"
        elif self.kind is WindowKind.CUMULATE:
            sizes = f"{self.step}, {self.size}"
        offset = f", {self.offset}" if self.offset else ""
        return f"{self.kind.name}(TABLE {table}, DESCRIPTOR(ts), {sizes}{offset})"

    @property
    def plain(self) -> WindowShape:
        return WindowShape(self.kind, self.size, self.step, self.offset)

    @property
    def frame(self) -> int:
        return self.size if self.kind is WindowKind.TUMBLE else gcd(self.size, self.step)

    def frame_end(self, time: int) -> int:
        return (time - self.offset) // self.frame * self.frame + self.frame + self.offset

    def windows(self, time: int) -> Iterator[tuple[int, int]]:
        """Start and end of the windows that a time is in."""
        if self.kind is WindowKind.HOP:
            start = (time - self.offset) // self.step * self.step + self.offset
            while start > time - self.size:
                yield start, start + self.size
                start -= self.step
            return
        start = (time - self.offset) // self.size * self.size + self.offset
        if self.kind is WindowKind.TUMBLE:
            yield start, start + self.size
        else:
            first = start + (time - start) // self.step * self.step + self.step
            yield from ((start, end) for end in range(first, start + self.size + 1, self.step))


def tumble(size: int, offset: int = 0) -> Shape:
    return Shape(WindowKind.TUMBLE, size, 0, offset)


def hop(size: int, step: int, offset: int = 0) -> Shape:
    return Shape(WindowKind.HOP, size, step, offset)


def cumulate(step: int, size: int, offset: int = 0) -> Shape:
    return Shape(WindowKind.CUMULATE, size, step, offset)


def given_before(rows: Sequence[Row], shape: Shape, watermark: int) -> Result:
    """What had come out when the watermark was there."""
    found = grouped([(end, row) for row in rows for _, end in shape.windows(row[1])])
    return {key: value for key, value in found.items() if key[0] <= watermark}


def given_after(
    before: Sequence[Row], after: Sequence[Row], shapes: tuple[Shape, Shape], watermark: int
) -> Result:
    """What comes out from then on."""
    old, new = shapes
    placed: list[tuple[int, Row]] = []
    for row in before:
        if max(end for _, end in old.windows(row[1])) > watermark:
            place = new.frame_end(old.frame_end(row[1]) - 1) - 1
            placed += [(end, row) for _, end in new.windows(place)]
    placed += [(end, row) for row in after for _, end in new.windows(row[1])]
    found = grouped(placed)
    return {key: value for key, value in found.items() if key[0] > watermark}


def over_all(rows: Sequence[Row], shape: Shape, watermark: int) -> Result:
    """What the windows that end after the watermark have over all rows."""
    found = grouped([(end, row) for row in rows for _, end in shape.windows(row[1])])
    return {key: value for key, value in found.items() if key[0] > watermark}


def grouped(placed: Sequence[tuple[int, Row]]) -> Result:
    """Count, sum, least, greatest and number of distinct values of each group."""
    groups: dict[tuple[int, int], list[int]] = {}
    for end, (key, _, value) in placed:
        groups.setdefault((end, key), []).append(value)
    return {key: (len(v), sum(v), min(v), max(v), len(set(v))) for key, v in groups.items()}
