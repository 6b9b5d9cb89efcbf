"""Arithmetic on which DuckDB and Spark agree: the family of a call, and checks of its result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from runnel.expressions.nodes import Call, Expression, Literal
from runnel.rendering.render import FunctionRule, Rendering, template, typed
from runnel.rendering.rules import UNKNOWN, option, refused
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType, decimal


def family(call: Call) -> str:
    """The family of the operands: integer, decimal, float, or the kinds of temporal operands."""
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
    """The engine's operator, which has the result type and the errors of Runnel's."""
    return template(f"({{0}} {symbol} {{1}})")


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
    """+ or −; `own` has the engine's rules for the families other than whole numbers."""
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


def _rounded_decimal(rendering: Rendering, call: Call, text: str, digits: int) -> str:
    """ROUND of a DECIMAL to a number of digits from 0 on: by a cast, which rounds half up. The
    call's type has a greater scale if the digits were not a literal when it was bound."""
    source, result = call.arguments[0].type, call.type
    if digits < result.scale:
        scaled = decimal(min(source.precision - source.scale + digits + 1, MAX_PRECISION), digits)
        text = f"CAST({text} AS {rendering.type(scaled)})"
    return f"CAST({text} AS {rendering.type(result)})"


def rounded(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """ROUND: a cast of a DECIMAL, which rounds half up; floats to whole numbers only."""
    source = call.arguments[0].type
    digits = option(call, 1) if len(call.arguments) == 2 else 0
    if digits is None:
        return rendering.literal(None, call.type)
    if digits is UNKNOWN or digits < 0:
        raise refused(call, "ROUND to digits that are a parameter or negative")
    if source.is_integer:
        return arguments[0]
    if source.kind is Kind.DECIMAL:
        return _rounded_decimal(rendering, call, arguments[0], digits)
    if digits:
        raise refused(call, f"ROUND({source}) to digits")
    return f"CAST(round({arguments[0]}) AS {rendering.type(call.type)})"


def truncated(text: str, *, floats: bool) -> FunctionRule:
    """TRUNCATE to whole numbers by a template; whether it is exact for floats too."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        source = call.arguments[0].type
        digits = option(call, 1) if len(call.arguments) == 2 else 0
        if digits is None:
            return rendering.literal(None, call.type)
        if digits is UNKNOWN or digits < 0 or (digits and not source.is_integer):
            raise refused(call, "TRUNCATE to digits")
        if source.is_approximate and not floats:
            raise refused(call)
        if source.is_integer:
            return arguments[0]
        return typed(text)(rendering, call, arguments)

    return rule
