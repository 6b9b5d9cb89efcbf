"""Casts between numbers and booleans.

A number with a fraction becomes the nearest integer, as in PostgreSQL: a DECIMAL half away from
zero, a float half to even. Ranges are checked, and NaN and infinities are refused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import Datum, over_first
from runnel.expressions.kernels.buffers import pack_scalar, validity
from runnel.expressions.numbers.decimals import to_scale
from runnel.sqltypes import (
    DOUBLE,
    INTEGER_WIDTHS,
    MAX_PRECISION,
    Kind,
    SqlType,
    as_decimal,
    to_arrow,
)

Conversion = Callable[[Datum, EvaluationContext], Datum]


def conversion(source: SqlType, target: SqlType) -> Conversion:
    """The conversion between two numeric types, or between BOOLEAN and an integer."""
    arrow = to_arrow(target)
    kernel: Callable[[Datum], Datum]
    if target.kind is Kind.DECIMAL:
        kernel = (
            _exact_to_decimal(source, arrow)
            if source.is_exact
            else _float_to_decimal(source, arrow)
        )
    elif target.is_integer and source.is_approximate:
        kernel = _float_to_integer(target)
    elif target.is_integer and source.kind is Kind.DECIMAL:
        kernel = _decimal_to_integer(source, arrow)
    elif target.is_approximate:
        kernel = _to_float(source, target)
    else:
        kernel = lambda datum: pc.cast(datum, arrow)  # noqa: E731
    return lambda datum, context: kernel(datum)


def _exact_to_decimal(source: SqlType, arrow: pa.DataType) -> Callable[[Datum], Datum]:
    """Of an integer or DECIMAL type to a DECIMAL type."""
    exact = as_decimal(source)
    if source.is_integer:
        # Arrow requires a type with room for every value of the source type, not just for those
        # that occur.
        wide = pa.decimal256(exact.precision + arrow.scale, arrow.scale)
        if wide.precision <= 38:
            wide = pa.decimal128(wide.precision, arrow.scale)
        if wide == arrow:
            return lambda datum: pc.cast(datum, arrow)
        return lambda datum: pc.cast(pc.cast(datum, wide), arrow)
    if exact.scale <= arrow.scale:
        digits = exact.precision + arrow.scale - exact.scale
        if digits <= MAX_PRECISION:
            return lambda datum: pc.cast(datum, arrow)
        # Arrow doesn't notice when its intermediate 128-bit product overflows.
        roomy = pa.decimal256(digits, arrow.scale)
        return lambda datum: pc.cast(pc.cast(datum, roomy), arrow)
    return lambda datum: to_scale(datum, arrow)


def _float_to_decimal(source: SqlType, arrow: pa.DataType) -> Callable[[Datum], Datum]:
    """Converts by the shortest text that reads back as the same float, so that 0.1 is 0.1 and 2.675
    rounds half up.
    """
    from runnel.expressions.casts.decimal_text import text_to_decimal  # few queries need it

    def run(datum: Datum) -> Datum:
        _refuse(pc.invert(pc.is_finite(datum)), arrow)
        return text_to_decimal(pc.cast(datum, pa.string()), arrow)

    return run


def _decimal_to_integer(source: SqlType, arrow: pa.DataType) -> Callable[[Datum], Datum]:
    """Rounds half away from zero; a value outside the integer type is an error."""
    if source.scale <= 0:
        return lambda datum: pc.cast(datum, arrow)
    # One digit more: 9.5 becomes 10.
    digits = min(source.precision - source.scale + 1, MAX_PRECISION)
    whole = pa.decimal128(digits, 0)
    return lambda datum: pc.cast(to_scale(datum, whole), arrow)


def _float_to_integer(target: SqlType) -> Callable[[Datum], Datum]:
    """Rounds half to even; a value outside the integer type is an error."""
    width = INTEGER_WIDTHS[target.kind]
    low, high = (
        pack_scalar(value, DOUBLE) for value in (-(2.0 ** (width - 1)), 2.0 ** (width - 1))
    )
    arrow = to_arrow(target)
    options = pc.CastOptions(target_type=arrow, allow_float_truncate=True)

    def run(datum: Datum) -> Datum:
        _refuse(pc.invert(pc.is_finite(datum)), arrow)
        wide = datum if datum.type == pa.float64() else pc.cast(datum, pa.float64())
        whole = pc.round(wide, round_mode="half_to_even")
        outside = pc.or_(pc.less(whole, low), pc.greater_equal(whole, high))
        if any_true(outside):
            raise pa.ArrowInvalid("out of range")
        return pc.cast(whole, options=options)

    return run


def _to_float(source: SqlType, target: SqlType) -> Callable[[Datum], Datum]:
    """Of any numeric type to REAL or DOUBLE."""
    arrow = to_arrow(target)
    if source.is_integer:
        # Rounds to the nearest. Arrow's safe cast would refuse numbers of more than 53 bits.
        options = pc.CastOptions(target_type=arrow, allow_float_truncate=True)
        return lambda datum: pc.cast(datum, options=options)
    if source.kind is Kind.DECIMAL:
        return lambda datum: pc.cast(over_first(_decimal_to_double)(datum), arrow)

    def run(datum: Datum) -> Datum:
        result = pc.cast(datum, arrow)
        if target.kind is Kind.REAL and any_true(pc.and_not(pc.is_inf(result), pc.is_inf(datum))):
            raise pa.ArrowInvalid("out of range")
        return result

    return run


# For the DECIMAL(4, 2) values 1.25 and −0.50, which Arrow stores as 128-bit integers 125 and −50:
#     words     [125, 0, -50, -1]  two 64-bit words per value, the low one first
#     low       [125, -50]
#     high      [0, -1]            equal to `low >> 63` if 64 bits are enough for the value
#     quotient  [1.25, -0.5]       low / 10^2
def _decimal_to_double(array: pa.Array) -> pa.Array:
    """The nearest DOUBLE. (Arrow's cast multiplies by an inexact power of ten, and misses it.)

    If DOUBLE represents both the digits and the power of ten exactly (up to 2^53 and 10^22), their
    quotient is the nearest; otherwise the text of the number is parsed.
    """
    words = np.frombuffer(
        array.buffers()[1], dtype=np.int64, count=2 * len(array), offset=16 * array.offset
    )
    low, high = words[::2], words[1::2]
    scale = array.type.scale
    if scale <= 22 and not ((low >> 63) - high).any() and (np.abs(low) <= 2**53).all():
        quotient = low / 10.0**scale
        return pa.Array.from_buffers(
            pa.float64(), len(array), [validity(array), pa.py_buffer(quotient)]
        )
    return pc.cast(pc.cast(array, pa.string()), pa.float64())


def _refuse(flags: Datum, arrow: pa.DataType) -> None:
    """Raises DataError if any flag is set."""
    if any_true(flags):
        name = "DECIMAL" if pa.types.is_decimal(arrow) else "an integer"
        raise DataError(f"cannot convert infinite or NaN to {name}")


def any_true(flags: Datum) -> bool:
    """Whether any value of a BOOLEAN datum is true."""
    return bool(flags.as_py()) if isinstance(flags, pa.Scalar) else bool(flags.true_count)
