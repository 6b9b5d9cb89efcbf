"""TABLE(CHANGES(TABLE m)): the changes of a map as a stream.

A row has the columns of the mapping after the change (of a deleted row only the key), the columns
of the value before the change, named old_…, the operation, a sequence number that increases by one,
and the time. A query sees the changes that are made after it started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.base.forks import finalizer
from runnel.catalog import EventTime, TableColumn
from runnel.columns.batches import empty_columns
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    Pause,
    ReadableTable,
    ScanRequest,
    Skipped,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.connectors.imap.layout import MapLayout
from runnel.connectors.imap.storage.journal import Journal, JournalReader, journal_of, release
from runnel.connectors.imap.storage.store import MapStore
from runnel.errors import position_expired
from runnel.processor import ExpiredPosition, Guarantee, JobContext
from runnel.sqltypes import BIGINT, TIMESTAMP_TZ, VARCHAR


class MapChanges(ReadableTable):
    """The change stream of one mapping. Its event time is the time of the change, which never
    decreases."""

    connector = "IMap"

    def __init__(
        self, mapping: str, columns: Sequence[TableColumn], layout: MapLayout, store: MapStore
    ) -> None:
        self.name = mapping
        self._layout = layout
        self._store = store
        taken = {column.name.lower() for column in columns}
        added = {"operation": VARCHAR, "sequence": BIGINT, "change_time": TIMESTAMP_TZ}
        values = [i for i in range(len(columns)) if i not in layout.keys]
        self.columns = (
            *(TableColumn(column.name, column.type) for column in columns),
            *(TableColumn(_free(f"old_{columns[i].name}", taken), columns[i].type) for i in values),
            *(TableColumn(_free(name, taken), item) for name, item in added.items()),
        )
        count = len(columns)
        self._positions = (
            *range(count),
            *(count + i for i in values),
            *range(2 * count, 2 * count + len(added)),
        )
        self.event_time = EventTime(len(self.columns) - 1, 0)

    @property
    def is_unbounded(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        names = [self.columns[i].name for i in request.columns]
        return ChangesSource(
            self._store, self._layout, tuple(self._positions[i] for i in request.columns), names
        )


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number as suffix if a column has that name already."""
    found, number = name, 1
    while found.lower() in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found.lower())
    return found


class ChangesSource(Source):
    """A scan of changes: each execution has a reader of its own.

    `columns` are indexes in the journal's batches.
    """

    traits = SourceTraits(is_repeatable=True, begins_anywhere=True)

    def __init__(
        self, store: MapStore, layout: MapLayout, columns: tuple[int, ...], names: Sequence[str]
    ) -> None:
        self._store = store
        self._layout = layout
        self._columns = columns
        self._names = tuple(names)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [ChangesPartition(self._store, self._layout, (self._columns, self._names), context)]

    def forget(self, owner: str) -> None:
        with self._store.lock:
            journal = (
                None if self._store.watch is None else self._store.watch.journals.get(self._layout)
            )
            if journal is not None:
                journal.forget_reader(owner)
                release(self._store, journal)


class ChangesPartition(SourcePartition):
    """One reader of a journal.

    It counts as a reader from its creation until it is closed or forgotten. The reader of a named
    job also counts after that, until the job's next execution has a reader, so that the journal
    persists. `columns` are indexes in the journal's batches, and names.
    """

    def __init__(
        self,
        store: MapStore,
        layout: MapLayout,
        columns: tuple[Sequence[int], Sequence[str]],
        context: JobContext,
    ) -> None:
        self._store = store
        self._columns, self._names = list(columns[0]), list(columns[1])
        self._saved = 0
        self._is_elsewhere = False
        self._last: int | None = None
        owner = context.owner
        with store.lock:
            store.check(layout)
            self._journal = journal_of(store, layout)
            self._reader = JournalReader(self._journal.next)
            if owner:
                # Changes that the last execution may have to read again are retained until the
                # position from which this execution resumes is known.
                self._reader.retained_from = self._journal.forget_reader(owner)
            self._journal.readers.add(self._reader)
        self._is_durable = context.guarantee is not Guarantee.NONE
        self._detach = finalizer(self, _detach, store, self._journal, self._reader, owner)
        self._detach.atexit = False

    def open(self, wake: Callable[[], None]) -> None:
        self._reader.wake = wake
        if not self._is_durable:
            self._reader.retained_from = None

    def read(self) -> pa.RecordBatch | Pause | End:
        most = BATCH_ROWS
        if self._last is not None:
            most = min(most, self._last - self._reader.next)
            if most <= 0:
                return END
        with self._store.lock:
            batch = self._journal.read(self._reader, most)
        if batch is None:
            return Pause()
        if not self._columns:
            return empty_columns(batch.num_rows)
        return batch.select(self._columns).rename_columns(self._names)

    def progress(self) -> tuple[int, int]:
        with self._store.lock:
            return self._journal.next, self._reader.next

    def position(self) -> Token | None:
        self._saved = self._reader.next
        return {"journal": self._journal.identity, "sequence": self._reader.next}

    def stop_at(self, token: Token) -> None:
        self._last = token["sequence"]

    def seek(self, token: Token) -> None:
        with self._store.lock:
            if token["journal"] != self._journal.identity:
                self._is_elsewhere = True
                raise position_expired(
                    f'the changes of map "{self._store.name}" from {token["sequence"]} on are no '
                    "longer available",
                    detail=(
                        "the journal that had them was deleted: journals are in memory, and exist "
                        "while a query reads them or "
                        "'journalCapacity' is set. This one has the changes "
                        f"{self._journal.oldest} to {self._journal.next - 1}"
                    ),
                )
            self._reader.next = token["sequence"]
            if self._is_durable:
                self._reader.retained_from = self._reader.next

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        with self._store.lock:
            was = self._reader.next
            self._reader.next = (
                self._journal.oldest if choice is ExpiredPosition.EARLIEST else self._journal.next
            )
            if self._is_durable:
                self._reader.retained_from = self._reader.next
            rows = None if self._is_elsewhere else self._reader.next - was
            self._is_elsewhere = False
            return Skipped(f"change {self._reader.next}", rows)

    def committed(self, is_safe: bool) -> None:
        if is_safe:
            with self._store.lock:
                self._reader.retained_from = self._saved

    def close(self) -> None:
        self._detach()


def _detach(store: MapStore, journal: Journal, reader: JournalReader, owner: str) -> None:
    with store.lock:
        if owner:
            journal.keep_reader(owner, reader)
            return
        journal.readers.discard(reader)
        release(store, journal)
