"""The texts of expressions in state signatures, version 1.

The texts are stored with snapshots and compared with the texts of a later plan. A text therefore
stays the same when EXPLAIN changes, or when a class, a member or an attribute is renamed. A new
kind of expression has a text that no other expression has. To change the text of an existing kind
needs a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from runnel.columns.type_records import type_spelling
from runnel.errors import internal
from runnel.expressions.nodes import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    InList,
    LambdaCall,
    LambdaVariable,
    Literal,
    Parameter,
    PythonCall,
    SortKey,
    stored_name,
)
from runnel.relation.over import (
    UP_TO_PEERS,
    WHOLE_PARTITION,
    BoundKind,
    Exclusion,
    FrameBound,
    FrameUnit,
    WindowCall,
    WindowFrame,
)
from runnel.sqltypes import Kind, SqlType

_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "remainder": "%",
    "concat": "||",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "AND",
    "or": "OR",
    "is_distinct": "IS DISTINCT FROM",
    "is_not_distinct": "IS NOT DISTINCT FROM",
    "like": "LIKE",
}
_POSTFIX = {
    "is_null": "IS NULL",
    "is_not_null": "IS NOT NULL",
    "is_true": "IS TRUE",
    "is_not_true": "IS NOT TRUE",
    "is_false": "IS FALSE",
    "is_not_false": "IS NOT FALSE",
}
_LITERAL_PREFIXES = {
    Kind.TIME: "TIME",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMP_TZ: "TIMESTAMP",
    Kind.UUID: "UUID",
}
_FRAME_UNITS = {FrameUnit.ROWS: "ROWS", FrameUnit.RANGE: "RANGE", FrameUnit.GROUPS: "GROUPS"}
_BOUNDS = {
    BoundKind.UNBOUNDED_PRECEDING: "UNBOUNDED PRECEDING",
    BoundKind.PRECEDING: "PRECEDING",
    BoundKind.CURRENT_ROW: "CURRENT ROW",
    BoundKind.FOLLOWING: "FOLLOWING",
    BoundKind.UNBOUNDED_FOLLOWING: "UNBOUNDED FOLLOWING",
}
_EXCLUSIONS = {
    Exclusion.CURRENT_ROW: "CURRENT ROW",
    Exclusion.GROUP: "GROUP",
    Exclusion.TIES: "TIES",
}


def span_text(units: int, time: SqlType) -> str:
    """A distance in event time: a number for an integer column, else days, hours, minutes and
    seconds."""
    return str(units) if time.is_integer else str(timedelta(microseconds=units))


def text(item: Any) -> str:
    """An expression, sort key, aggregate or window call."""
    rule = _RULES.get(type(item))
    if rule is None:
        raise internal(f"no identity of an expression of class {type(item).__name__}")
    return rule(item)


def texts(items: Iterable[Any]) -> str:
    """The texts of several expressions, separated by commas."""
    return ", ".join(map(text, items))


def outer_text(item: Any) -> str:
    """As `text`, without brackets around the whole."""
    found = text(item)
    if not (found.startswith("(") and found.endswith(")")):
        return found
    depth = 0
    for index, character in enumerate(found):
        depth += (character == "(") - (character == ")")
        if depth == 0 and index < len(found) - 1:
            return found
    return found[1:-1]


def outer_texts(items: Iterable[Any]) -> str:
    """As `texts`, without brackets around each as a whole."""
    return ", ".join(map(outer_text, items))


def named_texts(items: Sequence[Any], names: Sequence[str]) -> str:
    """Expressions with `AS` and the name of their column, unless the expression is a column of that
    name."""
    return ", ".join(
        text(item)
        if isinstance(item, Column) and item.name == name
        else f"{outer_text(item)} AS {stored_name(name)}"
        for item, name in zip(items, names, strict=True)
    )


def _literal(node: Literal) -> str:
    value = node.value
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if node.type.kind in _LITERAL_PREFIXES:
        return f"{_LITERAL_PREFIXES[node.type.kind]} '{value}'"
    return str(value).upper() if isinstance(value, bool) else str(value)


def _call(node: Call) -> str:
    arguments = [text(item) for item in node.arguments]
    if node.function in _INFIX and len(arguments) >= 2:
        return "(" + f" {_INFIX[node.function]} ".join(arguments) + ")"
    if node.function in _POSTFIX:
        return f"({arguments[0]} {_POSTFIX[node.function]})"
    if node.function == "not":
        return f"(NOT {arguments[0]})"
    return f"{node.function.upper()}({', '.join(arguments)})"


def _case(node: Case) -> str:
    pairs = zip(node.conditions, node.results, strict=True)
    whens = " ".join(f"WHEN {text(condition)} THEN {text(result)}" for condition, result in pairs)
    last = "" if node.otherwise is None else f" ELSE {text(node.otherwise)}"
    return f"CASE {whens}{last} END"


def _lambda_call(node: LambdaCall) -> str:
    last = "" if node.initial is None else f", {text(node.initial)}"
    names = texts(node.variables)
    return f"{node.function.upper()}({text(node.operand)}, ({names}) -> {text(node.body)}{last})"


def _sort_key(key: SortKey) -> str:
    is_usual = key.nulls_first is not key.descending
    nulls = "" if is_usual else " NULLS FIRST" if key.nulls_first else " NULLS LAST"
    return f"{text(key.expression)}{' DESC' if key.descending else ''}{nulls}"


def _aggregate(call: AggregateCall) -> str:
    is_count = call.function == "count_star"
    inner = "*" if is_count else texts(call.arguments)
    order = f" ORDER BY {texts(call.order)}" if call.order else ""
    name = "COUNT" if is_count else call.function.upper()
    found = f"{name}({'DISTINCT ' if call.distinct else ''}{inner}{order})"
    return found if call.predicate is None else f"{found} FILTER (WHERE {text(call.predicate)})"


def _window_call(item: WindowCall) -> str:
    parts = [f"PARTITION BY {texts(item.partition)}"] if item.partition else []
    if item.order:
        parts.append(f"ORDER BY {texts(item.order)}")
    if item.frame != (UP_TO_PEERS if item.order else WHOLE_PARTITION):
        parts.append(_frame(item.frame))
    nulls = " IGNORE NULLS" if item.ignore_nulls else ""
    return f"{_aggregate(item.call)}{nulls} OVER ({' '.join(parts)})"


def _frame(frame: WindowFrame) -> str:
    found = f"{_FRAME_UNITS[frame.unit]} BETWEEN {_bound(frame.start)} AND {_bound(frame.end)}"
    exclusion = _EXCLUSIONS.get(frame.exclusion)
    return found if exclusion is None else f"{found} EXCLUDE {exclusion}"


def _bound(bound: FrameBound) -> str:
    kind = _BOUNDS[bound.kind]
    return kind if bound.offset is None else f"{text(bound.offset)} {kind}"


_RULES: dict[type, Callable[[Any], str]] = {
    Column: lambda node: stored_name(node.name),
    Literal: _literal,
    Parameter: lambda node: f"?{node.index}",
    Call: _call,
    Cast: lambda node: f"CAST({text(node.operand)} AS {type_spelling(node.type)})",
    Case: _case,
    InList: lambda node: f"({text(node.operand)} IN ({texts(node.values)}))",
    LambdaCall: _lambda_call,
    LambdaVariable: lambda node: f"\\{node.depth}.{node.index}",
    PythonCall: lambda node: f"{node.function.name}({texts(node.arguments)})",
    SortKey: _sort_key,
    AggregateCall: _aggregate,
    WindowCall: _window_call,
}
