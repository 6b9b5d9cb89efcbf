"""Numbers for keys: each distinct key gets a number, so that its states are elements of plain
arrays.

There are two ways, and both number all keys of a call at once. A single integer key of a small
range needs no table: its number is its distance from the least key. Other keys are found by their
64-bit hashes in a table with open addressing and then compared. Of text and of several keys, only
the distinct ones of a call are hashed. Should two different keys have the same hash, which hardly
ever happens, no key gets a wrong number: `numbers_of` returns None.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Indexes, from_numbers, indexes, join_arrays, numbers
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.processors.grouping.row_identity import is_plain, normalised, same
from runnel.processors.joins.index import is_integer_like
from runnel.storage.memory_budget import size_of

SMALLEST_TABLE = 64
"""The least number of positions of the table."""

ROOM = 3
"""The least number of positions per key, so that most keys are found at their first position."""

RANGE_ROOM = 1 << 12
"""The number of consecutive integers that are numbered without a table, however few rows there
are."""

RANGE_ROOM_PER_ROW = 4
"""The number of consecutive integers per row that are numbered without a table."""

MOST_ROOM = 1 << 22
"""The number of consecutive integers that are numbered without a table, however many rows there
were."""

ENCODED_ROWS = 1 << 10
"""The number of rows from which text and several keys are reduced to distinct ones first."""

MOST_DISTINCT = 0.5
"""With a larger share of distinct keys among the rows, the rows of the next call are not reduced
first."""

_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_WITH_NULLS = pc.DictionaryEncodeOptions(null_encoding="encode")


class KeyNumbers:
    """Distinct keys of some columns, and their numbers 0, 1, 2, …

    Of integers without a table, numbers are also assigned to keys between the occurring ones.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        self.is_of_integers = len(self._types) == 1 and is_integer_like(self._types[0])
        """Whether equal hashes are equal keys, so that keys need not be compared."""
        self._may_be_range = len(self._types) == 1 and _is_signed(self._types[0])
        self.clear()

    def clear(self) -> None:
        """Forget all keys."""
        self._low: int | None = None
        self._range_count = 0
        self._rows = 0
        self._is_reducible = True
        self._parts: list[list[pa.Array]] = [[pa.nulls(0, kind)] for kind in self._types]
        self._hashes: Hashes = np.zeros(SMALLEST_TABLE, np.uint64)
        self._hash_count = 0
        self._table: Indexes = np.full(SMALLEST_TABLE, -1, np.int64)

    @property
    def count(self) -> int:
        """The number of keys."""
        return self._hash_count if self._low is None else self._range_count

    @property
    def is_range(self) -> bool:
        """Whether the keys are consecutive integers, which are numbered without a table."""
        return self._low is not None

    @property
    def keys(self) -> list[pa.Array]:
        """The columns of the keys, in the order of their numbers."""
        if self._low is None:
            self._parts = [[join_arrays(parts)] for parts in self._parts]
            return [part for (part,) in self._parts]
        kind = self._types[0]
        # The end of such a range may be beyond int64.
        values = np.int64(self._low) + np.arange(self._range_count, dtype=np.int64)
        return [from_numbers(values.astype(_WIDTHS[kind.bit_width], copy=False), kind)]

    @property
    def size(self) -> int:
        """The approximate number of bytes that the keys occupy."""
        columns = tuple(part for parts in self._parts for part in tuple(parts))
        return 8 * self._hash_count + sum(map(size_of, columns))

    def numbers_of(self, keys: Sequence[pa.Array], num_rows: int) -> Indexes | None:
        """Return the number of each row's key; new keys get new numbers.

        None if that isn't possible.
        """
        if not keys:
            self._hash_count = 1
            return np.zeros(num_rows, np.int64)
        self._rows += num_rows
        if self._may_be_range and num_rows and (self._low is not None or not self.count):
            found = self._in_range(keys[0])
            if found is not None:
                return found
            self._end_range()
        if num_rows >= ENCODED_ROWS and self._is_reducible:
            reduced = _reduced(keys, num_rows)
            if reduced is not None:
                codes, distinct = reduced
                self._is_reducible = len(distinct[0]) <= MOST_DISTINCT * num_rows
                of_distinct = self._in_table(distinct)
                return None if of_distinct is None else of_distinct[codes]
            self._is_reducible = False
        return self._in_table(keys)

    def retain(self, chosen: Indexes) -> None:
        """Retain only the keys with these numbers, and number them in this order."""
        if not len(chosen):
            self.clear()
            return
        rows = indexes(chosen)
        keys, self._low = [key.take(rows) for key in self.keys], None
        self._rows = len(rows)
        self._enter_all(keys)

    # Example: the keys [7, 9, 7] of the first call. `_low` is 0, since 0 is near enough, and the
    # numbers are the keys themselves, of 10 keys.
    def _in_range(self, key: pa.Array) -> Indexes | None:
        """The numbers of integers of a small range; None if they are no such integers."""
        if key.null_count:
            return None
        values = numbers(key, _WIDTHS[key.type.bit_width])
        least, greatest = int(values.min()), int(values.max())
        room = max(RANGE_ROOM, min(RANGE_ROOM_PER_ROW * self._rows, MOST_ROOM))
        low = self._low
        if low is None:
            low = 0 if least >= 0 and greatest < room else least
        if least < low or greatest - low >= room:
            return None
        self._low = low
        self._range_count = max(self._range_count, greatest - low + 1)
        wide = values.astype(np.int64, copy=False)
        return wide - low if low else wide

    def _end_range(self) -> None:
        """Put consecutive integers into the table, with the numbers that they have."""
        if self._low is None:
            return
        keys, self._low = self.keys, None
        self._enter_all(keys)

    def _enter_all(self, keys: list[pa.Array]) -> None:
        """Make the table of these keys, which are numbered in this order."""
        self._parts = [[key] for key in keys]
        self._hashes = hash_columns(keys) if keys else np.zeros(1, np.uint64)
        self._hash_count = len(self._hashes)
        self._build()

    def _in_table(self, keys: Sequence[pa.Array]) -> Indexes | None:
        hashes = hash_columns(keys)
        found = self._find(hashes)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            _, first = np.unique(hashes[unknown], return_index=True)
            rows = unknown[np.sort(first)]
            self._add([key.take(indexes(rows)) for key in keys], hashes[rows])
            found[unknown] = self._find(hashes[unknown])
        return found if self._is_confirmed(keys, found) else None

    def _is_confirmed(self, keys: Sequence[pa.Array], found: Indexes) -> bool:
        if (
            self.is_of_integers
            and not keys[0].null_count
            and not any(part.null_count for part in self._parts[0])
        ):
            return True  # there the hash is a bijection
        return bool(same(keys, np.arange(len(found)), self.keys, found).all())

    def _find(self, hashes: Hashes) -> Indexes:
        """The numbers of hashes; −1 for hashes that are not known."""
        table, known = self._table, self._hashes
        mask = len(table) - 1
        at = (hashes & np.uint64(mask)).view(np.int64)
        found = table[at]
        # A number of −1 reads the last hash; it stays −1, whatever is found there.
        rows = np.flatnonzero((known[found] != hashes) & (found >= 0))
        while len(rows):
            at[rows] = (at[rows] + 1) & mask
            found[rows] = table[at[rows]]
            again = found[rows]
            rows = rows[(known[again] != hashes[rows]) & (again >= 0)]
        return found

    def _add(self, keys: Sequence[pa.Array], hashes: Hashes) -> None:
        """Add new keys, each once."""
        start, self._hash_count = self._hash_count, self._hash_count + len(hashes)
        for parts, new in zip(self._parts, keys, strict=True):
            parts.append(new)
        if self._hash_count > len(self._hashes):
            # Twice as large, so that adding keys again and again copies each hash a few times only.
            self._hashes = np.concatenate((self._hashes, np.zeros(self._hash_count, np.uint64)))
        self._hashes[start : self._hash_count] = hashes
        if ROOM * self._hash_count > len(self._table):
            self._build()
        else:
            self._enter(np.arange(start, self._hash_count))

    def _build(self) -> None:
        size = max(SMALLEST_TABLE, 1 << (2 * ROOM * self._hash_count - 1).bit_length())
        self._table = np.full(size, -1, np.int64)
        self._enter(np.arange(self._hash_count))

    def _enter(self, added: Indexes) -> None:
        """Enter numbers in the table, each at the first free position; if several need the same
        position, one of them gets it."""
        table = self._table
        mask = len(table) - 1
        at = (self._hashes[added] & np.uint64(mask)).view(np.int64)
        while len(added):
            free = table[at] < 0
            table[at[free]] = added[free]
            left = table[at] != added
            added, at = added[left], (at[left] + 1) & mask


def _is_signed(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    )


# Example: the rows [("a", 5), ("b", 5), ("a", 5)]. The codes of the first key are [0, 1, 0] and of
# the second [0, 0, 0] of one value, so the pairs are [0, 1, 0]; all of 2 * 1 pairs occur, and the
# distinct keys are ["a", "b"] and [5, 5].
def _reduced(keys: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, list[pa.Array]] | None:
    """The position of each row's key among the distinct keys, and these.

    None if that doesn't pay: for one integer key, and if there are too many combinations.
    """
    if len(keys) == 1 and is_integer_like(keys[0].type):
        return None
    if not all(is_plain(key.type) for key in keys):
        return None
    codes: Indexes = np.zeros(num_rows, np.int64)
    distinct: list[pa.Array] = []
    count = 1
    for key in keys:
        encoded = pc.call_function("dictionary_encode", [normalised(key)], _WITH_NULLS)
        values = encoded.dictionary
        if count * len(values) > num_rows:
            return None
        pairs = codes * len(values) + numbers(encoded.indices, np.int32)
        is_used = np.zeros(count * len(values), np.bool_)
        is_used[pairs] = True
        used = np.flatnonzero(is_used)
        codes = (np.cumsum(is_used) - 1)[pairs]
        distinct = [column.take(indexes(used // len(values))) for column in distinct]
        distinct.append(values.take(indexes(used % len(values))))
        count = len(used)
    return codes, distinct
