"""DECIMAL arithmetic: the rule table for result types, and the kernels that follow it.

| operation | digits | scale | if that is more than 38 digits |
|---|---|---|---|
| x + y, x − y | max(p1−s1, p2−s2) + max(s1, s2) + 1 | max(s1, s2) | see below |
| x * y | p1 + p2 | s1 + s2 | see below |
| x / y | p1−s1+s2 + scale | max(16, s1) | the scale is reduced, not below 6 |
| x % y | of the common type | of the common type | the scale is reduced, not below 6 |

A sum keeps its scale and has 38 digits if the operands' own digits fit in 38; otherwise it has the
common type, whose scale is reduced, not below 6, and the sum is rounded half up.
A product keeps its scale and has 38 digits, of which at least 20 are before the point if its
factors have as many. One that has more digits than that is a DataError, so no digit is lost in
silence. The exception is a product with a factor of scale 16, as quotients have: it has scale 16,
too, and is rounded half up, as its factor was already.
A result that has more digits than its type is a DataError. Intermediate results that may not fit in
128 bits are computed in 256 bits; sums and products of numbers that fit in 64 bits, as most do, in
128.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.function import Datum, Kernel
from runnel.sqltypes import (
    MAX_PRECISION,
    SqlType,
    as_decimal,
    capped_decimal,
    common_type,
    decimal,
    to_arrow,
)

if TYPE_CHECKING:
    from runnel.expressions.numbers.decimal_division import RoundingMode

_WIDE = 76
"""The precision of intermediate results of 256 bits."""

_QUOTIENT_SCALE = 16
"""The least scale of a quotient."""

_WHOLE_DIGITS = 20
"""The digits before the point that a product may have, unless a factor has fewer."""


def add_type(left: SqlType, right: SqlType) -> SqlType:
    common = common_type(left, right)
    assert common is not None
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + max(left.scale, right.scale) > MAX_PRECISION:
        return common
    return decimal(min(common.precision + 1, MAX_PRECISION), common.scale)


def multiply_type(left: SqlType, right: SqlType) -> SqlType:
    precision, scale = left.precision + right.precision, left.scale + right.scale
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    if _is_rounded(left, right):
        return decimal(MAX_PRECISION, _QUOTIENT_SCALE)
    most = MAX_PRECISION - min(_WHOLE_DIGITS, precision - scale)
    return decimal(MAX_PRECISION, min(scale, max(most, left.scale, right.scale)))


def _is_rounded(left: SqlType, right: SqlType) -> bool:
    """Whether a product of more than 38 digits is rounded: a factor has the scale of a quotient."""
    return _QUOTIENT_SCALE in (left.scale, right.scale)


def divide_type(left: SqlType, right: SqlType) -> SqlType:
    scale = max(_QUOTIENT_SCALE, left.scale)
    return capped_decimal(left.precision - left.scale + right.scale + scale, scale)


def remainder_type(left: SqlType, right: SqlType) -> SqlType:
    common = common_type(as_decimal(left), as_decimal(right))
    assert common is not None
    return common


def add_can_fail(left: SqlType, right: SqlType) -> bool:
    """Whether a sum of values of these types may have more than 38 digits."""
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return whole + max(left.scale, right.scale) + 1 > MAX_PRECISION


def multiply_can_fail(left: SqlType, right: SqlType) -> bool:
    """Whether a product of values of these types may have more than 38 digits."""
    return left.precision + right.precision > MAX_PRECISION


def add_kernel(name: str, left: SqlType, right: SqlType, result: SqlType) -> Kernel:
    """The kernel of x + y or x − y; `name` is "add" or "subtract"."""
    operation: Kernel = pc.add if name == "add" else pc.subtract
    if not add_can_fail(left, right):
        return operation
    first, second, target = _wide(left), _wide(right), to_arrow(result)
    short_left, short_right = pa.decimal128(_SHORT, left.scale), pa.decimal128(_SHORT, right.scale)
    may_be_short = abs(left.scale - right.scale) < _SHORT

    def run(a: Datum, b: Datum) -> Datum:
        if may_be_short and is_short(a) and is_short(b):
            return to_scale(operation(_declare(a, short_left), _declare(b, short_right)), target)
        return to_scale(operation(pc.cast(a, first), pc.cast(b, second)), target)

    return run


def multiply_kernel(left: SqlType, right: SqlType, result: SqlType) -> Kernel:
    target = to_arrow(result)
    if left.precision + right.precision < MAX_PRECISION:

        def narrow(a: Datum, b: Datum) -> Datum:
            return pc.cast(pc.multiply(a, b), target)

        return narrow
    first, second = _wide(left), _wide(right)
    # The product has, in Arrow, a type of p1 + p2 + 1 digits, and refuses 77. A product of 38 by 38
    # digits has at most 76. So the first factor is declared with one digit less than it may have
    # (and with one digit less of scale, if all its digits are after the point).
    digits = max(left.precision - 1, 1)
    declared = pa.decimal256(digits, min(left.scale, digits))
    product = pa.decimal256(_WIDE, left.scale + right.scale)
    short_left, short_right = (
        pa.decimal128(_SHORT - 1, left.scale),
        pa.decimal128(_SHORT - 1, right.scale),
    )
    # A cast fails if it would drop a digit other than 0.
    convert = to_scale if _is_rounded(left, right) else pc.cast

    def run(a: Datum, b: Datum) -> Datum:
        if is_short(a) and is_short(b):
            return convert(pc.multiply(_declare(a, short_left), _declare(b, short_right)), target)
        exact = pc.multiply(_declare(pc.cast(a, first), declared), pc.cast(b, second))
        return convert(_declare(exact, product), target)

    return run


def divide_kernel(left: SqlType, right: SqlType, result: SqlType) -> Kernel:
    """The kernel of x / y, which rounds half up.

    The dividend is scaled up so that the quotient of the unscaled integers has the result's scale.
    If the dividend has a larger scale already, the quotient is truncated first, which changes no
    digit that decides the rounding.
    """
    # Loaded on first use: only what divides needs it.
    from runnel.expressions.numbers.decimal_division import quotients

    target = to_arrow(result)
    scale = max(result.scale + right.scale, left.scale)
    mode: RoundingMode = "half_up" if scale == result.scale + right.scale else "towards_zero"
    is_narrow = left.precision - left.scale + scale <= MAX_PRECISION
    dividend = pa.decimal128(MAX_PRECISION, scale) if is_narrow else pa.decimal256(_WIDE, scale)
    quotient = pa.decimal256(_WIDE, scale - right.scale)
    null = pa.nulls(1, to_arrow(left))[0]

    def exact(a: pa.Array, b: pa.Array) -> pa.Array:
        return quotients(a, b, mode).view(quotient)

    def run(a: Datum, b: Datum) -> Datum:
        a = pc.if_else(pc.is_valid(b), a, null)  # a NULL quotient must not fail by its digits
        return to_scale(_over_arrays(exact, pc.cast(a, dividend), b), target)

    return run


def remainder_kernel(left: SqlType, right: SqlType, result: SqlType) -> Kernel:
    scale, target = max(left.scale, right.scale), to_arrow(result)
    if max(left.precision - left.scale, right.precision - right.scale) + scale <= MAX_PRECISION:
        narrow = pa.decimal128(MAX_PRECISION, scale)
        return lambda a, b: to_scale(pc.remainder(pc.cast(a, narrow), pc.cast(b, narrow)), target)
    from runnel.expressions.numbers.decimal_division import remainders

    wide = pa.decimal256(_WIDE, scale)

    def run(a: Datum, b: Datum) -> Datum:
        rest = _over_arrays(remainders, pc.cast(a, wide), pc.cast(b, wide))
        return to_scale(_declare(rest, wide), target)

    return run


def _over_arrays(kernel: Kernel, a: Datum, b: Datum) -> Datum:
    """A kernel over two arrays, one of which may have a single value; for two scalars the result is
    a scalar.
    """
    first, second = (pa.repeat(item, 1) if isinstance(item, pa.Scalar) else item for item in (a, b))
    result = kernel(first, second)
    return result[0] if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar) else result


_SHORT = 19
"""The digits that a number of 64 bits may have."""


# For the values 5 and −7, and 2^64, as 128-bit integers of two 64-bit words, the low one first:
#     words[::2]        [5, −7, 0]    the low words
#     words[::2] >> 63  [0, −1, 0]    the high word of a number that fits in 64 bits
#     words[1::2]       [0, −1, 1]    the high words: 2^64 doesn't fit
def is_short(datum: Datum) -> bool:
    """Whether the unscaled integers of a 128-bit datum all fit in 64 bits, so that sums and
    products fit in 128.
    """
    array = pa.repeat(datum, 1) if isinstance(datum, pa.Scalar) else datum
    words = np.frombuffer(
        array.buffers()[1], dtype=np.int64, count=2 * len(array), offset=16 * array.offset
    )
    return not ((words[::2] >> 63) != words[1::2]).any()


def to_scale(datum: Datum, target: pa.DataType) -> Datum:
    """A decimal datum in another DECIMAL type, rounded half up; ArrowInvalid if it has too many
    digits.
    """
    surplus = datum.type.scale - target.scale
    return pc.cast(rounded(datum, surplus) if surplus > 0 else datum, target)


def rounded(datum: Datum, digits: int, mode: RoundingMode = "half_up") -> Datum:
    """A decimal datum with `digits` fewer digits, as decimal256(76, its scale − `digits`); see
    `without_digits`.
    """
    from runnel.expressions.numbers.decimal_division import without_digits

    if isinstance(datum, pa.Scalar):
        return rounded(pa.repeat(datum, 1), digits, mode)[0]
    return without_digits(datum, digits, mode).view(pa.decimal256(_WIDE, datum.type.scale - digits))


def _wide(sql_type: SqlType) -> pa.DataType:
    return pa.decimal256(sql_type.precision, sql_type.scale)


def _declare(datum: Datum, declared: pa.DataType) -> Datum:
    """The same unscaled integers with another precision and scale, unchecked."""
    if isinstance(datum, pa.Scalar):
        return pa.repeat(datum, 1).view(declared)[0]
    return datum.view(declared)
