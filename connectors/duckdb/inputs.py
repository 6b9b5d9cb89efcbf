"""The inputs of a fragment on DuckDB: tables that DuckDB reads itself, and others as Arrow batches.

DuckDB reads a Parquet file itself if Runnel's reader would return the very same values: every
requested column is in the file, with exactly the type of the table. All other rows come through the
table's own scan, so their semantics do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runnel.catalog import Table
from runnel.connector import End, Pause, ReadableTable, ScanRequest, SourcePartition
from runnel.connectors.parallel_reading import ParallelReading
from runnel.duckdb.arrow import carried_schema, carried_type, to_duckdb
from runnel.duckdb.kernel import quoted
from runnel.errors import Error
from runnel.expressions.evaluate import can_fail
from runnel.expressions.nodes import Expression
from runnel.processor import JobContext
from runnel.relation.nodes import Scan
from runnel.sqltypes import INTEGER_WIDTHS, NUMBERS, Kind, SqlType, to_arrow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from runnel.connectors.files.table import FileTable

_IN_PARQUET = NUMBERS | {
    Kind.BOOLEAN,
    Kind.VARCHAR,
    Kind.VARBINARY,
    Kind.DATE,
    Kind.TIME,
    Kind.TIMESTAMP,
    Kind.TIMESTAMP_TZ,
}
_SPECIAL = frozenset('*?[]{}\\"')
"""Characters in a file name that DuckDB would read as a pattern."""

_schemas: dict[tuple[str, int, int], pa.Schema] = {}
_MOST_SCHEMAS = 4096


class StoredInput:
    """Batches in memory as they are; DuckDB accepts text in any of Arrow's layouts.

    `is_filtered`: the query may need few of the rows (a condition, a join). It finds them faster in
        a table, which Arrow filters, than in a stream.
    """

    def __init__(
        self, name: str, schema: pa.Schema, batches: list[pa.RecordBatch], *, is_filtered: bool
    ) -> None:
        self.name = name
        self.error: Error | None = None
        self._schema = schema
        self._batches: list[pa.RecordBatch] = batches
        self._is_filtered = is_filtered

    @classmethod
    def of(
        cls, name: str, table: Any, read: tuple[int, ...], *, is_filtered: bool
    ) -> StoredInput | None:
        """The input for a registered table whose columns need no conversion; None for any other
        table."""
        if table.connector != "Arrow":
            return None
        types = [table.arrow_type(i) for i in read]
        if not all(
            _goes_as_it_is(found, table.columns[i].type)
            for found, i in zip(types, read, strict=True)
        ):
            return None
        batches = table.stored(read)
        schema = pa.schema([pa.field(f"c{i}", found) for i, found in enumerate(types)])
        return None if batches is None else cls(name, schema, batches, is_filtered=is_filtered)

    def register(self, cursor: DuckDBPyConnection) -> None:
        """Registers the rows with a cursor, under the input's name; they can be read once."""
        rows = (
            pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
            for batch in self._batches
        )
        if self._is_filtered:
            cursor.register(self.name, pa.Table.from_batches(rows, self._schema))
        else:
            cursor.register(self.name, pa.RecordBatchReader.from_batches(self._schema, rows))

    def stop(self) -> None:
        """Does nothing: there is nothing to wait for."""

    def close(self) -> None:
        """Releases the batches."""
        self._batches = []


def _goes_as_it_is(found: pa.DataType, kind: SqlType) -> bool:
    if kind.kind is Kind.VARCHAR:
        return bool(
            pa.types.is_string(found)
            or pa.types.is_large_string(found)
            or pa.types.is_string_view(found)
        )
    return bool(found == carried_type(kind) == to_arrow(kind))


class StreamInput:
    """The rows of a table as Arrow batches with the columns c0, c1, ….

    The version of the data is fixed at construction. The partitions of a blocking source are read
    on up to `threads` threads.
    """

    def __init__(
        self, name: str, scan: Scan, read: tuple[int, ...], context: JobContext, threads: int
    ) -> None:
        table = scan.table
        assert isinstance(table, ReadableTable)
        self.name = name
        self.error: Error | None = None
        self._clock = context.clock
        self._types = [table.columns[i].type for i in read]
        source = table.scan(ScanRequest(read, _advice(scan)))
        self._partitions = source.split(context)
        self._left = list(self._partitions)
        self._parallel: ParallelReading | None = None
        if not source.cooperative and min(threads, len(self._left)) > 1:
            self._parallel = ParallelReading(self._left, self._rows_of, threads)
        self._schema = carried_schema(self._types)
        self._closed = False

    def register(self, cursor: DuckDBPyConnection) -> None:
        """Registers the rows with a cursor, under the input's name; they can be read once."""
        cursor.register(self.name, pa.RecordBatchReader.from_batches(self._schema, self._batches()))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            if self._parallel is not None:
                yield from self._parallel.batches()
                return
            while self._left and not self._closed:
                yield from self._rows_of(self._left.pop(0))
        except Error as error:
            # DuckDB would convert the error to a text.
            self.error = error
            raise

    def _rows_of(self, partition: SourcePartition) -> Iterator[pa.RecordBatch]:
        news = Event()
        partition.open(news.set)
        while not self._closed:
            news.clear()
            item = partition.read()
            if isinstance(item, End):
                return
            if isinstance(item, Pause):
                _wait(item, news, self._clock)
            elif isinstance(item, pa.RecordBatch) and item.num_rows:
                yield to_duckdb(item, self._types, self._schema)

    def stop(self) -> None:
        """Ends the rows soon, also for a thread that waits for them. Only for a query whose
        result is not needed."""
        self._closed = True
        if self._parallel is not None:
            self._parallel.end()

    def close(self) -> None:
        """Closes the partitions. Not while DuckDB reads."""
        self._closed = True
        if self._parallel is not None:
            self._parallel.stop()
        partitions, self._partitions = self._partitions, ()
        for partition in partitions:
            partition.close()


def no_rows(scan: Scan, read: tuple[int, ...]) -> pa.RecordBatchReader:
    """A stream of a table's columns in the types for DuckDB, without rows."""
    return pa.RecordBatchReader.from_batches(
        carried_schema([scan.table.columns[i].type for i in read]), []
    )


def _advice(scan: Scan) -> Expression | None:
    """The predicate, if a table may apply it in any order, that is, if it cannot fail."""
    predicate = scan.predicate
    return None if predicate is None or can_fail(predicate) else predicate


def _wait(pause: Pause, news: Event, clock: Callable[[], int]) -> None:
    left = 0.1 if pause.until is None else min(0.1, (pause.until - clock()) / 1e9)
    if left > 0:
        news.wait(left)


def can_read(table: Table) -> bool:
    """Whether a fragment can read the table, at least as a stream of batches."""
    is_known = table.connector in ("Arrow", "File", "IMap") or hasattr(table, "duckdb_relation")
    return (
        is_known
        and isinstance(table, ReadableTable)
        and not table.is_unbounded
        and table.malformed_target is None
    )


def is_native(table: Table) -> bool:
    """Whether DuckDB is likely to read the table itself."""
    return hasattr(table, "duckdb_relation") or _is_parquet(table)


def preview(scan: Scan, read: tuple[int, ...]) -> str:
    """The FROM item for a table in the SQL that EXPLAIN shows."""
    table: Any = scan.table
    names = [_quoted_name(table.columns[i].external_name or table.columns[i].name) for i in read]
    columns = ", ".join(f"{name} AS c{i}" for i, name in enumerate(names))
    if _is_parquet(table):
        return f"(SELECT {columns} FROM read_parquet({quoted(table.path.text)}))"
    return f"(SELECT {columns} FROM {_quoted_name(table.name)})"


def native_text(scan: Scan, read: tuple[int, ...]) -> str | None:
    """The FROM item with which DuckDB reads the table itself, with its current files; None if it
    cannot."""
    table: Any = scan.table
    if hasattr(table, "duckdb_relation"):
        relation: str = table.duckdb_relation(read)
        return relation
    if not _is_parquet(table):
        return None
    return _parquet_text(table, read)


def _is_parquet(table: Any) -> bool:
    """Whether all columns of the table are in Parquet files, and none in the names of folders."""
    if getattr(table, "partitioning", None) is not None:
        return False
    return (
        table.connector == "File"
        and getattr(getattr(table, "format", None), "name", "") == "parquet"
    )


def _parquet_text(table: FileTable, read: tuple[int, ...]) -> str | None:
    from runnel.connectors.files.format import external_name
    from runnel.connectors.files.storage import local

    if type(table.path).__name__ != "FilePath":
        return None
    columns = [table.columns[i] for i in read]
    if any(column.type.kind not in _IN_PARQUET for column in columns):
        return None
    files = [local(file.path) for file in table.path.files()]
    if not files or any(_SPECIAL & set(path) for path in files):
        return None
    schemas = [_schema_of(path) for path in files]
    texts = []
    for position, column in enumerate(columns):
        text = _column_text(external_name(column), column.type, schemas)
        if text is None:
            return None
        texts.append(f"{text} AS c{position}")
    listed = ", ".join(map(quoted, files))
    return (
        f"(SELECT {', '.join(texts)} FROM read_parquet([{listed}], hive_partitioning = false, "
        "union_by_name = true))"
    )


def _column_text(name: str, kind: SqlType, schemas: Sequence[pa.Schema | None]) -> str | None:
    """DuckDB's SQL for a column that every file has exactly once (ignoring case).

    Its type must have the values of `kind` for DuckDB and for Runnel alike; None otherwise.
    """
    text = _quoted_name(name)
    for schema in schemas:
        if (
            schema is None
            or [item.lower() for item in schema.names].count(name.lower()) != 1
            or name not in schema.names
        ):
            return None
        found = schema.field(name).type
        if found == to_arrow(kind) or (kind.kind is Kind.VARCHAR and _is_text(found)):
            continue
        if not (
            pa.types.is_integer(found)
            and kind.kind in INTEGER_WIDTHS
            and found.bit_width < INTEGER_WIDTHS[kind.kind]
        ):
            return None
        text = f"CAST({_quoted_name(name)} AS {kind.kind.name})"
    # DuckDB assumes that the maximum in the file's statistics is the largest value, but most
    # writers exclude NaN from it. DuckDB assumes nothing about an expression in TRY.
    return f"TRY({text})" if kind.kind in (Kind.REAL, Kind.DOUBLE) else text


def _is_text(found: pa.DataType) -> bool:
    """Whether it is a text column of Parquet, in any of Arrow's layouts."""
    value_type = found.value_type if pa.types.is_dictionary(found) else found
    return bool(
        pa.types.is_string(value_type)
        or pa.types.is_large_string(value_type)
        or pa.types.is_string_view(value_type)
    )


def _schema_of(path: str) -> pa.Schema | None:
    import pyarrow.parquet as pq

    try:
        status = Path(path).stat()
        key = (path, status.st_size, status.st_mtime_ns)
        known = _schemas.get(key)
        if known is None:
            known = pq.read_schema(path)
            if len(_schemas) >= _MOST_SCHEMAS:
                _schemas.clear()
            _schemas[key] = known
    except (OSError, pa.ArrowException):
        return None  # Runnel's own reader will report the error
    return known


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
