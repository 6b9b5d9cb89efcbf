"""The rows that a statement has changed, which RETURNING reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runnel.catalog import Mapping, Registration, TableColumn
from runnel.columns.batches import empty_columns
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
)
from runnel.processor import JobContext
from runnel.relation.nodes import Relation

if TYPE_CHECKING:
    from runnel.planner.bind.query import Binder

NAME = "returned rows"
"""The table in the FROM of the query of RETURNING."""


class ReturnedRows(ReadableTable):
    """Rows in memory, in the columns of the changed table."""

    connector = "RETURNING"

    def __init__(
        self, columns: Sequence[TableColumn], batches: Sequence[pa.RecordBatch] = ()
    ) -> None:
        self.name = NAME
        self.columns = tuple(columns)
        self._batches = batches

    def row_count(self) -> int | None:
        return sum(int(batch.num_rows) for batch in self._batches)

    def scan(self, request: ScanRequest) -> Source:
        return _RowsSource(self._batches, request.columns)


class _RowsSource(Source):
    def __init__(self, batches: Sequence[pa.RecordBatch], columns: Sequence[int]) -> None:
        self._batches = batches
        self._columns = list(columns)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [_RowsPartition(self._batches, self._columns)]


class _RowsPartition(SourcePartition):
    def __init__(self, batches: Sequence[pa.RecordBatch], columns: list[int]) -> None:
        self._rest = [batch for batch in batches if batch.num_rows]
        self._columns = columns

    def read(self) -> pa.RecordBatch | End:
        if not self._rest:
            return END
        batch = self._rest.pop(0)
        if batch.num_rows > BATCH_ROWS:
            self._rest.insert(0, batch.slice(BATCH_ROWS))
            batch = batch.slice(0, BATCH_ROWS)
        return batch.select(self._columns) if self._columns else empty_columns(batch.num_rows)


def bind_returning(binder: Binder, tree: Any, rows: ReturnedRows, schema: str) -> Relation:
    """The relation of RETURNING over the changed rows of a table in the schema of that key."""
    returned = Mapping(NAME, rows.connector, rows, {}, None, schema=schema)
    objects = {**binder.snapshot.objects, NAME: returned if schema else Registration(NAME, rows)}
    inner = replace(binder, snapshot=replace(binder.snapshot, objects=objects))
    return inner.query(tree, None)
