"""Windows that overlap, from frames that don't.

Rows are aggregated into frames, pieces of time of which every window is made: for HOP as long as
the greatest common divisor of size and slide, for CUMULATE one step. A window is then combined from
the states of its frames. For HOP the frames of the window are kept on two stacks: states of
everything from a frame to the end of the front stack, and one state of all that came since the
stacks were turned; so each window costs few combinations, however many frames it has. For CUMULATE
a single state grows until its cycle ends.

Times are ends of frames and of windows; a frame or window contains the instants before its end, so
frame `f` is in the windows from `first_end(f)` to `last_end(f)`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, from_numbers, numbers, validity
from runnel.processors.grouping.group_state import Partial
from runnel.processors.sources.partition_watermarks import event_times
from runnel.processors.time_windows.assign_windows import periods_of
from runnel.relation.streams import WindowKind, WindowShape

FEW_ROWS = 1 << 20
"""The rows of the states that a turn of the stacks may make for all frames at once; with more, it
makes them in portions."""

KEPT_ROWS = 1 << 16
"""The rows of such states that are kept together, at least, where there are so many."""

Time = TypeVar("Time", int, Indexes)
Combine = Callable[[Sequence[Partial]], Partial]
Keep = Callable[[Sequence[Partial]], Sequence[Partial]]


class FrameTimes:
    """Where frames and windows of a shape (HOP or CUMULATE) begin and end."""

    def __init__(self, shape: WindowShape) -> None:
        self.shape = shape
        self.is_hop = shape.kind is WindowKind.HOP
        self.length = gcd(shape.size, shape.step)
        # Starts of windows are multiples of the step from the offset on, and their ends from here
        # on.
        self._base = shape.offset + shape.size

    def frame_ends(self, column: pa.Array) -> pa.Array:
        """For each time the end of its frame; NULL for NULL."""
        times = event_times(column)
        valid, values = validity(times), numbers(times, np.int64)
        offset, length = self.shape.offset, self.length
        periods = periods_of(values, length, offset) if valid is None else None
        if periods is not None:
            return from_numbers(periods.bounds(length), pa.int64())
        ends = (values - offset) // length * length + (length + offset)
        return from_numbers(ends, pa.int64(), valid)

    def first_end(self, frame: Time) -> Time:
        """The end of the first window that the frame is in; also of an array of frames."""
        return self._up(frame, self.shape.step)

    def last_end(self, frame: Time) -> Time:
        """The end of the last window that the frame is in; also of an array of frames."""
        if self.is_hop:
            return self._down(frame - self.length + self.shape.size, self.shape.step)
        return self._up(frame, self.shape.size)

    def first_frame(self, end: int) -> int:
        """The first frame of the window that ends at `end`."""
        return self.start(end) + self.length

    def start(self, end: Time) -> Time:
        """The start of a window; also of an array of windows."""
        return end - self.shape.size if self.is_hop else self._down(end - 1, self.shape.size)

    def _up(self, time: Time, step: int) -> Time:
        return -((self._base - time) // step) * step + self._base

    def _down(self, time: Time, step: int) -> Time:
        return (time - self._base) // step * step + self._base


@dataclass(slots=True)
class Frame:
    """The groups of one frame; `whole`: the groups of this and all later frames of the front stack,
    where they are known."""

    end: int
    partial: Partial
    whole: Partial | None = None
    known_size: int = -1

    @property
    def size(self) -> int:
        """About how many bytes its groups take."""
        if self.known_size < 0:
            self.known_size = self.partial.size
        return self.known_size


class HasEnd(Protocol):
    """A frame."""

    end: int


def next_end(times: FrameTimes, stacks: Sequence[Sequence[HasEnd]], after: int) -> int | None:
    """The end, beyond `after`, of the next window that has one of the frames; None if there is
    none. They are in order."""
    for frames in stacks:
        for frame in frames:
            end = max(times.first_end(frame.end), times.first_end(after + 1))
            if end <= times.last_end(frame.end):
                return end
    return None


class WindowFrames:
    """The frames of the windows that are still to come, and those windows, in order of their
    ends."""

    def __init__(
        self, times: FrameTimes, combine: Combine, keep: Keep = lambda parts: parts
    ) -> None:
        """`keep`: what is put in the place of groups, of several frames perhaps, that are held for
        windows to come."""
        self._times = times
        self._combine = combine
        self._keep = keep
        self._front: list[Frame] = []
        self._back: list[Frame] = []
        self._total: Partial | None = None
        self._waiting: list[Frame] = []

    def add(self, end: int, partial: Partial, size: int = -1) -> None:
        """Takes groups of a frame. Where windows that contain it have been given already, those to
        come start anew. `size`: how many bytes they take, where that is known."""
        newest = max(
            (frames[-1].end for frames in (self._front, self._back) if frames), default=None
        )
        if newest is not None and end <= newest:
            self._waiting = [
                Frame(frame.end, frame.partial, None, frame.known_size) for frame in self._frames()
            ]
            self._front, self._back, self._total = [], [], None
        insort(self._waiting, Frame(end, partial, None, size), key=lambda frame: frame.end)

    def add_groups(self, ends: Sequence[int], bounds: Sequence[int], groups: Partial) -> bool:
        """Takes groups of frames: those from bounds[i] to bounds[i + 1] are of the frame that ends
        at ends[i]. True: they are always taken."""
        for end, (start, stop) in zip(ends, pairwise(bounds), strict=True):
            self.add(end, groups.slice(start, stop - start))
        return True

    def _frames(self) -> list[Frame]:
        return [*self._front, *self._back, *self._waiting]

    def ends(self) -> list[int]:
        """The ends of all frames that are held, in order."""
        return [frame.end for frame in self._frames()]

    def frames(self) -> list[tuple[int, Partial]]:
        """The ends and the groups of all frames that are held, in order."""
        return [(frame.end, frame.partial) for frame in self._frames()]

    @property
    def size(self) -> tuple[int, int]:
        """How many groups all frames have, and about how many bytes they take. May be asked by
        other threads."""
        frames = self._frames()
        return sum(frame.partial.num_rows for frame in frames), sum(frame.size for frame in frames)

    @property
    def is_empty(self) -> bool:
        return not (self._front or self._back or self._waiting)

    def next_end(self, after: int) -> int | None:
        """The end, beyond `after`, of the next window that isn't empty; None if there is none."""
        return next_end(self._times, (self._front, self._back, self._waiting), after)

    def window(self, end: int) -> Partial | None:
        """The groups of the window that ends there; ends only grow. None for no groups."""
        first = self._times.first_frame(end)
        self._forget_before(first)
        while self._waiting and self._waiting[0].end <= end:
            frame = self._waiting.pop(0)
            if frame.end >= first:
                total = self._total
                self._total = (
                    frame.partial
                    if total is None
                    else self._keep([self._combine([total, frame.partial])])[0]
                )
                self._back.append(frame)
        parts = [] if not self._front else [self._whole_front()]
        if self._total is not None:
            parts.append(self._total)
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else self._combine(parts)

    def forget(self, after: int) -> None:
        """Lets go of the frames that no window beyond `after` contains."""
        end = self.next_end(after)
        if end is None:
            self._front, self._back, self._total, self._waiting = [], [], None, []
        else:
            self._forget_before(self._times.first_frame(end))

    def _forget_before(self, first: int) -> None:
        """Lets go of the frames before `first`."""
        while self._front and self._front[0].end < first:
            self._front.pop(0)
        if self._front or not self._back or self._back[0].end >= first:
            return
        self._front = [frame for frame in self._back if frame.end >= first]
        self._back, self._total = [], None

    def _whole_front(self) -> Partial:
        """The groups of all frames of the front stack. Makes the states of the next frames too,
        where there are none yet: those of all, or if they are large, those up to a place a square
        root's share further on."""
        front = self._front
        found = front[0].whole
        if found is not None:
            return found
        known = next((i for i, frame in enumerate(front) if frame.whole is not None), len(front))
        spacing = 1
        if known * max(frame.partial.num_rows for frame in front[:known]) > FEW_ROWS:
            spacing = max(2, int(known**0.5))
        whole = front[known].whole if known < len(front) else None
        made: list[tuple[Frame, Partial]] = []
        rows = 0
        for i in range(known - 1, -1, -1):
            frame = front[i]
            whole = frame.partial if whole is None else self._combine([frame.partial, whole])
            if i % spacing == 0 or i < spacing:
                made.append((frame, whole))
                rows += whole.num_rows
            if rows > KEPT_ROWS:
                self._keep_wholes(made)
                made, rows = [], 0
        self._keep_wholes(made)
        found = front[0].whole
        assert found is not None
        return found

    def _keep_wholes(self, made: Sequence[tuple[Frame, Partial]]) -> None:
        for (frame, _), kept in zip(
            made, self._keep([partial for _, partial in made]), strict=True
        ):
            frame.whole = kept
