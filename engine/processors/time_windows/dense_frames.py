"""The frames of windows that overlap (see `frames`), where all states are numbers: one array per
state, one place per key.

A window is then a running total: what enters it is added, and what leaves it is deducted where that
is exact; where it isn't (MIN, MAX, sums of DOUBLE) there are two stacks as in `frames`, of arrays.
So a window costs a few operations of numpy over its keys and over what its newest and oldest frames
hold, and no group-by.

Sums are kept in 64 bits. Groups whose sums might not fit there aren't taken: then `frames` has to
do it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from runnel.columns.batches import Indexes, Mask, Numbers, indexes
from runnel.expressions.aggregates.states import LARGEST, sum_overflow
from runnel.processors.grouping.group_state import GroupLayout, Partial
from runnel.processors.panes.dense_states import DenseState
from runnel.processors.panes.key_numbers import KeyNumbers
from runnel.processors.panes.pane_columns import grown, peak
from runnel.processors.time_windows.frames import FEW_ROWS, FrameTimes, next_end

SPARSE_KEYS = 1 << 12
"""With fewer keys than these nothing is gained by forgetting some."""

SPARSE_SHARE = 4
"""Unused keys are removed when a window has fewer than one key in SPARSE_SHARE."""


@dataclass(slots=True)
class DenseFrame:
    """The groups of one frame: their slots, and of each state the numbers, which of them aren't
    NULL (None: all), and how large a sum can be. `whole`: of each state that can't be deducted, the
    numbers of this and all later frames of the front stack, by slot, where they are known."""

    end: int
    slots: Indexes
    values: list[Numbers]
    valid: list[Mask | None]
    peaks: list[int]
    whole: list[Numbers] = field(default_factory=list)


class DenseFrames:
    """As `WindowFrames`, of groups whose states are all numbers."""

    def __init__(
        self, times: FrameTimes, layout: GroupLayout, states: Sequence[DenseState]
    ) -> None:
        self._times = times
        self._states = states
        self._keys = KeyNumbers(layout.key_types)
        self._stacked = [i for i, state in enumerate(states) if not state.deducts]
        self._clear()

    def _clear(self) -> None:
        self._keys.clear()
        self._front: list[DenseFrame] = []
        self._back: list[DenseFrame] = []
        self._waiting: list[DenseFrame] = []
        self._reach = [0] * len(self._states)
        self._windows = 0
        self._restart()

    def _restart(self) -> None:
        """The totals of a window without frames. Those of states that can't be deducted are of the
        back stack only; `_present` counts the frames of the window that have a key, `_counts` those
        where its state isn't NULL (None: all)."""
        self._totals: list[Numbers] = [
            np.full(0, state.identity, state.dtype) for state in self._states
        ]
        self._present: Indexes = np.zeros(0, np.int64)
        self._counts: list[Indexes | None] = [None] * len(self._states)

    def add_groups(self, ends: Sequence[int], bounds: Sequence[int], groups: Partial) -> bool:
        """Takes groups of frames: those from bounds[i] to bounds[i + 1] are of the frame that ends
        at ends[i]. Where windows that contain one have been given already, those to come start
        anew. False, and nothing taken, where that can't be done exactly."""
        found = [
            state.read(columns[0])
            for state, columns in zip(self._states, groups.columns, strict=True)
        ]
        read = [item for item in found if item is not None]
        peaks = [
            peak(values) if state.is_exact_sum else 0
            for state, (values, _) in zip(self._states, read, strict=False)
        ]
        reach = [held + len(ends) * own for held, own in zip(self._reach, peaks, strict=False)]
        if len(read) < len(found) or any(size > LARGEST for size in reach):
            return False
        slots = self._keys.numbers_of(groups.keys, groups.num_rows)
        if slots is None:
            return False
        self._reach = reach
        newest = max(
            (frames[-1].end for frames in (self._front, self._back) if frames), default=None
        )
        if newest is not None and ends[0] <= newest:
            self._wait_again()
        for end, (start, stop) in zip(ends, pairwise(bounds), strict=True):
            values = [item[start:stop] for item, _ in read]
            valid = [None if item is None else item[start:stop] for _, item in read]
            insort(
                self._waiting,
                DenseFrame(end, slots[start:stop], values, valid, peaks),
                key=lambda frame: frame.end,
            )
        return True

    def _wait_again(self) -> None:
        self._waiting = self._frames()
        for frame in self._waiting:
            frame.whole = []
        self._front, self._back = [], []
        self._restart()

    def _frames(self) -> list[DenseFrame]:
        return [*self._front, *self._back, *self._waiting]

    def ends(self) -> list[int]:
        """The ends of all frames that are held, in order."""
        return [frame.end for frame in self._frames()]

    def frames(self) -> list[tuple[int, Partial]]:
        """The ends and the groups of all frames that are held, in order."""
        return [(frame.end, self._groups_of(frame)) for frame in self._frames()]

    def _groups_of(self, frame: DenseFrame) -> Partial:
        rows = indexes(frame.slots)
        columns = [
            [state.column(values, valid)]
            for state, values, valid in zip(self._states, frame.values, frame.valid, strict=True)
        ]
        return Partial([key.take(rows) for key in self._keys.keys], columns, len(rows))

    @property
    def size(self) -> tuple[int, int]:
        """How many groups all frames have, and about how many bytes they take. May be asked by
        other threads."""
        frames = self._frames()
        taken = sum(
            frame.slots.nbytes + sum(values.nbytes for values in frame.values) for frame in frames
        )
        return sum(len(frame.slots) for frame in frames), taken + sum(
            total.nbytes for total in self._totals
        )

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
                self._enter(frame)
            else:
                self._drop(frame)
        if not self._front and not self._back:
            return None
        live = np.flatnonzero(self._present)
        self._windows += 1
        if SPARSE_KEYS < self._keys.count > SPARSE_SHARE * len(live) and self._windows > len(
            self._frames()
        ):
            self._forget_keys()
            live = np.flatnonzero(self._present)
        return self._groups_at(live)

    def _groups_at(self, live: Indexes) -> Partial:
        """The groups of the window; `live` are their slots."""
        wholes = (
            dict(zip(self._stacked, self._whole_front(), strict=True))
            if self._front and self._stacked
            else {}
        )
        columns = []
        for i, (state, total) in enumerate(zip(self._states, self._totals, strict=True)):
            values = total[live]
            if i in wholes:
                with np.errstate(over="ignore", invalid="ignore"):
                    values = state.operation(values, wholes[i][live])
            if state.operation is np.add and state.dtype is np.float64 and np.isinf(values).any():
                self._check_infinite(i)
            counts = self._counts[i]
            columns.append([state.column(values, None if counts is None else counts[live] > 0)])
        keys = self._keys.keys
        if len(live) < self._keys.count:
            keys = [key.take(indexes(live)) for key in keys]
        return Partial(list(keys), columns, len(live))

    def _check_infinite(self, place: int) -> None:
        """DataError where no infinite value went into the window."""
        if not any(np.isinf(frame.values[place]).any() for frame in (*self._front, *self._back)):
            raise sum_overflow(self._states[place].position)

    def forget(self, after: int) -> None:
        """Lets go of the frames that no window beyond `after` contains."""
        end = self.next_end(after)
        if end is None:
            self._clear()
        else:
            self._forget_before(self._times.first_frame(end))

    def _enter(self, frame: DenseFrame) -> None:
        """A frame comes into the window."""
        self._make_room()
        slots = frame.slots
        for i, (state, values) in enumerate(zip(self._states, frame.values, strict=True)):
            total = self._totals[i]
            with np.errstate(over="ignore", invalid="ignore"):
                total[slots] = state.operation(total[slots], values)
            valid, counts = frame.valid[i], self._counts[i]
            if valid is not None and counts is None:
                counts = self._counts[i] = self._present.copy()
            if counts is not None:
                counts[slots] += 1 if valid is None else valid
        self._present[slots] += 1
        self._back.append(frame)

    def _leave(self, frame: DenseFrame) -> None:
        """A frame goes out of the window. Of the states that can't be deducted, the stacks take
        care."""
        slots = frame.slots
        self._present[slots] -= 1
        for i, (state, values) in enumerate(zip(self._states, frame.values, strict=True)):
            if state.deducts:
                self._totals[i][slots] -= values
            valid, counts = frame.valid[i], self._counts[i]
            if counts is not None:
                counts[slots] -= 1 if valid is None else valid
        self._drop(frame)

    def _drop(self, frame: DenseFrame) -> None:
        self._reach = [held - own for held, own in zip(self._reach, frame.peaks, strict=True)]

    def _make_room(self) -> None:
        count = self._keys.count
        if count == len(self._present):
            return
        self._present = grown(self._present, count, 0)
        self._totals = [
            grown(total, count, state.identity)
            for total, state in zip(self._totals, self._states, strict=True)
        ]
        self._counts = [
            None if counts is None else grown(counts, count, 0) for counts in self._counts
        ]

    def _forget_before(self, first: int) -> None:
        """Lets go of the frames before `first`."""
        while self._front and self._front[0].end < first:
            self._leave(self._front.pop(0))
        if self._front or not self._back or self._back[0].end >= first:
            return
        for frame in self._back:
            if frame.end < first:
                self._leave(frame)
        self._front = [frame for frame in self._back if frame.end >= first]
        self._back = []
        for i in self._stacked:
            self._totals[i].fill(self._states[i].identity)

    def _whole_front(self) -> list[Numbers]:
        """Of each state that can't be deducted the numbers of the front stack. Makes those of the
        next frames too, where there are none yet: of all, or if they are large, up to a place a
        square root's share further on."""
        front, count = self._front, len(self._present)
        if front[0].whole and len(front[0].whole[0]) == count:
            return front[0].whole
        known = next((i for i, frame in enumerate(front) if frame.whole), len(front))
        spacing = 1 if known * count <= FEW_ROWS else max(2, int(known**0.5))
        states = [self._states[i] for i in self._stacked]
        whole = (
            front[known].whole
            if known < len(front)
            else [self._totals[i][:0] for i in self._stacked]
        )
        whole = [
            grown(values, count, state.identity)
            for values, state in zip(whole, states, strict=True)
        ]
        if not known:
            front[0].whole = whole
        for i in range(known - 1, -1, -1):
            frame = front[i]
            whole = [
                self._stacked_on(values, frame, place)
                for values, place in zip(whole, self._stacked, strict=True)
            ]
            if i % spacing == 0 or i < spacing:
                frame.whole = whole
        return whole

    def _stacked_on(self, values: Numbers, frame: DenseFrame, place: int) -> Numbers:
        found = values.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            found[frame.slots] = self._states[place].operation(
                found[frame.slots], frame.values[place]
            )
        return found

    def _forget_keys(self) -> None:
        """Removes the keys that no frame has, if they are many, and numbers the others again."""
        self._windows = 0
        used = self._present > 0
        for frame in self._waiting:
            used[frame.slots[frame.slots < len(used)]] = True
        count = self._keys.count
        used = np.concatenate((used, np.ones(count - len(used), np.bool_)))
        kept = np.flatnonzero(used)
        if 2 * len(kept) > count:
            return
        new = np.cumsum(used) - 1
        for frame in self._frames():
            frame.slots = new[frame.slots]
            frame.whole = [values[kept[kept < len(values)]] for values in frame.whole]
        within = kept[kept < len(self._present)]
        self._present = self._present[within]
        self._totals = [total[within] for total in self._totals]
        self._counts = [None if counts is None else counts[within] for counts in self._counts]
        self._keys.retain(kept)
