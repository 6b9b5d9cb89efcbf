"""CAST, as far as DuckDB and Spark agree: rules are looked up by the families of the two types, and
refused without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runnel.expressions.nodes import Cast
from runnel.rendering.render import CastRule, Rendering
from runnel.rendering.rules import refused
from runnel.sqltypes import VARCHAR, Kind, SqlType

Rule = Callable[["Rendering", str, SqlType, SqlType], str]
"""Gets the operand's text, its type and the target."""


def by_families(rules: Mapping[tuple[str, str], Rule]) -> CastRule:
    """A dialect's CAST: the rule for the families of the operand's type and of the target."""

    def cast(rendering: Rendering, node: Cast, text: str) -> str:
        source, target = node.operand.type, node.type
        if source == target:
            return text
        rule = rules.get((_family(source), _family(target)))
        if rule is None:
            raise refused(node)
        return rule(rendering, text, source, target)

    return cast


def _family(sql_type: SqlType) -> str:
    if sql_type.is_integer:
        return "integer"
    if sql_type.is_approximate:
        return "float"
    return sql_type.kind.name


def plain(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    """The engine's own cast."""
    return f"CAST({text} AS {rendering.type(target)})"


def _same(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return text


def _to_boolean(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    return f"({text} <> 0)"


def _timestamp_to_text(rendering: Rendering, text: str, source: SqlType, target: SqlType) -> str:
    name = rendering.type(source)
    end = " 23:59:59.999999" if source.kind is Kind.TIMESTAMP else ""
    wrong = (
        f"({text} < CAST('0001-01-01' AS {name})) OR ({text} > CAST('9999-12-31{end}' AS {name}))"
    )
    message = f"a {source} outside the years 1 to 9999 can't be converted to VARCHAR"
    return rendering.check(wrong, message, f"CAST({text} AS {rendering.type(VARCHAR)})")


ALIKE: Mapping[tuple[str, str], Rule] = {
    ("integer", "integer"): plain,
    ("integer", "DECIMAL"): plain,
    ("integer", "float"): plain,
    ("integer", "BOOLEAN"): _to_boolean,
    ("integer", "VARCHAR"): plain,
    ("BOOLEAN", "integer"): plain,
    ("BOOLEAN", "VARCHAR"): plain,
    ("DECIMAL", "DECIMAL"): plain,
    ("DATE", "TIMESTAMP"): plain,
    ("DATE", "VARCHAR"): _timestamp_to_text,
    ("TIMESTAMP", "DATE"): plain,
    ("TIMESTAMP", "VARCHAR"): _timestamp_to_text,
    ("JSON", "VARCHAR"): _same,
    ("UUID", "VARCHAR"): _same,
}
"""The casts that both engines do in one way."""
