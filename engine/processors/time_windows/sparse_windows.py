"""Overlapping windows with few groups each: every group is repeated once per window that it is in,
and one group-by combines many windows.

`frames` keeps running totals, which cost a fixed time per window, however few groups it has. Over
rows that are sparse in time (orders of a year, by windows of ten minutes) nearly all of the time
would be that. Repeating costs time per group and window instead.

Example: frames of one minute, windows of three minutes. A group of the frame that ends at 5 is in
the windows that end at 5, 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, from_numbers, indexes, numbers
from runnel.processors.grouping.group_state import Partial
from runnel.processors.time_windows.frames import Combine, FrameTimes

ROWS_OF_WINDOW = 512
"""A running total costs as much per window as this number of repeated groups (both measured)."""

ROWS_OF_FRAME = 64
"""The same per frame."""

MOST_REPEATED = 1 << 18
"""The number of repeated groups of a group-by; more if one window has more."""

FEW_WINDOWS = 16
"""Up to this number of windows running totals are always used."""


@frozen
class WindowRange:
    """The windows that end after `after`, and not after `until`.

    times: the frames and windows.
    """

    times: FrameTimes
    after: int
    until: int

    def ends(self, frames: Indexes) -> tuple[Indexes, Indexes]:
        """The ends of the first and of the last window of each frame; the last is less than the
        first if there is none."""
        first = np.maximum(self.times.first_end(frames), self.times.first_end(self.after + 1))
        return first, np.minimum(self.times.last_end(frames), self.until)

    def count(self, first_frame: int) -> int:
        """The maximum number of windows, if there is no frame before `first_frame`."""
        times = self.times.shape
        return (self.until - max(self.after, first_frame - times.size)) // times.step + 1

    def are_sparse(self, frames: Indexes, other_groups: int, other_frames: int) -> bool:
        """Whether repeating groups is cheaper than running totals.

        frames: the frame of each group that is new, at least one.
        other_groups: the number of the other groups.
        other_frames: the number of their frames.
        """
        overlap = -(-self.times.shape.size // self.times.shape.step)
        new_frames = len(np.unique(frames))
        windows = min(self.count(int(frames.min())), (new_frames + other_frames) * overlap)
        repeated = (len(frames) + other_groups) * overlap
        return repeated < windows * ROWS_OF_WINDOW + new_frames * ROWS_OF_FRAME


def by_frame(partial: Partial) -> Partial:
    """The groups in the order of their first key, which is the frame."""
    frames = numbers(partial.keys[0], np.int64)
    if (frames[1:] >= frames[:-1]).all():
        return partial
    return partial.take(indexes(np.argsort(frames, kind="stable")))


def repeated_windows(
    sets: Sequence[Partial], found: WindowRange, combines: Sequence[Combine]
) -> Iterator[list[Partial]]:
    """The groups of the windows, some windows at a time; the first key is the end of the window.

    sets: groups, whose first key is the frame, sorted by it: first the groups of the plain
        aggregates, then the groups of each set of distinct arguments.
    combines: for each set, the function that makes one group of equal keys.
    """
    frames = [numbers(groups.keys[0], np.int64) for groups in sets]
    ends = [found.ends(item) for item in frames]
    for start, stop in _slices(ends, found.times.shape.step):
        parts = [
            combine([_repeated(groups, *own, start, stop, found.times.shape.step)])
            for groups, own, combine in zip(sets, ends, combines, strict=True)
        ]
        if parts[0].num_rows:
            yield parts


def _slices(ends: Sequence[tuple[Indexes, Indexes]], step: int) -> list[tuple[int, int]]:
    """Ranges of ends of windows, each from its start to before its stop, in which the largest set
    has about MOST_REPEATED groups."""
    counts = [_counts(first, last, step) for first, last in ends]
    first, last = ends[max(range(len(ends)), key=lambda number: int(counts[number].sum()))]
    total = np.cumsum(_counts(first, last, step))
    if not len(total) or not total[-1]:
        return []
    wanted = np.arange(MOST_REPEATED, int(total[-1]), MOST_REPEATED)
    cuts = np.unique(first[np.searchsorted(total, wanted)])
    bounds = [int(first[0]), *cuts.tolist(), int(last.max()) + 1]
    return [(start, stop) for start, stop in pairwise(bounds) if start < stop]


def _counts(first: Indexes, last: Indexes, step: int) -> Indexes:
    """The number of windows of each group."""
    found: Indexes = np.maximum((last - first) // step + 1, 0)
    return found


def _repeated(
    groups: Partial, first: Indexes, last: Indexes, start: int, stop: int, step: int
) -> Partial:
    """Each group once per window that ends from `start` to before `stop`."""
    begin = int(np.searchsorted(last, start))
    end = int(np.searchsorted(first, stop))
    first, last = np.maximum(first[begin:end], start), np.minimum(last[begin:end], stop - 1)
    counts = _counts(first, last, step)
    rows = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    taken = groups.slice(begin, end - begin).take(indexes(rows))
    taken.keys[0] = from_numbers(first[rows] + number * step, pa.int64())
    return taken
