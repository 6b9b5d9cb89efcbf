"""SQL types as JSON values, for files and messages."""

from __future__ import annotations

from typing import Any

from runnel.sqltypes import Kind, SqlType


def type_record(sql_type: SqlType) -> dict[str, Any]:
    """The type as a JSON value."""
    record: dict[str, Any] = {"kind": sql_type.kind.name}
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
    """The type that `type_record` gave a value for; KeyError, TypeError or AttributeError where it didn't."""
    return SqlType(
        Kind[record["kind"]],
        record.get("precision", 0),
        record.get("scale", 0),
        type_of(record["element"]) if "element" in record else None,
        type_of(record["key"]) if "key" in record else None,
        tuple((name, type_of(item)) for name, item in record.get("fields", ())),
    )
