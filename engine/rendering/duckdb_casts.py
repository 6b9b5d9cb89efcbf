"""CAST in DuckDB with our meaning. DuckDB rounds where we cut, and reads and writes texts in its own way: such casts are
spelled out, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runnel.expressions.nodes import Cast
from runnel.fragment import Unrenderable
from runnel.rendering.dialect import refused
from runnel.rendering.session import zone_text
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering

Rule = Callable[["Rendering", str, SqlType, SqlType], str]
"""Gets the operand's text, its type and the target."""

_EXACT_DIGITS = 15
"""Digits of which a DOUBLE holds any whole number."""


def cast(rendering: Rendering, node: Cast, text: str) -> str:
    """The operand's text as the cast's type."""
    source, target = node.operand.type, node.type
    if source == target:
        return text
    rule = _RULES.get((_family(source), _family(target)))
    if rule is None:
        raise refused(node)
    return rule(rendering, text, source, target)


def _family(sql_type: SqlType) -> str:
    if sql_type.is_integer:
        return "integer"
    if sql_type.is_approximate:
        return "float"
    return sql_type.kind.name


def _plain(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"CAST({text} AS {rendering.type(target)})"


def _same(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return text


def _cut(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """Toward zero; DuckDB's cast alone would round."""
    return f"CAST(trunc({text}) AS {rendering.type(target)})"


def _to_boolean(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"({text} <> 0)"


def _decimal_to_float(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """DuckDB divides by a power of ten, which is exact only while both are whole numbers that a DOUBLE holds."""
    if source.precision > _EXACT_DIGITS or target.kind is Kind.REAL:
        text = f"CAST(CAST({text} AS VARCHAR) AS DOUBLE)"
    return f"CAST({text} AS {rendering.type(target)})"


def _float_to_decimal(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """By the shortest text, as we do. (Without whole digits in the type DuckDB doesn't read every text.)"""
    text = f"CAST({text} AS VARCHAR)"
    if target.precision == target.scale:
        if target.scale == MAX_PRECISION:
            raise Unrenderable(f"a cast of {source} to {target}")
        text = f"CAST({text} AS DECIMAL({target.precision + 1}, {target.scale}))"
    return f"CAST({text} AS {rendering.type(target)})"


def _decimal_to_text(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """DuckDB leaves out the zero before the point where the type has no whole digits."""
    if source.precision == source.scale:
        return f"regexp_replace(CAST({text} AS VARCHAR), '^(-?)[.]', '\\10.')"
    return f"CAST({text} AS VARCHAR)"


def _moment_to_text(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    name = rendering.type(source)
    first, last = f"CAST('0001-01-01' AS {name})", f"CAST('9999-12-31{_ENDS.get(source.kind, '')}' AS {name})"
    message = f"a {source} outside the years 1 to 9999 can't be converted to VARCHAR"
    return rendering.check(f"({text} < {first}) OR ({text} > {last})", message, f"CAST({text} AS VARCHAR)")


_ENDS = {Kind.TIMESTAMP: " 23:59:59.999999"}


def _from_instant(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    local = f"timezone({zone_text(rendering)}, {text})"
    return local if target.kind is Kind.TIMESTAMP else f"CAST({local} AS {rendering.type(target)})"


def _to_bytes(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"encode({text})"


def _from_bytes(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"decode({text})"


_RULES: dict[tuple[str, str], Rule] = {
    ("integer", "integer"): _plain,
    ("integer", "DECIMAL"): _plain,
    ("integer", "float"): _plain,
    ("integer", "BOOLEAN"): _to_boolean,
    ("integer", "VARCHAR"): _plain,
    ("BOOLEAN", "integer"): _plain,
    ("BOOLEAN", "VARCHAR"): _plain,
    ("DECIMAL", "integer"): _cut,
    ("DECIMAL", "DECIMAL"): _plain,
    ("DECIMAL", "float"): _decimal_to_float,
    ("DECIMAL", "VARCHAR"): _decimal_to_text,
    ("float", "integer"): _cut,
    ("float", "DECIMAL"): _float_to_decimal,
    ("float", "float"): _plain,
    ("DATE", "TIMESTAMP"): _plain,
    ("DATE", "VARCHAR"): _moment_to_text,
    ("TIME", "VARCHAR"): _plain,
    ("TIMESTAMP", "DATE"): _plain,
    ("TIMESTAMP", "TIME"): _plain,
    ("TIMESTAMP", "VARCHAR"): _moment_to_text,
    ("TIMESTAMP_TZ", "DATE"): _from_instant,
    ("TIMESTAMP_TZ", "TIME"): _from_instant,
    ("TIMESTAMP_TZ", "TIMESTAMP"): _from_instant,
    ("JSON", "VARCHAR"): _same,
    ("UUID", "VARCHAR"): _same,
    ("VARCHAR", "VARBINARY"): _to_bytes,
    ("VARBINARY", "VARCHAR"): _from_bytes,
}
