"""The states of open sessions, by the number of the session and the other keys; where memory has no
room, in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, from_numbers, indexes, numbers, validity
from runnel.processors.grouping.group_state import (
    GroupLayout,
    GroupState,
    Partial,
    exported,
    partial_of,
)
from runnel.processors.sessions.session_merge import OpenSessions
from runnel.storage.memory_budget import Memory, size_of

SESSION = 0
"""The number of the key that is the session's number; the other keys follow."""

BUFFERED_ROWS = 1 << 17
"""How many rows are buffered before they are collapsed, at least."""

MOST_RUNS = 32
"""With more runs of states than these they are put together."""


class SessionFile:
    """States in a file: those at `rows` of it. The numbers of their sessions are in memory
    (`valid`: which have one; None: all)."""

    def __init__(self, states: Partial, layout: GroupLayout, memory: Memory) -> None:
        found, self.valid = session_numbers(states)
        self.numbers = found.copy()
        self.rows: Indexes = np.arange(states.num_rows)
        batch = memory.mapped(exported(states, layout))
        self._states = partial_of(batch, layout)
        self.file_bytes = int(batch.nbytes)

    @property
    def held_bytes(self) -> int:
        """What it takes in memory."""
        return 16 * len(self.rows)

    def among(self, chosen: Mask) -> Mask:
        """Which states are of the chosen sessions."""
        if self.valid is None:
            return chosen[self.numbers]
        return np.where(self.valid, chosen[np.where(self.valid, self.numbers, 0)], False)

    def at(self, mask: Mask) -> Partial:
        """Some of the states."""
        found = self._states.take(indexes(self.rows[mask]))
        found.keys[SESSION] = from_numbers(
            self.numbers[mask], pa.int64(), None if self.valid is None else self.valid[mask]
        )
        return found

    def keep(self, mask: Mask) -> None:
        """Leaves only some of the states."""
        self.rows, self.numbers = self.rows[mask], self.numbers[mask]
        self.valid = None if self.valid is None else self.valid[mask]


class SessionStates:
    """The states of open sessions: the first key is the session's number, NULL for rows without a
    time."""

    def __init__(
        self, layout: GroupLayout, sessions: OpenSessions, check: Callable[[int], None]
    ) -> None:
        self.layout = layout
        self._whole = GroupState(layout, check)
        self._sessions = sessions
        self._check = check
        self._rows: list[Sequence[pa.Array]] = []
        self._row_count = 0
        self.runs: list[Partial] = []
        self._files: list[SessionFile] = []
        self.is_mixed = False
        """Whether sessions were brought together, so that a run may have a group more than once."""

    @property
    def is_empty(self) -> bool:
        return not self._row_count and not self.runs and not self._files

    @property
    def is_spilled(self) -> bool:
        """Whether some states are in files."""
        return bool(self._files)

    @property
    def size(self) -> tuple[int, int]:
        """The rows and groups that are held, and about how many bytes they take. May be asked by
        other threads."""
        runs, rows = tuple(self.runs), tuple(self._rows)
        taken = sum(run.size for run in runs) + sum(
            size_of(item) for columns in rows for item in columns
        )
        files = tuple(self._files)
        held = (
            self._row_count
            + sum(run.num_rows for run in runs)
            + sum(len(file.rows) for file in files)
        )
        return held, taken + sum(file.file_bytes + file.held_bytes for file in files)

    @property
    def spilled_size(self) -> tuple[int, int]:
        """How much of that is in files."""
        files = tuple(self._files)
        return sum(len(file.rows) for file in files), sum(file.file_bytes for file in files)

    def spill(self, memory: Memory) -> None:
        """Puts the states that are in memory into a file; whose sessions they are stays in
        memory."""
        self.collapse()
        self.update()
        together = self._together(self.runs)
        if together is not None:
            self.runs = []
            self._files.append(SessionFile(together, self.layout, memory))

    def all_runs(self) -> Iterator[Partial]:
        """All states, one part after the other."""
        yield from self.runs
        for file in self._files:
            yield file.at(np.ones(len(file.rows), np.bool_))

    def add(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Takes rows: the key columns, then the argument columns."""
        if num_rows:
            self._rows.append(columns)
            self._row_count += num_rows
            if self._row_count >= BUFFERED_ROWS:
                self.collapse()

    def add_states(self, partial: Partial) -> None:
        if partial.num_rows:
            self.runs.append(partial)
        self._check(sum(run.num_rows for run in self.runs))

    def collapse(self) -> None:
        """Turns the buffered rows into states."""
        if not self._row_count:
            return
        rows, count = self._rows, self._row_count
        self._rows, self._row_count = [], 0
        self.add_states(self._whole.collapse_rows(rows, count))
        if len(self.runs) > MOST_RUNS:
            self.update()
            self.runs = [self._whole.combine(self.runs)]
            self.is_mixed &= self.is_spilled

    def update(self) -> None:
        """Gives the groups the numbers that their sessions have now."""

        def now(found: Indexes) -> Indexes:
            current = self._sessions.now(found)
            self.is_mixed |= not np.array_equal(current, found)
            return current

        self.renew(now)

    def renew(self, change: Callable[[Indexes], Indexes]) -> None:
        """Gives the sessions other numbers."""
        for run in self.runs:
            numbers_, valid = session_numbers(run)
            found = np.zeros(run.num_rows, np.int64)
            chosen = slice(None) if valid is None else valid
            found[chosen] = change(numbers_[chosen])
            run.keys[SESSION] = from_numbers(found, pa.int64(), valid)
        for file in self._files:
            chosen = slice(None) if file.valid is None else file.valid
            file.numbers[chosen] = change(file.numbers[chosen])

    def take(self, closed: Mask | None) -> Partial | None:
        """The groups of the sessions that are closed (None: all groups), which are then forgotten;
        None for none."""
        self.collapse()
        self.update()
        if closed is None:
            parts, self.runs, self._files = list(self.all_runs()), [], []
        else:
            parts, left = [], []
            for run in self.runs:
                found, valid = session_numbers(run)
                gone = closed[found] if valid is None else valid & closed[np.where(valid, found, 0)]
                if gone.any():
                    parts.append(run.take(indexes(np.flatnonzero(gone))))
                    left.append(run.take(indexes(np.flatnonzero(~gone))))
                else:
                    left.append(run)
            self.runs = [run for run in left if run.num_rows]
            for file in self._files:
                gone = file.among(closed)
                if gone.any():
                    parts.append(file.at(gone))
                    file.keep(~gone)
            self._files = [file for file in self._files if len(file.rows)]
        return self._together(parts)

    def of(self, chosen: Mask, with_untimed: bool) -> Partial | None:
        """The groups of the chosen sessions, and of no session if asked for, which stay; None for
        none."""
        self.collapse()
        self.update()
        parts = []
        for run in self.runs:
            found, valid = session_numbers(run)
            here = (
                chosen[found]
                if valid is None
                else np.where(valid, chosen[np.where(valid, found, 0)], with_untimed)
            )
            if here.any():
                parts.append(run.take(indexes(np.flatnonzero(here))))
        for file in self._files:
            here = file.among(chosen)
            if with_untimed and file.valid is not None:
                here = here | ~file.valid
            if here.any():
                parts.append(file.at(here))
        return self._together(parts)

    def forget(self, closed: Mask) -> None:
        """Lets go of the groups of sessions that are closed."""
        self.collapse()
        self.update()
        for place, run in enumerate(self.runs):
            found, valid = session_numbers(run)
            gone = closed[found] if valid is None else valid & closed[np.where(valid, found, 0)]
            if gone.any():
                self.runs[place] = run.take(indexes(np.flatnonzero(~gone)))
        self.runs = [run for run in self.runs if run.num_rows]
        for file in self._files:
            file.keep(~file.among(closed))
        self._files = [file for file in self._files if len(file.rows)]

    def clear(self) -> None:
        """Lets go of all groups."""
        self._rows, self._row_count, self.runs, self._files = [], 0, [], []

    def _together(self, parts: Sequence[Partial]) -> Partial | None:
        if not parts:
            return None
        return self._whole.combine(parts) if self.is_mixed or len(parts) > 1 else parts[0]


def session_numbers(partial: Partial) -> tuple[Indexes, Mask | None]:
    column = partial.keys[SESSION]
    return numbers(column, np.int64), validity(column)
