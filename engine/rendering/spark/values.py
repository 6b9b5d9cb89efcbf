"""Spark's types, names and literals. None depends on how a session reads escapes, and no text is
substituted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from runnel.foreign.fragment import Unrenderable
from runnel.rendering.values import ValueRendering
from runnel.sqltypes import Kind, SqlType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPECIAL_FLOATS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
_ESCAPED = re.compile(r"[\\\0'\"\r\n\t]|\$(?=\{)")
"""Characters that a session might take for an escape or the start of a variable."""


class SparkValues(ValueRendering):
    """How Spark writes types, names and literals."""

    types: ClassVar[Mapping[Kind, str]] = {
        **ValueRendering.types,
        Kind.INTEGER: "INT",
        **dict.fromkeys((Kind.VARCHAR, Kind.JSON, Kind.UUID), "STRING"),
        Kind.VARBINARY: "BINARY",
        Kind.TIMESTAMP: "TIMESTAMP_NTZ",
        Kind.TIMESTAMP_TZ: "TIMESTAMP_LTZ",
        Kind.INTERVAL_MONTH: "INT",
    }
    """TIME is missing: Spark has it only if the session enables it."""
    array, map, row, field = "ARRAY<{0}>", "MAP<{0}, {1}>", "STRUCT<{0}>", "{0}: {1}"
    binary = "X'{0}'"
    number = "'{0}'"
    elements = "array({0})"

    def quote(self, name: str) -> str:
        """Spark replaces `${…}` wherever it is in a statement."""
        if not name or "\0" in name or "${" in name:
            raise Unrenderable("such a name")
        return "`" + name.replace("`", "``") + "`"

    def text(self, value: str) -> str:
        """`char` accepts 0 to 255, and makes each character that a literal cannot contain."""
        texts, position = [], 0
        for match in _ESCAPED.finditer(value):
            if match.start() > position:
                texts.append(f"'{value[position : match.start()]}'")
            texts.append(f"char({ord(match[0])})")
            position = match.end()
        if position < len(value) or not texts:
            texts.append(f"'{value[position:]}'")
        return texts[0] if len(texts) == 1 else f"concat({', '.join(texts)})"

    def instant(self, value: datetime) -> str:
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        return f"timestamp_micros(CAST('{micros}' AS BIGINT))"

    def plain(self, value: Any, sql_type: SqlType) -> str:
        text = super().plain(value, sql_type)
        return _SPECIAL_FLOATS.get(text, text)
