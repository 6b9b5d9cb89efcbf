"""Numbers in JSON text that Arrow's reader may get wrong, found in the bytes of a whole chunk with
numpy."""

from __future__ import annotations

import numpy as np

from runnel.columns.batches import Mask, Numbers

_ZERO, _LOWER_CASE, _EXPONENT = 48, 0x20, 101


def has_long_number(data: bytes, digits: int) -> bool:
    """Whether more than `digits` digits follow each other anywhere in the text, also within
    strings, or a digit is followed by an exponent: `12345678` has more than 7, `1e9` an
    exponent."""
    octets = np.frombuffer(data, np.uint8)
    are_digits = (octets - np.uint8(_ZERO)) < 10
    if (are_digits[:-1] & _are_exponents(octets[1:])).any():
        return True
    return _has_run(are_digits, digits + 1)


def _are_exponents(octets: Numbers) -> Mask:
    found: Mask = (octets | np.uint8(_LOWER_CASE)) == _EXPONENT
    return found


def _has_run(flags: Mask, length: int) -> bool:
    """Whether `length` flags in a row are set. A run of n from each place on is two runs of n / 2,
    so the work is one pass for each doubling: of 1 0 1 1 1 the runs of two begin at 0 0 1 1, those
    of three at 0 0 1."""
    covered = 1
    while covered < length and len(flags):
        step = min(covered, length - covered)
        flags = flags[:-step] & flags[step:]
        covered += step
    return bool(flags.any())
