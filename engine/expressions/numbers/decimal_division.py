"""Division of the unscaled integers of DECIMALs, exact for all values of 256 bits.

Arrow's own division of 256 bits is wrong for a few divisors of more than 32 bits: the quotient is
then too small. So short division, by powers of ten and by divisors of at most 32 bits, is done here
on limbs of 32 bits. Any other quotient that Arrow computes is verified by multiplication, and
computed again in Python if it was wrong.

A number is stored as "limbs": a list of arrays, one array per digit to base 2^32, with one value
per row. The first array has the most significant digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.kernels.buffers import validity

if TYPE_CHECKING:
    import numpy.typing as npt

RoundingMode = Literal["half_up", "towards_zero", "down", "up"]
Words: TypeAlias = "npt.NDArray[np.uint64]"
Flags: TypeAlias = "npt.NDArray[np.bool_]"

_CHUNK = 9  # digits of the largest power of ten of at most 32 bits
_LIMB, _MASK = np.uint64(32), np.uint64(2**32 - 1)
_ONE = np.uint64(1)
_MOST_DIGITS = 74  # of a dividend that Arrow can multiply by 100


# For the unscaled integers 12345 and −12355 and digits = 1, rounded half up:
#     limbs     [[12345, 12355]]  one limb is enough
#     negative  [F, T]
#     divisor   10                more than 9 digits are removed in several divisions
#     limbs     [[1234, 1235]]    after _divide
#     rest      [5, 5]            at least half of the divisor, so _add adds one
#     result    1235, −1236
def without_digits(array: pa.Array, digits: int, mode: RoundingMode = "half_up") -> pa.Array:
    """A decimal array with `digits` fewer digits after the point, rounded, as 256 bits.

    If there are fewer digits after the point, the scale becomes negative.
    """
    limbs, negative = _magnitudes(array)
    rest_lost = np.zeros(len(array), np.bool_)
    rest, divisor = np.zeros(len(array), np.uint64), _ONE
    while digits > 0:
        rest_lost |= rest != 0
        divisor = np.uint64(10 ** min(digits, _CHUNK))
        rest = _divide(limbs, divisor, len(array))
        digits -= _CHUNK
    if mode == "half_up":
        _add(limbs, rest >= divisor - divisor // np.uint64(2))
    elif mode != "towards_zero":
        _add(limbs, (rest_lost | (rest != 0)) & (negative if mode == "down" else ~negative))
    return _assembled(limbs, negative, validity(array))


def quotients(dividends: pa.Array, divisors: pa.Array, mode: RoundingMode = "half_up") -> pa.Array:
    """The unscaled integers of two decimal arrays divided, rounded half up or truncated, as
    decimal256(76, 0).

    An array with a single value applies to all rows. Raises ArrowInvalid if a divisor is zero.
    """
    divisor_limbs, divisor_negative = _magnitudes(divisors)
    if len(divisor_limbs) > 1:
        return without_digits(_hundredfold(*_of_one_length(dividends, divisors)), 2, mode)
    divisor = divisor_limbs[0] if divisor_limbs else np.zeros(len(divisors), np.uint64)
    zero = divisor == 0
    if zero.any():
        if (zero & _is_valid(divisors) & _is_valid(dividends)).any():
            raise pa.ArrowInvalid("divide by zero")
        divisor = np.where(zero, _ONE, divisor)
    limbs, negative = _magnitudes(dividends)
    negative, divisor_negative = np.broadcast_arrays(negative, divisor_negative)
    rows = len(negative)
    rest = _divide(limbs, divisor, rows)
    if mode == "half_up":
        _add(limbs, rest >= divisor - divisor // np.uint64(2))
    return _assembled(limbs, negative ^ divisor_negative, _common_validity(dividends, divisors))


def remainders(dividends: pa.Array, divisors: pa.Array) -> pa.Array:
    """The remainders of the unscaled integers of two arrays, with the sign of the dividend, as
    decimal256(76, 0).
    """
    dividends, divisors = (_as_256(item) for item in _of_one_length(dividends, divisors))
    try:
        whole = without_digits(_hundredfold(dividends, divisors), 2, "towards_zero")
    except pa.ArrowInvalid:
        return _by_hand(_remainder, dividends, divisors)
    product = pc.multiply(_declared(whole, 38), _declared(divisors, 37))
    return _declared(pc.subtract(_declared(dividends, 75), _declared(product, 75)), 76)


# For 7 / 2 and −7 / 2:
#     whole    [350, −350]  100 times the quotients, truncated
#     product  [700, 700]   |whole| * |divisor|
#     scaled   [700, 700]   |dividend| * 100
#     rest     [0, 0]       scaled − product
#     right    [T, T]       the quotient is right if 0 <= rest < |divisor|
def _hundredfold(dividends: pa.Array, divisors: pa.Array) -> pa.Array:
    """A hundred times the quotients, truncated: two digits more than the quotient, for rounding.

    Arrow scales a dividend up by p2 + 1 digits. Declaring that the divisor has one digit makes that
    two.
    """
    dividends, divisors = _as_256(dividends), _as_256(divisors)
    try:
        pc.cast(_declared(dividends, 76), pa.decimal256(_MOST_DIGITS, 0))
    except pa.ArrowInvalid:
        return _by_hand(_hundredfold_quotient, dividends, divisors)
    whole = pc.divide(dividends.view(pa.decimal256(_MOST_DIGITS, 4)), _declared(divisors, 1))
    size = pc.abs(_declared(divisors, 37))
    product = pc.multiply(pc.abs(_declared(whole, 38)), size)
    scaled = pc.multiply(pc.abs(_declared(dividends, 70)), _scalar(100, 3))
    rest = pc.subtract(_declared(scaled, 75), _declared(product, 75))
    right = pc.and_(pc.greater_equal(rest, _scalar(0, 76)), pc.less(rest, _declared(size, 76)))
    whole = _declared(whole, 76)
    if right.false_count == 0:
        return whole
    return _by_hand(
        _hundredfold_quotient,
        dividends,
        divisors,
        pc.if_else(right, whole, pa.nulls(1, whole.type)[0]),
    )


def _by_hand(
    operation: Callable[[int, int], int],
    dividends: pa.Array,
    divisors: pa.Array,
    known: pa.Array | None = None,
) -> pa.Array:
    """The operation in Python, on all rows or on the rows where `known` (the results so far) is
    NULL.
    """
    valid = _is_valid(dividends) & _is_valid(divisors)
    rows = np.flatnonzero(valid if known is None else valid & ~_is_valid(known))
    data = bytearray(32 * len(dividends) if known is None else _bytes(known))
    upper, lower = _bytes(dividends), _bytes(divisors)
    for row in rows.tolist():
        span = slice(32 * row, 32 * row + 32)
        dividend = int.from_bytes(upper[span], "little", signed=True)
        divisor = int.from_bytes(lower[span], "little", signed=True)
        if divisor == 0:
            raise pa.ArrowInvalid("divide by zero")
        result = operation(abs(dividend), abs(divisor))
        if result >= 10**76:
            raise pa.ArrowInvalid("too many digits")
        is_negative = (dividend < 0) != (divisor < 0 and operation is not _remainder)
        data[span] = (-result if is_negative else result).to_bytes(32, "little", signed=True)
    bitmap = _common_validity(dividends, divisors)
    return pa.Array.from_buffers(
        pa.decimal256(76, 0), len(dividends), [bitmap, pa.py_buffer(bytes(data))]
    )


def _hundredfold_quotient(dividend: int, divisor: int) -> int:
    return 100 * dividend // divisor


def _remainder(dividend: int, divisor: int) -> int:
    return dividend % divisor


# For the 128-bit integers 2^32 + 5 and −3, of two 64-bit words each, the low one first:
#     words     [[2^32 + 5, 0], [2^64 − 3, 2^64 − 1]]  as unsigned numbers
#     negative  [F, T]                                 the sign bit of the last word
#     _negated  [[2^32 + 5, 3], [0, 0]]                by word: the absolute values
#     limbs     [[5, 3], [1, 0], [0, 0], [0, 0]]       by limb, the low one first
#     result    [[1, 0], [5, 3]]                       zero limbs dropped, the high one first
def _magnitudes(array: pa.Array) -> tuple[list[Words], Flags]:
    """The absolute values as limbs without leading zeros, the most significant limb first; and
    which values are negative.
    """
    width = array.type.bit_width // 64
    words = np.frombuffer(
        array.buffers()[1], np.uint64, width * len(array), 8 * width * array.offset
    ).reshape(-1, width)
    negative = words[:, -1] >> np.uint64(63) != 0
    limbs: list[Words] = []
    for word in _negated([words[:, index] for index in range(width)], negative):
        limbs += [word & _MASK, word >> _LIMB]
    while limbs and not limbs[-1].any():
        limbs.pop()
    return limbs[::-1], negative


def _negated(words: list[Words], negative: Flags) -> list[Words]:
    """Numbers as 64-bit words, the least significant first; the sign of the `negative` ones is
    changed.

    The two's complement of a number is its inverted bits plus one, with the carry through the
    words.
    """
    if not negative.any():
        return words
    carry = negative.astype(np.uint64)
    mask = np.uint64(0) - carry
    result = []
    for word in words:
        changed = (word ^ mask) + carry
        carry &= changed == 0
        result.append(changed)
    return result


# For 2^32 + 5 = [1, 5] (limbs) by 10, in one row:
#     index 0:  dividend 1,           limb 0,          rest 1
#     index 1:  dividend 1·2^32 + 5,  limb 429496730,  rest 1
# The leading zero limb is then dropped.
def _divide(limbs: list[Words], divisor: Words | np.uint64, rows: int) -> Words:
    """Divides in place by numbers of at most 32 bits, and returns the remainders."""
    rest: Words = np.zeros(rows, np.uint64)
    for index, limb in enumerate(limbs):
        dividend = limb if index == 0 else (rest << _LIMB) | limb
        limbs[index] = dividend // divisor
        rest = dividend - limbs[index] * divisor
    while limbs and not limbs[0].any():
        del limbs[0]
    return rest


def _add(limbs: list[Words], more: Flags) -> None:
    """Adds one in place to the numbers where `more` is true."""
    carry = more.astype(np.uint64)
    for index in range(len(limbs) - 1, -1, -1):
        if not carry.any():
            return
        total = limbs[index] + carry
        limbs[index], carry = total & _MASK, total >> _LIMB
    if carry.any():
        limbs.insert(0, carry)


def _assembled(limbs: list[Words], negative: Flags, bitmap: pa.Buffer | None) -> pa.Array:
    """Limbs and signs as a decimal256(76, 0) array."""
    rows = len(negative)
    words: list[Words] = [np.zeros(rows, np.uint64) for _ in range(4)]
    for index, limb in enumerate(reversed(limbs)):
        words[index // 2] |= limb << _LIMB if index % 2 else limb
    result = np.empty((rows, 4), np.uint64)
    for index, word in enumerate(_negated(words, negative)):
        result[:, index] = word
    return pa.Array.from_buffers(pa.decimal256(76, 0), rows, [bitmap, pa.py_buffer(result)])


def _of_one_length(first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both arrays with equal lengths: a single value is repeated."""
    if len(first) == len(second):
        return first, second
    return (
        (pa.repeat(first[0], len(second)), second)
        if len(first) == 1
        else (first, pa.repeat(second[0], len(first)))
    )


def _common_validity(first: pa.Array, second: pa.Array) -> pa.Buffer | None:
    if first.null_count == 0 and second.null_count == 0:
        return None
    return pa.py_buffer(np.packbits(_is_valid(first) & _is_valid(second), bitorder="little"))


def _is_valid(array: pa.Array) -> Flags:
    bitmap = validity(array)
    return np.ones(len(array), np.bool_) if bitmap is None else _flags(bitmap, len(array))


def _flags(bits: pa.Buffer, rows: int) -> Flags:
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=rows, bitorder="little").view(
        np.bool_
    )


def _as_256(array: pa.Array) -> pa.Array:
    if array.type.bit_width == 256:
        return array
    return pc.cast(array, pa.decimal256(array.type.precision, array.type.scale))


def _declared(array: pa.Array, digits: int) -> pa.Array:
    """The same unscaled integers, declared to have `digits` digits."""
    return array.view(pa.decimal256(digits, 0))


def _scalar(value: int, digits: int) -> pa.Scalar:
    data = pa.py_buffer(value.to_bytes(32, "little"))
    return pa.Array.from_buffers(pa.decimal256(digits, 0), 1, [None, data])[0]


def _bytes(array: pa.Array) -> bytes:
    return bytes(array.buffers()[1][32 * array.offset : 32 * (array.offset + len(array))])
