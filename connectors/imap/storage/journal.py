"""The journal of a map: its last changes, for queries that read them as a stream.

A change consists of the row as written, the row before, the operation and the time. A commit
appends its changes together, in the order of its rows: a key that occurs twice changes twice. The
journal exists while it has readers, or permanently if a mapping sets 'journalCapacity'. It discards
the oldest changes beyond its capacity, but never a part of the newest commit. All functions are
called with the map's lock held.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa

from runnel.base.clock import SYSTEM_CLOCK
from runnel.columns.batches import Indexes, from_numbers, indexes, join_batches
from runnel.connectors.imap.keys import Key
from runnel.connectors.imap.layout import MapLayout, select_fields
from runnel.errors import DataError, Error, OperationalError, position_expired
from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import TIMESTAMP_TZ, VARCHAR, to_arrow

DEFAULT_CAPACITY = 10_000
OPERATIONS = ("INSERT", "UPDATE", "DELETE")
_INSERT, _UPDATE, _DELETE = range(3)
_SINGLE_ROWS = 256
"""The number of changes of single rows that are combined into one batch."""

Row = tuple[Any, ...]
Done = Callable[[], None]
"""To be called after the change was made."""


class JournalReader:
    """A reader of a journal.

    next: the sequence number of the next change.
    retained_from: the first change that it may have to read again; None: it reads none again.
    wake: called when there are new changes.
    """

    def __init__(self, following: int) -> None:
        self.next = following
        self.retained_from: int | None = None
        self.wake: Callable[[], None] | None = None

    @property
    def needed(self) -> int:
        """The first change that it may still read."""
        return self.next if self.retained_from is None else min(self.retained_from, self.next)


class Journal:
    """The changes of one map in one layout.

    They are batches of the row's fields, its old fields, the operation, the sequence number and the
    time.
    """

    def __init__(self, layout: MapLayout, wall: Callable[[], int] = SYSTEM_CLOCK.wall) -> None:
        """`wall` returns the time of a change, in µs since 1970."""
        self.layout = layout
        self._wall = wall
        self.identity = uuid4().hex
        self.capacity = DEFAULT_CAPACITY
        self.is_permanent = False
        self.next = 1
        self.readers: set[JournalReader] = set()
        self._retained_readers: dict[str, list[JournalReader]] = {}
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
        """The reader stops reading, but its changes are retained until its owner has another
        reader."""
        reader.wake = None
        reader.retained_from = reader.needed
        self._retained_readers.setdefault(owner, []).append(reader)

    def forget_reader(self, owner: str) -> int:
        """Removes the retained readers of an owner, and returns the first change that they
        needed."""
        retained = self._retained_readers.pop(owner, [])
        self.readers.difference_update(retained)
        return min((reader.needed for reader in retained), default=self.next)

    @property
    def oldest(self) -> int:
        """The sequence number of the oldest change in the journal."""
        return self._firsts[0] if self._firsts else self.next - len(self._single)

    def add_row(self, operation: int, new: Row | None, old: Row | None) -> None:
        """Adds one change; the rows are Python values in this layout."""
        self._single.append((operation, new, old, self._now()))
        self.next += 1
        if len(self._single) >= _SINGLE_ROWS:
            self._seal()
        self._forget()

    def add_rows(self, operations: Indexes, new: pa.RecordBatch, old: pa.RecordBatch) -> None:
        """Adds the changes of one commit, as rows of this layout; NULLs where there is no row."""
        count = len(operations)
        if not count:
            return
        self._seal()
        times = from_numbers(np.full(count, self._now()), pa.int64())
        self._append([*new.columns, *old.columns], operations, times)
        self._forget()

    def fail(self, error: Error) -> None:
        """A change cannot be represented in this layout: readers get the error."""
        self._failure = error

    def read(self, reader: JournalReader, most: int) -> pa.RecordBatch | None:
        """The next changes, at most `most`; None if there are none yet."""
        if self._failure is not None:
            raise self._failure
        if reader.next < self.oldest:
            raise gap(reader.next, self.oldest)
        self._seal()
        if reader.next >= self.next:
            return None
        # Example: batches with 3, 2 and 4 rows from sequence 10: _firsts = [10, 13, 15]. A reader
        # at 14 starts in the batch at index bisect_right([10, 13, 15], 14) - 1 = 1, at its row 14 -
        # 13 = 1.
        index = bisect_right(self._firsts, reader.next) - 1
        taken: list[pa.RecordBatch] = []
        rows = 0
        while index < len(self._batches) and rows < most:
            batch = self._batches[index].slice(reader.next - self._firsts[index], most - rows)
            if taken and batch.num_rows > most // 2:
                break
            taken.append(batch)
            rows += batch.num_rows
            reader.next += batch.num_rows
            index += 1
        self._forget()
        return join_batches(taken)

    def is_within_commit(self, reader: JournalReader) -> bool:
        """Whether a reader has read a part of the changes of a commit."""
        index = bisect_right(self._firsts, reader.next) - 1
        return index >= 0 and (
            self._firsts[index] < reader.next < self._firsts[index] + self._batches[index].num_rows
        )

    def wakes(self) -> list[Callable[[], None]]:
        return [reader.wake for reader in self.readers if reader.wake is not None]

    def _now(self) -> int:
        self._last_time = max(self._last_time, self._wall())
        return self._last_time

    def _seal(self) -> None:
        """Combines the changes of single rows into a batch."""
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
        """Discards changes beyond the capacity and, unless the journal is permanent, those that
        all readers have read."""
        needed = min((reader.needed for reader in self.readers), default=self.next)
        while self._batches:
            end = self._firsts[0] + self._batches[0].num_rows
            is_last = len(self._batches) == 1 and not self._single
            is_beyond = self.next - end >= self.capacity and not is_last
            if not (is_beyond or (not self.is_permanent and end <= needed)):
                return
            self._firsts.popleft()
            self._batches.popleft()


class ObservedMap(Protocol):
    """A map whose changes go to journals while a query reads them; see `MapStore`."""

    watch: Watch | None
    wall: Callable[[], int]

    def keys(self) -> list[Key]: ...
    def get(self, key: Key, layout: MapLayout) -> tuple[Any, ...] | None: ...
    def converted_row(
        self, row: tuple[Any, ...], stored: MapLayout, layout: MapLayout, /
    ) -> tuple[Any, ...]: ...
    def numbers_of(self, keys: Sequence[Key]) -> Indexes: ...
    def rows_at(self, numbers: Indexes, layout: MapLayout) -> pa.RecordBatch: ...


class Watch:
    """Adds a map's changes to its journals, one per layout that is read.

    `put` and the other methods are called before a change is made; they return a function to be
    called after it.
    """

    def __init__(self, store: ObservedMap) -> None:
        self._store = store
        self.journals: dict[MapLayout, Journal] = {}

    def put(self, key: Key, row: Row, layout: MapLayout) -> Done:
        """A row is about to be written."""
        found: list[tuple[Journal, Row | None, Row | None]] = []
        for journal in self.journals.values():
            try:
                found.append(
                    (
                        journal,
                        self._store.converted_row(row, layout, journal.layout),
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
        self, batches: Sequence[pa.RecordBatch], keys: Sequence[list[Key]], layout: MapLayout
    ) -> Done:
        """Rows are about to be written; of several rows with one key the last one remains."""
        # Example: the keys ["a", "b", "a"]; "b" exists, "a" does not. numbers = [-1, n, -1] and
        # earlier = [-1, -1, 0], since "a" occurs first at index 0. The operations are INSERT,
        # UPDATE, UPDATE. `both` has 3 old rows, then 3 new ones. The third change has as its old
        # row the first new one: index 3 + 0; the first two keep theirs: 0, 1.
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
        """Rows are about to be removed."""
        flat = list(dict.fromkeys(key for chunk in keys for key in chunk))
        numbers = self._store.numbers_of(flat)
        return self._removing(numbers[numbers >= 0])

    def clear(self) -> Done:
        """All rows are about to be removed."""
        return self._removing(np.sort(self._store.numbers_of(self._store.keys())))

    def _removing(self, numbers: Indexes) -> Done:
        found = []
        for journal in self.journals.values():
            try:
                old = self._store.rows_at(numbers, journal.layout)
                # The key identifies the deleted row; its other fields are NULL.
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


def journal_of(store: ObservedMap, layout: MapLayout) -> Journal:
    """The journal of a map in a layout, created if it does not exist. With the map's lock held."""
    if store.watch is None:
        store.watch = Watch(store)
    journal = store.watch.journals.get(layout)
    if journal is None:
        journal = store.watch.journals[layout] = Journal(layout, store.wall)
    return journal


def release(store: ObservedMap, journal: Journal) -> None:
    """Deletes a journal that is not needed. With the map's lock held."""
    if journal.readers or journal.is_permanent or store.watch is None:
        return
    store.watch.journals.pop(journal.layout, None)
    if not store.watch.journals:
        store.watch = None


def gap(requested: int, oldest: int) -> OperationalError:
    """The error for a reader whose next change was discarded."""
    return position_expired(
        f"the changes {requested} to {oldest - 1} of the map are no longer in its journal",
        detail=f"they were overwritten before they were read; the oldest one left is {oldest}",
        hint="read faster, or give the mapping a larger 'journalCapacity'",
    )


def _joined(
    batches: Sequence[pa.RecordBatch], stored: MapLayout, target: MapLayout
) -> pa.RecordBatch:
    columns = range(len(target.paths))
    converted = [
        pa.RecordBatch.from_arrays(
            select_fields(batch, stored, target, columns), schema=target.schema
        )
        for batch in batches
    ]
    return (
        join_batches(converted)
        if converted
        else pa.RecordBatch.from_pylist([], schema=target.schema)
    )


def _earlier(keys: Sequence[Key]) -> Indexes:
    """For each key the index of its previous occurrence in `keys`; -1 if there is none."""
    # Example: for ["a", "b", "a", "a"] the result is [-1, -1, 0, 2].
    found = np.full(len(keys), -1)
    if len(set(keys)) < len(keys):
        last: dict[Key, int] = {}
        for index, key in enumerate(keys):
            found[index] = last.get(key, -1)
            last[key] = index
    return found
