"""Spark's functions on numbers, bits and nested values, with Runnel's semantics.

Transcendental functions are refused, because Java computes other values.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call
from runnel.rendering.arithmetic import COMPARISONS, LOGIC, rounded, same_types, truncated
from runnel.rendering.render import FunctionRule, Rendering, template, typed
from runnel.rendering.rules import refused
from runnel.rendering.spark import arithmetic as spark_arithmetic
from runnel.rendering.spark import dates as spark_dates
from runnel.rendering.spark import text as spark_text
from runnel.rendering.spark.arithmetic import finite, infinite, refuse_long
from runnel.sqltypes import Kind


def _absolute(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    refuse_long(call)
    return f"abs({arguments[0]})"


def _round_to_whole(name: str) -> FunctionRule:
    """FLOOR and CEIL. Spark converts a DOUBLE to BIGINT; a value out of its range is whole."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        source, text = call.arguments[0].type, arguments[0]
        if source.is_integer:
            return text
        made = f"CAST({name}({text}) AS {rendering.type(call.type)})"
        if source.kind is Kind.DECIMAL:
            return made
        return (
            f"CASE WHEN abs({text}) < CAST('4503599627370496' AS DOUBLE) THEN {made} ELSE {text} "
            "END"
        )

    return rule


def _sqrt(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return rendering.check(
        f"{arguments[0]} < 0", "square root of a negative number", f"sqrt({arguments[0]})"
    )


def _square(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    return finite(rendering, call, arguments, f"({arguments[0]} * {arguments[0]})")


def _extreme(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if call.type.kind is Kind.VARBINARY:
            raise refused(call)
        return arguments[0] if len(arguments) == 1 else f"{name}({', '.join(arguments)})"

    return rule


def _shift(name: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        value, count = arguments
        made = f"{name}({value}, CAST({count} AS INT))"
        return rendering.check(
            f"({count} < 0) OR ({count} > 63)", "a shift must be by 0 to 63 bits", made
        )

    return rule


def _quotient(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    if not call.type.is_integer:
        raise refused(call)
    return f"({arguments[0]} div {arguments[1]})"


_TRUNCATED = "CASE WHEN {0} < 0 THEN ceil({0}) ELSE floor({0}) END"
FUNCTIONS: dict[str, FunctionRule] = {
    **COMPARISONS,
    **LOGIC,
    "is_distinct": same_types("(NOT ({0} <=> {1}))"),
    "is_not_distinct": same_types("({0} <=> {1})"),
    **spark_arithmetic.FUNCTIONS,
    **spark_dates.FUNCTIONS,
    **spark_text.FUNCTIONS,
    "abs": _absolute,
    "sign": typed("sign({0})"),
    "floor": _round_to_whole("floor"),
    "ceil": _round_to_whole("ceil"),
    "round": rounded,
    "truncate": truncated(_TRUNCATED, floats=False),
    "sqrt": _sqrt,
    "square": _square,
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "bit_and": template("({0} & {1})"),
    "bit_or": template("({0} | {1})"),
    "bit_xor": template("({0} ^ {1})"),
    "bit_not": template("(~{0})"),
    "bit_shift_left": _shift("shiftleft"),
    "bit_shift_right": _shift("shiftright"),
    "bit_count": typed("bit_count({0})"),
    "div": _quotient,
    "is_nan": template("({0} = CAST('NaN' AS DOUBLE))"),
    "is_inf": lambda rendering, call, arguments: infinite(arguments[0]),
    "is_finite": template("(abs({0}) < CAST('Infinity' AS DOUBLE))"),
    "cardinality": typed("size({0})"),
}
