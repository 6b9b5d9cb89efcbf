"""Open sessions: the spans of time of each key in which no two neighbouring events have a distance
larger than the gap.

A session is a number, which is the index of its span. The events of a batch are first merged with
each other, then the resulting spans with the open sessions of the same keys, so the work for a
batch depends on its own events. Where an event connects sessions, one of them absorbs the others:
`root` leads from the number of any session to the number that it has now.

Keys are identified by their 64-bit hash. The owner of the rows compares the keys themselves
(`session_output`).

A closed session does not change: an event within the gap of it is late, even where a session of its
own would still be open (`ended_sessions`). So the emitted sessions of a key never overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, from_numbers, numbers
from runnel.columns.key_hash import Hashes
from runnel.processors.sessions.ended_sessions import EndedSessions

LEAST = -(2**63)
NEVER = 2**63 - 1
_FEW_KEYS = 1 << 16
_RENUMBERED = 1 << 16
"""Least number of assigned numbers before they are assigned again from 0."""


class OpenSessions:
    """The open sessions of one processor. `first` and `last` are the events at the ends of each, by
    its number. `ended` are those that were closed and that a later event may touch."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.ended = EndedSessions(gap)
        self.first: Indexes = np.zeros(0, np.int64)
        self.last: Indexes = np.zeros(0, np.int64)
        self.root: Indexes = np.zeros(0, np.int64)
        self._floor: Indexes = np.zeros(0, np.int64)
        """Up to when a closed session may have been forgotten that a session would touch, by its
        number."""
        self._hashes: Hashes = np.zeros(0, np.uint64)
        self._numbers: Indexes = np.zeros(0, np.int64)
        """The open sessions in the order of their keys' hashes, then of their spans."""

    @property
    def count(self) -> int:
        return len(self._numbers)

    @property
    def is_crowded(self) -> bool:
        """Whether the numbers should be assigned again."""
        return len(self.root) > max(2 * self.count, _RENUMBERED)

    def add(self, hashes: Hashes, times: Indexes, before: int | None) -> tuple[Indexes, Mask]:
        """Takes in events: returns the number of the session of each, and which are late, and so
        not taken in: those that touch a session that was closed, and those that are alone with
        others of their batch in a session that would end before `before` (None: none is late). The
        number of a late one means nothing."""
        if before is None or not self.ended.may_touch(times):
            return self._add(hashes, times, before)
        late = self.ended.touched(hashes, times, self._floors)
        if not late.any():
            return self._add(hashes, times, before)
        numbers, rest = np.zeros(len(times), np.int64), ~late
        if rest.any():
            numbers[rest], late[rest] = self._add(hashes[rest], times[rest], before)
        return numbers, late

    def _add(self, hashes: Hashes, times: Indexes, before: int | None) -> tuple[Indexes, Mask]:
        """As `add`, of events that touch no session that was closed."""
        rows = len(times)
        order = sorted_events(hashes, times)
        hashes, times = hashes[order], times[order]
        begins = np.ones(rows, np.bool_)
        begins[1:] = (hashes[1:] != hashes[:-1]) | _apart(times[:-1], times[1:], self.gap)
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], rows) - 1
        span_of, is_late = self._merge(hashes[starts], times[starts], times[ends], before)
        which = np.cumsum(begins) - 1
        numbers = np.empty(rows, np.int64)
        numbers[order] = span_of[which]
        late = np.zeros(rows, np.bool_)
        if is_late.any():
            late[order] = is_late[which]
        return numbers, late

    def add_spans(self, hashes: Hashes, first: Indexes, last: Indexes) -> tuple[Indexes, bool]:
        """Takes in sessions that were open before, perhaps with another gap, each once or several
        times; gives the number of each, and whether some of them are one now."""
        order = np.lexsort((first, hashes))
        hashes, first, last = hashes[order], first[order], last[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (hashes[1:] != hashes[:-1]) | _apart(last[:-1], first[1:], self.gap)
        starts = np.flatnonzero(begins)
        found, _ = self._merge(
            hashes[starts], first[starts], np.maximum.reduceat(last, starts), None
        )
        numbers = np.empty(len(order), np.int64)
        numbers[order] = found[np.cumsum(begins) - 1]
        differ = (hashes[1:] != hashes[:-1]) | (first[1:] != first[:-1])
        return numbers, 1 + int(differ.sum()) > len(starts)

    def _merge(
        self, hashes: Hashes, first: Indexes, last: Indexes, before: int | None
    ) -> tuple[Indexes, Mask]:
        """Puts spans together with the open sessions of their keys. The spans are in order, and
        apart from each other."""
        touched = self._of_keys(hashes)
        numbers = self._numbers[touched]
        mine = len(numbers)
        all_hashes = np.concatenate((self._hashes[touched], hashes))
        all_first = np.concatenate((self.first[numbers], first))
        all_last = np.concatenate((self.last[numbers], last))
        order = np.lexsort((all_first, all_hashes))
        begins = self._begins(all_hashes[order], all_first[order], all_last[order], order < mine)
        starts = np.flatnonzero(begins)
        group = np.empty(len(order), np.int64)
        group[order] = np.cumsum(begins) - 1
        new_first = all_first[order][starts]
        new_last = np.maximum.reduceat(all_last[order], starts)
        # A group takes the number of an open session in it, or else a new one.
        target = np.full(len(starts), -1, np.int64)
        target[group[:mine]] = numbers
        is_new = target < 0
        is_late = np.zeros(len(starts), np.bool_)
        if before is not None:
            is_late = is_new & (new_last < max(before - self.gap, LEAST))
        fresh = is_new & ~is_late
        floor = np.full(len(starts), LEAST if before is None else self.ended.forgotten)
        floor[group[:mine]] = NEVER
        np.minimum.at(floor, group[:mine], self._floor[numbers])
        self._append(target, fresh)
        self.root[numbers] = target[group[:mine]]
        kept = ~is_late
        self.first[target[kept]] = new_first[kept]
        self.last[target[kept]] = new_last[kept]
        self._floor[target[kept]] = floor[kept]
        self._replace(touched, all_hashes[order][starts][kept], target[kept])
        spans = group[mine:]
        return target[spans], is_late[spans]

    def _append(self, target: Indexes, fresh: Mask) -> None:
        """Deals out numbers for new sessions."""
        base, more = len(self.root), int(fresh.sum())
        target[fresh] = np.arange(base, base + more)
        self.root = np.concatenate((self.root, np.arange(base, base + more)))
        self.first = np.concatenate((self.first, np.zeros(more, np.int64)))
        self.last = np.concatenate((self.last, np.zeros(more, np.int64)))
        self._floor = np.concatenate((self._floor, np.zeros(more, np.int64)))

    def _of_keys(self, hashes: Hashes) -> Indexes:
        """The places of the open sessions of these keys."""
        if not len(self._hashes) or not len(hashes):
            return np.zeros(0, np.int64)
        wanted = hashes[np.append(True, hashes[1:] != hashes[:-1])]
        low = np.searchsorted(self._hashes, wanted)
        counts = np.searchsorted(self._hashes, wanted, side="right") - low
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places: Indexes = np.repeat(low, counts) + within
        return places

    def _begins(self, hashes: Hashes, first: Indexes, last: Indexes, is_open: Mask) -> Mask:
        """Where a span doesn't touch those before it. Open sessions are apart from each other, and
        so are the new spans: each has to be compared only with the one of the other kind that
        stands last before it."""
        places = np.arange(len(first))
        last_open = np.maximum.accumulate(np.where(is_open, places, -1))
        last_new = np.maximum.accumulate(np.where(is_open, -1, places))
        other = np.where(is_open, last_new, last_open)
        begins: Mask = (
            (other < 0) | (hashes[other] != hashes) | _apart(last[other], first, self.gap)
        )
        return begins

    def _replace(self, places: Indexes, hashes: Hashes, numbers: Indexes) -> None:
        """Puts sessions, in order, in the place of others of the same keys."""
        left = np.ones(len(self._numbers), np.bool_)
        left[places] = False
        rest = self._hashes[left]
        at = np.searchsorted(rest, hashes)
        self._hashes = np.insert(rest, at, hashes)
        self._numbers = np.insert(self._numbers[left], at, numbers)

    def earliest_end(self) -> int:
        """The last event of the session that ends first; NEVER if there is none."""
        return int(self.last[self._numbers].min()) if self.count else NEVER

    def close(self, before: int | None) -> Mask:
        """Ends the sessions whose last event is before a time (None: all, and no event follows);
        returns by number which these are."""
        closed = np.zeros(len(self.root), np.bool_)
        gone = (
            np.ones(self.count, np.bool_)
            if before is None
            else self.last[self._numbers] < max(before, LEAST)
        )
        ended = self._numbers[gone]
        closed[ended] = True
        if before is not None:
            self.ended.add(self._hashes[gone], self.first[ended], self.last[ended])
        self._hashes, self._numbers = self._hashes[~gone], self._numbers[~gone]
        return closed

    def forget(self, before: int, *, at_once: bool = False) -> None:
        """Lets go of the closed sessions that no event touches any more, where those in a session
        that would end before `before` are late."""
        if at_once:
            self.ended.settle(before, self._is_open)
        else:
            self.ended.forget(before, self._is_open)

    def ended_state(self, before: int | None) -> Iterator[pa.RecordBatch]:
        """The closed sessions as state; `before` is as in `forget` (None: there was no
        watermark)."""
        if before is not None:
            self.forget(before, at_once=True)
        keys = (
            self._hashes[np.append(True, self._hashes[1:] != self._hashes[:-1])]
            if self.count
            else self._hashes
        )
        floors = self._floors(keys)
        return self.ended.state((keys[floors > LEAST], floors[floors > LEAST]))

    def _is_open(self, hashes: Hashes) -> Mask:
        """Which keys have an open session."""
        if not self.count:
            return np.zeros(len(hashes), np.bool_)
        at = np.minimum(np.searchsorted(self._hashes, hashes), self.count - 1)
        found: Mask = self._hashes[at] == hashes
        return found

    def _floors(self, hashes: Hashes) -> Indexes:
        """Up to when a closed session of each key may have been forgotten: since its open sessions
        began none was."""
        low, high = (np.searchsorted(self._hashes, hashes, side=side) for side in ("left", "right"))
        floors = np.append(self._floor[self._numbers], self.ended.forgotten)
        least = (
            np.minimum.reduceat(floors, np.stack((low, high), 1).ravel())[::2]
            if len(hashes)
            else floors[:0]
        )
        return np.where(low < high, least, self.ended.forgotten)

    def now(self, numbers: Indexes) -> Indexes:
        """The numbers that sessions with these numbers have now."""
        while True:
            found = self.root[numbers]
            if np.array_equal(found, numbers):
                return found
            numbers = found

    def renumber(self) -> Indexes:
        """Assigns the numbers of the open sessions again, from 0; returns the new ones by the
        old, which must be those that `now` gives."""
        moved = np.full(len(self.root), -1, np.int64)
        moved[self._numbers] = np.arange(self.count)
        self.first, self.last = self.first[self._numbers], self.last[self._numbers]
        self._floor = self._floor[self._numbers]
        self._numbers = np.arange(self.count)
        self.root = np.arange(self.count)
        return moved


def _apart(before: Indexes, after: Indexes, gap: int) -> Mask:
    """Whether the second time is more than a gap behind the first."""
    # The difference of two numbers of which the second is larger fits into 64 bits without a sign.
    later = after > before
    distance = after.view(np.uint64) - before.view(np.uint64)
    apart: Mask = later & (distance > np.uint64(gap))
    return apart


def sorted_events(hashes: Hashes, times: Indexes) -> Indexes:
    """The order of events by hash, then by time. Where there are few keys numpy sorts by their
    ranks, which it does byte by byte: 64 K events take 1 ms instead of 10."""
    encoded = from_numbers(hashes, pa.uint64()).dictionary_encode()
    distinct = numbers(encoded.dictionary, np.uint64)
    if len(distinct) > _FEW_KEYS:
        return np.lexsort((times, hashes))
    by_hash = np.argsort(distinct)
    ranks = np.empty(len(distinct), np.uint16)
    ranks[by_hash] = np.arange(len(distinct))
    of_rows = ranks[numbers(encoded.indices, np.int32)]
    if not (times[1:] < times[:-1]).any():
        return np.argsort(of_rows, kind="stable")
    by_time = np.argsort(times, kind="stable")
    order: Indexes = by_time[np.argsort(of_rows[by_time], kind="stable")]
    return order
