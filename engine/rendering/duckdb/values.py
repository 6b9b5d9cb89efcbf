"""DuckDB's types, names and literals."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

from runnel.foreign.fragment import Unrenderable
from runnel.rendering.type_names import TypeNames
from runnel.sqltypes import Kind, SqlType

_TYPES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TINYINT: "TINYINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INTEGER: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.REAL: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.VARCHAR: "VARCHAR",
    Kind.JSON: "VARCHAR",
    Kind.UUID: "VARCHAR",
    Kind.VARBINARY: "BLOB",
    Kind.DATE: "DATE",
    Kind.TIME: "TIME",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMP_TZ: "TIMESTAMPTZ",
    Kind.INTERVAL: "BIGINT",
    Kind.INTERVAL_MONTH: "INTEGER",
}
"""An interval is its number of µs, or of months: DuckDB's own takes 30 days for a month."""


def quote(name: str) -> str:
    """An identifier."""
    if "\0" in name or not name:
        raise Unrenderable("such a name")
    return '"' + name.replace('"', '""') + '"'


type_name = TypeNames(_TYPES, "{0}[]", "MAP({0}, {1})", "STRUCT({0})", "{0} {1}", quote).of


def text(value: str) -> str:
    """A text. A NUL character would end the statement, so that it is made by a function."""
    parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
    return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"


def literal(value: Any, sql_type: SqlType) -> str:
    """A value that isn't NULL, as an expression of the type."""
    kind = sql_type.kind
    name = type_name(sql_type)
    if kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if kind in (Kind.VARCHAR, Kind.JSON, Kind.UUID):
        return text(str(value))
    if kind is Kind.VARBINARY:
        return f"from_hex('{value.hex()}')"
    if kind is Kind.INTERVAL:
        return f"CAST({value // timedelta(microseconds=1)} AS BIGINT)"
    if sql_type.is_integer or kind is Kind.INTERVAL_MONTH:
        return f"CAST({int(value)} AS {name})"
    if sql_type.is_nested:
        return _nested(value, sql_type)
    return f"CAST('{_plain(value, sql_type)}' AS {name})"


def _plain(value: Any, sql_type: SqlType) -> str:
    """Digits, signs, letters and points only."""
    if sql_type.kind is Kind.DECIMAL:
        return f"{value:f}"
    if sql_type.is_approximate:
        return repr(float(value))
    if sql_type.kind is Kind.TIMESTAMP:
        return str(value.isoformat(" "))
    if sql_type.kind is Kind.TIMESTAMP_TZ:
        return str(value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")) + "+00"
    if sql_type.kind in (Kind.DATE, Kind.TIME):
        return str(value.isoformat())
    raise Unrenderable(f"a literal of type {sql_type}")


def _nested(value: Any, sql_type: SqlType) -> str:
    def item(part: Any, part_type: SqlType) -> str:
        return f"CAST(NULL AS {type_name(part_type)})" if part is None else literal(part, part_type)

    if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
        element = sql_type.element
        made = f"[{', '.join(item(part, element) for part in value)}]"
    elif sql_type.kind is Kind.ROW:
        parts = (f"{quote(name)} := {item(value[name], part)}" for name, part in sql_type.fields)
        made = f"struct_pack({', '.join(parts)})"
    else:
        raise Unrenderable(f"a literal of type {sql_type}")
    return f"CAST({made} AS {type_name(sql_type)})"


def key(value: str, sql_type: SqlType) -> str:
    """−0 is 0 in groups and joins of DuckDB too, but which of the two it shows isn't fixed."""
    if sql_type.is_approximate:
        return f"({value} + CAST(0 AS {type_name(sql_type)}))"
    if sql_type.is_nested and _has_floats(sql_type):
        raise Unrenderable(f"a key of type {sql_type}")
    return value


def _has_floats(sql_type: SqlType) -> bool:
    inner = [item for item in (sql_type.element, sql_type.key) if item is not None]
    return sql_type.is_approximate or any(
        map(_has_floats, [*inner, *(item for _, item in sql_type.fields)])
    )
