"""A materialized view as a table: its rows at the end of the last epoch, and look-ups by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.schemas import VIEW_TYPE
from runnel.catalog import TableColumn
from runnel.columns.batches import Mask, indexes, make_batch
from runnel.connector import (
    END,
    End,
    KeyedTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    WriteMode,
)
from runnel.errors import Error, ErrorCode, OperationalError, internal
from runnel.expressions.kernels.values import array_of, python_values
from runnel.processor import JobContext
from runnel.processors.live.views.changes import ViewChanges
from runnel.processors.live.views.rows import FrozenRows
from runnel.processors.live.views.store import ViewStore
from runnel.sqltypes import to_arrow


class MaterializedTable(KeyedTable):
    """The rows of a materialized view.

    store: its content.
    changes_of_rows: the view as a stream of changes, for live queries.
    """

    connector = VIEW_TYPE

    def __init__(
        self, name: str, columns: tuple[TableColumn, ...], key: tuple[int, ...] | None
    ) -> None:
        self.name = name
        self.columns = columns
        self.store = ViewStore(name, [to_arrow(column.type) for column in columns], key)
        self._names = [column.name for column in columns]
        self.changes_of_rows = ViewChanges(name, columns, self.store)

    @property
    def key_columns(self) -> tuple[int, ...]:
        return self.store.key or ()

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset()

    def row_count(self) -> int:
        return self.store.count

    def scan(self, request: ScanRequest) -> Source:
        return ViewSource(self.store, request)

    def get(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        columns = self.store.row_with(key, lambda: self._arrays(key))
        if columns is None:
            return None
        return tuple(
            [
                python_values(array, column.type)[0]
                for array, column in zip(columns, self.columns, strict=True)
            ]
        )

    def _arrays(self, key: tuple[Any, ...]) -> list[pa.Array] | None:
        """The values of a key in the types of its columns; None if no value of a column equals
        one of them."""
        arrays = []
        for index, value in zip(self.key_columns, key, strict=True):
            kind = self.columns[index].type
            try:
                array = array_of([value], kind)
                if isinstance(value, int | Decimal) and python_values(array, kind)[0] != value:
                    return None
            except (Error, pa.ArrowException, OverflowError):
                return None
            arrays.append(array)
        return arrays

    def get_many(self, keys: Sequence[pa.Array]) -> tuple[pa.RecordBatch, Mask]:
        count = len(keys[0])
        exists, typed = np.ones(count, np.bool_), []
        for array, index in zip(keys, self.key_columns, strict=True):
            found = array.cast(self.store.types[index], safe=False)
            if found.type != array.type:  # no row has a number beyond the range of the column
                exists &= pc.equal(found.cast(array.type, safe=False), array).to_numpy(
                    zero_copy_only=False
                )
            typed.append(found)
        numbers, columns = self.store.with_keys(typed, count)
        exists &= numbers >= 0
        rows = indexes(numbers, exists)
        schema = pa.schema(zip(self._names, self.store.types, strict=True))
        return make_batch([column.take(rows) for column in columns], schema, count), exists

    def put(self, row: tuple[Any, ...], mode: WriteMode) -> int:
        raise internal("a materialized view is written")

    def clear(self) -> int:
        raise internal("a materialized view is written")

    def sink(self, request: SinkRequest) -> Sink:
        raise internal("a materialized view is written")


class ViewSource(Source):
    """A scan of the rows at the end of the last epoch."""

    is_stored = True
    kind = "the materialized view"

    def __init__(self, store: ViewStore, request: ScanRequest) -> None:
        self._store = store
        self._columns = request.columns
        self._schema = pa.schema(
            [pa.field(f"c{place}", store.types[i]) for place, i in enumerate(request.columns)]
        )

    def _checked(self) -> ViewStore:
        if not self._store.is_complete:
            raise OperationalError(
                f'materialized view "{self._store.name}" is INITIALIZING',
                code=ErrorCode.GENERIC,
                detail="its first epoch, with all that its inputs have at first, is not complete",
                hint="read it again later: SHOW MATERIALIZED VIEWS",
            )
        return self._store

    def stored(self) -> Iterator[pa.RecordBatch]:
        return self._batches(self._checked().frozen())

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        store = self._checked()
        # Several scans of a statement read the same epoch.
        frozen = context.cuts.get(store) or context.cuts.setdefault(store, store.frozen())
        return [ViewPartition(self._batches(frozen))]

    def _batches(self, frozen: FrozenRows) -> Iterator[pa.RecordBatch]:
        for columns, count in frozen.batches(self._columns):
            yield make_batch(columns, self._schema, count)


class ViewPartition(SourcePartition):
    """The rows of a view, as they were when the statement began."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches

    def read(self) -> pa.RecordBatch | End:
        return next(self._batches, END)
