"""A map as an input of live queries: its rows, then its changes.

The rows are those at the start of the reader, and the changes are those after it: both are fixed
under the map's lock.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import indexes, make_batch
from runnel.connector import End, Pause, ReadableTable, ScanRequest, Source, SourcePartition, Token
from runnel.connectors.imap.changes import ChangesPartition
from runnel.connectors.imap.layout import MapLayout
from runnel.connectors.imap.scan import MapSource
from runnel.connectors.imap.storage.journal import OPERATIONS
from runnel.connectors.imap.storage.store import MapStore
from runnel.expressions import build
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.processor import JobContext
from runnel.relation.changing_tables import ChangingTable, EventLog, OnInconsistency
from runnel.sqltypes import BOOLEAN, VARCHAR, to_arrow

OPERATION = "$change"


def changing_map(
    name: str, columns: tuple[TableColumn, ...], layout: MapLayout, store: MapStore
) -> ChangingTable:
    """The table of a mapping for live queries."""
    events = MapEvents(name, columns, layout, store)
    row: tuple[Expression, ...] = tuple(
        Column(index=i, name=item.name, type=item.type) for i, item in enumerate(columns)
    )
    operation = Column(index=len(columns), name=OPERATION, type=VARCHAR)
    update, delete, deleted = (_text(value) for value in ("u", "d", OPERATIONS[-1]))
    always = Literal(value=True, type=BOOLEAN)
    log = EventLog(
        operation=build.case([build.call("eq", [operation, deleted])], [delete], update),
        after=row,
        before=row,
        has_after=always,
        has_before=always,
        key=layout.keys,
        on_inconsistency=OnInconsistency.FAIL,
        source=f'map "{store.name}"',
    )
    return ChangingTable(name, MapEvents.connector, columns, events, log)


def _text(value: str) -> Expression:
    return Literal(value=value, type=VARCHAR)


class MapEvents(ReadableTable):
    """The rows and changes of a map: the columns of the mapping, and the operation."""

    connector = "IMap"

    def __init__(
        self, name: str, columns: Sequence[TableColumn], layout: MapLayout, store: MapStore
    ) -> None:
        self.name = name
        self.columns = (*columns, TableColumn(OPERATION, VARCHAR))
        self._layout = layout
        self._store = store

    @property
    def is_unbounded(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        names = [self.columns[i].name for i in request.columns]
        return MapEventsSource(self._store, self._layout, request.columns, names)


class MapEventsSource(Source):
    """A scan of rows and changes. `columns` are indexes of the columns of `MapEvents`."""

    def __init__(
        self, store: MapStore, layout: MapLayout, columns: tuple[int, ...], names: Sequence[str]
    ) -> None:
        self._store = store
        self._layout = layout
        self._columns = columns
        self._names = tuple(names)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [
            MapEventsPartition(self._store, self._layout, (self._columns, self._names), context)
        ]


class MapEventsPartition(ChangesPartition):
    """Reads the rows, then the changes after them. `columns` are indexes of the columns of
    `MapEvents`, and names."""

    def __init__(
        self,
        store: MapStore,
        layout: MapLayout,
        columns: tuple[tuple[int, ...], tuple[str, ...]],
        context: JobContext,
    ) -> None:
        chosen, names = columns
        width = len(layout.paths)
        fields = tuple(i for i in chosen if i < width)
        # The journal has the row, the row before the change, and then the operation.
        in_journal = [i if i < width else 2 * width for i in chosen]
        with store.lock:
            super().__init__(store, layout, (in_journal, names), context)
            rows = MapSource(store, layout, fields, [f"c{i}" for i in fields], None)
            self._rows = rows.stored()
        self._places = [fields.index(i) if i < width else None for i in chosen]
        kinds = [to_arrow(VARCHAR) if i >= width else to_arrow(layout.types[i]) for i in chosen]
        self._schema = pa.schema(list(zip(names, kinds, strict=True)))
        self._operation = array_of([OPERATIONS[0]], VARCHAR)
        self.is_between_epochs = False

    def read(self) -> pa.RecordBatch | Pause | End:
        was_between = self.is_between_epochs
        batch = next(self._rows, None)
        if batch is not None:
            return self._as_events(batch)
        item = super().read()
        with self._store.lock:
            self.is_between_epochs = not self._journal.is_within_commit(self._reader)
        if self.is_between_epochs and not was_between:
            # The call of the source that ends the epoch follows.
            assert self._reader.wake is not None
            self._reader.wake()
        return item

    def _as_events(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        repeated = self._operation.take(indexes(np.zeros(batch.num_rows, np.int64)))
        columns = [repeated if i is None else batch.column(i) for i in self._places]
        return make_batch(columns, self._schema, batch.num_rows)

    def position(self) -> Token | None:
        return None
