"""Maps DuckDB types to SQL types, and writes the SQL with which DuckDB converts its values.

Some DuckDB types map to a type that can hold their values: unsigned and 128-bit integers become
wider integers or DECIMAL, ENUM becomes text, TIMESTAMP_S, _MS and _NS become TIMESTAMP. Types
without such a type are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runnel.errors import ERROR_MARK, NotSupportedError
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_MIXED,
    JSON,
    REAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    TINYINT,
    UUID,
    VARBINARY,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    map_of,
    row,
)

_SAME = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "integer": INTEGER,
    "bigint": BIGINT,
    "float": REAL,
    "double": DOUBLE,
    "varchar": VARCHAR,
    "blob": VARBINARY,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMP,
    "timestamp with time zone": TIMESTAMP_TZ,
    "uuid": UUID,
    "interval": INTERVAL_MIXED,
}
_WIDENED = {
    "utinyint": SMALLINT,
    "usmallint": INTEGER,
    "uinteger": BIGINT,
    "ubigint": decimal(20, 0),
    "hugeint": decimal(38, 0),
    "uhugeint": decimal(38, 0),
    "enum": VARCHAR,
    "timestamp_s": TIMESTAMP,
    "timestamp_ms": TIMESTAMP,
    "timestamp_ns": TIMESTAMP,
}
_NAMES = {
    Kind.REAL: "FLOAT",
    Kind.VARBINARY: "BLOB",
    Kind.TIMESTAMP_TZ: "TIMESTAMP WITH TIME ZONE",
    Kind.INTERVAL: "INTERVAL",
    Kind.INTERVAL_MONTH: "INTERVAL",
    Kind.INTERVAL_MIXED: "INTERVAL",
}


def sql_type_of(duck: Any) -> SqlType:
    """The SQL type that holds the values of a DuckDB type (a DuckDBPyType); NotSupportedError if
    there is none."""
    kind = duck.id
    if str(duck) == "JSON":
        return JSON
    if kind == "decimal":
        children = dict(duck.children)
        return decimal(children["precision"], children["scale"])
    if kind in ("list", "array"):
        return array(sql_type_of(dict(duck.children)["child"]))
    if kind == "map":
        children = dict(duck.children)
        return map_of(sql_type_of(children["key"]), sql_type_of(children["value"]))
    if kind == "struct":
        return row(*((name, sql_type_of(item)) for name, item in duck.children))
    found = _SAME.get(kind) or _WIDENED.get(kind)
    if found is None:
        raise NotSupportedError(f"DuckDB type {duck} is not supported")
    return found


def is_canonical(duck: Any) -> bool:
    """Whether the values of a DuckDB type equal its SQL type's values without a conversion."""
    kind = duck.id
    if kind == "list":
        return is_canonical(dict(duck.children)["child"])
    if kind in ("map", "struct"):
        return all(is_canonical(item) for _, item in duck.children)
    return kind in _SAME or kind == "decimal"


def type_text(sql_type: SqlType) -> str:
    """The DuckDB type with the values of a SQL type: of a new table's column, or the target of a
    cast."""
    kind = sql_type.kind
    if kind is Kind.DECIMAL:
        return f"DECIMAL({sql_type.precision}, {sql_type.scale})"
    if kind is Kind.ARRAY and sql_type.element is not None:
        return type_text(sql_type.element) + "[]"
    if kind is Kind.MAP and sql_type.key is not None and sql_type.element is not None:
        return f"MAP({type_text(sql_type.key)}, {type_text(sql_type.element)})"
    if kind is Kind.ROW:
        return (
            "STRUCT("
            + ", ".join(f"{quoted(name)} {type_text(item)}" for name, item in sql_type.fields)
            + ")"
        )
    if kind is Kind.NULL:
        raise NotSupportedError(
            "a column of type NULL can't be kept", hint="declare the column with a type"
        )
    return _NAMES.get(kind, kind.name)


def quoted(name: str) -> str:
    """A quoted name in DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text literal in DuckDB's SQL."""
    return "'" + text.replace("'", "''") + "'"


def canonical_expression(name: str, duck: Any, sql_type: SqlType) -> str:
    """DuckDB's SQL for a column with the values of `sql_type`: its own type, or a wider declared
    type."""
    column = quoted(name)
    if sql_type.kind in _INTERVALS:
        return _INTERVALS[sql_type.kind](column)
    if is_canonical(duck) and sql_type == sql_type_of(duck):
        return column
    return f"CAST({column} AS {type_text(sql_type)})"


def _day_interval(column: str) -> str:
    """SQL for an INTERVAL DAY TO SECOND; it fails for intervals with months, which have no fixed
    length."""
    months = f"datepart('year', {column}) * 12 + datepart('month', {column})"
    fault = (
        f"error('{ERROR_MARK}interval ' || CAST({column} AS VARCHAR) || ' has months, which have "
        "no fixed length')"
    )
    return f"CASE WHEN {column} IS NULL OR {months} = 0 THEN {column} ELSE {fault} END"


def _month_interval(column: str) -> str:
    months = f"datepart('year', {column}) * 12 + datepart('month', {column})"
    rest = f"{column} - to_months(CAST({months} AS INTEGER)) = INTERVAL 0 DAY"
    fault = (
        f"error('{ERROR_MARK}interval ' || CAST({column} AS VARCHAR) || ' has more than years and "
        "months')"
    )
    return (
        f"CASE WHEN {column} IS NULL THEN NULL WHEN {rest} THEN CAST({months} AS INTEGER) ELSE "
        f"{fault} END"
    )


_INTERVALS: dict[Kind, Callable[[str], str]] = {
    Kind.INTERVAL: _day_interval,
    Kind.INTERVAL_MONTH: _month_interval,
}
