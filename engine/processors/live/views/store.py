"""The content of a materialized view: one job publishes it, epoch by epoch, and many read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, indexes, join_arrays
from runnel.processors.live.consolidation import net_changes
from runnel.processors.live.views.rows import FrozenRows, ViewRows

Rows = tuple[Sequence[pa.Array], Indexes]
"""Rows and their weights."""

MOST_WAITING = 65_536
"""Number of changes that wait for a reader from which they are consolidated."""


class ViewReader:
    """The content of a view at one epoch, then its changes, for one live query. Its fields are
    guarded by the lock of the store.

    wake: called when there are changes.
    written: the number of epochs of the view.
    taken: the number of epochs that the reader has taken.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake
        self.written = self.taken = 0
        self.waiting: list[Rows] = []
        self._rows = 0
        self._most = MOST_WAITING

    def put(self, rows: Rows) -> None:
        """Adds the changes of an epoch."""
        self.written += 1
        self.waiting.append(rows)
        self._rows += len(rows[1])
        if self._rows > self._most:
            # A reader that rests sees several epochs as one.
            columns, weights = joined(self.waiting)
            kept, totals = net_changes(columns, weights)
            taken = indexes(kept)
            self.waiting = [([column.take(taken) for column in columns], totals)]
            self._rows = len(totals)
            self._most = max(MOST_WAITING, 2 * self._rows)

    def take(self) -> list[Rows]:
        """All changes that wait; together they are whole epochs."""
        found, self.waiting, self._rows = self.waiting, [], 0
        self.taken = self.written
        return found


class ViewStore:
    """The rows of one materialized view. Thread-safe.

    name: the name of the view.
    types: the types of the columns.
    key: the columns by which the rows differ; None: unknown.
    epochs: the number of epochs that were published in this process.
    is_complete: whether the first epoch was published: all that the inputs had at first is read.
    is_final: whether all inputs have ended.
    is_dropped: whether the view was dropped.
    """

    def __init__(
        self, name: str, types: Sequence[pa.DataType], key: tuple[int, ...] | None
    ) -> None:
        self.name = name
        self.types = tuple(types)
        self.key = key
        self.epochs = 0
        self.is_complete = False
        self.is_final = False
        self.is_dropped = False
        self._lock = Lock()
        self._rows = ViewRows(types, key)
        self._readers: list[ViewReader] = []
        self._listeners: list[Callable[[], object]] = []

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._rows.count

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        with self._lock:
            return self._rows.size

    def publish(self, columns: Sequence[pa.Array], weights: Indexes) -> None:
        """Applies the net changes of an epoch: readers see all of them or none."""
        with self._lock:
            self._rows.change(columns, weights)
            self.epochs += 1
            is_first = not self.is_complete
            self.is_complete = True
            readers = tuple(self._readers) if len(weights) or is_first else ()
            for reader in readers:
                reader.put((columns, weights))
            listeners = tuple(self._listeners)
        for wake in (*(reader.wake for reader in readers), *listeners):
            wake()

    def replace(self, columns: Sequence[pa.Array], weights: Indexes) -> None:
        """Publishes other content: its difference to the present one is an epoch."""
        before = [
            (rows, np.full(count, -1, np.int64))
            for rows, count in self.frozen().batches(range(len(self.types)))
        ]
        everything, totals = joined([*before, (columns, weights)])
        kept, net = net_changes(everything, totals)
        taken = indexes(kept)
        self.publish([column.take(taken) for column in everything], net)

    def finish(self) -> None:
        """All inputs have ended: the content stays as it is."""
        with self._lock:
            self.is_final = True
            listeners = tuple(self._listeners)
        for wake in listeners:
            wake()

    def drop(self) -> None:
        """The view was dropped: its readers end."""
        with self._lock:
            self.is_dropped = True
            readers = tuple(self._readers)
        for reader in readers:
            reader.wake()

    def frozen(self) -> FrozenRows:
        """The rows of the last epoch."""
        with self._lock:
            return self._rows.frozen()

    def row_with(
        self, key: tuple[Any, ...], arrays: Callable[[], Sequence[pa.Array] | None]
    ) -> list[pa.Array] | None:
        """The row with a key; see `ViewRows.row_with`."""
        with self._lock:
            return self._rows.row_with(key, arrays)

    def with_keys(self, keys: Sequence[pa.Array], num_rows: int) -> tuple[Indexes, list[pa.Array]]:
        """For each key the index of its row among the returned rows, −1 if it has none."""
        with self._lock:
            return self._rows.with_keys(keys, num_rows)

    def subscribe(self, wake: Callable[[], object]) -> ViewReader:
        """A reader that gets the content, as soon as it is complete, and then all changes."""
        reader = ViewReader(wake)
        with self._lock:
            if self.is_complete:
                for columns, count in self._rows.frozen().batches(range(len(self.types))):
                    reader.waiting.append((columns, np.ones(count, np.int64)))
                reader.written = 1
            self._readers.append(reader)
        return reader

    def take(self, reader: ViewReader) -> list[Rows]:
        """The changes that wait for a reader."""
        with self._lock:
            return reader.take()

    def leave(self, reader: ViewReader) -> None:
        """Ends a subscription."""
        with self._lock:
            if reader in self._readers:
                self._readers.remove(reader)

    @contextmanager
    def listening(self, wake: Callable[[], object]) -> Iterator[None]:
        """Calls `wake` whenever an epoch was published, or the view has become final."""
        with self._lock:
            self._listeners.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(wake)


def joined(changes: Sequence[Rows]) -> tuple[list[pa.Array], Indexes]:
    """All rows of several changes, of which there is at least one."""
    columns = zip(*(columns for columns, _ in changes), strict=True)
    return [join_arrays(same) for same in columns], np.concatenate([item[1] for item in changes])
