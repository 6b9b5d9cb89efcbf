"""The open panes of an operator: rows of one batch after another are accumulated in place.

Panes are for many rows per group and for states that are numbers. The rows of a batch are divided
by the keys that a watermark bounds, such as the end of the window, and each section is added to its
pane. A pane never has more elements than a few times its rows, so a batch that would need more is
refused: then the caller removes all panes as groups (`take_all`), and the panes begin again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, indexes, numbers, repeated
from runnel.processors.grouping.group_state import GroupLayout, Partial
from runnel.processors.panes.due_times import DueTimes
from runnel.processors.panes.key_numbers import KeyNumbers
from runnel.processors.panes.pane_columns import (
    ArgumentNumbers,
    PaneColumns,
    Rows,
    RowState,
    row_states,
)
from runnel.processors.sources.partition_watermarks import event_times

MOST_PARTS = 16
"""The number of panes per batch up to which rows are accumulated in panes."""

ROOM = 1 << 16
"""The number of elements that all panes together may have, however few rows they have."""

ROOM_PER_ROW = 4
"""The number of elements per row that all panes together may have."""

MOST_TEXTS = 1 << 18
"""The number of keys from which keys that are not integers are numbered again from the start."""


class OpenPanes:
    """The open panes of one processor.

    layout: the groups.
    due: when they are due; its bounded keys are the same for all groups of a pane.
    states: the states of the layout.
    """

    def __init__(self, layout: GroupLayout, due: DueTimes, states: Sequence[RowState]) -> None:
        self._due = due
        self._states = states
        self._width = len(layout.key_types)
        self._bounded = sorted(due.bounded_keys)
        self._others = [key for key in range(self._width) if key not in due.bounded_keys]
        self._key_numbers = KeyNumbers([layout.key_types[key] for key in self._others])
        self._panes: dict[tuple[int, ...], OpenPane] = {}

    @property
    def is_empty(self) -> bool:
        return not self._panes

    @property
    def has_keys(self) -> bool:
        """Whether keys are numbered, including keys that no pane has now."""
        return self._key_numbers.count > 0

    @property
    def rows(self) -> int:
        """The number of rows in all panes."""
        return sum(pane.states.rows for pane in tuple(self._panes.values()))

    @property
    def room(self) -> int:
        """The number of elements of all panes, which is at least the number of groups."""
        return sum(pane.states.room for pane in tuple(self._panes.values()))

    @property
    def size(self) -> tuple[int, int]:
        """The number of groups, and the bytes of all panes and keys. From any thread."""
        panes = [pane.states for pane in tuple(self._panes.values())]
        if not panes:
            return 0, 0
        return sum(pane.groups for pane in panes), self._key_numbers.size + sum(
            pane.size for pane in panes
        )

    def least(self) -> list[list[int]]:
        """For each pane its due time by each watermark."""
        return [pane.due for pane in self._panes.values()]

    def add(self, columns: Sequence[pa.Array], num_rows: int) -> bool:
        """Accumulate rows: the key columns, then the argument columns.

        Returns false, and changes nothing, if the rows can't be accumulated here.
        """
        arguments = [state.read(columns[self._width :]) for state in self._states]
        read = [item for item in arguments if item is not None]
        return len(read) == len(arguments) and self._add(columns, read, num_rows)

    def add_groups(self, groups: Partial) -> bool:
        """Combine with groups, each at most once.

        Returns false, and changes nothing, if that can't be done here.
        """
        columns = zip(self._states, groups.columns, strict=True)
        states = [state.read_groups(own[0]) for state, own in columns]
        read = [item for item in states if item is not None]
        return len(read) == len(states) and self._add(
            groups.keys, read, groups.num_rows, are_groups=True
        )

    def _add(
        self,
        keys: Sequence[pa.Array],
        read: Sequence[ArgumentNumbers],
        num_rows: int,
        are_groups: bool = False,
    ) -> bool:
        """Accumulate rows or combine with groups."""
        parts = _parts([keys[key] for key in self._bounded])
        if parts is None:
            return False
        at = self._key_numbers.numbers_of([keys[key] for key in self._others], num_rows)
        if at is None or not self._has_room(parts, num_rows):
            return False
        panes = [self._panes.get(key) for key, _ in parts]
        found = [pane.states for pane in panes if pane] or [PaneColumns(self._states)]
        if not all(states.has_room_for(read, 1 if are_groups else num_rows) for states in found):
            return False
        for key, rows in parts:
            pane = self._panes.get(key)
            if pane is None:
                pane = self._panes[key] = self._opened(key, keys, rows)
            add = pane.states.add_groups if are_groups else pane.states.add
            add(at[rows], read, rows, self._key_numbers.count)
        return True

    def _has_room(self, parts: Sequence[tuple[tuple[int, ...], Rows]], num_rows: int) -> bool:
        """Whether few enough elements would be unused."""
        count = self._key_numbers.count
        new = {key for key, _ in parts if key not in self._panes}
        room = count * (len(new) + len(self._panes))
        if room > max(ROOM, ROOM_PER_ROW * (self.rows + num_rows)):
            return False
        return self._key_numbers.is_of_integers or count <= MOST_TEXTS

    def _opened(self, times: Sequence[int], columns: Sequence[pa.Array], rows: Rows) -> OpenPane:
        first = rows.start if isinstance(rows, slice) else int(rows[0])
        bounds = {key: columns[key].slice(first, 1) for key in self._bounded}
        due = self._due.of_values(dict(zip(self._bounded, times, strict=True)))
        return OpenPane(bounds, due, PaneColumns(self._states))

    def take_due(self, times: Sequence[int]) -> list[Partial]:
        """Remove and return the groups of the panes that are complete by the watermarks' times."""
        complete = [
            key
            for key, pane in self._panes.items()
            if any(due < time for due, time in zip(pane.due, times, strict=True))
        ]
        return list(self._taken(complete))

    def take_all(self) -> list[Partial]:
        """Remove and return all groups, and forget all keys."""
        found = list(self._taken(list(self._panes)))
        self._key_numbers.clear()
        return found

    def _taken(self, chosen: Sequence[tuple[int, ...]]) -> Iterator[Partial]:
        keys = self._key_numbers.keys if chosen else []
        for key in chosen:
            pane = self._panes.pop(key)
            live, columns = pane.states.columns()
            rows = indexes(live)
            others = (column.take(rows) for column in keys)
            found = [
                repeated(pane.bounds[number][0], len(live))
                if number in pane.bounds
                else next(others)
                for number in range(self._width)
            ]
            yield Partial(found, columns, len(live))


class OpenPane:
    """One pane.

    bounds: the value of each bounded key, by its number, as a column of one row.
    due: its due time by each watermark.
    states: its groups.
    """

    __slots__ = ("bounds", "due", "states")

    def __init__(self, bounds: dict[int, pa.Array], due: list[int], states: PaneColumns) -> None:
        self.bounds = bounds
        self.due = due
        self.states = states


def open_panes(layout: GroupLayout, due: DueTimes) -> OpenPanes | None:
    """The panes of a layout; None if its states are not all numbers."""
    states = row_states(layout)
    return None if not states else OpenPanes(layout, due, states)


# Example: the ends of windows [10, 10, 20, 20, 10]. The values change at the rows 2 and 4, so the
# sections are the rows 0 to 1 of the pane 10, 2 to 3 of the pane 20, and 4 of the pane 10.
def _parts(bounded: Sequence[pa.Array]) -> list[tuple[tuple[int, ...], Rows]] | None:
    """Divide rows by their values of the bounded keys; None for too many sections, and for NULL."""
    columns = []
    for column in bounded:
        times = event_times(column)
        if times.null_count:
            return None
        columns.append(numbers(times, np.int64))
    changes = [np.flatnonzero(values[1:] != values[:-1]) + 1 for values in columns]
    if sum(map(len, changes)) >= MOST_PARTS:
        return _scattered_parts(columns)
    starts = sorted({0}.union(*(item.tolist() for item in changes)))
    return [
        (tuple(int(values[start]) for values in columns), slice(start, end))
        for start, end in pairwise([*starts, len(columns[0])])
    ]


# Example: the ends of windows [10, 20, 10, 20, …]. The first value is 10, and its rows are
# [0, 2, …]; among the rows that are left the first value is 20, and its rows are [1, 3, …].
def _scattered_parts(columns: Sequence[Indexes]) -> list[tuple[tuple[int, ...], Rows]] | None:
    """The same where the panes alternate; None for too many."""
    left = np.arange(len(columns[0]))
    parts: list[tuple[tuple[int, ...], Rows]] = []
    while len(left):
        if len(parts) == MOST_PARTS:
            return None
        key = tuple(int(values[left[0]]) for values in columns)
        is_same = np.ones(len(left), np.bool_)
        for values, value in zip(columns, key, strict=True):
            is_same &= values[left] == value
        parts.append((key, left[is_same]))
        left = left[~is_same]
    return parts
