"""Converts the data that a program writes to a pushed stream to batches of the stream's columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import BATCH_ROWS
from runnel.connectors.files.conversion import convert_arrow
from runnel.errors import DataError, NotSupportedError, ProgrammingError, suggest
from runnel.expressions.kernels.values import array_of
from runnel.expressions.received import check_received
from runnel.sqltypes import Kind, SqlType, array, can_assign, decimal, from_arrow, to_arrow

StreamData: TypeAlias = (
    "pa.RecordBatch | pa.Table | pa.RecordBatchReader | Mapping[str, Any] | Iterable[Any]"
)

_SIMPLE_TYPES = {
    kind.name: SqlType(kind)
    for kind in Kind
    if kind
    not in (
        Kind.NULL,
        Kind.MAP,
        Kind.ARRAY,
        Kind.ROW,
        Kind.DECIMAL,
        Kind.TIMESTAMP_TZ,
        Kind.INTERVAL_MONTH,
        Kind.INTERVAL_MIXED,
    )
}
_TYPES = _SIMPLE_TYPES | {
    "INT": SqlType(Kind.INTEGER),
    "FLOAT": SqlType(Kind.DOUBLE),
    "DOUBLE PRECISION": SqlType(Kind.DOUBLE),
    "TEXT": SqlType(Kind.VARCHAR),
    "BOOL": SqlType(Kind.BOOLEAN),
    "DECIMAL": decimal(),
    "TIMESTAMP WITH TIME ZONE": SqlType(Kind.TIMESTAMP_TZ),
    "TIMESTAMPTZ": SqlType(Kind.TIMESTAMP_TZ),
}
_SCHEMA_HINT = "pass a pyarrow Schema, or a dict of names and SQL types: {'id': 'BIGINT'}"
_DECIMAL = re.compile(r"DECIMAL\s*\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)")


def stream_columns(
    name: str, schema: pa.Schema | Mapping[str, SqlType | str]
) -> tuple[TableColumn, ...]:
    """The columns of a stream, from an Arrow schema or from names with SQL types such as
    "BIGINT"."""
    if isinstance(schema, pa.Schema):
        columns = tuple(TableColumn(item.name, from_arrow(item.type)) for item in schema)
    elif isinstance(schema, Mapping):
        columns = tuple(_column(name, key, item) for key, item in schema.items())
    else:
        raise ProgrammingError(
            f'a value of class {type(schema).__name__} can\'t be the schema of stream "{name}"',
            hint=_SCHEMA_HINT,
        )
    if not columns:
        raise ProgrammingError(
            f'the stream "{name}" has no columns', hint="give a schema with at least one column"
        )
    names: set[str] = set()
    for column in columns:
        if column.name.lower() in names:
            raise ProgrammingError(
                f'column "{column.name}" comes twice in the schema of stream "{name}"'
            )
        names.add(column.name.lower())
    return columns


def _column(stream: str, name: Any, kind: Any) -> TableColumn:
    """One item of a schema that maps names to types."""
    if not isinstance(name, str) or not isinstance(kind, SqlType | str):
        raise ProgrammingError(
            f'{name!r}: {kind!r} can\'t be a column of stream "{stream}"', hint=_SCHEMA_HINT
        )
    return TableColumn(name, kind if isinstance(kind, SqlType) else type_named(kind, name))


def type_named(text: str, column: str) -> SqlType:
    """The SQL type with a name: a simple type, DECIMAL(p, s), or an array (`BIGINT[]`)."""
    name = " ".join(text.upper().split())
    if name.endswith("[]"):
        return array(type_named(name[:-2], column))
    known = _TYPES.get(name)
    if known is not None:
        return known
    match = _DECIMAL.fullmatch(name)
    if match is not None:
        precision, scale = int(match.group(1)), int(match.group(2) or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return decimal(precision, scale)
    raise ProgrammingError(
        f'unknown type "{text}" of column "{column}"',
        hint=suggest(name, _TYPES, "give other types as an Arrow schema"),
    )


def batches_of(
    data: StreamData, columns: Sequence[TableColumn], stream: str
) -> Iterator[pa.RecordBatch]:
    """The data as batches of the columns.

    All data are converted before the first batch is returned, except for readers, which are read
    batch by batch.
    """
    if isinstance(data, pa.RecordBatchReader):
        return (arrow_batch(batch, columns, stream) for batch in data)
    if isinstance(data, pa.RecordBatch):
        return iter([arrow_batch(data, columns, stream)])
    if isinstance(data, pa.Table):
        return iter([arrow_batch(batch, columns, stream) for batch in data.to_batches()])
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return iter([arrow_batch(batch, columns, stream) for batch in reader])
    rows = iter([data]) if isinstance(data, Mapping) else _iterate(data, stream)
    converted = []
    while chunk := list(islice(rows, BATCH_ROWS)):
        converted.append(row_batch(chunk, columns, stream))
    return iter(converted)


def arrow_batch(
    batch: pa.RecordBatch, columns: Sequence[TableColumn], stream: str
) -> pa.RecordBatch:
    """A batch with its columns in the stream's order and types; missing columns are NULL."""
    positions = {name.lower(): i for i, name in enumerate(batch.schema.names)}
    arrays = []
    for column in columns:
        position = positions.pop(column.name.lower(), None)
        if position is None:
            arrays.append(pa.nulls(batch.num_rows, to_arrow(column.type)))
        else:
            arrays.append(_assigned(batch.column(position), column, stream))
    if positions:
        raise _unknown(next(iter(positions)), columns, stream)
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def row_batch(rows: Sequence[Any], columns: Sequence[TableColumn], stream: str) -> pa.RecordBatch:
    """Rows of Python values, either all tuples (or lists) or all dicts, as a batch."""
    if isinstance(rows[0], Mapping):
        values = _columns_of_dicts(rows, columns, stream)
    else:
        values = _columns_of_tuples(rows, columns, stream)
    arrays = []
    for column, items in zip(columns, values, strict=True):
        try:
            arrays.append(array_of(items, column.type))
        except DataError as error:
            raise _doesnt_fit(column, stream, error.message) from error
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _assigned(values: pa.Array, column: TableColumn, stream: str) -> pa.Array:
    check_received(values, f'the value for column "{column.name}" of stream "{stream}"')
    if values.type == to_arrow(column.type):
        return values
    try:
        actual = from_arrow(values.type)
    except NotSupportedError as error:
        raise _doesnt_fit(column, stream, error.message) from error
    if not can_assign(actual, column.type):
        raise _doesnt_fit(column, stream, f"the values are {actual}")
    try:
        return convert_arrow(values, column.type)
    except (pa.ArrowException, DataError) as error:
        raise _doesnt_fit(column, stream, str(error)) from error


def _iterate(data: Any, stream: str) -> Iterator[Any]:
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise ProgrammingError(
            f'a {type(data).__name__} can\'t be written to stream "{stream}"',
            hint="write an Arrow table or batch, or a list of tuples or dicts",
        )
    return iter(data)


def _columns_of_tuples(
    rows: Sequence[Any], columns: Sequence[TableColumn], stream: str
) -> list[list[Any]]:
    width = len(columns)
    for row in rows:
        if not isinstance(row, tuple | list):
            raise DataError(
                f'a row for stream "{stream}" is a {type(row).__name__}, not a tuple or dict',
                hint="write a list of rows, each a tuple or each a dict",
            )
        if len(row) != width:
            raise DataError(
                f'a row for stream "{stream}" has {len(row)} values where {width} are expected'
            )
    return [list(items) for items in zip(*rows, strict=True)]


def _columns_of_dicts(
    rows: Sequence[Any], columns: Sequence[TableColumn], stream: str
) -> list[list[Any]]:
    names = {column.name for column in columns}
    folded = {column.name.lower(): column.name for column in columns}
    spelled = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise DataError(f'a row for stream "{stream}" is a {type(row).__name__} among dicts')
        if row.keys() <= names:
            spelled.append(row)
            continue
        renamed = {}
        for key, value in row.items():
            name = folded.get(str(key).lower())
            if name is None:
                raise _unknown(str(key), columns, stream)
            renamed[name] = value
        spelled.append(renamed)
    return [[row.get(column.name) for row in spelled] for column in columns]


def _doesnt_fit(column: TableColumn, stream: str, detail: str) -> DataError:
    return DataError(
        f'a value doesn\'t fit column "{column.name}" of type {column.type} of stream "{stream}"',
        detail=detail,
    )


def _unknown(name: str, columns: Sequence[TableColumn], stream: str) -> DataError:
    names = [column.name for column in columns]
    hint = suggest(name, names, "its columns are " + ", ".join(names))
    return DataError(f'stream "{stream}" has no column "{name}"', hint=hint)
