"""Random numbers by event: the bits drawn for an event depend only on the seed and its number.

So partitions, restarts and other sizes of batches agree on every event. The mixing function is the
finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
2014), with one draw for each number and stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from runnel.columns.batches import Indexes

if TYPE_CHECKING:
    import numpy.typing as npt

Draws: TypeAlias = "npt.NDArray[np.uint64]"

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GOLDEN_STEP = np.uint64(_GOLDEN)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(_FIRST), np.uint64(_SECOND)
_30, _27, _31, _32 = (np.uint64(bits) for bits in (30, 27, 31, 32))
_LOW_HALF = np.uint64(0xFFFFFFFF)

PRICE_STEPS = 4096
_FRACTION_BITS = 20


def draws(numbers: Indexes, seed: int, stream: int) -> Draws:
    """64 random bits for each number. Different streams are independent."""
    result = numbers.astype(np.uint64)
    result *= _GOLDEN_STEP
    result += np.uint64(_mixed(_mixed(seed & _WORD) + stream))
    shifted = result >> _30
    result ^= shifted
    result *= _FIRST_FACTOR
    np.right_shift(result, _27, out=shifted)
    result ^= shifted
    result *= _SECOND_FACTOR
    np.right_shift(result, _31, out=shifted)
    result ^= shifted
    return result


def _mixed(number: int) -> int:
    """One draw, in Python's integers."""
    number = (number + _GOLDEN) & _WORD
    number = ((number ^ (number >> 30)) * _FIRST) & _WORD
    number = ((number ^ (number >> 27)) * _SECOND) & _WORD
    return number ^ (number >> 31)


def low_below(random: Draws, bound: Indexes | int) -> Indexes:
    """From the low 32 bits a number from 0 to bound - 1 (bounds below 2^31)."""
    scaled = random & _LOW_HALF
    scaled *= np.asarray(bound).astype(np.uint64)
    scaled >>= _32
    return scaled.view(np.int64)


def high_below(random: Draws, bound: Indexes | int) -> Indexes:
    """Like `low_below`, from the high 32 bits."""
    return low_below(random >> _32, bound)


def prices(random: Draws) -> Indexes:
    """From the low 32 bits a price: 10^(6u) units in hundredths, u uniform in [0, 1).

    Interpolated between whole prices by integer arithmetic, so that all machines agree to the last
    digit, whatever their exponential function computes.
    """
    # The upper 12 of the 32 bits select one of the PRICE_STEPS steps; the lower 20 bits are the
    # fraction within the step. Example: 0x80080000 selects step 0x800 = 2048 and the fraction
    # 0x80000 / 2^20 = 1/2: the price is the middle between _BOUNDS[2048] and _BOUNDS[2049].
    bits = random & _LOW_HALF
    steps = (bits >> np.uint64(_FRACTION_BITS)).view(np.int64)
    fractions = (bits & np.uint64((1 << _FRACTION_BITS) - 1)).view(np.int64)
    found: Indexes = _PRICES[steps] + ((_WIDTHS[steps] * fractions) >> _FRACTION_BITS)
    return found


_BOUNDS = np.array(
    [round(10 ** (6 * step / PRICE_STEPS) * 100) for step in range(PRICE_STEPS + 1)], np.int64
)
_PRICES, _WIDTHS = _BOUNDS[:-1], np.diff(_BOUNDS)
