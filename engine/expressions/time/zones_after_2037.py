"""Clock changes after 2037. Arrow reads the tables of zones, which end there, and not the rule that
holds ever after.

Only values beyond the tables come here. The rule is Python's; it is asked once for each quarter of
an hour among them, since clocks change at full ones.
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
"""2037-12-31: later values are worked out here."""
_LAST_US = 253_402_128_000_000_000
"""9999-12-30: beyond it Python has no local time everywhere; no clock changes at that time of the
year."""
_BLOCK_US = 900_000_000
_EPOCH = datetime(1970, 1, 1)
_INT64 = pa.int64()
Shift = Callable[[datetime, ZoneInfo], int]
"""What is to be added to the times of the block that begins at a timestamp, in µs."""


def far_local(datum: Datum, near: Datum, zone: str) -> Datum:
    """Instants as local time in `zone`; `near` is what Arrow makes of them."""
    return _replaced(datum, near, zone, _of_instant)


def far_instant(datum: Datum, near: Datum, zone: str) -> Datum:
    """Local times in `zone` as instants: skipped ones with the offset before the gap, of two the
    second is taken."""
    return _replaced(datum, near, zone, _of_local)


def _replaced(datum: Datum, near: Datum, zone: str, shift: Shift) -> Datum:
    if isinstance(datum, pa.Scalar):
        return _shifted(pa.repeat(datum, 1), pa.repeat(near, 1), zone, shift)[0]
    return _shifted(datum, near, zone, shift)


def _shifted(array: pa.Array, near: pa.Array, zone: str, shift: Shift) -> pa.Array:
    micros = numbers(pc.cast(array, _INT64), np.int64)
    made = numbers(pc.cast(near, _INT64), np.int64).copy()
    valid = validity(array)
    is_far = micros >= END_US if valid is None else valid & (micros >= END_US)
    far = micros[is_far]
    blocks, places = np.unique(far // _BLOCK_US, return_inverse=True)
    known = ZoneInfo(zone)
    shifts = np.array([shift(_moment(block), known) for block in blocks.tolist()], np.int64)
    made[is_far] = far + shifts[places]
    return from_numbers(made, near.type, valid)


def _of_instant(moment: datetime, zone: ZoneInfo) -> int:
    return _offset(moment.replace(tzinfo=UTC).astimezone(zone))


def _of_local(moment: datetime, zone: ZoneInfo) -> int:
    """Python has the offset before a change as that of fold 0, the one after as that of fold 1. The
    smaller is that before a gap, and that of the second of two times."""
    wall = moment.replace(tzinfo=zone)
    return -min(_offset(wall), _offset(wall.replace(fold=1)))


def _moment(block: int) -> datetime:
    return _EPOCH + timedelta(microseconds=min(block * _BLOCK_US, _LAST_US))


def _offset(moment: datetime) -> int:
    return (moment.utcoffset() or timedelta()) // timedelta(microseconds=1)
