"""The frames of windows that overlap (see `frames`) that memory has no room for: in files, divided
by the hash of their keys.

They are a tree. A leaf has frames of its own, whose groups, and what is combined of them for
windows to come, are mapped from files; its windows are combined by themselves. A leaf that is too
large for that gets leaves of its own, by the next bits of the hash, and begins its windows anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, from_numbers, indexes, numbers
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.processors.grouping.group_state import (
    WEIGHT,
    GroupLayout,
    Partial,
    appended,
    exported,
    partial_of,
)
from runnel.processors.time_windows.frames import Combine, FrameTimes, WindowFrames
from runnel.processors.time_windows.spilled_groups import BITS, COUNT, DEEPEST
from runnel.storage.memory_budget import LEAST_BYTES, Memory

LARGEST = 2
"""A leaf is divided when its frames are this number of times larger than a combined part."""


LOOKED_AT = 4
"""Whether a leaf is too large is looked at when one in so many parts of that has come to it."""


class SpilledFrames:
    """Groups of frames, in the order of whose keys' hashes the first `level` steps are the same.
    The layout is that of groups without their frame; `combine` makes one of several partials of
    it."""

    def __init__(
        self,
        times: FrameTimes,
        layout: GroupLayout,
        combine: Combine,
        memory: Memory,
        level: int = 0,
    ) -> None:
        self._times = times
        self._layout = layout
        self._combine = combine
        self._memory = memory
        self._level = level
        self._parts: list[SpilledFrames] = []
        self._is_divisible = level < DEEPEST and bool(layout.key_types)
        self._largest = self._fresh = 0
        self._begin()

    def _begin(self) -> None:
        self._frames = WindowFrames(self._times, self._combine, self._kept)

    def _kept(self, parts: Sequence[Partial]) -> list[Partial]:
        """The same groups in a file: one for all, since the number of files that a process can map
        is limited."""
        if not parts:
            return []
        batch = self._memory.mapped(exported(appended(parts), self._layout))
        found = partial_of(batch, self._layout)
        starts = [0, *accumulate(part.num_rows for part in parts)]
        most = max(part.num_rows for part in parts)
        self._largest = max(self._largest, batch.nbytes * most // max(batch.num_rows, 1))
        return [
            found.slice(start, part.num_rows) for start, part in zip(starts, parts, strict=False)
        ]

    @property
    def is_empty(self) -> bool:
        return self._frames.is_empty and all(part.is_empty for part in self._parts)

    @property
    def size(self) -> tuple[int, int]:
        """How many groups all frames have, and about how many bytes they take in files. May be
        asked by other threads."""
        found = [self._frames.size, *(part.size for part in self._parts)]
        return sum(rows for rows, _ in found), sum(size for _, size in found)

    def add(self, groups: Partial) -> None:
        """Takes groups whose first key is the end of their frame. They are in one file, for all
        leaves."""
        if not groups.num_rows:
            return
        ends = numbers(groups.keys[0], np.int64)
        leaves, places = self._routed(groups)
        divided = [place for place in np.unique(places).tolist() if leaves[place]._divide_large()]
        if divided:
            leaves, places = self._routed(groups)
        order = np.lexsort((ends, places))
        sorted_groups = Partial(groups.keys[1:], groups.columns, groups.num_rows).take(
            indexes(order)
        )
        batch = self._memory.mapped(exported(sorted_groups, self._layout))
        kept, size = partial_of(batch, self._layout), batch.nbytes
        ends, places = ends[order], places[order]
        bounds = [
            0,
            *(np.flatnonzero((np.diff(ends) != 0) | (np.diff(places) != 0)) + 1).tolist(),
            len(ends),
        ]
        for start, stop in pairwise(bounds):
            share = size * (stop - start) // len(ends)
            leaves[int(places[start])]._hold(
                int(ends[start]), kept.slice(start, stop - start), share
            )

    def _routed(self, groups: Partial) -> tuple[list[SpilledFrames], Indexes]:
        """The leaves, and the number of that which each of the groups belongs to."""
        starts, leaves = zip(*self._leaves(), strict=True)
        if len(leaves) == 1:
            return list(leaves), np.zeros(groups.num_rows, np.int64)
        places: Indexes = (
            np.searchsorted(
                np.array(starts, np.uint64), self._hashes(groups.keys[1:]), side="right"
            )
            - 1
        )
        return list(leaves), places

    def _leaves(self, start: int = 0) -> Iterator[tuple[int, SpilledFrames]]:
        """The leaves from here on down, each with the first of its hashes, in order."""
        if not self._parts:
            yield start, self
        for number, part in enumerate(self._parts):
            yield from part._leaves(start + (number << (64 - BITS * (self._level + 1))))

    def _hashes(self, keys: list[pa.Array]) -> Hashes:
        """Without the bits that are the same for all that comes here."""
        hashes = hash_columns(keys)
        hashes &= np.uint64((1 << (64 - BITS * self._level)) - 1)
        return hashes

    def _hold(self, end: int, groups: Partial, size: int) -> None:
        """Adds the groups of one frame, with their number of bytes in the file."""
        self._largest = max(self._largest, size)
        self._fresh += size
        self._frames.add(end, groups, size)

    def _divide_large(self) -> bool:
        """Whether it was too large, and has leaves of its own now."""
        most = max(LEAST_BYTES, self._memory.allowed // WEIGHT)
        if not self._is_divisible or (self._largest <= most and self._fresh * LOOKED_AT <= most):
            return False
        self._fresh = 0
        if self._largest <= most and self._frames.size[1] <= LARGEST * most:
            return False
        held = self._frames.frames()
        hashes = [hash_columns(partial.keys) for _, partial in held]
        if all((item == hashes[0][0]).all() for item in hashes):
            self._is_divisible = False
            return False
        level = self._level + 1
        self._parts = [
            SpilledFrames(self._times, self._layout, self._combine, self._memory, level)
            for _ in range(COUNT)
        ]
        self._begin()
        for some in _some_at_a_time(held, most):
            self.add(appended([with_end(partial, end) for end, partial in some]))
        return True

    def windows(self, after: int, until: int | None) -> Iterator[Partial]:
        """The groups of the windows that end beyond `after`, and not beyond `until` (None: of all),
        some at a time; the first key is the end of the window. Frames that no later window contains
        are forgotten."""
        for part in self._parts:
            yield from part.windows(after, until)
        last = after
        end = self._frames.next_end(last)
        while end is not None and (until is None or end <= until):
            found = self._frames.window(end)
            if found is not None:
                yield with_end(found, end)
            last = end
            end = self._frames.next_end(last)
        self._frames.forget(last if until is None else max(last, until))

    def next_end(self, after: int) -> int | None:
        """The end, beyond `after`, of the next window that isn't empty; None if there is none."""
        ends = [self._frames.next_end(after), *(part.next_end(after) for part in self._parts)]
        return min((end for end in ends if end is not None), default=None)

    def frames(self) -> Iterator[tuple[int, Partial]]:
        """The ends and the groups of all frames."""
        yield from self._frames.frames()
        for part in self._parts:
            yield from part.frames()


def _some_at_a_time(
    held: Sequence[tuple[int, Partial]], most: int
) -> Iterator[list[tuple[int, Partial]]]:
    """Frames in order: several of at most that number of bytes together, or one."""
    some: list[tuple[int, Partial]] = []
    size = 0
    for end, partial in held:
        if some and size + partial.size > most:
            yield some
            some, size = [], 0
        some.append((end, partial))
        size += partial.size
    if some:
        yield some


def with_end(partial: Partial, end: int) -> Partial:
    """Groups with the end of their frame or window as the first key."""
    ends = from_numbers(np.full(partial.num_rows, end, np.int64), pa.int64())
    return Partial([ends, *partial.keys], partial.columns, partial.num_rows)
