"""Registered objects: Arrow tables, batches, readers and datasets, pandas and Polars frames, and
every object with the Arrow PyCapsule interface.

Nothing is copied, and an object must not be changed while it is registered. A column without a name
is called `column_<n>` (n counts from 1); a repeated name (ignoring case) gets the first free suffix
of `_1`, `_2`…. An unsupported column has the type NULL: the other columns can be used, and a scan
that requests it is refused with its name. The index of a pandas frame is not a column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from runnel.catalog import Table, TableColumn
from runnel.connector import ReadableTable, ScanRequest, Source
from runnel.connectors.arrow.duckdb_relation import relation_batches, relation_schema
from runnel.connectors.arrow.source import (
    BatchesSource,
    BatchStreamSource,
    Projection,
    StreamReading,
    cut_table,
)
from runnel.errors import Error, NotSupportedError, OperationalError, ProgrammingError
from runnel.expressions.received import check_received
from runnel.sqltypes import NULL, SqlType, from_arrow

ACCEPTED = (
    "register a pyarrow Table, RecordBatch, list of batches, RecordBatchReader or Dataset, a "
    "pandas or Polars frame, or an object with __arrow_c_stream__"
)


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """A column of a registered object.

    name: its unique name.
    type: its SQL type.
    problem: why it cannot be read; None if it can.
    """

    name: str
    type: SqlType
    problem: str | None = None


class RegisteredData(ABC):
    """The data of a registered table.

    schema: the schema of its batches, with the final names.
    columns: its columns.
    """

    schema: pa.Schema
    columns: tuple[ArrowColumn, ...]

    def describe(self, schema: pa.Schema, problems: dict[int, str] | None = None) -> None:
        """Sets `schema` and `columns`.

        `problems` has, by index, the reason why a column cannot be read.
        """
        names = unique_names(schema.names)
        self.schema = pa.schema(
            [pa.field(name, item.type) for name, item in zip(names, schema, strict=True)]
        )
        self.columns = tuple(
            describe_column(name, item.type, (problems or {}).get(i))
            for i, (name, item) in enumerate(zip(names, schema, strict=True))
        )

    @abstractmethod
    def source(self, name: str, columns: tuple[int, ...], limit: int | None) -> Source:
        """A scan of the columns at the indexes `columns`; `name` is the name of the table, for
        errors."""

    def row_count(self) -> int | None:
        return None

    def stored(self, columns: tuple[int, ...]) -> list[pa.RecordBatch] | None:
        """The columns at the indexes `columns` as they are in memory, with any Arrow types.

        None if they are not in memory.
        """
        return None

    def projection(self, columns: tuple[int, ...]) -> Projection:
        return Projection.of(self.schema, [column.type for column in self.columns], columns)


class StoredBatches(RegisteredData):
    """Batches in memory."""

    def __init__(
        self,
        schema: pa.Schema,
        batches: Sequence[pa.RecordBatch],
        problems: dict[int, str] | None = None,
    ) -> None:
        self.describe(schema, problems)
        # One plain schema (no metadata, all fields nullable), so that batches of different objects
        # can be concatenated.
        self._batches = [rename(batch, self.schema) for batch in batches]
        self._rows: int = sum(batch.num_rows for batch in batches)
        self._sound: set[int] = set()

    def source(self, name: str, columns: tuple[int, ...], limit: int | None) -> Source:
        return BatchesSource(lambda: self._checked(columns, limit), self.projection(columns), limit)

    def _checked(self, columns: Sequence[int], limit: int | None = None) -> list[pa.RecordBatch]:
        """The batches, after a check of the columns, once: as far as the first `limit` rows."""
        for column in columns:
            rows = 0
            for batch in () if column in self._sound else self._batches:
                if limit is not None and rows >= limit:
                    break
                check_received(
                    batch.column(column), f'registered column "{self.columns[column].name}"'
                )
                rows += batch.num_rows
            else:
                self._sound.add(column)
        return self._batches

    def stored(self, columns: tuple[int, ...]) -> list[pa.RecordBatch] | None:
        self._checked(columns)
        return [batch.select(columns) for batch in self._batches]

    def row_count(self) -> int | None:
        return self._rows


class PandasFrame(RegisteredData):
    """A pandas frame, whose columns are converted to Arrow arrays on first use, and retained.

    Only columns of Python objects are converted at once, since their type cannot be determined in
    another way.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._lock = Lock()
        self._arrays: dict[int, Any] = {}
        fields, problems = [], {}
        for i, label in enumerate(frame.columns):
            try:
                arrow_type = (
                    self._array(i).type
                    if str(frame.dtypes.iloc[i]) == "object"
                    else _from_series(frame.iloc[:0, i]).type
                )
            except (pa.ArrowException, TypeError, ValueError) as error:
                problems[i] = str(error)
                arrow_type = pa.null()
            fields.append(pa.field("" if label is None else str(label), arrow_type))
        self.describe(pa.schema(fields), problems)

    def _array(self, index: int) -> Any:
        with self._lock:
            found = self._arrays.get(index)
            if found is None:
                found = self._arrays[index] = _from_series(self._frame.iloc[:, index])
            return found

    def source(self, name: str, columns: tuple[int, ...], limit: int | None) -> Source:
        def load() -> list[pa.RecordBatch]:
            if not columns:
                rows = pa.table([pa.nulls(len(self._frame))], names=["row"])
                return [batch.select([]) for batch in cut_table(rows)]
            return cut_table(pa.Table.from_arrays([self._array(i) for i in columns], names=names))

        names = [self.columns[i].name for i in columns]
        chosen = pa.schema([self.schema.field(i) for i in columns])
        types = [self.columns[i].type for i in columns]
        return BatchesSource(load, Projection.of(chosen, types, tuple(range(len(columns)))), limit)

    def row_count(self) -> int | None:
        return len(self._frame)


class LazyOrigin(RegisteredData):
    """Data that every scan reads again: a dataset, a Polars LazyFrame, a stream that can be
    reopened.

    `open_batches` accepts the indexes of the requested columns and yields batches of them.
    """

    def __init__(
        self, schema: pa.Schema, open_batches: Callable[[tuple[int, ...]], Iterator[pa.RecordBatch]]
    ) -> None:
        self.describe(schema)
        self._open = open_batches

    def source(self, name: str, columns: tuple[int, ...], limit: int | None) -> Source:
        # A stream without columns has no number of rows.
        requested = columns or (0,)
        chosen = pa.schema([self.schema.field(i) for i in requested])
        types = [self.columns[i].type for i in requested]
        projection = Projection.of(chosen, types, tuple(range(len(columns))))
        return BatchStreamSource(
            lambda: StreamReading(lambda: self._batches(requested, chosen)), projection, name, limit
        )

    def _batches(self, requested: tuple[int, ...], chosen: pa.Schema) -> Iterator[pa.RecordBatch]:
        return (rename(batch, chosen) for batch in self._open(requested))


_READ: WeakSet[pa.RecordBatchReader] = WeakSet()
"""The readers whose rows are read or were read, also under another name."""


class OneShotReader(RegisteredData):
    """A RecordBatchReader: its rows can be read once.

    A scan claims it when the scan is split, so that a second reference, also in the same statement,
    is refused before anything was read.
    """

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self._lock = Lock()
        self._claimed = False
        self.describe(reader.schema)

    def source(self, name: str, columns: tuple[int, ...], limit: int | None) -> Source:
        return BatchStreamSource(lambda: self._claim(name), self.projection(columns), name, limit)

    def _claim(self, name: str) -> StreamReading:
        with self._lock:
            if self._claimed or self._reader in _READ:
                raise OperationalError(
                    f'the rows of the registered reader "{name}" can be read only once',
                    hint=f"read them into a table first: {name} = {name}.arrow() of a cursor, "
                    f"{name} = {name}.read_all() of a reader",
                )
            self._claimed = True
            _READ.add(self._reader)
        return StreamReading(self._batches, self._unclaim)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return (rename(sound(batch), self.schema) for batch in self._reader)

    def _unclaim(self) -> None:
        with self._lock:
            self._claimed = False
            _READ.discard(self._reader)


class ArrowTable(ReadableTable):
    """A registered object as a table."""

    connector = "Arrow"

    def __init__(self, name: str, origin: RegisteredData) -> None:
        self.name = name
        self.columns = tuple(TableColumn(column.name, column.type) for column in origin.columns)
        self._origin = origin

    def scan(self, request: ScanRequest) -> Source:
        for i in request.columns:
            column = self._origin.columns[i]
            if column.problem is not None:
                raise NotSupportedError(
                    f'column "{column.name}" of "{self.name}" can\'t be read',
                    detail=column.problem,
                    hint=(
                        "name the columns you need, or convert this one before you register the "
                        "object"
                    ),
                )
        # With a predicate the limit counts rows that satisfy it, and only the caller evaluates it.
        limit = request.limit if request.predicate is None else None
        return self._origin.source(self.name, request.columns, limit)

    def stored(self, columns: tuple[int, ...]) -> list[pa.RecordBatch] | None:
        """The rows as they are in memory, not in canonical types, for an engine that accepts
        them."""
        return self._origin.stored(columns)

    def arrow_type(self, index: int) -> pa.DataType:
        """The Arrow type in which a column is stored."""
        found: pa.DataType = self._origin.schema.field(index).type
        return found

    def row_count(self) -> int | None:
        return self._origin.row_count()


def registered_table(name: str, obj: object) -> Table:
    """The table that `Connection.register(name, obj)` creates.

    ProgrammingError if the object is of an unknown kind.
    """
    try:
        origin = _origin_of(obj)
    except Error:
        raise
    except Exception as error:
        # The object's own library failed to return its schema or its data.
        raise ProgrammingError(
            f'the object for "{name}", a {type(obj).__name__}, can\'t be read as Arrow data',
            detail=f"{type(error).__name__}: {error}",
            hint=ACCEPTED,
        ) from error
    if origin is None:
        raise ProgrammingError(
            f'an object of type {type(obj).__name__} can\'t be registered as "{name}"',
            hint=ACCEPTED,
        )
    return ArrowTable(name, origin)


def _origin_of(obj: Any) -> RegisteredData | None:
    if isinstance(obj, pa.Table):
        return StoredBatches(obj.schema, cut_table(obj))
    if isinstance(obj, pa.RecordBatch):
        return _stored(pa.Table.from_batches([obj]))
    if isinstance(obj, (list, tuple)):
        return _of_list(obj)
    if isinstance(obj, pa.RecordBatchReader):
        return OneShotReader(obj)
    if isinstance(obj, (pa.Array, pa.ChunkedArray)):
        return _of_array(obj, "value")
    library = type(obj).__module__.partition(".")[0]
    if library == "pandas":
        return _of_pandas(obj)
    if library == "polars":
        return _of_polars(obj)
    if library == "pyarrow" and hasattr(obj, "scanner") and hasattr(obj, "schema"):
        return LazyOrigin(obj.schema, lambda requested: _dataset_batches(obj, requested))
    if hasattr(obj, "__arrow_c_stream__"):
        return _of_relation(obj) if library in ("duckdb", "_duckdb") else _of_stream(obj)
    if hasattr(obj, "__arrow_c_array__"):
        return _stored(pa.Table.from_batches([pa.record_batch(obj)]))
    return None


def _stored(table: Any) -> StoredBatches:
    return StoredBatches(table.schema, cut_table(table))


def _of_list(batches: Sequence[Any]) -> RegisteredData | None:
    if not batches or not all(isinstance(batch, pa.RecordBatch) for batch in batches):
        return None
    if any(not batch.schema.equals(batches[0].schema) for batch in batches):
        raise ProgrammingError(
            "the batches of a list must have one schema", hint="cast them to one schema first"
        )
    return _stored(pa.Table.from_batches(batches))


def _of_array(values: Any, name: str) -> RegisteredData:
    if pa.types.is_struct(values.type) and not values.null_count:
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        schema = pa.schema([values.type.field(i) for i in range(values.type.num_fields)])
        return _stored(
            pa.Table.from_batches(
                [pa.RecordBatch.from_struct_array(chunk) for chunk in chunks], schema
            )
        )
    return _stored(pa.Table.from_arrays([values], names=[name]))


def _of_pandas(obj: Any) -> RegisteredData | None:
    kind = type(obj).__name__
    if kind == "Series" and hasattr(obj, "to_frame"):
        return PandasFrame(obj.to_frame("value" if obj.name is None else obj.name))
    return PandasFrame(obj) if hasattr(obj, "iloc") and hasattr(obj, "dtypes") else None


def _of_polars(obj: Any) -> RegisteredData | None:
    kind = type(obj).__name__
    if kind == "LazyFrame":
        empty = pa.table(obj.limit(0).collect())
        names = empty.schema.names
        return LazyOrigin(
            empty.schema,
            lambda requested: iter(
                pa.table(obj.select([names[i] for i in requested]).collect()).to_batches()
            ),
        )
    if kind == "Series":
        return _of_array(pa.chunked_array(obj), obj.name or "value")
    return _of_polars_frame(obj) if hasattr(obj, "__arrow_c_stream__") else None


def _of_polars_frame(frame: Any) -> RegisteredData:
    """A frame column by column, since one column that Arrow cannot convert would fail all of
    them."""
    names, columns, problems = [], [], {}
    for i, series in enumerate(frame.get_columns()):
        names.append(series.name)
        try:
            if str(series.dtype) == "Object":
                # Polars would return the addresses of the Python objects.
                raise TypeError("a Polars column of type Object has no Arrow type")
            columns.append(pa.chunked_array(series))
        except (pa.ArrowException, TypeError) as error:
            problems[i] = str(error)
            columns.append(pa.chunked_array([pa.nulls(len(series))]))
    table = pa.Table.from_arrays(columns, names=names)
    return StoredBatches(table.schema, cut_table(table), problems)


def _of_relation(relation: Any) -> RegisteredData:
    """A DuckDB relation."""
    schema = relation_schema(relation)
    return LazyOrigin(schema, lambda requested: relation_batches(relation, schema.names, requested))


def _of_stream(obj: Any) -> RegisteredData:
    """An object with `__arrow_c_stream__`, which every scan opens again.

    An object without `__arrow_c_schema__` is opened to get its schema. The first scan continues
    with that stream, since the object may not offer another one.
    """
    if hasattr(obj, "__arrow_c_schema__"):
        first = None
        schema = pa.schema(obj)
    else:
        first = pa.RecordBatchReader.from_stream(obj)
        schema = first.schema
    waiting = [first] if first is not None else []
    lock = Lock()

    def open_batches(requested: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        with lock:
            reader = waiting.pop() if waiting else pa.RecordBatchReader.from_stream(obj)
        return (sound(batch.select(requested)) for batch in reader)

    return LazyOrigin(schema, open_batches)


def _dataset_batches(dataset: Any, requested: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    names = [dataset.schema.names[i] for i in requested]
    batches: Iterator[pa.RecordBatch] = dataset.scanner(columns=names).to_batches()
    return batches


def _from_series(series: Any) -> Any:
    return pa.Array.from_pandas(series)


def describe_column(name: str, arrow_type: pa.DataType, problem: str | None = None) -> ArrowColumn:
    """A column of an Arrow type; of type NULL, with the reason, if the type is not supported."""
    if problem is not None:
        return ArrowColumn(name, NULL, problem)
    try:
        return ArrowColumn(name, from_arrow(arrow_type))
    except NotSupportedError as error:
        return ArrowColumn(name, NULL, error.message)


def unique_names(names: Sequence[str]) -> list[str]:
    """The column names that a query sees: none is empty, and none occurs twice (ignoring case)."""
    taken = {name.lower() for name in names if name}
    used: set[str] = set()
    result = []
    for i, name in enumerate(names):
        candidate = name or f"column_{i + 1}"
        lower = candidate.lower()
        if lower in used or (not name and lower in taken):
            number = 1
            while f"{lower}_{number}" in used | taken:
                number += 1
            candidate = f"{candidate}_{number}"
        used.add(candidate.lower())
        result.append(candidate)
    return result


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, after a check of all its columns."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        check_received(column, f'registered column "{name}"')
    return batch


def rename(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under the names of `schema`, without metadata and all nullable."""
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if not batch.num_columns:
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
