"""Numbers for groups: each distinct key gets the next number, its slot, so that the values of
groups can be in arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, indexes
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.processors.grouping.row_identity import same
from runnel.processors.joins.index import is_integer_like
from runnel.processors.live.row_log import RowLog

SMALLEST_TABLE = 64
ROOM = 3
"""Minimum number of entries of the table per key, so that most keys are found at their first
entry."""


class GroupSlots:
    """Distinct keys, and their slots 0, 1, 2, …

    A key is found by its 64-bit hash in a table with open addressing, all keys of a call at once,
    and confirmed by its value.

    types: the types of the key columns; without columns there is one group.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        self._keys = RowLog()
        self._hashes: Hashes = np.zeros(SMALLEST_TABLE, np.uint64)
        self._table: Indexes = np.full(SMALLEST_TABLE, -1, np.int64)
        self._has_nulls = False
        self.count = 0

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return self._keys.size + self._hashes.nbytes + self._table.nbytes

    def keys_of(self, slots: Indexes) -> list[pa.Array]:
        """The keys of some slots, of which there is at least one."""
        return self._keys.take(slots) if self._types else []

    def slots(self, keys: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, Mask]:
        """The slot of the key of each row, and whether it is new. New keys get the next slots."""
        known = self.count
        if not self._types:
            self.count = 1
            slots = np.zeros(num_rows, np.int64)
            return slots, slots >= known
        hashes = hash_columns(keys)
        slots = self._find(keys, hashes, np.arange(num_rows))
        unknown = np.flatnonzero(slots < 0)
        while len(unknown):
            # Of different keys with one hash, one is added in each round.
            _, first = np.unique(hashes[unknown], return_index=True)
            rows = unknown[np.sort(first)]
            self._add([key.take(indexes(rows)) for key in keys], hashes[rows])
            slots[unknown] = self._find(keys, hashes, unknown)
            unknown = unknown[slots[unknown] < 0]
        return slots, slots >= known

    def found(self, keys: Sequence[pa.Array], num_rows: int) -> Indexes:
        """The slot of the key of each row; −1 for a key that has none."""
        if not self._types:
            return np.full(num_rows, self.count - 1, np.int64)
        return self._find(keys, hash_columns(keys), np.arange(num_rows))

    def _find(self, keys: Sequence[pa.Array], hashes: Hashes, rows: Indexes) -> Indexes:
        """The slots of the keys of `rows`; −1 for keys that have none."""
        table = self._table
        mask = len(table) - 1
        probes = hashes[rows]
        at = (probes & np.uint64(mask)).view(np.int64)
        slots = table[at]
        left = np.arange(len(rows))
        while len(left):
            left = left[slots[left] >= 0]
            is_other = self._hashes[slots[left]] != probes[left]
            hits = left[~is_other]
            differ = hits[~self._confirmed(keys, rows[hits], slots[hits])]
            left = np.concatenate((left[is_other], differ))
            at[left] = (at[left] + 1) & mask
            slots[left] = table[at[left]]
        return slots

    def _confirmed(self, keys: Sequence[pa.Array], rows: Indexes, slots: Indexes) -> Mask:
        if not len(rows) or (
            len(keys) == 1
            and is_integer_like(keys[0].type)
            and not self._has_nulls
            and not keys[0].null_count
        ):
            # There the hash is a bijection.
            return np.ones(len(rows), np.bool_)
        return same(keys, rows, self._keys.take(slots), np.arange(len(slots)))

    def _add(self, keys: Sequence[pa.Array], hashes: Hashes) -> None:
        """Adds keys that have no slots, each once."""
        start = self.count
        self.count = start + len(hashes)
        self._has_nulls |= any(key.null_count for key in keys)
        self._keys.append(keys, len(hashes))
        if self.count > len(self._hashes):
            grown = np.zeros(max(2 * len(self._hashes), self.count), np.uint64)
            grown[:start] = self._hashes[:start]
            self._hashes = grown
        self._hashes[start : self.count] = hashes
        if ROOM * self.count > len(self._table):
            size = max(SMALLEST_TABLE, 1 << (2 * ROOM * self.count - 1).bit_length())
            self._table = np.full(size, -1, np.int64)
            self._enter(np.arange(self.count))
        else:
            self._enter(np.arange(start, self.count))

    def _enter(self, slots: Indexes) -> None:
        """Enters slots in the table: each at the first free entry; of several that need the same
        entry, one gets it."""
        table = self._table
        mask = len(table) - 1
        at = (self._hashes[slots] & np.uint64(mask)).view(np.int64)
        while len(slots):
            free = table[at] < 0
            table[at[free]] = slots[free]
            left = table[at] != slots
            slots, at = slots[left], (at[left] + 1) & mask
