"""A materialized view as an input of a live query: its content, then the changes of its epochs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.base.schemas import VIEW_TYPE
from runnel.catalog import TableColumn
from runnel.columns.batches import make_batch, slices
from runnel.connector import (
    Pause,
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.errors import ErrorCode, OperationalError
from runnel.processor import JobContext
from runnel.processors.live.consolidation import weight_column
from runnel.processors.live.views.store import ViewReader, ViewStore
from runnel.relation.live import WEIGHT
from runnel.sqltypes import BIGINT


class ViewChanges(ReadableTable):
    """The rows that appear in a view and disappear from it. The last column is the weight."""

    connector = VIEW_TYPE

    def __init__(self, name: str, columns: tuple[TableColumn, ...], store: ViewStore) -> None:
        self.name = name
        self.columns = (*columns, TableColumn(WEIGHT, BIGINT, hidden=True))
        self.store = store

    @property
    def is_unbounded(self) -> bool:
        return True

    @property
    def key_columns(self) -> tuple[int, ...]:
        return self.store.key or ()

    @property
    def weight(self) -> int:
        """The index of the column of weights."""
        return len(self.columns) - 1

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return ViewChangesSource(self.store, request.columns)


class ViewChangesSource(Source):
    """A scan of the changes. After a restart it begins with the content again, and the operator
    after it (`ViewInputProcessor`) emits the difference.

    store: the view.
    """

    traits = SourceTraits(is_repeatable=True)
    kind = "the materialized view"

    def __init__(self, store: ViewStore, columns: tuple[int, ...]) -> None:
        self.store = store
        self._columns = columns

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [ViewChangesPartition(self.store, self._columns)]


class ViewChangesPartition(SourcePartition):
    """One reader of a view. An epoch of its query has whole epochs of the view."""

    identity = "changes"
    is_between_epochs = False

    def __init__(self, store: ViewStore, columns: tuple[int, ...]) -> None:
        self._store = store
        self._columns = columns
        types = (*store.types, pa.int64())
        self._schema = pa.schema(
            [pa.field(f"c{place}", types[i]) for place, i in enumerate(columns)]
        )
        self._reader: ViewReader | None = None
        self._batches: deque[pa.RecordBatch] = deque()

    def open(self, wake: Callable[[], None]) -> None:
        self._reader = self._store.subscribe(wake)

    def read(self) -> pa.RecordBatch | Pause:
        assert self._reader is not None
        if self._store.is_dropped:
            raise OperationalError(
                f'materialized view "{self._store.name}" was dropped', code=ErrorCode.GENERIC
            )
        if not self._batches:
            for columns, weights in self._store.take(self._reader):
                everything = [*columns, weight_column(weights)]
                chosen = [everything[i] for i in self._columns]
                self._batches.extend(slices(make_batch(chosen, self._schema, len(weights))))
        batch = self._batches.popleft() if self._batches else None
        # Before the first content there is no epoch to end.
        self.is_between_epochs = not self._batches and self._reader.taken > 0
        return Pause() if batch is None else batch

    def progress(self) -> tuple[int, int] | None:
        reader = self._reader
        if reader is None:
            return None
        # The epoch that was taken counts when its last batch was read.
        return reader.written, reader.taken if self.is_between_epochs else reader.taken - 1

    def position(self) -> Token:
        return {}

    def seek(self, token: Token) -> None:
        """The content is read again."""

    def close(self) -> None:
        if self._reader is not None:
            self._store.leave(self._reader)
