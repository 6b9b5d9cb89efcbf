"""Clock changes after 2037. Arrow reads the tables of zones, which end there, and not the rule that holds ever after.

Only values beyond the tables come here. The rule is Python's; it is asked once for each quarter of an hour among them, since
clocks change at full ones.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import Numbers, from_numbers, numbers, validity
from runnel.expressions.function import Datum

END_US = 2_145_830_400_000_000
"""2037-12-31: later values are worked out here."""
_LAST_US = 253_402_128_000_000_000
"""9999-12-30: beyond it Python has no local time everywhere; no clock changes at that time of the year."""
_BLOCK_US = 900_000_000
_EPOCH = datetime(1970, 1, 1)
_INT64 = pa.int64()
Shifts = Callable[[Numbers, ZoneInfo], tuple[Numbers, Numbers]]
"""For blocks the moments at which they begin, −1 for that at which they do, and what is to be added."""


def far_local(datum: Datum, near: Datum, zone: str) -> Datum:
    """Instants as local time in `zone`; `near` is what Arrow makes of them."""
    return _replaced(datum, near, zone, _from_instants)


def far_instant(datum: Datum, near: Datum, zone: str) -> Datum:
    """Local times in `zone` as instants: skipped ones are the moment of the change, of two the first is taken."""
    return _replaced(datum, near, zone, _from_local)


def _replaced(datum: Datum, near: Datum, zone: str, shifts: Shifts) -> Datum:
    if isinstance(datum, pa.Scalar):
        return _shifted(pa.repeat(datum, 1), pa.repeat(near, 1), zone, shifts)[0]
    return _shifted(datum, near, zone, shifts)


def _shifted(array: pa.Array, near: pa.Array, zone: str, shifts: Shifts) -> pa.Array:
    micros = numbers(pc.cast(array, _INT64), np.int64)
    made = numbers(pc.cast(near, _INT64), np.int64).copy()
    valid = validity(array)
    is_far = micros >= END_US if valid is None else valid & (micros >= END_US)
    far = micros[is_far]
    blocks, places = np.unique(far // _BLOCK_US, return_inverse=True)
    starts, shift = shifts(blocks, ZoneInfo(zone))
    made[is_far] = np.where(starts[places] >= 0, starts[places], far) + shift[places]
    return from_numbers(made, near.type, valid)


def _from_instants(blocks: Numbers, zone: ZoneInfo) -> tuple[Numbers, Numbers]:
    shifts = [_offset(_moment(block).replace(tzinfo=UTC).astimezone(zone)) for block in blocks.tolist()]
    return np.full(len(blocks), -1), np.array(shifts, np.int64)


def _from_local(blocks: Numbers, zone: ZoneInfo) -> tuple[Numbers, Numbers]:
    """Blocks that the clock skips begin, all of them, at the moment of the change."""
    starts, shifts = [], []
    for block in blocks.tolist():
        wall = _moment(block).replace(tzinfo=zone)
        before, after = _offset(wall), _offset(wall.replace(fold=1))
        if after > before:
            starts.append(_change(block * _BLOCK_US - after, zone, after))
            shifts.append(0)
        else:
            starts.append(-1)
            shifts.append(-before)
    return np.array(starts, np.int64), np.array(shifts, np.int64)


def _change(micros: int, zone: ZoneInfo, after: int) -> int:
    """The moment from which on the offset is `after`; it is at most two hours behind."""
    block = micros // _BLOCK_US
    while _offset(_moment(block).replace(tzinfo=UTC).astimezone(zone)) != after:
        block += 1
    return block * _BLOCK_US


def _moment(block: int) -> datetime:
    return _EPOCH + timedelta(microseconds=min(block * _BLOCK_US, _LAST_US))


def _offset(moment: datetime) -> int:
    return (moment.utcoffset() or timedelta()) // timedelta(microseconds=1)
