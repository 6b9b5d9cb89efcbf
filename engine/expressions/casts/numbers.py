"""Casts between numbers and booleans: fractions are cut toward zero, ranges are checked, NaN and
infinities refused."""

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
    """Between two numeric types, or a BOOLEAN and an integer."""
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
        options = pc.CastOptions(target_type=arrow, allow_decimal_truncate=True)
        kernel = lambda datum: pc.cast(datum, options=options)  # noqa: E731
    elif target.is_approximate:
        kernel = _to_float(source, target)
    else:
        kernel = lambda datum: pc.cast(datum, arrow)  # noqa: E731
    return lambda datum, context: kernel(datum)


def _exact_to_decimal(source: SqlType, arrow: pa.DataType) -> Callable[[Datum], Datum]:
    exact = as_decimal(source)
    if source.is_integer:
        # Arrow wants room for every value of the source type, whatever the values are.
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
        # Arrow doesn't see it where 128 bits overflow on the way.
        roomy = pa.decimal256(digits, arrow.scale)
        return lambda datum: pc.cast(pc.cast(datum, roomy), arrow)
    return lambda datum: to_scale(datum, arrow)


def _float_to_decimal(source: SqlType, arrow: pa.DataType) -> Callable[[Datum], Datum]:
    """By the shortest text that reads back as the same float, so that 0.1 is 0.1 and 2.675 rounds
    half up."""
    from runnel.expressions.casts.decimal_text import text_to_decimal  # few queries need it

    def run(datum: Datum) -> Datum:
        _refuse(pc.invert(pc.is_finite(datum)), arrow)
        return text_to_decimal(pc.cast(datum, pa.string()), arrow)

    return run


def _float_to_integer(target: SqlType) -> Callable[[Datum], Datum]:
    width = INTEGER_WIDTHS[target.kind]
    low, high = (
        pack_scalar(value, DOUBLE) for value in (-(2.0 ** (width - 1)), 2.0 ** (width - 1))
    )
    arrow = to_arrow(target)
    options = pc.CastOptions(target_type=arrow, allow_float_truncate=True)

    def run(datum: Datum) -> Datum:
        _refuse(pc.invert(pc.is_finite(datum)), arrow)
        whole = pc.trunc(datum if datum.type == pa.float64() else pc.cast(datum, pa.float64()))
        outside = pc.or_(pc.less(whole, low), pc.greater_equal(whole, high))
        if any_true(outside):
            raise pa.ArrowInvalid("out of range")
        return pc.cast(whole, options=options)

    return run


def _to_float(source: SqlType, target: SqlType) -> Callable[[Datum], Datum]:
    arrow = to_arrow(target)
    if source.is_integer:
        # Rounds to the nearest; Arrow's safe cast would refuse what has more than 53 bits.
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


def _decimal_to_double(array: pa.Array) -> pa.Array:
    """The nearest DOUBLE. (Arrow's cast multiplies by a power of ten that isn't exact, and misses
    it.) Where the digits and the power of ten are whole numbers that a DOUBLE holds, their quotient
    is it; else reading the text is."""
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
    if any_true(flags):
        name = "DECIMAL" if pa.types.is_decimal(arrow) else "an integer"
        raise DataError(f"cannot convert infinite or NaN to {name}")


def any_true(flags: Datum) -> bool:
    """Whether any value of a BOOLEAN datum is true."""
    return bool(flags.as_py()) if isinstance(flags, pa.Scalar) else bool(flags.true_count)
