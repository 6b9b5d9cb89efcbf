"""Timestamps from numbers of units since 1970, and numbers of whole units between timestamps."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.function import Datum, always_may_fail
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.signature import by_value, named, signature
from runnel.sqltypes import BIGINT, TIMESTAMP, VARCHAR

_DURATIONS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_MONTHS = {
    "month": 1,
    "quarter": 3,
    "year": 12,
    "decade": 120,
    "century": 1200,
    "millennium": 12000,
}
_SHORT_NAMES = {
    "microsecond": "us usec usecs",
    "millisecond": "ms msec msecs",
    "second": "s sec secs",
    "minute": "m min mins",
    "hour": "h hr hrs",
    "day": "d dayofmonth",
    "week": "w",
    "month": "mon mons",
    "year": "y yr yrs",
    "decade": "dec decs",
    "century": "c cent cents centuries",
    "millennium": "mil mils millennia millenium",
}
_NAMES = {name: unit for unit, names in _SHORT_NAMES.items() for name in names.split()}


def _complete_units(unit: str, start: datetime, end: datetime) -> int:
    """How many whole units fit between two timestamps; negative if the end is before the start."""
    word = unit.lower()
    word = _NAMES.get(word, word)
    if word not in _DURATIONS and word not in _MONTHS:
        word = word.removesuffix("s")
    if word in _DURATIONS:
        whole = abs(end - start) // _DURATIONS[word]
        return whole if end >= start else -whole
    if word not in _MONTHS:
        known = ", ".join([*_DURATIONS, *_MONTHS])
        raise DataError(f"'{unit}' is not a unit of time", hint=f"the units are {known}")
    low, high = min(start, end), max(start, end)
    months = (high.year - low.year) * 12 + high.month - low.month
    if _after_month_start(high) < _after_month_start(low) and not (
        _is_last_day(high) and high.day < low.day and high.time() >= low.time()
    ):
        months -= 1
    whole = months // _MONTHS[word]
    return whole if end >= start else -whole


def _after_month_start(value: datetime) -> timedelta:
    return value - value.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _is_last_day(value: datetime) -> bool:
    return (value.month == 12 and value.day == 31) or (
        value.month != 12
        and value.day == (value.replace(month=value.month + 1, day=1) - timedelta(1)).day
    )


def _of_units(micros: int) -> object:
    """The kernel of timestamps from a number of units; `micros` is the length of a unit in µs."""

    def run(count: Datum) -> Datum:
        product = pc.multiply_checked(count, pack_scalar(micros, BIGINT))
        return pc.cast(product, pa.timestamp("us"))

    return run


FUNCTIONS = (
    by_value(
        "complete_units",
        "unit VARCHAR, start TIMESTAMP, end TIMESTAMP",
        [VARCHAR, TIMESTAMP, TIMESTAMP],
        BIGINT,
        _complete_units,
        family="date-time",
        can_fail=always_may_fail,
    ),
    named(
        "make_timestamp_ms",
        "milliseconds BIGINT",
        "TIMESTAMP",
        signature(BIGINT, result=TIMESTAMP),
        kernel=_of_units(1000),  # type: ignore[arg-type]
        can_fail=always_may_fail,
        family="date-time",
    ),
    named(
        "make_timestamp_us",
        "microseconds BIGINT",
        "TIMESTAMP",
        signature(BIGINT, result=TIMESTAMP),
        kernel=_of_units(1),  # type: ignore[arg-type]
        can_fail=always_may_fail,
        family="date-time",
    ),
)
