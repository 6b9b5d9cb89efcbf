"""DuckDB's arithmetic with Runnel's result types, rounding and errors.

DuckDB's integers and DECIMALs fail on overflow, its floats do not. It has no division of DECIMALs,
so whole numbers are divided. Division by zero fails because of the settings of the kernel
(`ieee_floating_point_ops`, `integer_division`).
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.kernels.buffers import FIRST_US, LAST_US
from runnel.expressions.nodes import Call
from runnel.rendering.arithmetic import (
    additive,
    by_family,
    is_finite_literal,
    multiplicative,
    remainder,
    wide_digits,
)
from runnel.rendering.render import FunctionRule, Rendering, template, typed
from runnel.rendering.rules import refused
from runnel.sqltypes import DATE, MAX_PRECISION, TIMESTAMP, Kind, SqlType, decimal

_NARROW = 18
"""DuckDB stores DECIMALs of at most this number of digits in 64 bits."""


def finite(rendering: Rendering, call: Call, operands: Sequence[str], result: str) -> str:
    """The result of a computation on floats; an error where it is infinite though the operands
    aren't."""
    wrong = [f"isinf({result})"]
    wrong += [
        f"isfinite({text})"
        for item, text in zip(call.arguments, operands, strict=True)
        if not is_finite_literal(item)
    ]
    return rendering.check(" AND ".join(wrong), f"{call.type} overflow", result)


def _float(symbol: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return finite(rendering, call, arguments, f"({arguments[0]} {symbol} {arguments[1]})")

    return rule


def _decimal_sum(symbol: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        left, right = (item.type for item in call.arguments)
        if wide_digits(left, right) > MAX_PRECISION:
            raise refused(call)
        first, second = arguments
        if max(left.precision, right.precision) <= _NARROW < call.type.precision:
            first = f"CAST({first} AS {rendering.type(call.type)})"
        return f"CAST(({first} {symbol} {second}) AS {rendering.type(call.type)})"

    return rule


def _decimal_product(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """DuckDB's product has the whole scale, and fails above 38 digits: Runnel's product is equal if
    its scale is not reduced."""
    left, right = (item.type for item in call.arguments)
    if left.scale + right.scale != call.type.scale:
        raise refused(call)
    return (
        f"CAST({_product(arguments[0], left, arguments[1], right)} AS {rendering.type(call.type)})"
    )


def _product(left: str, left_type: SqlType, right: str, right_type: SqlType) -> str:
    """The exact product of DECIMALs. Of two that fit 64 bits DuckDB would make one that must,
    too."""
    if (
        max(left_type.precision, right_type.precision)
        <= _NARROW
        < left_type.precision + right_type.precision
    ):
        left = f"CAST({left} AS DECIMAL({_NARROW + 1}, {left_type.scale}))"
    return f"({left} * {right})"


def _decimal_remainder(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    left, right = (item.type for item in call.arguments)
    if wide_digits(left, right) > MAX_PRECISION:
        raise refused(call)
    wide = rendering.type(call.type)
    return f"CAST((CAST({arguments[0]} AS {wide}) % CAST({arguments[1]} AS {wide})) AS {wide})"


def unscaled(text: str, sql_type: SqlType) -> str:
    """A DECIMAL's digits as a whole number, HUGEINT. Its scale is at most 18."""
    scale = sql_type.scale
    if scale == 0:
        return f"CAST({text} AS HUGEINT)"
    factor, factor_type = f"CAST({10**scale} AS DECIMAL({scale + 1}, 0))", decimal(scale + 1, 0)
    if sql_type.precision + scale < MAX_PRECISION:
        return f"CAST({_product(text, sql_type, factor, factor_type)} AS HUGEINT)"
    whole = f"trunc({text})"
    fraction = f"CAST(({text} - {whole}) AS DECIMAL({scale}, {scale}))"
    digits = f"CAST({_product(fraction, decimal(scale, scale), factor, factor_type)} AS HUGEINT)"
    return f"(CAST({whole} AS HUGEINT) * {10**scale} + {digits})"


def scaled(text: str, sql_type: SqlType) -> str:
    """A whole number as the digits of a DECIMAL; fails where it has too many."""
    whole = f"CAST({text} AS DECIMAL({MAX_PRECISION}, 0))"
    if sql_type.scale:
        unit = "0." + "0" * (sql_type.scale - 1) + "1"
        whole = f"({whole} * CAST('{unit}' AS DECIMAL({sql_type.scale}, {sql_type.scale})))"
    return f"CAST({whole} AS DECIMAL({sql_type.precision}, {sql_type.scale}))"


def quotient(dividend: str, divisor: str, shift: int) -> str:
    """dividend · 10^shift / divisor of whole numbers, half up. The quotient and the remainder are
    scaled separately, since 128 bits cannot hold the product. |divisor| · 10^shift must be below
    10^37."""
    half = f"sign({_A} % {_B}) * abs({_B})"
    rest = f"(({_A} % {_B}) * {2 * 10**shift} + {half}) // (2 * {_B})"
    return let(dividend, divisor, f"({_A} // {_B}) * {10**shift} + {rest}")


_A, _B = "v.a", "v.b"


def let(first: str, second: str, body: str) -> str:
    """`body`, in which v.a and v.b are two values that are computed once."""
    return f"list_transform([struct_pack(a := {first}, b := {second})], lambda v: {body})[1]"


def long_quotient(shift: int) -> str:
    """v.a · 10^shift / v.b, half up, where the divisor may have all 38 digits: digit by digit where
    it is that large."""
    short = quotient(_A, _B, shift)
    a, b = "CAST(abs(v.a) AS UHUGEINT)", "CAST(abs(v.b) AS UHUGEINT)"
    start = f"struct_pack(q := {a} // {b}, r := {a} % {b}, b := {b})"
    steps = ", ".join([start, *[_NO_STEP] * shift])
    divided = f"list_reduce([{steps}], lambda s, i: {_DIGIT})"
    signed = f"CAST(w.q + {_flag('2 * w.r >= w.b')} AS HUGEINT) * sign(v.a) * sign(v.b)"
    long = f"list_transform([{divided}], lambda w: {signed})[1]"
    return f"CASE WHEN abs(v.b) < {10 ** (MAX_PRECISION - 1 - shift)} THEN {short} ELSE {long} END"


_NO_STEP = (
    "struct_pack(q := CAST(0 AS UHUGEINT), r := CAST(0 AS UHUGEINT), b := CAST(0 AS UHUGEINT))"
)


def _flag(condition: str) -> str:
    """1 or 0 as UHUGEINT, since DuckDB adds UHUGEINT and a signed number as DOUBLE."""
    return f"(CASE WHEN {condition} THEN CAST(1 AS UHUGEINT) ELSE CAST(0 AS UHUGEINT) END)"


def _next_digit() -> str:
    """The next digit: ten times the remainder is computed by doubling, so that no value exceeds
    unsigned 128 bits."""
    text = "struct_pack(q := s.q * 10 + d.q, r := d.r, b := s.b)"

    def doubled(of: str) -> str:
        carry = _flag(f"2 * {of}.r >= s.b")
        rest = f"CASE WHEN 2 * {of}.r >= s.b THEN 2 * {of}.r - s.b ELSE 2 * {of}.r END"
        return f"struct_pack(q := 2 * {of}.q + {carry}, r := {rest})"

    over = "e.r + t.r >= s.b"
    digit = f"struct_pack(q := e.q + t.q + {_flag(over)}, "
    digit += f"r := CASE WHEN {over} THEN e.r + t.r - s.b ELSE e.r + t.r END)"
    text = f"list_transform([{digit}], lambda d: {text})[1]"
    text = f"list_transform([{doubled('f')}], lambda e: {text})[1]"
    text = f"list_transform([{doubled('t')}], lambda f: {text})[1]"
    one = "struct_pack(q := CAST(0 AS UHUGEINT), r := s.r)"
    text = f"list_transform([{doubled('o')}], lambda t: {text})[1]"
    return f"list_transform([{one}], lambda o: {text})[1]"


_DIGIT = _next_digit()


def _decimal_quotient(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    left, right = (item.type for item in call.arguments)
    shift = call.type.scale + right.scale - left.scale
    if left.scale > 18 or right.scale > 18 or not 0 <= shift < MAX_PRECISION - 1:
        raise refused(call)
    dividend, divisor = unscaled(arguments[0], left), unscaled(arguments[1], right)
    if right.precision + shift < MAX_PRECISION:
        return scaled(quotient(dividend, divisor, shift), call.type)
    return scaled(let(dividend, divisor, long_quotient(shift)), call.type)


_FIRST, _LAST = f"make_timestamp({FIRST_US})", f"make_timestamp({LAST_US})"


def in_range(rendering: Rendering, value: str, sql_type: SqlType) -> str:
    """A timestamp, or an error if its year is not within 1 to 9999."""
    first, last = _FIRST, _LAST
    if sql_type.kind is Kind.TIMESTAMP_TZ:
        first, last = f"make_timestamptz({FIRST_US})", f"make_timestamptz({LAST_US})"
    return rendering.check(
        f"({value} < {first}) OR ({value} > {last})", f"{sql_type} out of range", value
    )


def _shifted(symbol: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        return in_range(
            rendering, f"({arguments[0]} {symbol} to_microseconds({arguments[1]}))", call.type
        )

    return rule


def _months(symbol: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        time, months = arguments
        if call.type.kind is Kind.TIMESTAMP_TZ:
            local = in_range(
                rendering, f"(timezone('UTC', {time}) {symbol} to_months({months}))", TIMESTAMP
            )
            return f"timezone('UTC', {local})"
        return in_range(rendering, f"({time} {symbol} to_months({months}))", call.type)

    return rule


def _days(symbol: str) -> FunctionRule:
    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        day = f"({arguments[0]} {symbol} CAST({arguments[1]} AS INTEGER))"
        wrong = f"({day} < CAST('0001-01-01' AS DATE)) OR ({day} > CAST('9999-12-31' AS DATE))"
        return rendering.check(wrong, f"{DATE} out of range", day)

    return rule


def _by_float(symbol: str) -> FunctionRule:
    return typed(f"round((CAST({{0}} AS DOUBLE) {symbol} {{1}}))")


def _sum(symbol: str) -> FunctionRule:
    rules: dict[str, FunctionRule] = {
        "decimal": _decimal_sum(symbol),
        "float": _float(symbol),
        "timestamp micros": _shifted(symbol),
        "instant micros": _shifted(symbol),
        "timestamp months": _months(symbol),
        "instant months": _months(symbol),
        # Below a day, the interval cannot overflow.
        "time micros": template(f"({{0}} {symbol} to_microseconds({{1}} % 86400000000))"),
        "date integer": _days(symbol),
    }
    if symbol == "-":
        rules["date date"] = typed("({0} - {1})")
        rules |= dict.fromkeys(
            ("timestamp timestamp", "instant instant", "time time"),
            template("(epoch_us({0}) - epoch_us({1}))"),
        )
    return additive(symbol, rules)


addition, subtraction = _sum("+"), _sum("-")
multiplication = multiplicative(
    {
        "decimal": _decimal_product,
        "float": _float("*"),
        "micros float": _by_float("*"),
        "months float": _by_float("*"),
    }
)
division = by_family(
    {
        "integer": typed("({0} // {1})"),
        "decimal": _decimal_quotient,
        "float": _float("/"),
        "micros float": _by_float("/"),
        "months float": _by_float("/"),
    }
)
modulo = by_family({"integer": remainder(), "decimal": _decimal_remainder})
