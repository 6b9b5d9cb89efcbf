"""The journal of a map: the last changes, for those who read them as a stream.

A change is the row as it was written, the row as it was before, the operation, and when. A commit
writes its changes at once, in the order of its rows: a key that comes twice in it changes twice.
The journal is kept while there are readers, or always where a mapping's 'journalCapacity' says so;
it forgets the oldest changes beyond its capacity, but never a part of the newest commit. Everything
here is called with the map's lock held.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, from_numbers, indexes, join_batches
from runnel.connector import position_expired
from runnel.connectors.imap.keys import Key
from runnel.connectors.imap.layout import Layout, select_fields
from runnel.errors import DataError, Error, OperationalError
from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import TIMESTAMP_TZ, VARCHAR, to_arrow

DEFAULT_CAPACITY = 10_000
OPERATIONS = ("INSERT", "UPDATE", "DELETE")
_INSERT, _UPDATE, _DELETE = range(3)
_SINGLE_ROWS = 256
"""So many changes of single rows are put together in one batch."""

Row = tuple[Any, ...]
Done = Callable[[], None]
"""To be called when the change was made."""


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class JournalReader:
    """One who reads. `next` is the sequence of the change that comes next, `held` that from which
    on it may have to read again (None: it won't)."""

    def __init__(self, following: int) -> None:
        self.next = following
        self.held: int | None = None
        self.wake: Callable[[], None] | None = None

    @property
    def needed(self) -> int:
        """The first change that it may still read."""
        return self.next if self.held is None else min(self.held, self.next)


class Journal:
    """The changes of one map, as one layout sees them: batches of the row's fields, its old fields,
    operation, sequence and time."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.identity = uuid4().hex
        self.capacity = DEFAULT_CAPACITY
        self.is_kept = False
        self.next = 1
        self.readers: set[JournalReader] = set()
        self._kept: dict[str, list[JournalReader]] = {}
        self._firsts: deque[int] = deque()
        self._batches: deque[pa.RecordBatch] = deque()
        self._single: list[tuple[int, Row | None, Row | None, int]] = []
        self._failure: Error | None = None
        self._last_time = 0
        count = len(layout.paths)
        names = [f"{side}{i}" for side in ("new", "old") for i in range(count)]
        kinds = [to_arrow(item) for item in (*layout.types, *layout.types)]
        self._schema = pa.schema(
            [
                *zip(names, kinds, strict=True),
                ("operation", pa.string()),
                ("sequence", pa.int64()),
                ("time", to_arrow(TIMESTAMP_TZ)),
            ]
        )
        self._operations = array_of(OPERATIONS, VARCHAR)

    def keep_reader(self, owner: str, reader: JournalReader) -> None:
        """The reader reads no more, and counts until its owner has another one."""
        reader.wake = None
        reader.held = reader.needed
        self._kept.setdefault(owner, []).append(reader)

    def forget_reader(self, owner: str) -> int:
        """The readers kept for an owner count no more; gives the first change that they needed."""
        kept = self._kept.pop(owner, [])
        self.readers.difference_update(kept)
        return min((reader.needed for reader in kept), default=self.next)

    @property
    def oldest(self) -> int:
        """The sequence of the oldest change that is kept."""
        return self._firsts[0] if self._firsts else self.next - len(self._single)

    def add_row(self, operation: int, new: Row | None, old: Row | None) -> None:
        """One change; the rows are Python values in this layout."""
        self._single.append((operation, new, old, self._now()))
        self.next += 1
        if len(self._single) >= _SINGLE_ROWS:
            self._seal()
        self._forget()

    def add_rows(self, operations: Indexes, new: pa.RecordBatch, old: pa.RecordBatch) -> None:
        """The changes of one commit, as rows of this layout; NULLs where there is no row."""
        count = len(operations)
        if not count:
            return
        self._seal()
        times = from_numbers(np.full(count, self._now()), pa.int64())
        self._append([*new.columns, *old.columns], operations, times)
        self._forget()

    def fail(self, error: Error) -> None:
        """A change can't be seen by this layout: readers are told."""
        self._failure = error

    def read(self, reader: JournalReader, most: int) -> pa.RecordBatch | None:
        """The next changes, at most so many; None where there are none yet."""
        if self._failure is not None:
            raise self._failure
        if reader.next < self.oldest:
            raise gap(reader.next, self.oldest)
        self._seal()
        if reader.next >= self.next:
            return None
        place = bisect_right(self._firsts, reader.next) - 1
        taken: list[pa.RecordBatch] = []
        rows = 0
        while place < len(self._batches) and rows < most:
            batch = self._batches[place].slice(reader.next - self._firsts[place], most - rows)
            if taken and batch.num_rows > most // 2:
                break
            taken.append(batch)
            rows += batch.num_rows
            reader.next += batch.num_rows
            place += 1
        self._forget()
        return join_batches(taken)

    def wakes(self) -> list[Callable[[], None]]:
        return [reader.wake for reader in self.readers if reader.wake is not None]

    def _now(self) -> int:
        self._last_time = max(self._last_time, wall_clock())
        return self._last_time

    def _seal(self) -> None:
        """Makes a batch of the changes of single rows."""
        if not self._single:
            return
        operations, new, old, times = zip(*self._single, strict=True)
        self.next -= len(self._single)
        self._single = []
        count = len(self.layout.paths)
        sides = [
            array_of([None if row is None else row[i] for row in side], self.layout.types[i])
            for side in (new, old)
            for i in range(count)
        ]
        self._append(sides, np.array(operations), from_numbers(np.array(times), pa.int64()))

    def _append(self, sides: Sequence[pa.Array], operations: Indexes, times: pa.Array) -> None:
        count = len(operations)
        sequence = from_numbers(np.arange(self.next, self.next + count), pa.int64())
        names = self._operations.take(indexes(operations))
        batch = pa.RecordBatch.from_arrays(
            [*sides, names, sequence, times.view(self._schema.field("time").type)],
            schema=self._schema,
        )
        self._firsts.append(self.next)
        self._batches.append(batch)
        self.next += count

    def _forget(self) -> None:
        """Drops what is beyond the capacity, and, where nothing is kept for later readers, what all
        have read."""
        needed = min((reader.needed for reader in self.readers), default=self.next)
        while self._batches:
            end = self._firsts[0] + self._batches[0].num_rows
            is_last = len(self._batches) == 1 and not self._single
            is_beyond = self.next - end >= self.capacity and not is_last
            if not (is_beyond or (not self.is_kept and end <= needed)):
                return
            self._firsts.popleft()
            self._batches.popleft()


class ObservedMap(Protocol):
    """A map whose changes go to journals while a query reads them; see `MapStore`."""

    watch: Watch | None

    def keys(self) -> list[Key]: ...
    def get(self, key: Key, layout: Layout) -> tuple[Any, ...] | None: ...
    def seen_by(
        self, row: tuple[Any, ...], stored: Layout, layout: Layout, /
    ) -> tuple[Any, ...]: ...
    def numbers_of(self, keys: Sequence[Key]) -> Indexes: ...
    def rows_at(self, numbers: Indexes, layout: Layout) -> pa.RecordBatch: ...


class Watch:
    """Sees to it that a map's changes come into its journals, one for each layout that somebody
    reads. `put` and the others are called before a change is made, and what they give when it
    was."""

    def __init__(self, store: ObservedMap) -> None:
        self._store = store
        self.journals: dict[Layout, Journal] = {}

    def put(self, key: Key, row: Row, layout: Layout) -> Done:
        """A row is about to be written."""
        found: list[tuple[Journal, Row | None, Row | None]] = []
        for journal in self.journals.values():
            try:
                found.append(
                    (
                        journal,
                        self._store.seen_by(row, layout, journal.layout),
                        self._store.get(key, journal.layout),
                    )
                )
            except DataError as error:
                journal.fail(error)

        def done() -> None:
            for journal, new, old in found:
                journal.add_row(_INSERT if old is None else _UPDATE, new, old)
            self._wake()

        return done

    def put_many(
        self, batches: Sequence[pa.RecordBatch], keys: Sequence[list[Key]], layout: Layout
    ) -> Done:
        """Rows are about to be written; of several with one key the last one stays."""
        flat = [key for chunk in keys for key in chunk]
        numbers = self._store.numbers_of(flat)
        earlier = _earlier(flat)
        operations = np.where((numbers >= 0) | (earlier >= 0), _UPDATE, _INSERT)
        found = []
        for journal in self.journals.values():
            try:
                new = _joined(batches, layout, journal.layout)
                old = self._store.rows_at(numbers, journal.layout)
                if (earlier >= 0).any():
                    both = pa.concat_batches([old, new])
                    old = both.take(
                        indexes(np.where(earlier >= 0, len(flat) + earlier, np.arange(len(flat))))
                    )
                found.append((journal, new, old))
            except DataError as error:
                journal.fail(error)

        def done() -> None:
            for journal, new, old in found:
                journal.add_rows(operations, new, old)
            self._wake()

        return done

    def remove_many(self, keys: Sequence[list[Key]]) -> Done:
        """Rows are about to be taken out."""
        flat = list(dict.fromkeys(key for chunk in keys for key in chunk))
        numbers = self._store.numbers_of(flat)
        return self._removing(numbers[numbers >= 0])

    def clear(self) -> Done:
        """All rows are about to be taken out."""
        return self._removing(np.sort(self._store.numbers_of(self._store.keys())))

    def _removing(self, numbers: Indexes) -> Done:
        found = []
        for journal in self.journals.values():
            try:
                old = self._store.rows_at(numbers, journal.layout)
                # The key says which row it was; nothing else is left of it.
                new = [
                    column if i in journal.layout.keys else pa.nulls(len(numbers), column.type)
                    for i, column in enumerate(old.columns)
                ]
                found.append((journal, pa.RecordBatch.from_arrays(new, schema=old.schema), old))
            except DataError as error:
                journal.fail(error)

        def done() -> None:
            for journal, new, old in found:
                journal.add_rows(np.full(len(numbers), _DELETE), new, old)
            self._wake()

        return done

    def _wake(self) -> None:
        for journal in self.journals.values():
            for wake in journal.wakes():
                wake()


def journal_of(store: ObservedMap, layout: Layout) -> Journal:
    """The journal of a map in a layout, made if there is none. With the map's lock held."""
    if store.watch is None:
        store.watch = Watch(store)
    journal = store.watch.journals.get(layout)
    if journal is None:
        journal = store.watch.journals[layout] = Journal(layout)
    return journal


def release(store: ObservedMap, journal: Journal) -> None:
    """Gives a journal up that nobody needs. With the map's lock held."""
    if journal.readers or journal.is_kept or store.watch is None:
        return
    store.watch.journals.pop(journal.layout, None)
    if not store.watch.journals:
        store.watch = None


def gap(wanted: int, oldest: int) -> OperationalError:
    """The error for a reader whose next change is no longer there."""
    return position_expired(
        f"the changes {wanted} to {oldest - 1} of the map are no longer in its journal",
        detail=f"they were overwritten before they were read; the oldest one kept is {oldest}",
        hint="read faster, or give the mapping a larger 'journalCapacity'",
    )


def _joined(batches: Sequence[pa.RecordBatch], stored: Layout, wanted: Layout) -> pa.RecordBatch:
    columns = range(len(wanted.paths))
    seen = [
        pa.RecordBatch.from_arrays(
            select_fields(batch, stored, wanted, columns), schema=wanted.schema
        )
        for batch in batches
    ]
    return join_batches(seen) if seen else pa.RecordBatch.from_pylist([], schema=wanted.schema)


def _earlier(keys: Sequence[Key]) -> Indexes:
    """For each key where it came before among them; -1 where it didn't."""
    found = np.full(len(keys), -1)
    if len(set(keys)) < len(keys):
        last: dict[Key, int] = {}
        for place, key in enumerate(keys):
            found[place] = last.get(key, -1)
            last[key] = place
    return found
