"""FLOOR, CEIL, ROUND and TRUNCATE.

ROUND rounds half away from zero, TRUNCATE toward zero; the number of digits may be negative.
Without a number of digits, integers don't change. The type of a DECIMAL result has only the
requested digits; if their number differs from row to row, the argument's scale remains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import Position
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.function import Bound, Datum, Function, Kernel, never_fails
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.numbers.decimals import rounded
from runnel.expressions.signature import NUMERIC, named, signature
from runnel.sqltypes import (
    BIGINT,
    DOUBLE,
    INTEGER_DIGITS,
    MAX_PRECISION,
    Kind,
    SqlType,
    decimal,
    to_arrow,
)

if TYPE_CHECKING:
    from runnel.expressions.numbers.decimal_division import RoundingMode

_MODES: dict[str, RoundingMode] = {
    "round": "half_up",
    "truncate": "towards_zero",
    "floor": "down",
    "ceil": "up",
}
_FLOAT_MODES = {
    "half_up": "half_towards_infinity",
    "towards_zero": "towards_zero",
    "down": "down",
    "up": "up",
}
_ALL_DIGITS = 75
"""More digits than any DECIMAL has, and few enough for the rounded number to have a type."""
_MOST_FLOAT_DIGITS = 308
_ARROW_FLOAT_DIGITS = 10
"""Arrow's powers of ten are single-precision numbers, so they are exact up to 10^10 only."""


def _whole_type(arguments: Sequence[Expression]) -> SqlType:
    source = arguments[0].type
    if source.kind is not Kind.DECIMAL:
        return source
    carry = 1 if source.scale else 0
    return decimal(min(source.precision - source.scale + carry, MAX_PRECISION), 0)


def _rounded_type(arguments: Sequence[Expression]) -> SqlType:
    source = arguments[0].type
    if source.kind is not Kind.DECIMAL:
        return source
    if len(arguments) == 1:
        return _whole_type(arguments)
    digits = _digits_of(arguments)
    scale = source.scale if digits is None else max(min(digits, source.scale), 0)
    return decimal(min(source.precision - source.scale + scale + 1, MAX_PRECISION), scale)


def _digits_of(arguments: Sequence[Expression]) -> int | None:
    """The number of digits, if it is a literal."""
    if len(arguments) == 1:
        return 0
    digits = arguments[1]
    return int(digits.value) if isinstance(digits, Literal) and digits.value is not None else None


def _compile(call: Call) -> Kernel:
    source, mode = call.arguments[0].type, _MODES[call.function]
    digits = _digits_of(call.arguments)
    if source.is_integer and digits is not None and digits >= 0:
        return lambda value, *digits: value
    if digits is None:
        return _by_row(call, mode)
    kernel = _with_digits(source, call.type, mode, digits)
    return lambda value, *rest: kernel(value)


def _with_digits(
    source: SqlType, result: SqlType, mode: RoundingMode, digits: int
) -> Callable[[Datum], Datum]:
    """A kernel that rounds to a number of digits that is the same for all rows."""
    arrow = to_arrow(result)
    if source.kind is Kind.DECIMAL:
        surplus = min(max(source.scale - digits, 0), _ALL_DIGITS)
        return lambda value: pc.cast(rounded(value, surplus, mode), arrow)
    if source.is_integer:
        # By way of DECIMAL, as Arrow refuses to round an integer to as many digits as its type
        # has. The result is then zero or an overflow.
        wide = pa.decimal128(INTEGER_DIGITS[source.kind], 0)
        roomy = pa.decimal128(MAX_PRECISION, 0)
        surplus = min(max(-digits, 0), MAX_PRECISION - 1)
        return lambda value: pc.cast(
            pc.cast(rounded(pc.cast(value, wide), surplus, mode), roomy), arrow
        )
    if digits > _MOST_FLOAT_DIGITS:
        return lambda value: value
    if digits < -_MOST_FLOAT_DIGITS:
        zero = pack_scalar(0.0, source)
        return lambda value: pc.if_else(pc.is_finite(value), zero, value)
    return lambda value: _round_float(value, digits, _FLOAT_MODES[mode])


def _round_float(value: Datum, digits: int, mode: str) -> Datum:
    if abs(digits) > _ARROW_FLOAT_DIGITS:
        return pc.cast(_round_far(pc.cast(value, pa.float64()), digits, mode), value.type)
    try:
        return pc.round(value, digits, round_mode=mode)
    except pa.ArrowInvalid:
        # value · 10^digits isn't finite: the value has no digits there, so it doesn't change.
        limit = pack_scalar(10.0 ** max(_MOST_FLOAT_DIGITS - 1 - digits, 0), SqlType(Kind.DOUBLE))
        large = pc.greater(pc.abs(pc.cast(value, pa.float64())), limit)
        if digits < 0 or not any_true(large):
            raise
        small = pc.if_else(
            large, pack_scalar(0.0, SqlType(Kind.DOUBLE)), pc.cast(value, pa.float64())
        )
        return pc.cast(
            pc.if_else(large, value, pc.round(small, digits, round_mode=mode)), value.type
        )


def _round_far(value: Datum, digits: int, mode: str) -> Datum:
    """DOUBLEs rounded to more digits than Arrow supports. A value without digits there is
    unchanged.
    """
    power = pack_scalar(10.0 ** abs(digits), DOUBLE)
    there, back = (pc.multiply, pc.divide) if digits > 0 else (pc.divide, pc.multiply)
    scaled = there(value, power)
    whole = pc.round(scaled, 0, round_mode=mode)
    found = pc.if_else(
        pc.or_(pc.equal(scaled, whole), pc.invert(pc.is_finite(scaled))), value, back(whole, power)
    )
    if digits < 0 and any_true(pc.and_not(pc.is_finite(value), pc.is_finite(found))):
        raise pa.ArrowInvalid("overflow occurred during rounding")
    return found


def _by_row(call: Call, mode: RoundingMode) -> Kernel:
    """A kernel for digits that aren't a literal: one pass per distinct number of digits."""
    source, result = call.arguments[0].type, call.type
    null = pa.nulls(1, to_arrow(result))[0]

    def run(value: Datum, digits: Datum) -> Datum:
        if isinstance(digits, pa.Scalar):
            return (
                null
                if not digits.is_valid
                else _with_digits(source, result, mode, digits.as_py())(value)
            )
        answer: Datum = null
        for number in digits.unique().drop_null():
            chosen = pc.equal(digits, number)
            rows = pc.if_else(chosen, value, pa.nulls(1, to_arrow(source))[0])
            answer = pc.if_else(
                pc.coalesce(chosen, _FALSE),
                _with_digits(source, result, mode, number.as_py())(rows),
                answer,
            )
        return (
            answer if not isinstance(answer, pa.Scalar) else pa.nulls(len(digits), to_arrow(result))
        )

    return run


_FALSE = pack_scalar(False, SqlType(Kind.BOOLEAN))


def _round_can_fail(call: Call) -> bool:
    digits = _digits_of(call.arguments)
    return (
        digits is None
        or (call.arguments[0].type.is_exact and digits < 0)
        or call.type.precision == MAX_PRECISION
    )


def _entry(
    name: str,
    sql_names: tuple[str, ...],
    bind: Callable[[str, Sequence[Expression], Position | None], Bound],
) -> Function:
    has_digits = name in ("round", "truncate")
    return named(
        name,
        "x NUMERIC [, digits INTEGER]" if has_digits else "x NUMERIC",
        "the type of x; a DECIMAL with the scale that remains",
        bind,
        _compile,
        sql_names=sql_names,
        can_fail=_round_can_fail if has_digits else never_fails,
        family="math",
    )


_ONE = signature(NUMERIC, result=_whole_type)
_WITH_DIGITS = signature(NUMERIC, BIGINT, result=_rounded_type, optional=1)
FUNCTIONS = (
    _entry("floor", (), _ONE),
    _entry("ceil", ("CEILING",), _ONE),
    _entry("round", (), _WITH_DIGITS),
    _entry("truncate", ("TRUNC",), _WITH_DIGITS),
)
