"""The rows of a view: found by key, changed in place, and frozen for readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, indexes
from runnel.connector import BATCH_ROWS
from runnel.errors import internal
from runnel.processors.live.group_slots import GroupSlots
from runnel.processors.live.slot_rows import SlotRows

MOST_PROBES = 65_536
"""Number of keys whose slots are remembered for look-ups of single keys."""

FEWEST_SLOTS = 1024
"""Number of keys from which keys without a row are forgotten."""


class FrozenRows:
    """The rows of a view at the end of an epoch. They never change.

    rows: a row for each slot that has one.
    copies: how often each slot has its row; None: once.
    count: the number of rows.
    """

    def __init__(self, rows: SlotRows, copies: Indexes | None, count: int) -> None:
        self._rows = rows
        self._copies = copies
        self.count = count

    def batches(self, columns: Sequence[int]) -> Iterator[tuple[list[pa.Array], int]]:
        """Some columns of all rows, with the number of rows, at most BATCH_ROWS at a time."""
        slots, positions = self._rows.positions()
        if self._copies is not None:
            positions = np.repeat(positions, self._copies[slots])
        for start in range(0, len(positions), BATCH_ROWS):
            some = positions[start : start + BATCH_ROWS]
            yield self._rows.at(some, columns), len(some)


class ViewRows:
    """The rows of a view.

    types: the types of the columns.
    key: the columns by which the rows differ; None: rows may be equal.
    """

    def __init__(self, types: Sequence[pa.DataType], key: tuple[int, ...] | None) -> None:
        self._types = tuple(types)
        self._key = tuple(range(len(types))) if key is None else key
        self._slots = GroupSlots([types[i] for i in self._key])
        self._rows = SlotRows()
        self._copies: Indexes | None = np.zeros(0, np.int64) if key is None else None
        self._probes: dict[tuple[Any, ...], int] = {}
        self.count = 0

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        copies = 0 if self._copies is None else self._copies.nbytes
        return self._slots.size + self._rows.size + copies

    def change(self, columns: Sequence[pa.Array], weights: Indexes) -> None:
        """Applies the net changes of an epoch: different rows with weights other than 0."""
        if not len(weights):
            return
        slots, _ = self._slots.slots([columns[i] for i in self._key], len(weights))
        if self._copies is None:
            self._replace(columns, slots, weights)
        else:
            self._count_copies(columns, slots, weights)
        if self._slots.count > max(FEWEST_SLOTS, 2 * self._rows.count):
            self._renumber()

    def _replace(self, columns: Sequence[pa.Array], slots: Indexes, weights: Indexes) -> None:
        gone = slots[weights < 0]
        self._rows.remove(gone)
        rows = np.flatnonzero(weights > 0)
        added = slots[rows]
        if len(np.unique(added)) < len(added) or bool(self._rows.has(added).any()):
            raise internal("two rows of a view have the same key")
        taken = indexes(rows)
        self._rows.put(added, [column.take(taken) for column in columns])
        self.count += len(added) - len(gone)

    def _count_copies(self, columns: Sequence[pa.Array], slots: Indexes, weights: Indexes) -> None:
        assert self._copies is not None
        copies = np.zeros(self._slots.count, np.int64)
        copies[: len(self._copies)] = self._copies
        before = copies[slots]
        copies[slots] = after = before + weights
        if bool((after < 0).any()):
            raise internal("a row disappears from a view that does not have it")
        self._copies = copies
        rows = np.flatnonzero((before == 0) & (after > 0))
        taken = indexes(rows)
        self._rows.remove(slots[(before > 0) & (after == 0)])
        self._rows.put(slots[rows], [column.take(taken) for column in columns])
        self.count += int(weights.sum())

    def _renumber(self) -> None:
        """Forgets the keys that have no row."""
        frozen = self.frozen()
        self._probes.clear()
        self._slots = GroupSlots([self._types[i] for i in self._key])
        self._rows = SlotRows()
        slots, positions = frozen._rows.positions()
        if len(slots):
            columns = frozen._rows.at(positions, range(len(self._types)))
            numbers, _ = self._slots.slots([columns[i] for i in self._key], len(slots))
            self._rows.put(numbers, columns)
        if self._copies is not None:
            self._copies = self._copies[slots]

    def frozen(self) -> FrozenRows:
        """The rows as they are now. Copies of arrays are made when they change next."""
        return FrozenRows(self._rows.frozen(), self._copies, self.count)

    def row_with(
        self, key: tuple[Any, ...], arrays: Callable[[], Sequence[pa.Array] | None]
    ) -> list[pa.Array] | None:
        """The row with a key, as arrays of one value; None if there is none.

        key: Python values; keys that are equal in Python find the same row.
        arrays: returns the values as arrays; None: no row can have them.
        """
        try:
            slot = self._probes.get(key, -1)
        except TypeError:  # a list has no hash
            slot = -1
        if slot < 0:
            columns = arrays()
            slot = -1 if columns is None else int(self._slots.found(columns, 1)[0])
            if slot < 0:
                return None
            with suppress(TypeError):
                if len(self._probes) >= MOST_PROBES:
                    self._probes.clear()
                self._probes[key] = slot
        return self._rows.row(slot)

    def with_keys(self, keys: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, list[pa.Array]]:
        """For each key the index of its row among the returned rows, −1 if it has none."""
        slots = self._slots.found(keys, num_rows)
        found = slots >= 0
        found[found] = self._rows.has(slots[found])
        numbers = np.full(num_rows, -1, np.int64)
        numbers[found] = np.arange(int(found.sum()))
        if not found.any():
            return numbers, [pa.nulls(0, item) for item in self._types]
        return numbers, self._rows.get(slots[found])
