"""CAST in Spark's ANSI mode with our meaning: spelled out where Spark has another, or refused.

Texts of floats are refused, to and fro: Java 17 doesn't always write the shortest digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runnel.expressions.nodes import Cast
from runnel.rendering.dialect import refused
from runnel.rendering.spark_arithmetic import as_local, infinite
from runnel.rendering.spark_zones import local_time
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering

Rule = Callable[["Rendering", str, SqlType, SqlType], str]


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


def _to_boolean(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"({text} <> 0)"


def _float_to_integer(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """Spark takes 2^63, the DOUBLE next to the largest BIGINT, for that."""
    made = f"CAST({text} AS {rendering.type(target)})"
    if target.kind is not Kind.BIGINT:
        return made
    wrong = f"{text} >= CAST('9223372036854775808' AS DOUBLE)"
    return rendering.check(wrong, f"numeric overflow while converting from {source} to {target}", made)


def _float_to_float(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    made = f"CAST({text} AS {rendering.type(target)})"
    if target.kind is Kind.DOUBLE:
        return made
    wrong = f"{infinite(made)} AND NOT {infinite(text)}"
    return rendering.check(wrong, f"numeric overflow while converting from {source} to {target}", made)


def _decimal_to_float(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """By way of DOUBLE, as we do."""
    return f"CAST(CAST({text} AS DOUBLE) AS {rendering.type(target)})"


def _moment_to_text(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    name = rendering.type(source)
    end = " 23:59:59.999999" if source.kind is Kind.TIMESTAMP else ""
    wrong = f"({text} < CAST('0001-01-01' AS {name})) OR ({text} > CAST('9999-12-31{end}' AS {name}))"
    message = f"a {source} outside the years 1 to 9999 can't be converted to VARCHAR"
    return rendering.check(wrong, message, f"CAST({text} AS STRING)")


def _from_instant(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    local = local_time(rendering, as_local(f"unix_micros({text})"))
    return local if target.kind is Kind.TIMESTAMP else f"CAST({local} AS {rendering.type(target)})"


_RULES: dict[tuple[str, str], Rule] = {
    ("integer", "integer"): _plain,
    ("integer", "DECIMAL"): _plain,
    ("integer", "float"): _plain,
    ("integer", "BOOLEAN"): _to_boolean,
    ("integer", "VARCHAR"): _plain,
    ("BOOLEAN", "integer"): _plain,
    ("BOOLEAN", "VARCHAR"): _plain,
    ("DECIMAL", "integer"): _plain,
    ("DECIMAL", "DECIMAL"): _plain,
    ("DECIMAL", "float"): _decimal_to_float,
    ("DECIMAL", "VARCHAR"): _plain,
    ("float", "integer"): _float_to_integer,
    ("float", "float"): _float_to_float,
    ("DATE", "TIMESTAMP"): _plain,
    ("DATE", "VARCHAR"): _moment_to_text,
    ("TIMESTAMP", "DATE"): _plain,
    ("TIMESTAMP", "VARCHAR"): _moment_to_text,
    ("TIMESTAMP_TZ", "DATE"): _from_instant,
    ("TIMESTAMP_TZ", "TIMESTAMP"): _from_instant,
    ("JSON", "VARCHAR"): _same,
    ("UUID", "VARCHAR"): _same,
    ("VARCHAR", "VARBINARY"): _plain,
}
