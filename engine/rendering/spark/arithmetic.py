"""Spark's arithmetic, in ANSI mode, with Runnel's result types, rounding and errors.

Spark's integers fail on overflow, its floats do not. Its DECIMAL operators have other result types,
whose scale Spark reduces if the result needs more than 38 digits: operands are cast so that the
result has Runnel's scale, and is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.kernels.failure import overflow_text
from runnel.expressions.nodes import Call
from runnel.rendering.arithmetic import (
    additive,
    by_family,
    is_finite_literal,
    multiplicative,
    negated,
    remainder,
    wide_digits,
)
from runnel.rendering.render import FunctionRule, Rendering, typed
from runnel.rendering.rules import refused
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType


def infinite(text: str) -> str:
    """Whether a float is infinite; NaN is the largest number, so that it isn't below infinity
    either."""
    return f"(abs({text}) = CAST('Infinity' AS DOUBLE))"


def finite(rendering: Rendering, call: Call, operands: Sequence[str], result: str) -> str:
    """The result of a computation on floats; an error where it is infinite though the operands
    aren't."""
    wrong = [infinite(result)]
    for item, text in zip(call.arguments, operands, strict=True):
        if not is_finite_literal(item):
            wrong.append(f"(abs({text}) < CAST('Infinity' AS DOUBLE))")
    return rendering.check(" AND ".join(wrong), overflow_text(call), result)


def _float(symbol: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        made = f"CAST(({arguments[0]} {symbol} {arguments[1]}) AS {rendering.type(call.type)})"
        return finite(rendering, call, arguments, made)

    return rule


def _decimal_sum(symbol: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        left, right = (item.type for item in call.arguments)
        if wide_digits(left, right) >= MAX_PRECISION:
            raise refused(call)
        return f"CAST(({arguments[0]} {symbol} {arguments[1]}) AS {rendering.type(call.type)})"

    return rule


def _adjusted_scale(precision: int, scale: int) -> int:
    """The scale of a result in Spark, which reduces it if `precision` exceeds 38 digits."""
    if precision <= MAX_PRECISION:
        return scale
    return max(MAX_PRECISION - (precision - scale), min(scale, 6))


def _decimal_product(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """Refused if Spark or Runnel would reduce the scale: Spark rounds to 39 digits first."""
    left, right = (item.type for item in call.arguments)
    scale = left.scale + right.scale
    if (
        call.type.scale != scale
        or _adjusted_scale(left.precision + right.precision + 1, scale) != scale
    ):
        raise refused(call)
    return f"CAST(({arguments[0]} * {arguments[1]}) AS {rendering.type(call.type)})"


def _decimal_quotient(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    left, right = (item.type for item in call.arguments)
    text = decimal_quotient(arguments[0], left, arguments[1], right, call.type)
    if text is None:
        raise refused(call)
    return text


def decimal_quotient(
    dividend: str, left: SqlType, divisor: str, right: SqlType, result: SqlType
) -> str | None:
    """left / right as `result`; None if Spark cannot return its scale. If Spark's own scale is
    another one, the dividend is cast to a type with more whole digits, so that Spark reduces the
    scale to Runnel's."""
    whole, natural = (
        left.precision - left.scale + right.scale,
        max(6, left.scale + right.precision + 1),
    )
    if _adjusted_scale(whole + natural, natural) == result.scale:
        return f"CAST(({dividend} / {divisor}) AS DECIMAL({result.precision}, {result.scale}))"
    scale = max(left.scale, result.scale - right.precision - 1)
    precision = MAX_PRECISION - result.scale - right.scale + scale
    if (
        precision > MAX_PRECISION
        or precision - scale < left.precision - left.scale
        or result.scale < 6
    ):
        return None
    declared = f"CAST({dividend} AS DECIMAL({precision}, {scale}))"
    return f"CAST(({declared} / {divisor}) AS DECIMAL({result.precision}, {result.scale}))"


def _decimal_remainder(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    left, right = (item.type for item in call.arguments)
    if wide_digits(left, right) > MAX_PRECISION:
        raise refused(call)
    return f"CAST(({arguments[0]} % {arguments[1]}) AS {rendering.type(call.type)})"


def as_local(micros: str) -> str:
    """The TIMESTAMP_NTZ of a number of µs since 1970, in no zone."""
    seconds = (
        f"CAST((CAST({micros} AS DECIMAL(20, 0)) * CAST('0.000001' AS DECIMAL(6, "
        "6))) AS DECIMAL(18, 6))"
    )
    return f"(CAST('1970-01-01 00:00:00' AS TIMESTAMP_NTZ) + make_dt_interval(0, 0, 0, {seconds}))"


def local_time(rendering: Rendering, utc: str, zone: str | None = None) -> str:
    """A TIMESTAMP_NTZ in UTC as local time of a zone, by default the statement's, which is not the
    zone of the Spark session."""
    return f"convert_timezone('UTC', {zone or rendering.zone()}, {utc})"


def micros_of(local: str) -> str:
    """The µs since 1970 of a TIMESTAMP_NTZ, in no zone."""
    span = f"CAST(({local} - CAST('1970-01-01 00:00:00' AS TIMESTAMP_NTZ)) AS INTERVAL SECOND)"
    return f"CAST((CAST({span} AS DECIMAL(20, 6)) * CAST(1000000 AS DECIMAL(7, 0))) AS BIGINT)"


def time_of(rendering: Rendering, call: Call, micros: str, *, instant: bool) -> str:
    """The time of a number of µs since 1970, or an error if its year is not within 1 to 9999."""
    low, high = "CAST('-62135596800000000' AS BIGINT)", "CAST('253402300799999999' AS BIGINT)"
    made = f"timestamp_micros({micros})" if instant else as_local(micros)
    return rendering.check(f"({micros} < {low}) OR ({micros} > {high})", overflow_text(call), made)


_FIRST, _LAST = (
    "CAST('0001-01-01 00:00:00' AS TIMESTAMP_NTZ)",
    "CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP_NTZ)",
)


def _in_range(rendering: Rendering, call: Call, local: str) -> str:
    return rendering.check(
        f"({local} < {_FIRST}) OR ({local} > {_LAST})", overflow_text(call), local
    )


def _months(symbol: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return _in_range(
            rendering, call, f"({arguments[0]} {symbol} make_ym_interval(0, {arguments[1]}))"
        )

    return rule


def _days(symbol: str) -> FunctionRule:
    name = "date_add" if symbol == "+" else "date_sub"

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        far = f"(abs(CAST({arguments[1]} AS DECIMAL(19, 0))) > 4000000)"
        day = f"{name}({arguments[0]}, CAST({arguments[1]} AS INT))"
        wrong = (
            f"{far} OR ({day} < CAST('0001-01-01' AS DATE)) OR ({day} > CAST('9999-12-31' AS DATE))"
        )
        return rendering.check(wrong, overflow_text(call), day)

    return rule


def _shifted(symbol: str) -> FunctionRule:
    """µs are added as numbers: an interval's days would follow the session's clock changes."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        instant = (
            call.type != call.arguments[0].type or rendering.type(call.type) == "TIMESTAMP_LTZ"
        )
        start = f"unix_micros({arguments[0]})" if instant else micros_of(arguments[0])
        micros = f"({start} {symbol} {arguments[1]})"
        return time_of(rendering, call, micros, instant=instant)

    return rule


def micros_between(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    if rendering.type(call.arguments[0].type) == "TIMESTAMP_LTZ":
        return f"(unix_micros({arguments[0]}) - unix_micros({arguments[1]}))"
    return f"({micros_of(arguments[0])} - {micros_of(arguments[1])})"


def _sum(symbol: str) -> FunctionRule:
    rules: dict[str, FunctionRule] = {
        "decimal": _decimal_sum(symbol),
        "float": _float(symbol),
        "timestamp micros": _shifted(symbol),
        "instant micros": _shifted(symbol),
        "timestamp months": _months(symbol),
        "date integer": _days(symbol),
    }
    if symbol == "-":
        rules["date date"] = typed("datediff({0}, {1})")
        rules["timestamp timestamp"] = rules["instant instant"] = micros_between
    return additive(symbol, rules)


_MOST_EXACT = 34
"""Spark's sign and absolute value round to this number of digits."""


def refuse_long(call: Call) -> None:
    if call.type.kind is Kind.DECIMAL and call.type.precision > _MOST_EXACT:
        raise refused(call)


def negation(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """−x."""
    refuse_long(call)
    return negated(rendering, call, arguments)


addition, subtraction = _sum("+"), _sum("-")
multiplication = multiplicative({"decimal": _decimal_product, "float": _float("*")})
division = by_family(
    {"integer": typed("({0} div {1})"), "decimal": _decimal_quotient, "float": _float("/")}
)
modulo = by_family({"integer": remainder(), "decimal": _decimal_remainder})
