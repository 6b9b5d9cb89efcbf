"""Intervals of months, days and time together: the type INTERVAL.

Its Arrow type has a number of months, of days and of nanoseconds, each with its own sign. They are
kept apart, because a month has no fixed length. Two intervals are compared by their length, in
which a month is 30 days and a day 24 hours, as in PostgreSQL and DuckDB. The length is a BIGINT in
µs, which is what sorts, groups and joins read (`planner/rules/interval_keys.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_numbers, numbers, validity
from runnel.errors import DataError
from runnel.expressions.function import Kernel, over_first
from runnel.expressions.kernels.buffers import DAY_US, LONGEST_DAYS, pack
from runnel.expressions.kernels.python_values import MIXED, Interval, mixed_parts
from runnel.expressions.time import intervals
from runnel.sqltypes import INTERVAL_MIXED, VARCHAR, Kind, SqlType

if TYPE_CHECKING:
    import numpy.typing as npt

    from runnel.columns.batches import Mask

    Parts: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]

_ARROW = pa.month_day_nano_interval()
_CLOCK_DAYS = 100_000
"""The days of time from which µs are carried over to the days, so that nanoseconds fit 64 bits."""
MONTH_DAYS = 30
"""The days of a month in comparisons, fractions of months, and JUSTIFY_DAYS."""


def interval_array(months: Any, days: Any, micros: Any, valid: Mask | None = None) -> pa.Array:
    """An array of INTERVAL; DataError if a number is out of range."""
    if np.abs(micros, dtype=np.float64).max(initial=0) >= _CLOCK_DAYS * DAY_US:
        carried = quotient(micros, DAY_US)
        days, micros = days + carried, micros - carried * DAY_US
    length = np.abs(months.astype(np.float64) * MONTH_DAYS + days)
    widest = max(np.abs(part, dtype=np.float64).max(initial=0) for part in (months, days))
    if widest >= 2**31 or length.max(initial=0) >= LONGEST_DAYS:
        raise DataError("interval out of range")
    packed = np.empty(len(months), MIXED)
    packed["months"], packed["days"], packed["nanoseconds"] = months, days, micros * 1000
    return from_numbers(packed, _ARROW, valid)


def quotient(values: Any, unit: int) -> Any:
    """The quotient towards zero."""
    return np.sign(values) * (np.abs(values) // unit)


def cleared_parts(array: pa.Array) -> tuple[Parts, Mask | None]:
    """The months, days and µs, with zeros where the value is NULL, and where it is not NULL."""
    valid = validity(array)
    months, days, micros = mixed_parts(array)
    if valid is None:
        return (months, days, micros), None
    return (months * valid, days * valid, micros * valid), valid


def of_months(array: pa.Array) -> pa.Array:
    """An interval of months as INTERVAL."""
    valid = validity(array)
    months = numbers(array, np.int32).astype(np.int64)
    months = months if valid is None else months * valid
    zeros = np.zeros(len(months), np.int64)
    return interval_array(months, zeros, zeros, valid)


def of_duration(array: pa.Array) -> pa.Array:
    """An interval of days and less as INTERVAL, in which 24 hours are a day."""
    valid = validity(array)
    micros = numbers(array, np.int64)
    micros = micros if valid is None else micros * valid
    days = quotient(micros, DAY_US)
    return interval_array(np.zeros(len(days), np.int64), days, micros - days * DAY_US, valid)


def to_months(array: pa.Array) -> pa.Array:
    """The months; DataError if an interval has days or less."""
    (months, days, micros), valid = cleared_parts(array)
    if np.any(days) or np.any(micros):
        raise DataError("the interval has days, or less", hint=_EXTRACT)
    return from_numbers(months.astype(np.int32), pa.int32(), valid)


def to_duration(array: pa.Array) -> pa.Array:
    """The days and less; DataError if an interval has months."""
    (months, days, micros), valid = cleared_parts(array)
    if np.any(months):
        raise DataError("the interval has months, which have no fixed length", hint=_EXTRACT)
    return from_numbers(summed(days, micros), pa.duration("us"), valid)


_EXTRACT = "EXTRACT(MONTH FROM x), EXTRACT(DAY FROM x) and others return the fields"


def summed(days: Any, micros: Any) -> Any:
    """Days and µs as µs; DataError if they exceed 64 bits."""
    if (np.abs(days.astype(np.float64) * DAY_US + micros) >= LONGEST_DAYS * DAY_US).any():
        raise DataError("interval out of range")
    return days * DAY_US + micros


def months_of(array: pa.Array) -> pa.Array:
    """The number of months, as an interval of months."""
    (months, _, _), valid = cleared_parts(array)
    return from_numbers(months.astype(np.int32), pa.int32(), valid)


def duration_of(array: pa.Array) -> pa.Array:
    """The days and the time without the months, as an interval of days and less."""
    (_, days, micros), valid = cleared_parts(array)
    return from_numbers(summed(days, micros), pa.duration("us"), valid)


def length(array: pa.Array) -> pa.Array:
    """The length in µs, in which a month is 30 days."""
    (months, days, micros), valid = cleared_parts(array)
    return from_numbers(summed(months * MONTH_DAYS + days, micros), pa.int64(), valid)


def add(left: pa.Array, right: pa.Array, sign: int) -> pa.Array:
    """The sum or the difference, part by part."""
    first, valid = cleared_parts(left)
    second, also = cleared_parts(right)
    both = valid if also is None else also if valid is None else valid & also
    months, days, micros = (one + sign * two for one, two in zip(first, second, strict=True))
    return interval_array(months, days, micros, both)


def negated(array: pa.Array) -> pa.Array:
    """Each part with the other sign."""
    (months, days, micros), valid = cleared_parts(array)
    return interval_array(-months, -days, -micros, valid)


def scaled(array: pa.Array, factors: pa.Array, divides: bool) -> pa.Array:
    """Each part times a DOUBLE, or divided by it. The fraction of a month goes to the days, and
    the fraction of a day to the time, rounded to whole µs."""
    parts, valid = cleared_parts(array)
    also = validity(factors)
    both = valid if also is None else also if valid is None else valid & also
    factor = numbers(factors, np.float64)
    if both is not None:
        factor = np.where(both, factor, 1.0)
    if not np.isfinite(factor).all() or (divides and (factor == 0).any()):
        raise DataError("division by zero" if divides else "interval out of range")
    months, days, micros = (part / factor if divides else part * factor for part in parts)
    whole_months = np.trunc(months)
    days = days + _nearly_whole((months - whole_months) * MONTH_DAYS)
    whole_days = np.trunc(days)
    rest = np.rint(micros + _nearly_whole(days - whole_days) * DAY_US)
    if max(np.abs(item).max(initial=0) for item in (whole_months, whole_days)) >= 2**31 or (
        np.abs(rest).max(initial=0) >= 2**62
    ):
        raise DataError("interval out of range")
    months, days, micros = (item.astype(np.int64) for item in (whole_months, whole_days, rest))
    return interval_array(months, days, micros, both)


def _nearly_whole(values: Any) -> Any:
    """Values rounded to 10 decimals, as 0.1 * 30 is not 3 in binary."""
    return np.round(values, 10)


def format_intervals(array: pa.Array) -> pa.Array:
    """Intervals as text: 1 year 2 mons 3 days 04:05:06.7."""
    encoded = array.dictionary_encode()
    texts = [
        None
        if value is None
        else str(Interval(value.months, value.days, value.nanoseconds // 1000))
        for value in encoded.dictionary.to_pylist()
    ]
    return pack(texts, VARCHAR).take(encoded.indices)


def parse_intervals(texts: pa.Array) -> pa.Array:
    """Text as intervals; ArrowInvalid for any other text."""
    return intervals.distinct(texts, intervals.interval_of, INTERVAL_MIXED)


_CASTS: dict[tuple[Kind, Kind], Callable[[pa.Array], pa.Array]] = {
    (Kind.INTERVAL, Kind.INTERVAL_MIXED): of_duration,
    (Kind.INTERVAL_MONTH, Kind.INTERVAL_MIXED): of_months,
    (Kind.INTERVAL_MIXED, Kind.INTERVAL): to_duration,
    (Kind.INTERVAL_MIXED, Kind.INTERVAL_MONTH): to_months,
}


def conversion(source: SqlType, target: SqlType) -> Kernel:
    """The cast from one kind of interval to another."""
    return over_first(_CASTS[source.kind, target.kind])


_YEAR_SECONDS = 31_557_600
"""The seconds of a year in EPOCH: of 365.25 days."""


def _fraction(micros: Any, unit: int) -> Any:
    """The seconds of the minute, or smaller units, towards zero."""
    return np.fmod(micros, intervals.MINUTE_US) / unit


def _epoch(months: Any, days: Any, micros: Any) -> Any:
    years = quotient(months, 12)
    days = days + (months - years * 12) * MONTH_DAYS
    return years * float(_YEAR_SECONDS) + days * 86_400.0 + micros / 1e6


def _larger(size: int, months: Any, days: Any, micros: Any) -> Any:
    """The whole units of `size` months."""
    return quotient(months, size)


_FIELDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{unit: partial(_larger, size) for unit, size in intervals.UNIT_MONTHS.items() if size >= 12},
    "quarter": lambda months, days, micros: quotient(np.fmod(months, 12), 3) + 1,
    "month": lambda months, days, micros: np.fmod(months, 12),
    "day": lambda months, days, micros: days,
    "hour": lambda months, days, micros: quotient(micros, intervals.HOUR_US),
    "minute": lambda months, days, micros: quotient(
        np.fmod(micros, intervals.HOUR_US), intervals.MINUTE_US
    ),
    "second": lambda months, days, micros: _fraction(micros, intervals.SECOND_US),
    "millisecond": lambda months, days, micros: _fraction(micros, 1000),
    "microsecond": lambda months, days, micros: np.fmod(micros, intervals.MINUTE_US),
    "epoch": _epoch,
}


def field_kernel(field: str) -> Kernel:
    """The kernel of EXTRACT(field FROM interval): BIGINT, or DOUBLE for fields with fractions."""
    read = _FIELDS[field]

    def run(array: pa.Array) -> pa.Array:
        parts, valid = cleared_parts(array)
        values = read(*parts)
        arrow = pa.float64() if values.dtype == np.float64 else pa.int64()
        return from_numbers(values, arrow, valid)

    return over_first(run)


def truncation(unit: str, micros_of_unit: int | None, months_of_unit: int | None) -> Kernel:
    """The kernel of DATE_TRUNC: the smaller fields become 0, towards zero."""

    def run(array: pa.Array) -> pa.Array:
        (months, days, micros), valid = cleared_parts(array)
        zeros = np.zeros(len(array), np.int64)
        if months_of_unit is not None:
            whole = quotient(months, months_of_unit) * months_of_unit
            return interval_array(whole, zeros, zeros, valid)
        if unit == "day":
            return interval_array(months, days, zeros, valid)
        assert micros_of_unit is not None
        return interval_array(
            months, days, quotient(micros, micros_of_unit) * micros_of_unit, valid
        )

    return over_first(run)
