"""Dates and times built, compared, and taken apart: MAKE_DATE and its like, DATE_BIN, DATE_DIFF, AGE, OVERLAPS,
LAST_DAY, names of days and months, YEAR(x) and so on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import Numbers, from_numbers, numbers, validity
from runnel.errors import DataError, Position, ProgrammingError, suggest
from runnel.expressions import extract
from runnel.expressions.buffers import DAY_US, FIRST_US, LAST_US, pack, pack_scalar
from runnel.expressions.cast_temporal import instant, local, today
from runnel.expressions.char_patterns import DAYS, MONTHS
from runnel.expressions.coercion import check_count, coerce, convert
from runnel.expressions.context import Frame
from runnel.expressions.extract import field_name
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail, never_fails, over_arrays, over_first
from runnel.expressions.intervals import HOUR_US, MINUTE_US, SECOND_US, UNIT_US
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import MOMENT, named, signature
from runnel.expressions.temporal import check_zone
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
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


def _columns(arrays: Sequence[pa.Array], defaults: Sequence[int]) -> tuple[list[Numbers], Numbers | None]:
    """BIGINT or DOUBLE columns as numpy, the default where any is NULL, and where none is."""
    mask: Numbers | None = None
    for array in arrays:
        valid = validity(array)
        if valid is not None:
            mask = valid if mask is None else mask & valid
    values = [numbers(item, np.float64 if pa.types.is_floating(item.type) else np.int64) for item in arrays]
    if mask is not None:
        values = [np.where(mask, item, default) for item, default in zip(values, defaults, strict=True)]
    return values, mask


def _days_of(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Days since the epoch; DataError for a date that there isn't."""
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
    if ((hour < 0) | (hour > 23) | (minute < 0) | (minute > 59)).any() or not ((second >= 0) & (second < 60)).all():
        raise DataError("there is no such time of day")
    result: Numbers = (hour * 60 + minute) * MINUTE_US + np.round(second * 1e6).astype(np.int64)
    return result


def _make_date(*arrays: pa.Array) -> pa.Array:
    (year, month, day), mask = _columns(arrays, (2000, 1, 1))
    return from_numbers(_days_of(year, month, day).astype(np.int32), pa.date32(), mask)


def _make_time(*arrays: pa.Array) -> pa.Array:
    (hour, minute, second), mask = _columns(arrays, (0, 0, 0))
    return from_numbers(_time_of(hour, minute, second) % DAY_US, pa.time64("us"), mask)


def _make_timestamp(*arrays: pa.Array) -> pa.Array:
    (year, month, day, hour, minute, second), mask = _columns(arrays, (2000, 1, 1, 0, 0, 0))
    micros = _days_of(year, month, day) * DAY_US + _time_of(hour, minute, second)
    return from_numbers(micros, pa.timestamp("us"), mask)


_MAKE = over_arrays(_make_timestamp)


def _make_instant(frame: Frame, *arguments: Datum) -> Datum:
    if len(arguments) == 6:
        return instant(_MAKE(*arguments), frame.context.zone)
    moment, zone = _MAKE(*arguments[:6]), arguments[6]
    if isinstance(zone, pa.Scalar):
        known = check_zone(zone.as_py()) if zone.is_valid else "UTC"
        return pc.if_else(pc.is_valid(zone), instant(moment, known), pa.nulls(1, pa.timestamp("us", "UTC"))[0])
    raise DataError("the zone of MAKE_TIMESTAMPTZ must be the same for all rows")


def _bind_interval(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """MAKE_INTERVAL(years, months, weeks, days, hours, minutes, seconds): an interval of months, or one of days and time."""
    if not 1 <= len(arguments) <= 7:
        raise ProgrammingError(f"MAKE_INTERVAL takes 1 to 7 arguments, not {len(arguments)}", position=position)
    if len(arguments) <= 2:
        return signature(BIGINT, BIGINT, result=INTERVAL_MONTH, optional=1)(name, arguments, position)
    if not all(isinstance(item, Literal) and item.value == 0 for item in arguments[:2]):
        raise ProgrammingError(
            "an interval can't have both months and days",
            hint="add two intervals to the date, or give 0 for years and months",
            position=position,
        )
    kinds = (*[BIGINT] * 6, DOUBLE)
    return signature(*kinds, result=INTERVAL, optional=4)(name, arguments, position)


def _compile_interval(call: Call) -> Kernel:
    units = (12, 1) if call.type == INTERVAL_MONTH else (0, 0, 7 * DAY_US, DAY_US, HOUR_US, MINUTE_US, SECOND_US)

    def run(*arrays: pa.Array) -> pa.Array:
        total: Datum = pack_scalar(0, BIGINT)
        for array, unit in zip(arrays, units, strict=False):
            if pa.types.is_floating(array.type):
                part = pc.cast(pc.round(pc.multiply(array, pack_scalar(1e6, DOUBLE))), _INT64)
            else:
                part = pc.multiply_checked(array, pack_scalar(unit, BIGINT))
            total = pc.add_checked(total, part)
        return pc.cast(pc.cast(total, pa.int32()) if call.type == INTERVAL_MONTH else total, to_arrow(call.type))

    return over_arrays(run)


_UNITS = {"microseconds": 1, "milliseconds": 1000, "seconds": SECOND_US, "minutes": MINUTE_US, "hours": HOUR_US, "days": DAY_US}
_UNITS |= {"weeks": 7 * DAY_US}
_MONTHS = {"months": 1, "quarters": 3, "years": 12, "decades": 120}


def _of_count(name: str, unit: int, result: SqlType) -> Function:
    """TO_DAYS(n) and its like."""
    arrow = to_arrow(result)

    def of_integers(count: Datum) -> Datum:
        product = pc.multiply_checked(count, pack_scalar(unit, BIGINT))
        return pc.cast(pc.cast(product, pa.int32()) if result == INTERVAL_MONTH else product, arrow)

    def of_floats(count: Datum) -> Datum:
        return pc.cast(pc.cast(pc.round(pc.multiply(count, pack_scalar(float(unit), DOUBLE))), _INT64), arrow)

    def bind(key: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        check_count(key, arguments, 1, position)
        takes_float = result == INTERVAL and not arguments[0].type.is_integer and arguments[0].type.is_numeric
        return signature(DOUBLE if takes_float else BIGINT, result=result)(key, arguments, position)

    def compile_call(call: Call) -> Kernel:
        return of_floats if call.arguments[0].type.kind is Kind.DOUBLE else of_integers

    return named(f"to_{name}", "count BIGINT", str(result), bind, compile_call, can_fail=always_may_fail, family="date-time")


def _bind_bin(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    if len(arguments) not in (2, 3):
        raise ProgrammingError(f"DATE_BIN takes 2 to 3 arguments, not {len(arguments)}", position=position)
    stride = convert(arguments[0], INTERVAL) if arguments[0].type.kind in (Kind.NULL, Kind.VARCHAR) else arguments[0]
    if stride.type.kind is Kind.INTERVAL_MONTH:
        raise ProgrammingError("DATE_BIN has no bins of months", hint="use DATE_TRUNC", position=stride.position or position)
    if stride.type.kind is not Kind.INTERVAL:
        raise ProgrammingError(f"argument 1 of DATE_BIN must be an INTERVAL, not {stride.type}", position=position)
    moments = coerce([*arguments[1:], Expression(type=TIMESTAMP)], "DATE_BIN", position)[:-1]
    if moments[0].type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        raise ProgrammingError(f"argument 2 of DATE_BIN must be a TIMESTAMP, not {arguments[1].type}", position=position)
    return (stride, *moments), moments[0].type


_ORIGIN = 946_684_800_000_000
"""2000-01-01, a Saturday; bins without an origin begin there."""


def _bin(call: Call) -> Kernel:
    arrow = to_arrow(call.type)

    def run(*arrays: pa.Array) -> pa.Array:
        columns = [pc.cast(array, _INT64) for array in arrays]
        values, mask = _columns(columns, (1, 0, 0)[: len(columns)])
        stride, moment = values[0], values[1]
        origin = values[2] if len(values) == 3 else np.full_like(moment, _ORIGIN)
        if (stride <= 0).any():
            raise DataError("the stride of DATE_BIN must be positive")
        start = origin + (moment - origin) // stride * stride
        if ((start < FIRST_US) | (start > LAST_US)).any():
            raise DataError("out of range")
        return from_numbers(start, arrow, mask)

    return over_arrays(run)


_DIFFERENCES = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
)
_PER_MONTH = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}


def _bind_difference(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 3, position)
    unit = field_name(arguments[0], name, position)
    if unit not in _DIFFERENCES:
        raise ProgrammingError(
            f"{name.upper()} doesn't count {unit.upper()}", hint=suggest(unit, _DIFFERENCES), position=arguments[0].position
        )
    moments = coerce(arguments[1:], name.upper(), position)
    moments = [convert(item, TIMESTAMP) if item.type.kind in (Kind.DATE, Kind.NULL, Kind.VARCHAR) else item for item in moments]
    if not all(item.type.is_temporal for item in moments):
        raise ProgrammingError(f"{name.upper()} needs dates or times, not {arguments[1].type}", position=position)
    return (Literal(value=unit, type=VARCHAR, position=arguments[0].position), *moments), BIGINT


def _difference(call: Call) -> Kernel:
    """How many boundaries of the unit lie between two moments, in the session's zone."""
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    kind = call.arguments[1].type.kind

    def count(*arrays: pa.Array) -> pa.Array:
        values, mask = _columns([pc.cast(array, _INT64) for array in arrays], (0, 0))
        first, last = (_boundary(item, str(unit.value)) for item in values)
        return from_numbers(last - first, _INT64, mask)

    counted = over_arrays(count)

    def run(frame: Frame, name: Datum, start: Datum, end: Datum) -> Datum:
        if kind is Kind.TIMESTAMP_TZ:
            start, end = local(start, frame.context.zone), local(end, frame.context.zone)
        return counted(start, end)

    return run


def _boundary(micros: Numbers, unit: str) -> Numbers:
    months = _PER_MONTH.get(unit)
    if months is not None:
        number: Numbers = micros.view("datetime64[us]").astype("datetime64[M]").astype(np.int64) + 1970 * 12
        size = months
    elif unit == "week":
        number, size = micros // DAY_US + 3, 7
    else:
        number, size = micros, UNIT_US[unit]
    boundaries: Numbers = number // size
    return boundaries


def _bind_age(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """AGE(x, y) is x − y; AGE(x) counts from today's midnight."""
    if len(arguments) not in (1, 2):
        raise ProgrammingError(f"AGE takes 1 to 2 arguments, not {len(arguments)}", position=position)
    moments = coerce([*arguments, Expression(type=TIMESTAMP)], "AGE", position)[:-1]
    if not all(item.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ) for item in moments):
        raise ProgrammingError(f"AGE needs dates or timestamps, not {arguments[0].type}", position=position)
    return tuple(moments), INTERVAL


def _age(call: Call) -> Kernel:
    arrow = to_arrow(INTERVAL)
    is_instant = call.arguments[0].type.kind is Kind.TIMESTAMP_TZ

    def run(frame: Frame, *moments: Datum) -> Datum:
        if len(moments) == 1:
            midnight = pc.cast(today(frame.context), pa.timestamp("us"))
            start: Datum = instant(midnight, frame.context.zone) if is_instant else midnight
            moments = (start, moments[0])
        left, right = (pc.cast(item, _INT64) for item in moments)
        return pc.cast(pc.subtract_checked(left, right), arrow)

    return run


def _bind_overlaps(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 4, position)
    items = coerce(arguments, "OVERLAPS", position)
    if not items[0].type.is_temporal:
        raise ProgrammingError(f"OVERLAPS needs dates or times, not {items[0].type}", position=position)
    return tuple(items), BOOLEAN


def _overlaps(first: Datum, second: Datum, third: Datum, fourth: Datum) -> Datum:
    """As the SQL standard has it: with s and e in order, s1 < e2 and s2 < e1, and a point overlaps where it lies within."""
    start, end = pc.min_element_wise(first, second, skip_nulls=False), pc.max_element_wise(first, second, skip_nulls=False)
    begin, stop = pc.min_element_wise(third, fourth, skip_nulls=False), pc.max_element_wise(third, fourth, skip_nulls=False)
    both = pc.and_(pc.less(start, stop), pc.less(begin, end))
    return pc.or_(both, pc.equal(start, begin))


def _last_day(array: pa.Array) -> pa.Array:
    days = numbers(array, np.int32).astype(np.int64).view("datetime64[D]")
    months = days.astype("datetime64[M]").astype(np.int64) + 1
    last = months.view("datetime64[M]").astype("datetime64[D]").astype(np.int64) - 1
    return from_numbers(last.astype(np.int32), pa.date32(), validity(array))


def _named_part(names: tuple[str, ...], number: Callable[[Datum], Datum]) -> Callable[[Call], Kernel]:
    texts = pack(names, VARCHAR)

    def compile_call(call: Call) -> Kernel:
        in_zone = call.arguments[0].type.kind is Kind.TIMESTAMP_TZ

        def run(frame: Frame, value: Datum) -> Datum:
            wall = local(value, frame.context.zone) if in_zone else value
            return over_first(lambda array: texts.take(number(array)))(wall)

        return run

    return compile_call


def _in_session(call: Call) -> bool:
    return any(item.type.kind is Kind.TIMESTAMP_TZ for item in call.arguments)


def _framed(
    name: str,
    arguments: str,
    result: str,
    bind: Any,
    compile_call: Callable[[Call], Kernel],
    *,
    names: tuple[str, ...] = (),
    can_fail: bool = False,
    always_session: bool = False,
) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result=result,
        bind=bind,
        compile=compile_call,
        sql_names=names or (name.upper(),),
        can_fail=always_may_fail if can_fail else never_fails,
        needs_frame=True,
        depends_on_session=(lambda call: True) if always_session else _in_session,
        family="date-time",
    )


_PARTS = {
    "year": ("YEAR",),
    "quarter": ("QUARTER",),
    "month": ("MONTH",),
    "week": ("WEEK", "WEEKOFYEAR"),
    "day": ("DAY", "DAYOFMONTH"),
    "dow": ("DAYOFWEEK", "WEEKDAY"),
    "isodow": ("ISODOW",),
    "doy": ("DAYOFYEAR",),
    "hour": ("HOUR",),
    "minute": ("MINUTE",),
    "second": ("SECOND",),
    "isoyear": ("ISOYEAR",),
    "century": ("CENTURY",),
    "decade": ("DECADE",),
    "millennium": ("MILLENNIUM",),
}


def _part(field: str, names: tuple[str, ...]) -> Function:
    """YEAR(x): EXTRACT's number as an integer, fractions of a second cut off."""
    source = extract.FUNCTIONS[0]
    name = Literal(value=field, type=VARCHAR)

    def bind(key: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        check_count(names[0], arguments, 1, position)
        bound, _ = source.bind(names[0], (name, arguments[0]), position)
        return bound[1:], BIGINT

    def compile_call(call: Call) -> Kernel:
        kernel = source.compile(Call(function="extract", arguments=(name, *call.arguments), type=DOUBLE))
        return lambda frame, value: pc.cast(pc.trunc(kernel(frame, None, value)), _INT64)

    return _framed(f"{field}_of", "x date, time, timestamp or INTERVAL", "BIGINT", bind, compile_call, names=names)


def _to_epoch(divisor: int) -> Kernel:
    def run(value: Datum) -> Datum:
        micros = pc.cast(value, _INT64)
        if divisor == 1:
            return micros
        size = pack_scalar(divisor, BIGINT)
        return pc.divide(pc.subtract(micros, pc.modulo(micros, size)), size)

    return run


def _moment(name: str, result: SqlType, kinds: Sequence[SqlType], kernel: Kernel, arguments: str) -> Function:
    bind = signature(*kinds, result=result)
    return named(name, arguments, str(result), bind, kernel=over_arrays(kernel), can_fail=always_may_fail, family="date-time")


_SIX = [*[BIGINT] * 5, DOUBLE]
_YMD = "year BIGINT, month BIGINT, day BIGINT"
_HMS = "hour BIGINT, minute BIGINT, second DOUBLE"
FUNCTIONS = (
    _moment("make_date", DATE, [BIGINT] * 3, _make_date, _YMD),
    _moment("make_time", TIME, [BIGINT, BIGINT, DOUBLE], _make_time, _HMS),
    _moment("make_timestamp", TIMESTAMP, _SIX, _make_timestamp, f"{_YMD}, {_HMS}"),
    _framed(
        "make_timestamptz",
        f"{_YMD}, {_HMS} [, zone VARCHAR]",
        str(TIMESTAMP_TZ),
        signature(*_SIX, VARCHAR, result=TIMESTAMP_TZ, optional=1),
        lambda call: _make_instant,
        can_fail=True,
        always_session=True,
    ),
    named(
        "make_interval",
        "years BIGINT [, months BIGINT] | 0, 0, weeks BIGINT [, days, hours, minutes BIGINT, seconds DOUBLE]",
        "INTERVAL",
        _bind_interval,
        _compile_interval,
        can_fail=always_may_fail,
        family="date-time",
    ),
    *(_of_count(name, unit, INTERVAL) for name, unit in _UNITS.items()),
    *(_of_count(name, unit, INTERVAL_MONTH) for name, unit in _MONTHS.items()),
    named(
        "date_bin",
        "stride INTERVAL, x TIMESTAMP [, origin TIMESTAMP]",
        "the type of x",
        _bind_bin,
        _bin,
        sql_names=("TIME_BUCKET",),
        can_fail=always_may_fail,
        family="date-time",
    ),
    _framed("date_diff", "unit, start, end", "BIGINT", _bind_difference, _difference, names=("DATE_DIFF", "DATEDIFF")),
    _framed(
        "age", "x TIMESTAMP [, y TIMESTAMP]", "INTERVAL, in days and time", _bind_age, _age, can_fail=True, always_session=True
    ),
    Function(
        name="overlaps",
        arguments="(start, end) OVERLAPS (start, end)",
        result="BOOLEAN",
        bind=_bind_overlaps,
        compile=lambda call: _overlaps,
        family="date-time",
    ),
    named("last_day", "x DATE", "DATE", signature(DATE, result=DATE), kernel=over_first(_last_day), family="date-time"),
    _framed(
        "day_name",
        "x DATE or TIMESTAMP",
        "VARCHAR",
        signature(MOMENT, result=VARCHAR),
        _named_part(DAYS, lambda value: pc.day_of_week(value, count_from_zero=True, week_start=7)),
        names=("DAYNAME", "DAY_NAME"),
    ),
    _framed(
        "month_name",
        "x DATE or TIMESTAMP",
        "VARCHAR",
        signature(MOMENT, result=VARCHAR),
        _named_part(MONTHS, lambda value: pc.subtract(pc.month(value), pack_scalar(1, BIGINT))),
        names=("MONTHNAME", "MONTH_NAME"),
    ),
    *(_part(field, names) for field, names in _PARTS.items()),
    *(
        named(
            name,
            "x TIMESTAMP WITH TIME ZONE",
            "BIGINT",
            signature(TIMESTAMP_TZ, result=BIGINT),
            kernel=_to_epoch(size),
            family="date-time",
        )
        for name, size in (("epoch_ms", 1000), ("epoch_us", 1))
    ),
    *(
        named(
            name, "x INTERVAL", "INTERVAL", signature(INTERVAL, result=INTERVAL), kernel=lambda value: value, family="date-time"
        )
        for name in ("justify_days", "justify_hours", "justify_interval")
    ),
)
