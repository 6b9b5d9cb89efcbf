"""Texts of EXPLAIN that several nodes share: expressions, keys, spans of event time, and the
descriptions of nodes that exist both as logical and as physical nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from runnel.expressions.nodes import Column, Expression, SortKey, shown_name
from runnel.planner.physical import nodes as physical
from runnel.relation import nodes as logical
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.over import Window
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.processors.sources.partition_watermarks import TimeRule
    from runnel.relation.stream_joins import JoinTimeBounds

Properties = dict[str, str]
Description = tuple[str, Properties]
"""The title of a node, and its properties by name; a property with an empty text is left out."""


def listed(items: Iterable[object]) -> str:
    return ", ".join(plain(item) for item in items)


def plain(item: object) -> str:
    """The text of an expression without the brackets around the whole."""
    text = str(item)
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and index < len(text) - 1:
            return text
    return text[1:-1]


def optional(item: Expression | None) -> str:
    return "" if item is None else plain(item)


def named(expressions: Sequence[Expression], names: Sequence[str]) -> str:
    """Expressions with `AS` and their name, unless the expression is a column of that name.
    `names`: as they are shown."""
    texts = []
    for expression, name in zip(expressions, names, strict=True):
        keeps = isinstance(expression, Column) and str(expression) == name
        texts.append(name if keeps else f"{plain(expression)} AS {name}")
    return ", ".join(texts)


def field_names(fields: Iterable[Field]) -> tuple[str, ...]:
    return tuple(shown_name(item.name) for item in fields)


def pairs(
    left: Sequence[Expression], right: Sequence[Expression], null_safe: tuple[int, ...]
) -> str:
    pairs = zip(left, right, strict=True)
    return ", ".join(
        f"{a} {'IS NOT DISTINCT FROM' if i in null_safe else '='} {b}"
        for i, (a, b) in enumerate(pairs)
    )


def sort_keys(keys: Sequence[SortKey]) -> str:
    return listed(keys)


def join_title(kind: JoinKind, how: str = "") -> str:
    return f"{kind.value.capitalize()} join{how}"


def time_span(units: int, time: SqlType) -> str:
    """A distance in event time: a number for an integer column, else days, hours, minutes and
    seconds."""
    return str(units) if time.is_integer else str(timedelta(microseconds=units))


def time_bounds(link: JoinTimeBounds, left: Sequence[Field], right: Sequence[Field]) -> str:
    """The text of join time bounds: how far apart the event times of both sides may be."""
    first, second = left[link.left], right[link.right]
    low = "" if link.low is None else f"{_moved(link.low, first.type)} <= "
    high = "" if link.high is None else f" <= {_moved(link.high, first.type)}"
    return f"{low}{second.name} - {first.name}{high}"


def _moved(units: int, time: SqlType) -> str:
    return f"-{time_span(-units, time)}" if units < 0 else time_span(units, time)


def watermark_of(rule: TimeRule | None) -> str:
    return "" if rule is None else f"{plain(rule.time)} - {time_span(rule.lag, rule.time.type)}"


def aggregate(node: logical.Aggregate | physical.HashAggregate) -> Description:
    title = "Aggregate" if node.aggregates else "Distinct"
    properties = {"by": listed(node.keys), "compute": listed(node.aggregates)}
    if isinstance(node, physical.HashAggregate) and node.aggregates and not node.two_stage:
        properties["stages"] = "one"
    return title, properties


def sort(node: logical.Sort | physical.PhysicalSort) -> Description:
    return "Sort", {"by": sort_keys(node.keys)}


def window(node: Window | physical.PhysicalWindow) -> Description:
    names = field_names(node.fields)[-len(node.calls) :]
    properties = {
        "compute": ", ".join(
            f"{call} AS {name}" for call, name in zip(node.calls, names, strict=True)
        )
    }
    if isinstance(node, physical.PhysicalWindow) and node.most is not None:
        properties["keep"] = f"{names[node.most.call]} <= {node.most.number}"
    return "Window", properties


def late_property(late: physical.LateOutput | None) -> Properties:
    """The property with the table of late rows; none without LATE DATA INTO."""
    return {} if late is None else {"late rows": late.table.name}
