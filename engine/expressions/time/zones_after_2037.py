"""Clock changes after 2037, where Arrow's time zone tables end.

Arrow reads the tables of a zone, but not the rule that applies after their end. This module handles
only values after that. Python's zoneinfo knows the rule. It is evaluated once for each distinct
quarter of an hour among the values, since clocks change at full quarters.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, numbers, validity
from runnel.expressions.function import Datum

END_US = 2_145_830_400_000_000
"""2037-12-31, in µs from the epoch: later values are converted in this module."""
_LAST_US = 253_402_128_000_000_000
"""9999-12-30: Python doesn't have local times in every zone after it. No clock changes at that time
of the year.
"""
_BLOCK_US = 900_000_000
"""A quarter of an hour."""
_EPOCH = datetime(1970, 1, 1)
_INT64 = pa.int64()
Shift = Callable[[datetime, ZoneInfo], int]
"""The µs to add to the times of the block that begins at a given timestamp."""


def far_local(datum: Datum, near: Datum, zone: str) -> Datum:
    """Instants as local time in `zone`; `near` is Arrow's result, in which the values after 2037
    are replaced.
    """
    return _replaced(datum, near, zone, _of_instant)


def far_instant(datum: Datum, near: Datum, zone: str) -> Datum:
    """Local times in `zone` as instants; `near` is as in `far_local`.

    A local time in a gap is converted with the offset before the gap; of the two instants of an
    ambiguous local time, the second is used.
    """
    return _replaced(datum, near, zone, _of_local)


def _replaced(datum: Datum, near: Datum, zone: str, shift: Shift) -> Datum:
    if isinstance(datum, pa.Scalar):
        return _shifted(pa.repeat(datum, 1), pa.repeat(near, 1), zone, shift)[0]
    return _shifted(datum, near, zone, shift)


# For the instants 2030-01-01, 2050-07-01 12:00 and 2050-07-01 12:05 in Europe/Berlin:
#     is_far     [F, T, T]
#     blocks     one: the quarter of an hour that begins on 2050-07-01 12:00
#     positions  [0, 0]       for each far value, the index of its block
#     shifts     [2 hours]    by block
#     result     Arrow's value for 2030, and 14:00 and 14:05 on 2050-07-01
def _shifted(array: pa.Array, near: pa.Array, zone: str, shift: Shift) -> pa.Array:
    micros = numbers(pc.cast(array, _INT64), np.int64)
    result = numbers(pc.cast(near, _INT64), np.int64).copy()
    valid = validity(array)
    is_far = micros >= END_US if valid is None else valid & (micros >= END_US)
    far = micros[is_far]
    blocks, positions = np.unique(far // _BLOCK_US, return_inverse=True)
    known = ZoneInfo(zone)
    shifts = np.array([shift(_datetime(block), known) for block in blocks.tolist()], np.int64)
    result[is_far] = far + shifts[positions]
    return from_numbers(result, near.type, valid)


def _of_instant(instant: datetime, zone: ZoneInfo) -> int:
    return _offset(instant.replace(tzinfo=UTC).astimezone(zone))


def _of_local(local: datetime, zone: ZoneInfo) -> int:
    """The shift from local time to UTC.

    Python takes fold 0 as the offset before a change, and fold 1 as the offset after it. The
    smaller offset is the one before a gap, and the one of the second instant of an ambiguous time.
    """
    wall = local.replace(tzinfo=zone)
    return -min(_offset(wall), _offset(wall.replace(fold=1)))


def _datetime(block: int) -> datetime:
    return _EPOCH + timedelta(microseconds=min(block * _BLOCK_US, _LAST_US))


def _offset(instant: datetime) -> int:
    return (instant.utcoffset() or timedelta()) // timedelta(microseconds=1)
