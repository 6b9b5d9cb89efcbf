"""Division of DECIMAL's whole numbers, exact for all that 256 bits hold.

Arrow's own division of 256 bits is wrong for a few numbers whose divisor has more than 32 bits: the
quotient then comes out too small. So what can be done by short division, which are powers of ten
and divisors of at most 32 bits, is done here on limbs of 32 bits; any other quotient of Arrow's is
multiplied out again, and worked out in Python where it was wrong.
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

_CHUNK = 9  # digits whose power of ten is a divisor of at most 32 bits
_LIMB, _MASK = np.uint64(32), np.uint64(2**32 - 1)
_ONE = np.uint64(1)
_MOST_DIGITS = 74  # of a dividend that Arrow can make a hundredfold


def without_digits(array: pa.Array, digits: int, mode: RoundingMode = "half_up") -> pa.Array:
    """A decimal array with `digits` fewer digits after the point (or before it: the scale may
    become negative), rounded, as 256 bits."""
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
    """The whole numbers of two decimal arrays divided, rounded half up or cut, as decimal256(76,
    0); either may have one value for all rows of the other. ArrowInvalid where a divisor is
    zero."""
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
    """What is left of the whole numbers after division, with the sign of the dividend, as
    decimal256(76, 0)."""
    dividends, divisors = (_as_256(item) for item in _of_one_length(dividends, divisors))
    try:
        whole = without_digits(_hundredfold(dividends, divisors), 2, "towards_zero")
    except pa.ArrowInvalid:
        return _by_hand(_remainder, dividends, divisors)
    product = pc.multiply(_declared(whole, 38), _declared(divisors, 37))
    return _declared(pc.subtract(_declared(dividends, 75), _declared(product, 75)), 76)


def _hundredfold(dividends: pa.Array, divisors: pa.Array) -> pa.Array:
    """A hundred times the quotients, cut. Arrow scales a dividend up by p2 + 1 digits of its own: a
    divisor that is said to have one digit makes that two."""
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
    """The operation in Python on all rows, or on those of `known` (what has been worked out) that
    are NULL."""
    valid = _is_valid(dividends) & _is_valid(divisors)
    rows = np.flatnonzero(valid if known is None else valid & ~_is_valid(known))
    data = bytearray(32 * len(dividends) if known is None else _bytes(known))
    upper, lower = _bytes(dividends), _bytes(divisors)
    for row in rows.tolist():
        place = slice(32 * row, 32 * row + 32)
        dividend = int.from_bytes(upper[place], "little", signed=True)
        divisor = int.from_bytes(lower[place], "little", signed=True)
        if divisor == 0:
            raise pa.ArrowInvalid("divide by zero")
        result = operation(abs(dividend), abs(divisor))
        if result >= 10**76:
            raise pa.ArrowInvalid("too many digits")
        is_negative = (dividend < 0) != (divisor < 0 and operation is not _remainder)
        data[place] = (-result if is_negative else result).to_bytes(32, "little", signed=True)
    bitmap = _common_validity(dividends, divisors)
    return pa.Array.from_buffers(
        pa.decimal256(76, 0), len(dividends), [bitmap, pa.py_buffer(bytes(data))]
    )


def _hundredfold_quotient(dividend: int, divisor: int) -> int:
    return 100 * dividend // divisor


def _remainder(dividend: int, divisor: int) -> int:
    return dividend % divisor


def _magnitudes(array: pa.Array) -> tuple[list[Words], Flags]:
    """The absolute values in limbs of 32 bits, the most significant first and none before the first
    that is needed; and which values are negative."""
    width = array.type.bit_width // 64
    words = np.frombuffer(
        array.buffers()[1], np.uint64, width * len(array), 8 * width * array.offset
    ).reshape(-1, width)
    negative = words[:, -1] >> np.uint64(63) != 0
    limbs: list[Words] = []
    for word in _negated([words[:, place] for place in range(width)], negative):
        limbs += [word & _MASK, word >> _LIMB]
    while limbs and not limbs[-1].any():
        limbs.pop()
    return limbs[::-1], negative


def _negated(words: list[Words], negative: Flags) -> list[Words]:
    """Numbers in words of 64 bits, the least significant first, those that are `negative` with the
    other sign."""
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


def _divide(limbs: list[Words], divisor: Words | np.uint64, rows: int) -> Words:
    """Divides in place by numbers of at most 32 bits; gives the remainders."""
    rest: Words = np.zeros(rows, np.uint64)
    for place, limb in enumerate(limbs):
        part = limb if place == 0 else (rest << _LIMB) | limb
        limbs[place] = part // divisor
        rest = part - limbs[place] * divisor
    while limbs and not limbs[0].any():
        del limbs[0]
    return rest


def _add(limbs: list[Words], more: Flags) -> None:
    """Adds one in place to the numbers that are to have one more."""
    carry = more.astype(np.uint64)
    for place in range(len(limbs) - 1, -1, -1):
        if not carry.any():
            return
        total = limbs[place] + carry
        limbs[place], carry = total & _MASK, total >> _LIMB
    if carry.any():
        limbs.insert(0, carry)


def _assembled(limbs: list[Words], negative: Flags, bitmap: pa.Buffer | None) -> pa.Array:
    rows = len(negative)
    words: list[Words] = [np.zeros(rows, np.uint64) for _ in range(4)]
    for place, limb in enumerate(reversed(limbs)):
        words[place // 2] |= limb << _LIMB if place % 2 else limb
    result = np.empty((rows, 4), np.uint64)
    for place, word in enumerate(_negated(words, negative)):
        result[:, place] = word
    return pa.Array.from_buffers(pa.decimal256(76, 0), rows, [bitmap, pa.py_buffer(result)])


def _of_one_length(first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
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
    """The same whole numbers, said to have so many digits."""
    return array.view(pa.decimal256(digits, 0))


def _scalar(value: int, digits: int) -> pa.Scalar:
    data = pa.py_buffer(value.to_bytes(32, "little"))
    return pa.Array.from_buffers(pa.decimal256(digits, 0), 1, [None, data])[0]


def _bytes(array: pa.Array) -> bytes:
    return bytes(array.buffers()[1][32 * array.offset : 32 * (array.offset + len(array))])
