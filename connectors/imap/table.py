"""A mapping over a map: the table of queries and statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from runnel.catalog import Index, TableColumn
from runnel.columns.batches import Mask
from runnel.connector import (
    IndexedTable,
    IndexLookup,
    KeyedTable,
    ReadableTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    WriteMode,
)
from runnel.connectors.imap.changes import MapChanges
from runnel.connectors.imap.index_scan import MapIndexSource
from runnel.connectors.imap.keys import Key, duplicate, null_key
from runnel.connectors.imap.layout import MapLayout
from runnel.connectors.imap.live_rows import changing_map
from runnel.connectors.imap.rows import value_check
from runnel.connectors.imap.scan import MapSource
from runnel.connectors.imap.sink import MapSink
from runnel.connectors.imap.storage.index import check_index
from runnel.connectors.imap.storage.staging import MapStaging
from runnel.connectors.imap.values import key_form, key_values
from runnel.errors import DataError, Error
from runnel.processor import Guarantee
from runnel.sqltypes import from_arrow


class MapTable(IndexedTable, KeyedTable):
    """The rows of a map under the names and types of one mapping.

    INSERT and SINK write whole entries. An UPDATE keeps the fields that another mapping wrote and
    this one does not have.
    """

    connector = "IMap"
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(
        self, name: str, columns: tuple[TableColumn, ...], layout: MapLayout, staging: MapStaging
    ) -> None:
        self.name = name
        self.columns = columns
        self._staging = staging
        self._store = staging.store
        self._layout = self._store.intern(layout)
        self._key_of = _key_function(self._layout)
        self._checks = tuple(value_check(column.type) for column in columns)

    @property
    def key_columns(self) -> tuple[int, ...]:
        return self._layout.keys

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset(WriteMode)

    @property
    def change_key(self) -> tuple[int, ...]:
        return self._layout.keys

    def row_count(self) -> int:
        return len(self._store)

    # By key

    def get(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        form = self._key_of(key)
        try:
            return None if form is None else self._store.get(form, self._layout)
        except TypeError as error:
            raise DataError(
                f'no key of map "{self._store.name}" can be {_shown(key)}', detail=str(error)
            ) from error
        except (OverflowError, ValueError) as error:
            raise DataError(
                f"the row with key {_shown(key)} has a value that Python can't hold",
                detail=str(error),
                hint="cast the column to VARCHAR",
            ) from error

    def get_many(self, keys: Sequence[pa.Array]) -> tuple[pa.RecordBatch, Mask]:
        store, layout = self._store, self._layout
        forms = [key_values(array, from_arrow(array.type)) for array in keys]
        with store.lock:
            store.check(layout)
            numbers = store.numbers_of(
                forms[0] if len(forms) == 1 else list(zip(*forms, strict=True))
            )
            return store.rows_at(numbers, layout), numbers >= 0

    def put(self, row: tuple[Any, ...], mode: WriteMode) -> int:
        layout, store = self._layout, self._store
        if mode is WriteMode.DELETE:
            form = self._key_of(tuple([row[i] for i in layout.keys]))
            if form is None:
                return 0
            with store.statement_lock, store.lock:
                return store.remove(form, layout)
        checked = self._checked(row)
        form = self._key_of(tuple([checked[i] for i in layout.keys]))
        if form is None:
            raise null_key(next(layout.paths[i] for i in layout.keys if checked[i] is None))
        with store.statement_lock, store.lock:
            if mode is not WriteMode.SINK and store.has(form) is (mode is WriteMode.INSERT):
                if mode is WriteMode.INSERT:
                    raise duplicate(store.name, form, layout, "exists already")
                return 0
            if mode is WriteMode.UPDATE:
                store.update(form, checked, layout)
            else:
                store.put(form, checked, layout)
        return 1

    def _checked(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            return tuple([check(value) for check, value in zip(self._checks, row, strict=True)])
        except Error as error:
            for column, check, value in zip(self.columns, self._checks, row, strict=True):
                try:
                    check(value)
                except Error:
                    error.message = f'column "{column.name}": {error.message}'
                    break
            raise

    def changes(self) -> ReadableTable:
        return MapChanges(self.name, self.columns, self._layout, self._store)

    def with_changes(self, millis: int | None) -> ReadableTable:
        return changing_map(self.name, self.columns, self._layout, self._store)

    def keep_journal(self, capacity: int) -> None:
        """Retains the last `capacity` changes, even while no query reads them."""
        from runnel.connectors.imap.storage.journal import journal_of

        with self._store.lock:
            journal = journal_of(self._store, self._layout)
            journal.capacity, journal.is_permanent = capacity, True

    def clear(self) -> int:
        with self._store.statement_lock, self._store.lock:
            return self._store.clear()

    # By jobs

    def scan(self, request: ScanRequest) -> Source:
        # With a predicate the limit counts rows that satisfy it, and only the caller evaluates it.
        limit = request.limit if request.predicate is None else None
        names = [self.columns[i].name for i in request.columns]
        return MapSource(self._store, self._layout, request.columns, names, limit)

    def validate_index(self, index: Index) -> None:
        check_index(index, self.columns)

    def index_scan(self, request: ScanRequest, lookup: IndexLookup) -> Source:
        check_index(lookup.index, self.columns)
        return MapIndexSource(self._store, self._layout, self.columns, request, lookup)

    def sink(self, request: SinkRequest) -> Sink:
        paths, types = self._layout.paths, self._layout.types
        written = MapLayout(
            tuple(paths[i] for i in request.columns), tuple(types[i] for i in request.columns)
        )
        return MapSink(self._staging, self._layout, written, request.mode, request.owner)

    def exclusive(self) -> AbstractContextManager[object]:
        return self._store.statement_lock


def _key_function(layout: MapLayout) -> Callable[[tuple[Any, ...]], Key]:
    """The function from the values of a key to its key form, which is None if one of them is
    NULL."""
    forms = [key_form(item) for _, item in layout.key_fields]
    if len(forms) > 1:
        return lambda key: (
            None
            if None in key
            else tuple(
                [
                    value if form is None else form(value)
                    for value, form in zip(key, forms, strict=True)
                ]
            )
        )
    form = forms[0]
    if form is None:
        return lambda key: key[0]
    convert = form
    return lambda key: None if key[0] is None else convert(key[0])


def _shown(key: tuple[Any, ...]) -> str:
    return repr(key[0]) if len(key) == 1 else repr(key)
