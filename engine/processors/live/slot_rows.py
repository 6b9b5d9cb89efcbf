"""The current row of each slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask
from runnel.processors.live.row_log import RowLog

LEAST_ROWS = 1024
"""Number of rows from which a log with many replaced rows is rewritten."""


class SlotRows:
    """At most one row for each slot. A row that replaces another is appended to a log, which is
    rewritten when most of its rows have been replaced or removed."""

    def __init__(self) -> None:
        self._log = RowLog()
        self._row_of: Indexes = np.full(64, -1, np.int64)
        self._count = 0
        self._is_shared = False

    def frozen(self) -> SlotRows:
        """The rows as they are now, which later changes of this object leave as they are."""
        found = SlotRows()
        found._log, found._row_of, found._count = self._log.frozen(), self._row_of, self._count
        found._is_shared = self._is_shared = True
        return found

    def _own(self) -> None:
        """Before a change: frozen rows keep the array that they share."""
        if self._is_shared:
            self._row_of, self._is_shared = self._row_of.copy(), False

    @property
    def count(self) -> int:
        """Number of slots that have a row."""
        return self._count

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return self._log.size + self._row_of.nbytes

    def has(self, slots: Indexes) -> Mask:
        """Whether each slot has a row."""
        result: Mask = self._row_of[np.minimum(slots, len(self._row_of) - 1)] >= 0
        return result & (slots < len(self._row_of))

    def get(self, slots: Indexes) -> list[pa.Array]:
        """The rows of slots that have one; there is at least one slot."""
        return self._log.take(self._row_of[slots])

    def row(self, slot: int) -> list[pa.Array] | None:
        """The row of a slot, as arrays of one value; None if it has none."""
        position = int(self._row_of[slot]) if slot < len(self._row_of) else -1
        return None if position < 0 else self._log.row(position)

    def positions(self) -> tuple[Indexes, Indexes]:
        """The slots that have a row, and the positions of their rows, which ascend."""
        slots = np.flatnonzero(self._row_of >= 0)
        positions = self._row_of[slots]
        order = np.argsort(positions, kind="stable")
        return slots[order], positions[order]

    def at(self, positions: Indexes, columns: Sequence[int]) -> list[pa.Array]:
        """Some columns of the rows at these positions, of which there is at least one."""
        return self._log.take(positions, columns)

    def put(self, slots: Indexes, columns: Sequence[pa.Array]) -> None:
        """Sets the rows of different slots."""
        if not len(slots):
            return
        self._own()
        self._make_room(int(slots.max()) + 1)
        start = len(self._log)
        self._log.append(columns, len(slots))
        self._count += int((self._row_of[slots] < 0).sum())
        self._row_of[slots] = np.arange(start, start + len(slots))
        if len(self._log) > max(LEAST_ROWS, 2 * self._count):
            self._rewrite()

    def remove(self, slots: Indexes) -> None:
        """Removes the rows of slots that have one."""
        self._own()
        self._row_of[slots] = -1
        self._count -= len(slots)

    def _make_room(self, slots: int) -> None:
        if slots > len(self._row_of):
            grown = np.full(max(2 * len(self._row_of), slots), -1, np.int64)
            grown[: len(self._row_of)] = self._row_of
            self._row_of = grown

    def _rewrite(self) -> None:
        """Leaves only current rows in the log."""
        slots = np.flatnonzero(self._row_of >= 0)
        columns = self.get(slots) if len(slots) else []
        self._log = RowLog()
        self._log.append(columns, len(slots))
        self._row_of[slots] = np.arange(len(slots))
