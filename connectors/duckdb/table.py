"""Tables and views of a DuckDB database, and reading them.

A scan sees its database as of the time when it is split: it starts a transaction then, in which it
reads the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import empty_columns
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    ReadableTable,
    RowAddressedTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    WriteMode,
)
from runnel.connectors.duckdb.changed_rows import change_rows, sql_array, unique_keys
from runnel.connectors.duckdb.changes import written_by
from runnel.connectors.duckdb.location import ROW_ID, DuckDBColumn, TableLocation
from runnel.connectors.duckdb.sink import DuckDBSink
from runnel.errors import ProgrammingError
from runnel.processor import Guarantee, JobContext
from runnel.processors.live.tables.repeated_reads import Observers, read_again
from runnel.sqltypes import BIGINT, Kind

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from runnel.columns.table_definition import TableDefinition


class DuckDBRelation(ReadableTable):
    """A view, or a table that is only read. `duckdb_relation` allows fragments to read it in
    DuckDB."""

    connector = "DuckDB"

    def __init__(self, name: str, location: TableLocation, columns: Sequence[DuckDBColumn]) -> None:
        self.name = name
        self.location = location
        self.duck_columns = tuple(columns)
        self.columns = tuple(item.column for item in columns)
        self._rows: int | None = None

    def duckdb_relation(self, read: Sequence[int]) -> str:
        """DuckDB's SQL for FROM: the columns with the given indexes, which are called c0, c1, …,
        in the types in which they leave DuckDB."""
        columns = [f"{self.outgoing(i)} AS c{n}" for n, i in enumerate(read)]
        return f"(SELECT {', '.join(columns) or '1'} FROM {self.location.qualified})"

    def outgoing(self, index: int) -> str:
        """DuckDB's SQL for one column in the type in which it leaves DuckDB: an INTERVAL as
        microseconds."""
        expression = self.expression(index)
        is_interval = self.columns[index].type.kind is Kind.INTERVAL
        return f"epoch_us({expression})" if is_interval else expression

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return DuckDBSource(self, request)

    def expression(self, index: int) -> str:
        """DuckDB's SQL for one column."""
        return self.duck_columns[index].expression if index < len(self.duck_columns) else ROW_ID


class DuckDBTable(DuckDBRelation, RowAddressedTable):
    """A table. Its rows need no key: UPDATE and DELETE address them by DuckDB's row number, a
    hidden column."""

    guarantee = Guarantee.EXACTLY_ONCE
    definition: TableDefinition | None = None
    """The constraints of a table of CREATE TABLE."""

    def __init__(
        self,
        name: str,
        location: TableLocation,
        columns: Sequence[DuckDBColumn],
        *,
        has_key: bool,
        is_read_only: bool,
    ) -> None:
        super().__init__(name, location, columns)
        self.has_key = has_key
        self.is_addressed = all(part.name.lower() != ROW_ID for part in columns)
        self.row_id = len(self.columns)
        self._is_read_only = is_read_only
        self.changes = 0
        self._observers: Observers = set()
        if self.is_addressed:
            self.columns = (*self.columns, TableColumn(ROW_ID, BIGINT, None, True))

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        if self._is_read_only:
            return frozenset()
        adding = frozenset({WriteMode.INSERT, WriteMode.SINK})
        if self.has_key:
            adding |= {WriteMode.CHANGES}
        return adding | {WriteMode.UPDATE, WriteMode.DELETE} if self.is_addressed else adding

    @property
    def change_key(self) -> tuple[int, ...]:
        first, *others = self.unique_keys()
        if others:
            raise ProgrammingError(
                f'table "{self.name}" has several keys, so a row could replace several rows',
                hint="write the changes to a table with a PRIMARY KEY alone",
            )
        names = [column.name for column in self.columns]
        return tuple(names.index(name) for name in first)

    def row_count(self) -> int | None:
        if self._rows is None:
            self._rows = self._count()
        return self._rows

    def _count(self) -> int | None:
        location = self.location
        query = (
            "SELECT estimated_size FROM duckdb_tables() "
            "WHERE '\"' || replace(database_name, '\"', '\"\"') || '\"' = ? "
            "AND schema_name = ? AND table_name = ?"
        )
        try:
            with location.cursor() as cursor:
                found = cursor.execute(
                    query, [location.database, location.schema, location.table]
                ).fetchone()
        except Exception:  # an estimate: reading the table will report the error
            return None
        return None if found is None else int(found[0])

    def sink(self, request: SinkRequest) -> Sink:
        return DuckDBSink(self, request)

    def written_by(self, fragment: Source, request: SinkRequest) -> Source | None:
        return written_by(self, fragment, request)

    def unique_keys(self) -> Sequence[tuple[str, ...]]:
        """The columns of each key; the primary key first."""
        return unique_keys(self)

    def pinned(self) -> AbstractContextManager[object]:
        """Within it, row numbers do not change."""
        return closing(self.location.pinned())

    def change(
        self, rows: pa.Table, columns: tuple[int, ...], inserts: str, key: tuple[str, ...]
    ) -> pa.Table:
        """Changes rows, all or none; see `changed_rows.change_rows`."""
        return change_rows(self, rows, columns, inserts, key)

    def exclusive(self) -> AbstractContextManager[object]:
        return self.location.lock

    def clear(self) -> int:
        location = self.location
        try:
            with location.cursor() as cursor:
                cursor.execute(f"DELETE FROM {location.qualified}")
                return int(cursor.rowcount)
        except Exception as error:
            raise location.failure(error) from error
        finally:
            self.changed()

    def changed(self, added: int | None = None) -> None:
        """Called after each change of the rows that others see. `added`: the number of rows that
        the change has added; None: unknown."""
        self.changes += 1
        for notice in tuple(self._observers):
            notice()
        if added is None:
            self.forget_count()
        elif self._rows is not None:
            self._rows = max(self._rows + added, 0)

    def with_changes(self, millis: int | None) -> ReadableTable | None:
        """If it is to be read again, also at once after changes by this process."""
        return None if millis is None else read_again(self, millis, self._observers)

    def forget_count(self) -> None:
        """Forgets the number of rows."""
        self._rows = None


class DuckDBSource(Source):
    """A scan. Blocking: DuckDB computes rows when they are requested."""

    cooperative = False

    def __init__(self, table: DuckDBRelation, request: ScanRequest) -> None:
        self._location = table.location
        columns = [table.outgoing(i) for i in request.columns]
        limit = (
            ""
            if request.limit is None or request.predicate is not None
            else f" LIMIT {request.limit}"
        )
        self.query = f"SELECT {', '.join(columns) or '1'} FROM {table.location.qualified}{limit}"
        self._types = [table.columns[i].type for i in request.columns]
        self._names = [table.columns[i].name for i in request.columns]

    def canonical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the query's rows, in canonical types."""
        if not self._types:
            return empty_columns(batch.num_rows)
        arrays = [
            sql_array(column, item) for column, item in zip(batch.columns, self._types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [
            DuckDBPartition(self._location, self._location.pinned(), self.query, self.canonical)
        ]


class DuckDBPartition(SourcePartition):
    """The rows of one query on a cursor of its own, which it closes."""

    def __init__(
        self,
        location: TableLocation,
        cursor: DuckDBPyConnection,
        query: str,
        canonical: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> None:
        self._location = location
        self._cursor = cursor
        self._query = query
        self._canonical = canonical
        self._reader: Any = None
        self._rest: pa.RecordBatch | None = None

    def read(self) -> pa.RecordBatch | End:
        batch = self._rest
        if batch is None:
            batch = self._next()
            if batch is None:
                return END
        self._rest = batch.slice(BATCH_ROWS) if batch.num_rows > BATCH_ROWS else None
        return self._canonical(batch.slice(0, BATCH_ROWS))

    def _next(self) -> pa.RecordBatch | None:
        try:
            if self._reader is None:
                self._reader = self._cursor.sql(self._query).to_arrow_reader(BATCH_ROWS)
            for batch in self._reader:
                if batch.num_rows:
                    return batch
        except Exception as error:
            raise self._location.failure(error) from error
        return None

    def close(self) -> None:
        reader, self._reader, self._rest = self._reader, None, None
        if reader is not None:
            reader.close()
        self._cursor.close()
