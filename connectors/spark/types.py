"""Maps Spark's types to SQL types and back.

A scan converts every column, by an expression of Spark, to the type in which it is transported
inside a fragment: an interval becomes its number of microseconds or months, text loses its
collation, a VARIANT becomes JSON. A column whose type has no SQL type cannot be read; the other
columns of its table can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from runnel import sqltypes
from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError
from runnel.expressions.kernels.values import canonical
from runnel.sqltypes import Kind, SqlType, to_arrow

PLAIN_COLLATION = "UTF8_BINARY"

_SIMPLE = {
    "NullType": sqltypes.NULL,
    "BooleanType": sqltypes.BOOLEAN,
    "ByteType": sqltypes.TINYINT,
    "ShortType": sqltypes.SMALLINT,
    "IntegerType": sqltypes.INTEGER,
    "LongType": sqltypes.BIGINT,
    "FloatType": sqltypes.REAL,
    "DoubleType": sqltypes.DOUBLE,
    "StringType": sqltypes.VARCHAR,
    "CharType": sqltypes.VARCHAR,
    "VarcharType": sqltypes.VARCHAR,
    "BinaryType": sqltypes.VARBINARY,
    "DateType": sqltypes.DATE,
    "TimeType": sqltypes.TIME,
    "TimestampType": sqltypes.TIMESTAMP_TZ,
    "TimestampNTZType": sqltypes.TIMESTAMP,
    "DayTimeIntervalType": sqltypes.INTERVAL,
    "YearMonthIntervalType": sqltypes.INTERVAL_MONTH,
    "VariantType": sqltypes.JSON,
}

_DDL = {
    Kind.NULL: "VOID",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TINYINT: "TINYINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INTEGER: "INT",
    Kind.BIGINT: "BIGINT",
    Kind.REAL: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.VARCHAR: "STRING",
    Kind.JSON: "STRING",
    Kind.VARBINARY: "BINARY",
    Kind.DATE: "DATE",
    Kind.TIME: "TIME(6)",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.TIMESTAMP_TZ: "TIMESTAMP",
    Kind.INTERVAL: "INTERVAL DAY TO SECOND",
    Kind.INTERVAL_MONTH: "INTERVAL YEAR TO MONTH",
}


@frozen
class SparkColumn:
    """A column of a DataFrame.

    name: its name.
    type: its SQL type.
    door: returns Spark's expression that converts the column to its SQL type, from its quoted name.
    problem: why it cannot be read; None if it can.
    """

    name: str
    type: SqlType
    door: Callable[[str], str]
    problem: str | None = None


def quoted(name: str) -> str:
    """A quoted name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def column_of(name: str, spark_type: Any) -> SparkColumn:
    """The column of a DataFrame's field."""
    try:
        found = type_of(spark_type)
    except NotSupportedError as error:
        return SparkColumn(name, sqltypes.NULL, _as_it_is, error.message)
    return SparkColumn(
        name, found, _as_opaque_float if found.is_approximate else _door(spark_type, found)
    )


def type_of(spark_type: Any) -> SqlType:
    """The SQL type for a Spark type; NotSupportedError if there is none."""
    kind = type(spark_type).__name__
    if kind == "DecimalType":
        if 0 <= spark_type.scale <= spark_type.precision:
            return sqltypes.decimal(spark_type.precision, spark_type.scale)
    elif kind == "ArrayType":
        return sqltypes.array(_inner(spark_type.elementType))
    elif kind == "MapType":
        return sqltypes.map_of(_inner(spark_type.keyType), _inner(spark_type.valueType))
    elif kind == "StructType":
        return sqltypes.row(*((field.name, _inner(field.dataType)) for field in spark_type.fields))
    elif kind in _SIMPLE:
        return _SIMPLE[kind]
    raise NotSupportedError(f"Spark type {spark_type.simpleString()} is not supported")


def _inner(spark_type: Any) -> SqlType:
    """The type of an element of a nested value, which no expression can convert."""
    found = type_of(spark_type)
    if _door(spark_type, found) is not _as_it_is:
        raise NotSupportedError(
            f"Spark type {spark_type.simpleString()} is not supported inside of another"
        )
    return found


def _as_it_is(name: str) -> str:
    return name


def _as_opaque_float(name: str) -> str:
    """The same number, by an expression that Spark's optimizer cannot analyse.

    Conditions on a column are passed to readers of files, which assume that the maximum in a file's
    statistics is the largest value; but most writers exclude NaN from it.
    """
    return f"NANVL({name}, {name})"


def _as_plain_text(name: str) -> str:
    return f"COLLATE({name}, '{PLAIN_COLLATION}')"


def _as_json(name: str) -> str:
    return f"TO_JSON({name})"


def _as_microseconds(name: str) -> str:
    # Through a DECIMAL: every interval fits, and none is rounded.
    return f"CAST(CAST(CAST({name} AS INTERVAL SECOND) AS DECIMAL(20, 6)) * 1000000 AS BIGINT)"


def _as_months(name: str) -> str:
    return f"CAST(EXTRACT(YEAR FROM {name}) * 12 + EXTRACT(MONTH FROM {name}) AS INT)"


def _door(spark_type: Any, found: SqlType) -> Callable[[str], str]:
    if (
        found.kind is Kind.VARCHAR
        and getattr(spark_type, "collation", PLAIN_COLLATION) != PLAIN_COLLATION
    ):
        return _as_plain_text
    if found.kind is Kind.JSON:
        return _as_json
    if found.kind is Kind.INTERVAL:
        return _as_microseconds
    if found.kind is Kind.INTERVAL_MONTH:
        return _as_months
    return _as_it_is


def ddl(sql_type: SqlType) -> str:
    """The type of Spark's DDL for a SQL type."""
    if sql_type.kind is Kind.DECIMAL:
        return f"DECIMAL({sql_type.precision}, {sql_type.scale})"
    if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
        return f"ARRAY<{ddl(sql_type.element)}>"
    if sql_type.kind is Kind.MAP and sql_type.key is not None and sql_type.element is not None:
        return f"MAP<{ddl(sql_type.key)}, {ddl(sql_type.element)}>"
    if sql_type.kind is Kind.ROW:
        return (
            "STRUCT<"
            + ", ".join(f"{quoted(name)}: {ddl(item)}" for name, item in sql_type.fields)
            + ">"
        )
    text = _DDL.get(sql_type.kind)
    if text is None:
        raise NotSupportedError(f"Spark has no type for {sql_type}")
    return text


def travelling_schema(types: Sequence[SqlType]) -> str:
    """Spark's schema for canonical columns of these types that are sent to it: c0, c1…, as in a
    sub-plan."""
    return ", ".join(
        f"c{i} {_AS_NUMBERS.get(item.kind) or ddl(item)}" for i, item in enumerate(types)
    )


_AS_NUMBERS = {Kind.INTERVAL: "BIGINT", Kind.INTERVAL_MONTH: "INT"}


def own_batch(
    batch: pa.RecordBatch, names: Sequence[str], types: Sequence[SqlType]
) -> pa.RecordBatch:
    """A batch of Spark for columns of these types, in canonical types under these names."""
    columns = [_own_array(batch.column(i), item) for i, item in enumerate(types)]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _own_array(array: pa.Array, sql_type: SqlType) -> pa.Array:
    if sql_type.kind is Kind.INTERVAL:
        return array.view(to_arrow(sql_type))
    return canonical(array, sql_type)


_WIDTHS = {
    Kind.BOOLEAN: 1,
    Kind.TINYINT: 1,
    Kind.SMALLINT: 2,
    Kind.INTEGER: 4,
    Kind.REAL: 4,
    Kind.DATE: 4,
    Kind.VARCHAR: 20,
}


def row_width(types: Sequence[SqlType]) -> int:
    """The approximate number of bytes of a row in Spark's estimates."""
    return 8 + sum(
        _WIDTHS.get(item.kind, 16 if item.is_nested or item.kind is Kind.DECIMAL else 8)
        for item in types
    )
