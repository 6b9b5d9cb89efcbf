"""The groups of one pane: for each state an array with one element per key number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, Mask, Numbers, validity
from runnel.expressions.aggregates.states import AggregateState, Count, sum_overflow
from runnel.processors.grouping.group_state import GroupLayout
from runnel.processors.panes.dense_states import DenseState, dense_state

SPARSE_ROOM = 4
"""With more key numbers per row than these, rows are not counted by an array of all keys."""

Rows: TypeAlias = "slice | Indexes"
"""The rows of a pane among the rows of a batch."""


@frozen
class RowState:
    """A state that is accumulated from rows.

    dense: its numbers.
    argument: the index of its argument column; −1: it counts all rows.
    counts: whether it counts rows, or arguments that are not NULL.
    """

    dense: DenseState
    argument: int
    counts: bool

    @property
    def has_values(self) -> bool:
        """Whether there is more to it than a number of rows."""
        return not self.counts

    def read(self, columns: Sequence[pa.Array]) -> ArgumentNumbers | None:
        """The numbers of the argument column; None where they don't fit in 64 bits."""
        if self.argument < 0:
            return ArgumentNumbers(None, None, 0)
        column = columns[self.argument]
        if self.counts:
            return ArgumentNumbers(None, validity(column), 0)
        found = self.dense.read(column)
        if found is None:
            return None
        values, valid = found
        return ArgumentNumbers(values, valid, peak(values) if self.dense.is_exact_sum else 0)

    def read_groups(self, column: pa.Array) -> ArgumentNumbers | None:
        """The numbers of a column of the state itself; None where they don't fit in 64 bits."""
        found = self.dense.read(column)
        if found is None:
            return None
        values, valid = found
        return ArgumentNumbers(values, valid, peak(values) if self.dense.is_exact_sum else 0)


@frozen
class ArgumentNumbers:
    """The argument column of a state, or its column in groups.

    values: its numbers; None for a count of rows.
    valid: False where the argument is NULL; None if no argument is.
    peak: the largest magnitude of the values, for an exact sum.
    """

    values: Numbers | None
    valid: Mask | None
    peak: int


def row_states(layout: GroupLayout) -> list[RowState] | None:
    """The states of a layout as arrays; None if one of them needs more than numbers."""
    found = []
    for state, arguments in zip(layout.states, layout.arguments, strict=True):
        dense = dense_state(state) if _reads_argument(state) else None
        if dense is None or len(arguments) > 1:
            return None
        counts = isinstance(state, Count)
        is_of_rows = isinstance(state, Count) and state.of_rows
        found.append(RowState(dense, -1 if is_of_rows else arguments[0], counts))
    return found


def _reads_argument(state: AggregateState) -> bool:
    """Whether a state is accumulated from the argument column itself, not from values that are
    computed of it."""
    return state.combined is state


def peak(values: Numbers) -> int:
    """The largest magnitude among numbers."""
    return max(-int(values.min()), int(values.max())) if len(values) else 0


class PaneColumns:
    """The groups of one pane.

    rows: the number of its rows.
    room: the number of key numbers that its arrays have elements for.
    """

    def __init__(self, states: Sequence[RowState]) -> None:
        self._states = states
        self.rows = 0
        self.room = 0
        self._reach = [0] * len(states)
        self._present: Indexes = np.zeros(0, np.int64)
        """The number of rows of each key."""
        self._totals: list[Numbers] = [np.zeros(0, state.dense.dtype) for state in states]
        self._is_infinite = [False] * len(states)
        self._counts: list[Indexes | None] = [None] * len(states)
        """For each state the number of rows of each key whose argument is not NULL. None: all."""

    @property
    def groups(self) -> int:
        """The number of keys that have rows."""
        return int(np.count_nonzero(self._present))

    @property
    def size(self) -> int:
        """The number of bytes of its arrays."""
        counts = sum(0 if item is None else item.nbytes for item in self._counts)
        return self._present.nbytes + sum(item.nbytes for item in self._totals) + counts

    def has_room_for(self, arguments: Sequence[ArgumentNumbers], rows: int) -> bool:
        """Whether all sums fit in 64 bits when rows with these arguments are added."""
        limit = (1 << 63) - 1
        return all(
            not item.peak or held + rows * item.peak <= limit
            for held, item in zip(self._reach, arguments, strict=True)
        )

    # Example: two rows of the keys 1 and 0, two rows of the key 1 with the arguments 5 and NULL:
    # `at` = [1, 0, 1, 1], the arguments [2, 7, 5, NULL]. The rows per key are [1, 3]; the rows that
    # count are [1, 0, 1], so a sum becomes [7, 7], and its counts [1, 2].
    def add(self, at: Indexes, arguments: Sequence[ArgumentNumbers], rows: Rows, room: int) -> None:
        """Accumulate some rows of a batch.

        at: the key number of each of these rows.
        arguments: for each state, the arguments of all rows of the batch.
        rows: which rows of the batch they are.
        room: the number of keys.
        """
        if room > self.room:
            self._grow(max(room, 2 * self.room))
        for i, item in enumerate(arguments):
            if self._states[i].argument < 0:
                continue
            valid = None if item.valid is None else item.valid[rows]
            if valid is not None and self._counts[i] is None:
                self._counts[i] = self._present.copy()
            own, counts = at if valid is None else at[valid], self._counts[i]
            if counts is not None:
                _tally(counts, own)
            if item.values is not None:
                values = item.values[rows]
                self._accumulate(i, own, values if valid is None else values[valid])
                self._reach[i] += len(at) * item.peak
        _tally(self._present, at)
        self.rows += len(at)

    # Example: the groups of the keys 1 and 0 with the sums [NULL, 7]. The sum of the key 0 grows
    # by 7, and only its count of values that are not NULL grows.
    def add_groups(
        self, at: Indexes, states: Sequence[ArgumentNumbers], rows: Rows, room: int
    ) -> None:
        """Combine with groups, each key at most once.

        at: the key number of each of these groups.
        states: for each state its numbers in all groups of the batch.
        rows: which groups of the batch they are.
        room: the number of keys.
        """
        if room > self.room:
            self._grow(max(room, 2 * self.room))
        per_key: Numbers | int = 1
        for i, item in enumerate(states):
            assert item.values is not None
            values = item.values[rows]
            if self._states[i].argument < 0:
                per_key = values
                continue
            valid = None if item.valid is None else item.valid[rows]
            counts = self._counts[i]
            if counts is None and (valid is not None or self._states[i].counts):
                counts = self._counts[i] = self._present.copy()
            if valid is not None:
                values = values[valid]
            own = at if valid is None else at[valid]
            if counts is not None:
                counts[own] += values if self._states[i].counts else 1
            if self._states[i].has_values:
                self._combine(i, own, values)
                self._reach[i] += item.peak
        self._present[at] += per_key
        self.rows += len(at)

    def _combine(self, i: int, at: Indexes, values: Numbers) -> None:
        state, total = self._states[i].dense, self._totals[i]
        with np.errstate(over="ignore", invalid="ignore"):
            total[at] = state.operation(total[at], values)
        self._check_infinite(i, values)

    def _accumulate(self, i: int, at: Indexes, values: Numbers) -> None:
        state, total = self._states[i].dense, self._totals[i]
        if total.dtype.kind == "i":
            state.operation.at(total, at, values)
            return
        with np.errstate(over="ignore", invalid="ignore"):
            state.operation.at(total, at, values)
        self._check_infinite(i, values)

    def _check_infinite(self, i: int, values: Numbers) -> None:
        """DataError where a sum of finite DOUBLEs is infinite; `values` were added last."""
        state = self._states[i].dense
        if state.is_double_sum and not self._is_infinite[i] and np.isinf(self._totals[i]).any():
            if not np.isinf(values).any():
                raise sum_overflow(state.position)
            self._is_infinite[i] = True

    def _grow(self, room: int) -> None:
        self._present = grown(self._present, room, 0)
        self._totals = [
            grown(total, room, state.dense.identity) if state.has_values else total
            for total, state in zip(self._totals, self._states, strict=True)
        ]
        self._counts = [None if item is None else grown(item, room, 0) for item in self._counts]
        self.room = room

    def columns(self) -> tuple[Indexes, list[list[pa.Array]]]:
        """The key numbers that have rows, and the columns of their states."""
        live = np.flatnonzero(self._present)
        found = []
        for state, total, counts in zip(self._states, self._totals, self._counts, strict=True):
            per_key = (self._present if counts is None else counts)[live]
            if state.has_values:
                valid = None if counts is None else per_key > 0
                found.append([state.dense.column(total[live], valid)])
            else:
                found.append([state.dense.column(per_key, None)])
        return live, found


def grown(values: Numbers, size: int, filler: object) -> Numbers:
    """The numbers of `size` keys; of new ones they are `filler`."""
    if len(values) == size:
        return values
    return np.concatenate((values, np.full(size - len(values), filler, values.dtype)))


# Example: target = [0, 3], at = [1, 1, 0] makes it [1, 5].
def _tally(target: Indexes, at: Indexes) -> None:
    """Add 1 to an element for each time that it is in `at`."""
    if len(target) <= SPARSE_ROOM * len(at):
        target += np.bincount(at, minlength=len(target))
    else:
        np.add.at(target, at, 1)
