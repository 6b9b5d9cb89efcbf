"""SQL types as JSON values, for files and messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runnel.sqltypes import Kind, SqlType

KINDS: Mapping[str, Kind] = {
    "NULL": Kind.NULL,
    "INTERVAL_MONTH": Kind.INTERVAL_MONTH,
    "INTERVAL": Kind.INTERVAL,
    "INTERVAL_MIXED": Kind.INTERVAL_MIXED,
    "MAP": Kind.MAP,
    "ARRAY": Kind.ARRAY,
    "ROW": Kind.ROW,
    "JSON": Kind.JSON,
    "VARBINARY": Kind.VARBINARY,
    "VARCHAR": Kind.VARCHAR,
    "BOOLEAN": Kind.BOOLEAN,
    "TINYINT": Kind.TINYINT,
    "SMALLINT": Kind.SMALLINT,
    "INTEGER": Kind.INTEGER,
    "BIGINT": Kind.BIGINT,
    "DECIMAL": Kind.DECIMAL,
    "REAL": Kind.REAL,
    "DOUBLE": Kind.DOUBLE,
    "TIME": Kind.TIME,
    "DATE": Kind.DATE,
    "TIMESTAMP": Kind.TIMESTAMP,
    "TIMESTAMP_TZ": Kind.TIMESTAMP_TZ,
    "UUID": Kind.UUID,
}
"""The kinds of types by stored name. A stored name never changes, even if a kind is renamed."""

KIND_NAMES: Mapping[Kind, str] = {kind: name for name, kind in KINDS.items()}
"""The stored name of each kind."""


_SPELLINGS = {
    **KIND_NAMES,
    Kind.TIMESTAMP_TZ: "TIMESTAMP WITH TIME ZONE",
    Kind.INTERVAL: "INTERVAL DAY TO SECOND",
    Kind.INTERVAL_MONTH: "INTERVAL YEAR TO MONTH",
    Kind.INTERVAL_MIXED: "INTERVAL",
}


def type_spelling(item: SqlType) -> str:
    """Return the type as SQL text, in the form that is stored with the state of jobs.

    The text must never change, whatever error messages show.
    """
    if item.kind is Kind.DECIMAL:
        return f"DECIMAL({item.precision}, {item.scale})"
    if item.kind is Kind.ARRAY and item.element is not None:
        return f"{type_spelling(item.element)}[]"
    if item.kind is Kind.MAP and item.key is not None and item.element is not None:
        return f"MAP({type_spelling(item.key)}, {type_spelling(item.element)})"
    if item.kind is Kind.ROW:
        return (
            "ROW("
            + ", ".join(f"{name} {type_spelling(field)}" for name, field in item.fields)
            + ")"
        )
    return _SPELLINGS[item.kind]


def type_record(sql_type: SqlType) -> dict[str, Any]:
    """Encode the type as a JSON value."""
    record: dict[str, Any] = {"kind": KIND_NAMES[sql_type.kind]}
    if sql_type.kind is Kind.DECIMAL:
        record |= {"precision": sql_type.precision, "scale": sql_type.scale}
    if sql_type.element is not None:
        record["element"] = type_record(sql_type.element)
    if sql_type.key is not None:
        record["key"] = type_record(sql_type.key)
    if sql_type.fields:
        record["fields"] = [[name, type_record(item)] for name, item in sql_type.fields]
    return record


def type_of(record: dict[str, Any]) -> SqlType:
    """Decode a value of `type_record`.

    Raises KeyError, TypeError or AttributeError for any other value.
    """
    return SqlType(
        KINDS[record["kind"]],
        record.get("precision", 0),
        record.get("scale", 0),
        type_of(record["element"]) if "element" in record else None,
        type_of(record["key"]) if "key" in record else None,
        tuple((name, type_of(item)) for name, item in record.get("fields", ())),
    )
