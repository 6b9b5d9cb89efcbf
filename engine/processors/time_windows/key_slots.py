"""Numbers for keys: each distinct key gets the next number, its slot, so that what is kept per key
can lie in plain arrays.

Keys are found by their 64-bit hashes in a table with open addressing, all keys of a call at once,
and then confirmed. Should two different keys share a hash, which hardly ever happens, nobody is
given a wrong slot: `places` gives up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, indexes, join_arrays
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.processors.grouping.row_identity import same
from runnel.processors.joins.index import is_integer_like

SMALLEST_TABLE = 64
ROOM = 3
"""The table has at least so many places per key, so that most keys are found where they are looked
for first."""


class KeySlots:
    """Distinct keys, and their slots 0, 1, 2, …"""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        self.clear()

    def clear(self) -> None:
        """Forgets all keys."""
        self.keys: list[pa.Array] = [pa.nulls(0, kind) for kind in self._types]
        self._hashes: Hashes = np.zeros(0, np.uint64)
        self._table: Indexes = np.full(SMALLEST_TABLE, -1, np.int64)

    @property
    def count(self) -> int:
        """How many keys there are."""
        return len(self._hashes)

    def places(self, keys: Sequence[pa.Array], num_rows: int) -> Indexes | None:
        """The slot of each row's key; new keys get new slots. None where that can't be told."""
        if not keys:
            self._hashes = np.zeros(1, np.uint64)
            return np.zeros(num_rows, np.int64)
        hashes = hash_columns(keys)
        slots = self._find(hashes)
        unknown = np.flatnonzero(slots < 0)
        if len(unknown):
            _, first = np.unique(hashes[unknown], return_index=True)
            rows = unknown[np.sort(first)]
            self._add([key.take(indexes(rows)) for key in keys], hashes[rows])
            slots[unknown] = self._find(hashes[unknown])
        return slots if self._confirmed(keys, slots) else None

    def keep(self, slots: Indexes) -> None:
        """Leaves only some keys, numbered anew in this order."""
        rows = indexes(slots)
        self.keys = [key.take(rows) for key in self.keys]
        self._hashes = self._hashes[slots]
        self._build()

    def _confirmed(self, keys: Sequence[pa.Array], slots: Indexes) -> bool:
        if (
            len(keys) == 1
            and is_integer_like(keys[0].type)
            and not keys[0].null_count
            and not self.keys[0].null_count
        ):
            # There the hash is a bijection.
            return True
        return bool(same(keys, np.arange(len(slots)), self.keys, slots).all())

    def _find(self, hashes: Hashes) -> Indexes:
        """The slots of hashes; −1 for those that aren't there."""
        table, known = self._table, self._hashes
        mask = len(table) - 1
        at = (hashes & np.uint64(mask)).view(np.int64)
        slots = table[at]
        if not len(known):
            return slots
        # A slot of −1 reads the last hash; whatever it finds there, it stays −1.
        rows = np.flatnonzero((known[slots] != hashes) & (slots >= 0))
        while len(rows):
            at[rows] = (at[rows] + 1) & mask
            slots[rows] = table[at[rows]]
            found = slots[rows]
            rows = rows[(known[found] != hashes[rows]) & (found >= 0)]
        return slots

    def _add(self, keys: Sequence[pa.Array], hashes: Hashes) -> None:
        """Adds keys that aren't there, each once."""
        start = self.count
        self.keys = [
            join_arrays([mine, new]) if start else new
            for mine, new in zip(self.keys, keys, strict=True)
        ]
        self._hashes = np.concatenate((self._hashes, hashes))
        if ROOM * self.count > len(self._table):
            self._build()
        else:
            self._enter(np.arange(start, self.count))

    def _build(self) -> None:
        size = max(SMALLEST_TABLE, 1 << (2 * ROOM * self.count - 1).bit_length())
        self._table = np.full(size, -1, np.int64)
        self._enter(np.arange(self.count))

    def _enter(self, slots: Indexes) -> None:
        """Enters slots in the table: each at the first free place; of several that want one, one
        gets it."""
        table = self._table
        mask = len(table) - 1
        at = (self._hashes[slots] & np.uint64(mask)).view(np.int64)
        while len(slots):
            free = table[at] < 0
            table[at[free]] = slots[free]
            left = table[at] != slots
            slots, at = slots[left], (at[left] + 1) & mask
