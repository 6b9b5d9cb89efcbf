"""Spark's types, names and literals. Nothing here depends on how a session reads escapes, and no
text is substituted."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from runnel.foreign.fragment import Unrenderable
from runnel.rendering.type_names import TypeNames
from runnel.sqltypes import Kind, SqlType

_TYPES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TINYINT: "TINYINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INTEGER: "INT",
    Kind.BIGINT: "BIGINT",
    Kind.REAL: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.VARCHAR: "STRING",
    Kind.JSON: "STRING",
    Kind.UUID: "STRING",
    Kind.VARBINARY: "BINARY",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.TIMESTAMP_TZ: "TIMESTAMP_LTZ",
    Kind.INTERVAL: "BIGINT",
    Kind.INTERVAL_MONTH: "INT",
}
"""An interval is its number of µs, or of months. TIME is off in Spark unless a session turns it
on."""


def quote(name: str) -> str:
    """An identifier. Spark replaces `${…}` wherever it stands in a text."""
    if not name or "\0" in name or "${" in name:
        raise Unrenderable("such a name")
    return "`" + name.replace("`", "``") + "`"


type_name = TypeNames(_TYPES, "ARRAY<{0}>", "MAP<{0}, {1}>", "STRUCT<{0}>", "{0}: {1}", quote).of


_SPECIAL = re.compile(r"[\\\0'\"\r\n\t]|\$(?=\{)")


def text(value: str) -> str:
    """A text. What a session might take for an escape or a variable is made by a function; `char`
    takes 0 to 255."""
    pieces, place = [], 0
    for match in _SPECIAL.finditer(value):
        if match.start() > place:
            pieces.append(f"'{value[place : match.start()]}'")
        pieces.append(f"char({ord(match[0])})")
        place = match.end()
    if place < len(value) or not pieces:
        pieces.append(f"'{value[place:]}'")
    return pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def literal(value: Any, sql_type: SqlType) -> str:
    """A value that isn't NULL, as an expression of the type."""
    kind = sql_type.kind
    name = type_name(sql_type)
    if kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if kind in (Kind.VARCHAR, Kind.JSON, Kind.UUID):
        return text(str(value))
    if kind is Kind.VARBINARY:
        return f"X'{value.hex()}'"
    if kind is Kind.INTERVAL:
        return f"CAST('{value // timedelta(microseconds=1)}' AS BIGINT)"
    if kind is Kind.TIMESTAMP_TZ:
        return (
            f"timestamp_micros(CAST('{(value - _EPOCH) // timedelta(microseconds=1)}' AS BIGINT))"
        )
    if sql_type.is_nested:
        return _nested(value, sql_type)
    return f"CAST('{_plain(value, sql_type)}' AS {name})"


def _plain(value: Any, sql_type: SqlType) -> str:
    """Digits, signs, letters and points only."""
    if sql_type.is_integer or sql_type.kind is Kind.INTERVAL_MONTH:
        return str(int(value))
    if sql_type.kind is Kind.DECIMAL:
        return f"{value:f}"
    if sql_type.is_approximate:
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(
            repr(float(value)), repr(float(value))
        )
    if sql_type.kind is Kind.TIMESTAMP:
        return str(value.isoformat(" "))
    if sql_type.kind is Kind.DATE:
        return str(value.isoformat())
    raise Unrenderable(f"a literal of type {sql_type}")


def _nested(value: Any, sql_type: SqlType) -> str:
    if sql_type.kind is not Kind.ARRAY or sql_type.element is None:
        raise Unrenderable(f"a literal of type {sql_type}")
    element = sql_type.element
    items = (
        f"CAST(NULL AS {type_name(element)})" if part is None else literal(part, element)
        for part in value
    )
    return f"CAST(array({', '.join(items)}) AS {type_name(sql_type)})"


def key(value: str, sql_type: SqlType) -> str:
    """−0 is 0 in groups and joins of Spark too, but which of the two it shows isn't fixed."""
    if sql_type.is_approximate:
        return f"({value} + CAST('0' AS {type_name(sql_type)}))"
    if sql_type.is_nested:
        raise Unrenderable(f"a key of type {sql_type}")
    return value
