"""Functions that make dates, times, timestamps and intervals from numbers: MAKE_DATE,
MAKE_INTERVAL, TO_DAYS and similar.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers, numbers, validity
from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.casts.temporal import instant
from runnel.expressions.coercion import check_count
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail, over_arrays
from runnel.expressions.kernels.buffers import DAY_US, pack_scalar
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import named, signature
from runnel.expressions.time.intervals import HOUR_US, MINUTE_US, SECOND_US
from runnel.expressions.time.mixed_intervals import interval_array
from runnel.expressions.time.temporal import check_zone
from runnel.sqltypes import (
    BIGINT,
    DATE,
    DOUBLE,
    INTERVAL,
    INTERVAL_MIXED,
    INTERVAL_MONTH,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARCHAR,
    Kind,
    SqlType,
    to_arrow,
)

_INT64 = pa.int64()


def columns_with_defaults(
    arrays: Sequence[pa.Array], defaults: Sequence[int]
) -> tuple[list[Numbers], Numbers | None]:
    """BIGINT or DOUBLE columns as numpy arrays, and the mask of rows without NULLs (None if no row
    has one).

    In a row with a NULL, every column has its default.
    """
    mask: Numbers | None = None
    for array in arrays:
        valid = validity(array)
        if valid is not None:
            mask = valid if mask is None else mask & valid
    values = [
        numbers(item, np.float64 if pa.types.is_floating(item.type) else np.int64)
        for item in arrays
    ]
    if mask is not None:
        values = [
            np.where(mask, item, default) for item, default in zip(values, defaults, strict=True)
        ]
    return values, mask


def _days_of(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Days since the epoch; DataError for a date that doesn't exist."""
    if ((year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1) | (day > 31)).any():
        raise DataError("there is no such date")
    months = (year - 1970) * 12 + month - 1
    first = months.view("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    following = (months + 1).view("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    if (day > following - first).any():
        raise DataError("there is no such date")
    result: Numbers = first + day - 1
    return result


def _time_of(hour: Numbers, minute: Numbers, second: Numbers) -> Numbers:
    if ((hour < 0) | (hour > 23) | (minute < 0) | (minute > 59)).any() or not (
        (second >= 0) & (second < 60)
    ).all():
        raise DataError("there is no such time of day")
    result: Numbers = (hour * 60 + minute) * MINUTE_US + np.round(second * 1e6).astype(np.int64)
    return result


def _make_date(*arrays: pa.Array) -> pa.Array:
    (year, month, day), mask = columns_with_defaults(arrays, (2000, 1, 1))
    return from_numbers(_days_of(year, month, day).astype(np.int32), pa.date32(), mask)


def _make_time(*arrays: pa.Array) -> pa.Array:
    (hour, minute, second), mask = columns_with_defaults(arrays, (0, 0, 0))
    return from_numbers(_time_of(hour, minute, second) % DAY_US, pa.time64("us"), mask)


def _make_timestamp(*arrays: pa.Array) -> pa.Array:
    (year, month, day, hour, minute, second), mask = columns_with_defaults(
        arrays, (2000, 1, 1, 0, 0, 0)
    )
    micros = _days_of(year, month, day) * DAY_US + _time_of(hour, minute, second)
    return from_numbers(micros, pa.timestamp("us"), mask)


_MAKE = over_arrays(_make_timestamp)


def _make_instant(frame: EvaluationInput, *arguments: Datum) -> Datum:
    if len(arguments) == 6:
        return instant(_MAKE(*arguments), frame.context.zone)
    timestamp, zone = _MAKE(*arguments[:6]), arguments[6]
    if isinstance(zone, pa.Scalar):
        known = check_zone(zone.as_py()) if zone.is_valid else "UTC"
        return pc.if_else(
            pc.is_valid(zone), instant(timestamp, known), pa.nulls(1, pa.timestamp("us", "UTC"))[0]
        )
    raise DataError("the zone of MAKE_TIMESTAMPTZ must be the same for all rows")


def _bind_interval(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """MAKE_INTERVAL(years, months, weeks, days, hours, minutes, seconds): an interval of months, of
    days and time if years and months are 0, or of both.
    """
    if not 1 <= len(arguments) <= 7:
        raise ProgrammingError(
            f"MAKE_INTERVAL expects 1 to 7 arguments, not {len(arguments)}", position=position
        )
    if len(arguments) <= 2:
        return signature(BIGINT, BIGINT, result=INTERVAL_MONTH, optional=1)(
            name, arguments, position
        )
    has_months = not all(isinstance(item, Literal) and item.value == 0 for item in arguments[:2])
    kinds = (*[BIGINT] * 6, DOUBLE)
    result = INTERVAL_MIXED if has_months else INTERVAL
    return signature(*kinds, result=result, optional=4)(name, arguments, position)


_MONTH_COUNTS = (12, 1)
_DAY_COUNTS = (0, 0, 7, 1)
_TIME_COUNTS = (0, 0, 0, 0, HOUR_US, MINUTE_US, SECOND_US)


def _compile_interval(call: Call) -> Kernel:
    if call.type == INTERVAL_MIXED:
        return over_arrays(_make_mixed)
    units = (
        _MONTH_COUNTS
        if call.type == INTERVAL_MONTH
        else (0, 0, 7 * DAY_US, DAY_US, HOUR_US, MINUTE_US, SECOND_US)
    )

    def run(*arrays: pa.Array) -> pa.Array:
        total = _weighted(arrays, units)
        return pc.cast(
            pc.cast(total, pa.int32()) if call.type == INTERVAL_MONTH else total,
            to_arrow(call.type),
        )

    return over_arrays(run)


def _weighted(arrays: Sequence[pa.Array], units: Sequence[int]) -> Datum:
    """The sum of the numbers of units; seconds, which may have a fraction, in µs."""
    total: Datum = pack_scalar(0, BIGINT)
    for array, unit in zip(arrays, units, strict=False):
        if pa.types.is_floating(array.type):
            amount = pc.cast(pc.round(pc.multiply(array, pack_scalar(1e6, DOUBLE))), _INT64)
        else:
            amount = pc.multiply_checked(array, pack_scalar(unit, BIGINT))
        total = pc.add_checked(total, amount)
    return total


def _make_mixed(*arrays: pa.Array) -> pa.Array:
    counts = (_MONTH_COUNTS, _DAY_COUNTS, _TIME_COUNTS)
    sums = [_weighted(arrays, units) for units in counts]
    rows = len(arrays[0])
    valid = np.logical_and.reduce(
        [numbers(pc.cast(item.is_valid(), pa.int8()), np.bool_) for item in arrays]
    )
    months, days, micros = (
        np.where(valid, numbers(item, np.int64), 0)
        if isinstance(item, pa.Array)
        else np.zeros(rows, np.int64)
        for item in sums
    )
    return interval_array(months, days, micros, valid)


_UNITS = {
    "to_microseconds": 1,
    "to_milliseconds": 1000,
    "to_seconds": SECOND_US,
    "to_minutes": MINUTE_US,
    "to_hours": HOUR_US,
    "to_days": DAY_US,
}
_UNITS |= {"to_weeks": 7 * DAY_US}
_MONTHS = {"to_months": 1, "to_quarters": 3, "to_years": 12, "to_decades": 120}


def _of_count(name: str, unit: int, result: SqlType) -> Function:
    """TO_DAYS(n) and similar functions."""
    arrow = to_arrow(result)

    def of_integers(count: Datum) -> Datum:
        product = pc.multiply_checked(count, pack_scalar(unit, BIGINT))
        return pc.cast(pc.cast(product, pa.int32()) if result == INTERVAL_MONTH else product, arrow)

    def of_floats(count: Datum) -> Datum:
        return pc.cast(
            pc.cast(pc.round(pc.multiply(count, pack_scalar(float(unit), DOUBLE))), _INT64), arrow
        )

    def bind(key: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        check_count(key, arguments, 1, position)
        accepts_float = (
            result == INTERVAL and not arguments[0].type.is_integer and arguments[0].type.is_numeric
        )
        return signature(DOUBLE if accepts_float else BIGINT, result=result)(
            key, arguments, position
        )

    def compile_call(call: Call) -> Kernel:
        return of_floats if call.arguments[0].type.kind is Kind.DOUBLE else of_integers

    return named(
        name,
        "count BIGINT",
        str(result),
        bind,
        compile_call,
        can_fail=always_may_fail,
        family="date-time",
    )


def _timestamp(
    name: str, result: SqlType, kinds: Sequence[SqlType], kernel: Kernel, arguments: str
) -> Function:
    bind = signature(*kinds, result=result)
    return named(
        name,
        arguments,
        str(result),
        bind,
        kernel=over_arrays(kernel),
        can_fail=always_may_fail,
        family="date-time",
    )


_SIX = [*[BIGINT] * 5, DOUBLE]
_YMD = "year BIGINT, month BIGINT, day BIGINT"
_HMS = "hour BIGINT, minute BIGINT, second DOUBLE"
FUNCTIONS = (
    _timestamp("make_date", DATE, [BIGINT] * 3, _make_date, _YMD),
    _timestamp("make_time", TIME, [BIGINT, BIGINT, DOUBLE], _make_time, _HMS),
    _timestamp("make_timestamp", TIMESTAMP, _SIX, _make_timestamp, f"{_YMD}, {_HMS}"),
    Function(
        name="make_timestamptz",
        arguments=f"{_YMD}, {_HMS} [, zone VARCHAR]",
        result=str(TIMESTAMP_TZ),
        bind=signature(*_SIX, VARCHAR, result=TIMESTAMP_TZ, optional=1),
        compile=lambda call: _make_instant,
        sql_names=("MAKE_TIMESTAMPTZ",),
        can_fail=always_may_fail,
        needs_frame=True,
        depends_on_session=lambda call: True,
        family="date-time",
    ),
    named(
        "make_interval",
        "years BIGINT [, months, weeks, days, hours, minutes BIGINT, seconds DOUBLE]",
        "INTERVAL",
        _bind_interval,
        _compile_interval,
        can_fail=always_may_fail,
        family="date-time",
    ),
    *(_of_count(name, unit, INTERVAL) for name, unit in _UNITS.items()),
    *(_of_count(name, unit, INTERVAL_MONTH) for name, unit in _MONTHS.items()),
)
