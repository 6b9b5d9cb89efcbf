"""DuckDB's types, names and literals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from runnel.foreign.fragment import Unrenderable
from runnel.rendering.values import ValueRendering
from runnel.sqltypes import Kind, SqlType


class DuckDBValues(ValueRendering):
    """How DuckDB writes types, names and literals."""

    types: ClassVar[Mapping[Kind, str]] = {
        **ValueRendering.types,
        Kind.INTEGER: "INTEGER",
        **dict.fromkeys((Kind.VARCHAR, Kind.JSON, Kind.UUID), "VARCHAR"),
        Kind.VARBINARY: "BLOB",
        Kind.TIME: "TIME",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.TIMESTAMP_TZ: "TIMESTAMPTZ",
        Kind.INTERVAL_MONTH: "INTEGER",
    }
    array, map, row, field = "{0}[]", "MAP({0}, {1})", "STRUCT({0})", "{0} {1}"
    binary = "from_hex('{0}')"
    number = "{0}"
    elements = "[{0}]"

    def quote(self, name: str) -> str:
        if "\0" in name or not name:
            raise Unrenderable("such a name")
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        """A literal cannot contain NUL, which would end the statement: a function makes it."""
        texts = ["'" + item.replace("'", "''") + "'" for item in value.split("\0")]
        return texts[0] if len(texts) == 1 else f"({' || chr(0) || '.join(texts)})"

    def instant(self, value: datetime) -> str:
        utc = value.astimezone(UTC).replace(tzinfo=None)
        return f"CAST('{utc.isoformat(' ')}+00' AS TIMESTAMPTZ)"

    def nested(self, value: Any, sql_type: SqlType) -> str:
        if sql_type.kind is not Kind.ROW:
            return super().nested(value, sql_type)
        fields = (
            f"{self.quote(name)} := {self.literal(value[name], item)}"
            for name, item in sql_type.fields
        )
        return f"struct_pack({', '.join(fields)})"

    def compares(self, sql_type: SqlType) -> bool:
        return not _has_floats(sql_type)


def _has_floats(sql_type: SqlType) -> bool:
    inner = [item for item in (sql_type.element, sql_type.key) if item is not None]
    return sql_type.is_approximate or any(
        map(_has_floats, [*inner, *(item for _, item in sql_type.fields)])
    )
