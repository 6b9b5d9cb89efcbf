"""Functions on numbers and bits in DuckDB and in Spark.

Spark's transcendental functions are refused, because Java computes other values.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call
from runnel.rendering.duckdb import arithmetic as duckdb
from runnel.rendering.render import FunctionRule, Rendering, by_engine, typed
from runnel.rendering.rules import UNKNOWN, ByEngine, both, option, refused
from runnel.rendering.spark import arithmetic as spark
from runnel.sqltypes import MAX_PRECISION, Kind, decimal


def _rounded_decimal(rendering: Rendering, call: Call, text: str, digits: int) -> str:
    """ROUND of a DECIMAL to a number of digits from 0 on: by a cast, which rounds half up. The
    call's type has a greater scale if the digits were not a literal when it was bound."""
    source, result = call.arguments[0].type, call.type
    if digits < result.scale:
        scaled = decimal(min(source.precision - source.scale + digits + 1, MAX_PRECISION), digits)
        text = f"CAST({text} AS {rendering.type(scaled)})"
    return f"CAST({text} AS {rendering.type(result)})"


def _rounded(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
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


def _truncated(text: str, *, floats: bool) -> FunctionRule:
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


def _sign(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    sign = f"CAST(sign({arguments[0]}) AS {rendering.type(call.type)})"
    if call.type.is_approximate:  # DuckDB's is 0 for NaN
        return f"CASE WHEN isnan({arguments[0]}) THEN {arguments[0]} ELSE {sign} END"
    return sign


def _duckdb_whole(name: str) -> FunctionRule:
    """FLOOR and CEIL."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if call.arguments[0].type.is_integer:
            return arguments[0]
        return f"CAST({name}({arguments[0]}) AS {rendering.type(call.type)})"

    return rule


def _finite_duckdb(text: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return duckdb.finite(rendering, call, arguments, text.format(*arguments))

    return rule


def _power(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    base, exponent = arguments
    made = f"pow({base}, {exponent})"
    unreal = f"isnan({made}) AND NOT (isnan({base}) OR isnan({exponent}))"
    message = "a negative number raised to a fraction has no real value"
    checked = rendering.check(unreal, message, duckdb.finite(rendering, call, arguments, made))
    return rendering.check(
        f"{base} = 0 AND {exponent} < 0", "zero raised to a negative power is undefined", checked
    )


def _absolute(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    spark.refuse_long(call)
    return f"abs({arguments[0]})"


def _spark_whole(name: str) -> FunctionRule:
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
    return spark.finite(rendering, call, arguments, f"({arguments[0]} * {arguments[0]})")


def _extreme(name: str) -> ByEngine[FunctionRule]:
    """GREATEST and LEAST."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return arguments[0] if len(arguments) == 1 else f"{name}({', '.join(arguments)})"

    def spark_rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if call.type.kind is Kind.VARBINARY:
            raise refused(call)
        return rule(rendering, call, arguments)

    return by_engine(duckdb=rule, spark=spark_rule)


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
NUMBERS: dict[str, ByEngine[FunctionRule]] = {
    "abs": by_engine(duckdb="abs({0})", spark=_absolute),
    "sign": by_engine(duckdb=_sign, spark=typed("sign({0})")),
    "floor": by_engine(duckdb=_duckdb_whole("floor"), spark=_spark_whole("floor")),
    "ceil": by_engine(duckdb=_duckdb_whole("ceil"), spark=_spark_whole("ceil")),
    "round": both(_rounded),
    "truncate": by_engine(
        duckdb=_truncated("trunc({0})", floats=True), spark=_truncated(_TRUNCATED, floats=False)
    ),
    "square": by_engine(duckdb=_finite_duckdb("({0} * {0})"), spark=_square),
    "sqrt": by_engine(duckdb="sqrt({0})", spark=_sqrt),
    "exp": by_engine(duckdb=_finite_duckdb("exp({0})")),
    "ln": by_engine(duckdb="ln({0})"),
    "log2": by_engine(duckdb="log2({0})"),
    "log10": by_engine(duckdb="log10({0})"),
    "power": by_engine(duckdb=_power),
    "degrees": by_engine(duckdb=_finite_duckdb("degrees({0})")),
    "radians": by_engine(duckdb="radians({0})"),
    "sin": by_engine(duckdb="sin({0})"),
    "cos": by_engine(duckdb="cos({0})"),
    "tan": by_engine(duckdb="tan({0})"),
    "asin": by_engine(duckdb="asin({0})"),
    "acos": by_engine(duckdb="acos({0})"),
    "atan": by_engine(duckdb="atan({0})"),
    "atan2": by_engine(duckdb="atan2({0}, {1})"),
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "div": by_engine(spark=_quotient),
    "is_nan": by_engine(spark="({0} = CAST('NaN' AS DOUBLE))"),
    "is_inf": by_engine(spark=lambda rendering, call, arguments: spark.infinite(arguments[0])),
    "is_finite": by_engine(spark="(abs({0}) < CAST('Infinity' AS DOUBLE))"),
    "bit_and": by_engine(spark="({0} & {1})"),
    "bit_or": by_engine(spark="({0} | {1})"),
    "bit_xor": by_engine(spark="({0} ^ {1})"),
    "bit_not": by_engine(spark="(~{0})"),
    "bit_shift_left": by_engine(spark=_shift("shiftleft")),
    "bit_shift_right": by_engine(spark=_shift("shiftright")),
    "bit_count": by_engine(spark=typed("bit_count({0})")),
    "cardinality": by_engine(duckdb=typed("len({0})"), spark=typed("size({0})")),
}
