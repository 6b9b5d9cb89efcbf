"""Arithmetic on which DuckDB and Spark agree: the family of a call, and checks of its result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from runnel.expressions.nodes import Call, Expression, Literal
from runnel.rendering.render import FunctionRule, Rendering, template, typed
from runnel.rendering.rules import refused
from runnel.sqltypes import Kind, SqlType


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
