"""DECIMAL arithmetic: the rule table for result types, and kernels that hold to it.

| operation | digits | scale | where 38 digits don't hold it |
|---|---|---|---|
| x + y, x − y | max(p1−s1, p2−s2) + max(s1, s2) + 1 | max(s1, s2) | see below |
| x * y | p1 + p2 | s1 + s2 | the scale is cut, not below 6, half up |
| x / y | p1−s1+s2 + scale | max(16, s1) | the scale is cut, not below 6 |
| x % y | of the common type | of the common type | the scale is cut, not below 6 |

A sum keeps its scale and has 38 digits if the operands' own digits fit those; otherwise it has the common type, whose
scale is cut, not below 6, half up.
A result that has more digits than its type is a DataError. What may not fit 128 bits on the way is worked out in 256;
sums and products of numbers that fit 64 bits, which most are, in 128.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.function import Datum, Kernel
from runnel.sqltypes import MAX_PRECISION, SqlType, as_decimal, capped_decimal, common_type, decimal, to_arrow

_WIDE = 76
HALF_UP = "half_towards_infinity"


def add_type(left: SqlType, right: SqlType) -> SqlType:
    common = common_type(left, right)
    assert common is not None
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + max(left.scale, right.scale) > MAX_PRECISION:
        return common
    return decimal(min(common.precision + 1, MAX_PRECISION), common.scale)


def multiply_type(left: SqlType, right: SqlType) -> SqlType:
    return capped_decimal(left.precision + right.precision, left.scale + right.scale)


def divide_type(left: SqlType, right: SqlType) -> SqlType:
    scale = max(16, left.scale)
    return capped_decimal(left.precision - left.scale + right.scale + scale, scale)


def remainder_type(left: SqlType, right: SqlType) -> SqlType:
    common = common_type(as_decimal(left), as_decimal(right))
    assert common is not None
    return common


def add_can_fail(left: SqlType, right: SqlType) -> bool:
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return whole + max(left.scale, right.scale) + 1 > MAX_PRECISION


def multiply_can_fail(left: SqlType, right: SqlType) -> bool:
    return left.precision + right.precision > MAX_PRECISION


def add_kernel(name: str, left: SqlType, right: SqlType, result: SqlType) -> Kernel:
    """`name` is "add" or "subtract"."""
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
    # Arrow declares p1 + p2 + 1 digits and refuses 77; a product of 38 by 38 digits has 76 at most, so one digit
    # less is declared of the first factor than it may have, and of its scale where it is all scale.
    digits = max(left.precision - 1, 1)
    declared = pa.decimal256(digits, min(left.scale, digits))
    product = pa.decimal256(_WIDE, left.scale + right.scale)
    short_left, short_right = pa.decimal128(_SHORT - 1, left.scale), pa.decimal128(_SHORT - 1, right.scale)

    def run(a: Datum, b: Datum) -> Datum:
        if is_short(a) and is_short(b):
            return to_scale(pc.multiply(_declare(a, short_left), _declare(b, short_right)), target)
        exact = pc.multiply(_declare(pc.cast(a, first), declared), pc.cast(b, second))
        return to_scale(_declare(exact, product), target)

    return run


def divide_kernel(left: SqlType, right: SqlType, result: SqlType) -> Kernel:
    """Rounds half up: one digit more than wanted is worked out (cut, not rounded), which is enough to decide.

    Arrow scales the dividend up by p2 + 1 digits of its own; the divisor is declared to have one digit, which makes that
    two, and the dividend is scaled up to what then gives at least `scale + 1` digits.
    """
    target = to_arrow(result)
    scale = max(result.scale - 1 + right.scale, left.scale)
    dividend = pa.decimal256(_WIDE - 2, scale)
    declared_dividend = pa.decimal256(_WIDE - 2, 4)
    divisor, declared_divisor = _wide(right), pa.decimal256(1, 0)
    quotient = pa.decimal256(_WIDE, scale + 2 - right.scale)

    null = pa.nulls(1, to_arrow(left))[0]

    def run(a: Datum, b: Datum) -> Datum:
        # Arrow checks the digits of dividends whose divisor is NULL, too.
        a = pc.if_else(pc.is_valid(b), a, null)
        numerator = _declare(pc.cast(a, dividend), declared_dividend)
        cut = pc.divide(numerator, _declare(pc.cast(b, divisor), declared_divisor))
        return to_scale(_declare(cut, quotient), target)

    return run


def remainder_kernel(left: SqlType, right: SqlType, result: SqlType) -> Kernel:
    scale = max(left.scale, right.scale)
    wide, target = pa.decimal256(_WIDE, scale), to_arrow(result)

    def run(a: Datum, b: Datum) -> Datum:
        return to_scale(pc.remainder(pc.cast(a, wide), pc.cast(b, wide)), target)

    return run


_SHORT = 19


def is_short(datum: Datum) -> bool:
    """Whether the unscaled numbers of a 128-bit datum all fit 64 bits: sums and products then fit 128."""
    array = pa.repeat(datum, 1) if isinstance(datum, pa.Scalar) else datum
    words = np.frombuffer(array.buffers()[1], dtype=np.int64, count=2 * len(array), offset=16 * array.offset)
    return not ((words[::2] >> 63) != words[1::2]).any()


def to_scale(datum: Datum, target: pa.DataType) -> Datum:
    """A decimal datum in another DECIMAL type: rounded half up, ArrowInvalid where it has too many digits."""
    if datum.type.scale > target.scale:
        if datum.type.bit_width == 128:  # what is rounded up may have a digit more
            full = datum.type.precision == MAX_PRECISION
            wide = pa.decimal256(_WIDE, datum.type.scale) if full else pa.decimal128(datum.type.precision + 1, datum.type.scale)
            datum = pc.cast(datum, wide)
        datum = _rounded(datum, target.scale)
    return pc.cast(datum, target)


def _rounded(datum: Datum, scale: int) -> Datum:
    """Half up, in the same type. Arrow's division of 256 bits is wrong for a few numbers, such as 10^29 − 25·10^-11: what is
    farther from its rounded value than half a unit is rounded by hand."""
    rounded = pc.round(datum, scale, round_mode=HALF_UP)
    if datum.type.bit_width == 128:
        return rounded
    roomy = pa.decimal256(_WIDE - 1, datum.type.scale)
    distance = pc.abs(pc.subtract(_declare(datum, roomy), _declare(rounded, roomy)))
    half = (5 * 10 ** (datum.type.scale - scale - 1)).to_bytes(32, "little")
    wrong = pc.greater(distance, pa.Array.from_buffers(distance.type, 1, [None, pa.py_buffer(half)])[0])
    if not (wrong.as_py() if isinstance(wrong, pa.Scalar) else wrong.true_count):
        return rounded
    values = [
        None if item is None else item.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT) for item in _listed(datum)
    ]
    mended = pa.array(values, datum.type)
    return pc.if_else(wrong, mended if not isinstance(datum, pa.Scalar) else mended[0], rounded)


def _listed(datum: Datum) -> list[Decimal | None]:
    items: list[Decimal | None] = [datum.as_py()] if isinstance(datum, pa.Scalar) else datum.to_pylist()
    return items


_EXACT = Context(prec=100)


def _wide(sql_type: SqlType) -> pa.DataType:
    return pa.decimal256(sql_type.precision, sql_type.scale)


def _declare(datum: Datum, declared: pa.DataType) -> Datum:
    """The same integers under another precision and scale, unchecked."""
    if isinstance(datum, pa.Scalar):
        return pa.repeat(datum, 1).view(declared)[0]
    return datum.view(declared)
