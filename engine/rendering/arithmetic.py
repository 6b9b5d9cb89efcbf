"""Arithmetic, as far as DuckDB and Spark agree: which family a call belongs to, and checks around
its result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runnel.expressions.nodes import Call, Expression, Literal
from runnel.rendering.render import FunctionRule, template, typed
from runnel.rendering.rules import refused
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType, decimal

if TYPE_CHECKING:
    from runnel.rendering.render import Rendering


def family(call: Call) -> str:
    """What the operands are: integers, decimals, floats, or what the first two temporal ones
    are."""
    left, right = call.arguments[0].type, call.arguments[-1].type
    if left.is_numeric and right.is_numeric:
        return (
            "float"
            if call.type.is_approximate
            else "decimal"
            if call.type.kind is Kind.DECIMAL
            else "integer"
        )
    return f"{_kind(left)} {_kind(right)}"


def _kind(sql_type: SqlType) -> str:
    if sql_type.is_integer:
        return "integer"
    if sql_type.is_approximate:
        return "float"
    return {Kind.TIMESTAMP: "timestamp", Kind.TIMESTAMP_TZ: "instant", Kind.INTERVAL: "micros"}.get(
        sql_type.kind,
        {Kind.INTERVAL_MONTH: "months", Kind.DATE: "date", Kind.TIME: "time"}.get(
            sql_type.kind, "other"
        ),
    )


def by_family(rules: Mapping[str, FunctionRule]) -> FunctionRule:
    """A rule that is looked up by the operands' family."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        found = rules.get(family(call))
        if found is None:
            raise refused(call)
        return found(rendering, call, arguments)

    return rule


def infix(symbol: str) -> FunctionRule:
    """The engine's operator, whose result has the call's type and fails as ours."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return f"({arguments[0]} {symbol} {arguments[1]})"

    return rule


def wide_digits(left: SqlType, right: SqlType) -> int:
    """How many digits hold two DECIMALs without loss."""
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return whole + max(left.scale, right.scale)


def is_finite_literal(expression: Expression) -> bool:
    """Whether an operand is known to be a finite number."""
    return (
        isinstance(expression, Literal)
        and expression.value is not None
        and math.isfinite(expression.value)
    )


def negative_one(call: Call) -> bool:
    """Whether the divisor may be −1, by which the least integer can't be divided."""
    divisor = call.arguments[1]
    return not isinstance(divisor, Literal) or divisor.value is None or divisor.value == -1


def remainder(symbol: str = "%") -> FunctionRule:
    """x % −1 is 0; the engines fail on the least integer there."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        left, right = arguments
        plain = f"({left} {symbol} {right})"
        return (
            f"CASE WHEN {right} = -1 THEN {left} - {left} ELSE {plain} END"
            if negative_one(call)
            else plain
        )

    return rule


def additive(symbol: str, own: Mapping[str, FunctionRule]) -> FunctionRule:
    """+ or −, with an engine's own rules for what isn't of whole numbers."""
    return by_family(
        {name: infix(symbol) for name in ("integer", "micros micros", "months months")} | dict(own)
    )


def multiplicative(own: Mapping[str, FunctionRule]) -> FunctionRule:
    """Multiplication; an interval's number is multiplied as one of 64 bits."""
    times = typed("(CAST({0} AS BIGINT) * {1})")
    return by_family(
        {"integer": infix("*"), "micros integer": times, "months integer": times, **own}
    )


negated = typed("(-{0})")


def same_types(symbol: str) -> FunctionRule:
    """A comparison whose sides have one type."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        left, right = (item.type for item in call.arguments)
        if left.is_nested or _is_wide(left, right):
            raise refused(call)
        return symbol.format(*arguments)

    return rule


def _is_wide(left: SqlType, right: SqlType) -> bool:
    """Whether sides are DECIMALs that no common type holds; the engines would cut digits off, or go
    by way of DOUBLE."""
    return left != right and left.kind is Kind.DECIMAL and wide_digits(left, right) > MAX_PRECISION


def _comparison(symbol: str) -> FunctionRule:
    """Sides that no type holds are compared by their whole numbers, then by the rest."""
    plain = same_types(f"({{0}} {symbol} {{1}})")

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        left, right = (item.type for item in call.arguments)
        if not _is_wide(left, right):
            return plain(rendering, call, arguments)
        scale = max(left.scale, right.scale)
        if scale > _LEAST_SCALE:
            raise refused(call)
        wholes = [f"CAST(floor({text}) AS DECIMAL({MAX_PRECISION}, 0))" for text in arguments]
        rests = [
            f"CAST(({text} - floor({text})) AS DECIMAL({scale + 1}, {scale}))" for text in arguments
        ]
        alike, rest = f"{wholes[0]} = {wholes[1]}", f"{rests[0]} {symbol} {rests[1]}"
        if symbol == "=":
            return f"({alike} AND {rest})"
        outer = symbol.rstrip("=") if symbol in ("<=", ">=") else symbol
        return f"({wholes[0]} {outer} {wholes[1]} OR ({alike} AND {rest}))"

    return rule


_LEAST_SCALE = 6
"""The scale that Spark leaves a difference, whatever its digits."""

COMPARISONS: dict[str, FunctionRule] = {
    name: _comparison(symbol)
    for name, symbol in {
        "eq": "=",
        "ne": "<>",
        "lt": "<",
        "le": "<=",
        "gt": ">",
        "ge": ">=",
    }.items()
}
LOGIC: dict[str, FunctionRule] = {
    "not": template("(NOT {0})"),
    "is_true": template("(({0}) IS TRUE)"),
    "is_not_true": template("(({0}) IS NOT TRUE)"),
    "is_false": template("(({0}) IS FALSE)"),
    "is_not_false": template("(({0}) IS NOT FALSE)"),
    "is_null": template("({0} IS NULL)"),
    "is_not_null": template("({0} IS NOT NULL)"),
}


def rounded_decimal(rendering: Rendering, call: Call, text: str, digits: int) -> str:
    """ROUND of a DECIMAL to digits that aren't negative: by a cast, which rounds half up. The
    call's type has a greater scale where the digits weren't a literal when it was bound."""
    given, result = call.arguments[0].type, call.type
    if digits < result.scale:
        scaled = decimal(min(given.precision - given.scale + digits + 1, MAX_PRECISION), digits)
        text = f"CAST({text} AS {rendering.type(scaled)})"
    return f"CAST({text} AS {rendering.type(result)})"
