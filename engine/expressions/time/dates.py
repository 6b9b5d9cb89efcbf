"""Functions that compare dates and times, and that return their fields: DATE_BIN, DATE_DIFF,
OVERLAPS, LAST_DAY, names of days and months, YEAR(x) and similar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_numbers, numbers, validity
from runnel.errors import DataError, Position, ProgrammingError, suggest
from runnel.expressions.casts.temporal import local
from runnel.expressions.coercion import check_count, coerce, convert
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import (
    Bound,
    Datum,
    Function,
    Kernel,
    always_may_fail,
    never_fails,
    over_arrays,
    over_first,
)
from runnel.expressions.kernels.buffers import DAY_US, FIRST_US, LAST_US, pack, pack_scalar
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import DATE_OR_TIMESTAMP, named, signature
from runnel.expressions.time import extract
from runnel.expressions.time.extract import field_name
from runnel.expressions.time.intervals import UNIT_US
from runnel.expressions.time.make_dates import columns_with_defaults
from runnel.expressions.to_char.patterns import DAYS, MONTHS
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARCHAR,
    Kind,
    to_arrow,
)

_INT64 = pa.int64()


def _bind_bin(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    if len(arguments) not in (2, 3):
        raise ProgrammingError(
            f"DATE_BIN expects 2 to 3 arguments, not {len(arguments)}", position=position
        )
    stride = (
        convert(arguments[0], INTERVAL)
        if arguments[0].type.kind in (Kind.NULL, Kind.VARCHAR)
        else arguments[0]
    )
    if stride.type.kind is Kind.INTERVAL_MONTH and len(arguments) == 3:
        raise ProgrammingError(
            "DATE_BIN has no bins of months with an origin",
            hint="leave the origin out: the bins of months begin at 2000-01-01",
            position=stride.position or position,
        )
    if stride.type.kind not in (Kind.INTERVAL, Kind.INTERVAL_MONTH):
        raise ProgrammingError(
            f"argument 1 of DATE_BIN must be an INTERVAL, not {stride.type}", position=position
        )
    instants = coerce([*arguments[1:], Expression(type=TIMESTAMP)], "DATE_BIN", position)[:-1]
    if instants[0].type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        raise ProgrammingError(
            f"argument 2 of DATE_BIN must be a TIMESTAMP, not {arguments[1].type}",
            position=position,
        )
    if stride.type.kind is Kind.INTERVAL_MONTH and instants[0].type.kind is not Kind.TIMESTAMP:
        raise ProgrammingError(
            "DATE_BIN has no bins of months of instants with a time zone",
            hint="use DATE_TRUNC, or cast to TIMESTAMP",
            position=stride.position or position,
        )
    return (stride, *instants), instants[0].type


_ORIGIN = 946_857_600_000_000
"""2000-01-03, a Monday: the start of bins without an origin, as in DuckDB."""


_ORIGIN_MONTH = 360
"""2000-01, in months since 1970-01: the start of bins of months."""


def _month_bins(stride: Numbers, timestamp: Numbers) -> Numbers:
    """The starts of bins of `stride` months. 2012-05-17 with 3 months: month 508 since 1970-01,
    360 + (508 − 360) // 3 × 3 = 507, which is 2012-04-01."""
    if (stride <= 0).any():
        raise DataError("the stride of DATE_BIN must be positive")
    months = timestamp.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    start = _ORIGIN_MONTH + (months - _ORIGIN_MONTH) // stride * stride
    found: Numbers = start.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)
    return found


def _bin(call: Call) -> Kernel:
    arrow = to_arrow(call.type)
    is_months = call.arguments[0].type.kind is Kind.INTERVAL_MONTH

    def run(*arrays: pa.Array) -> pa.Array:
        columns = [pc.cast(array, _INT64) for array in arrays]
        values, mask = columns_with_defaults(columns, (1, 0, 0)[: len(columns)])
        stride, timestamp = values[0], values[1]
        if is_months:
            return from_numbers(_month_bins(stride, timestamp), arrow, mask)
        origin = values[2] if len(values) == 3 else np.full_like(timestamp, _ORIGIN)
        if (stride <= 0).any():
            raise DataError("the stride of DATE_BIN must be positive")
        start = origin + (timestamp - origin) // stride * stride
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
"""Units of months, in months."""


def _bind_difference(
    name: str, arguments: Sequence[Expression], position: Position | None
) -> Bound:
    check_count(name, arguments, 3, position)
    unit = field_name(arguments[0], name, position)
    if unit not in _DIFFERENCES:
        raise ProgrammingError(
            f"{name.upper()} doesn't count {unit.upper()}",
            hint=suggest(unit, _DIFFERENCES),
            position=arguments[0].position,
        )
    instants = coerce(arguments[1:], name.upper(), position)
    instants = [
        convert(item, TIMESTAMP) if item.type.kind in (Kind.DATE, Kind.NULL, Kind.VARCHAR) else item
        for item in instants
    ]
    if not all(item.type.is_temporal for item in instants):
        raise ProgrammingError(
            f"{name.upper()} needs dates or times, not {arguments[1].type}", position=position
        )
    return (Literal(value=unit, type=VARCHAR, position=arguments[0].position), *instants), BIGINT


def _difference(call: Call) -> Kernel:
    """The number of boundaries of the unit between two times, in the session's zone."""
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    kind = call.arguments[1].type.kind

    def count(*arrays: pa.Array) -> pa.Array:
        values, mask = columns_with_defaults([pc.cast(array, _INT64) for array in arrays], (0, 0))
        first, last = (_boundary(item, str(unit.value)) for item in values)
        return from_numbers(last - first, _INT64, mask)

    counted = over_arrays(count)

    def run(frame: EvaluationInput, name: Datum, start: Datum, end: Datum) -> Datum:
        if kind is Kind.TIMESTAMP_TZ:
            zone = frame.context.zone
            if UNIT_US.get(str(unit.value), DAY_US) < DAY_US:
                # Hours and less elapse also where the clock skips or repeats local times.
                start, end = _elapsed(start, start, zone), _elapsed(end, start, zone)
            else:
                start, end = local(start, zone), local(end, zone)
        return counted(start, end)

    return run


def _elapsed(time: Datum, start: Datum, zone: str) -> Datum:
    """An instant by the offset from UTC that the zone has at `start`."""
    offset = pc.subtract(pc.cast(local(start, zone), _INT64), pc.cast(start, _INT64))
    return pc.add(pc.cast(time, _INT64), offset)


# For the week of 1970-01-01 (a Thursday): number = 0 + 3 days since Monday 1969-12-29, 3 // 7 = 0;
# for 1970-01-05 it is (4 + 3) // 7 = 1. For the quarter: number = 1970 * 12 months, // 3 = 7880.
def _boundary(micros: Numbers, unit: str) -> Numbers:
    """The number of boundaries of the unit before each time, from a fixed origin."""
    months = _PER_MONTH.get(unit)
    if months is not None:
        number: Numbers = (
            micros.view("datetime64[us]").astype("datetime64[M]").astype(np.int64) + 1970 * 12
        )
        size = months
    elif unit == "week":
        number, size = micros // DAY_US + 3, 7
    else:
        number, size = micros, UNIT_US[unit]
    boundaries: Numbers = number // size
    return boundaries


def _bind_overlaps(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 4, position)
    items = coerce(arguments, "OVERLAPS", position)
    if not items[0].type.is_temporal:
        raise ProgrammingError(
            f"OVERLAPS needs dates or times, not {items[0].type}", position=position
        )
    return tuple(items), BOOLEAN


def _overlaps(first: Datum, second: Datum, third: Datum, fourth: Datum) -> Datum:
    """OVERLAPS of the SQL standard: with each pair in order, start < stop and begin < end.

    Two ranges that begin at the same time overlap, even if they are points.
    """
    start, end = (
        pc.min_element_wise(first, second, skip_nulls=False),
        pc.max_element_wise(first, second, skip_nulls=False),
    )
    begin, stop = (
        pc.min_element_wise(third, fourth, skip_nulls=False),
        pc.max_element_wise(third, fourth, skip_nulls=False),
    )
    both = pc.and_(pc.less(start, stop), pc.less(begin, end))
    return pc.or_(both, pc.equal(start, begin))


def _bind_last_day(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 1, position)
    if arguments[0].type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        arguments = [convert(arguments[0], DATE)]
    return signature(DATE, result=DATE)(name, arguments, position)


def _last_day(array: pa.Array) -> pa.Array:
    days = numbers(array, np.int32).astype(np.int64).view("datetime64[D]")
    months = days.astype("datetime64[M]").astype(np.int64) + 1
    last = months.view("datetime64[M]").astype("datetime64[D]").astype(np.int64) - 1
    return from_numbers(last.astype(np.int32), pa.date32(), validity(array))


def _named_part(
    names: tuple[str, ...], number: Callable[[Datum], Datum]
) -> Callable[[Call], Kernel]:
    texts = pack(names, VARCHAR)

    def compile_call(call: Call) -> Kernel:
        in_zone = call.arguments[0].type.kind is Kind.TIMESTAMP_TZ

        def run(frame: EvaluationInput, value: Datum) -> Datum:
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
    "year_of": ("YEAR",),
    "quarter_of": ("QUARTER",),
    "month_of": ("MONTH",),
    "week_of": ("WEEK", "WEEKOFYEAR"),
    "day_of": ("DAY", "DAYOFMONTH"),
    "dow_of": ("DAYOFWEEK", "WEEKDAY"),
    "isodow_of": ("ISODOW",),
    "doy_of": ("DAYOFYEAR",),
    "hour_of": ("HOUR",),
    "minute_of": ("MINUTE",),
    "second_of": ("SECOND",),
    "isoyear_of": ("ISOYEAR",),
    "century_of": ("CENTURY",),
    "decade_of": ("DECADE",),
    "millennium_of": ("MILLENNIUM",),
}


def _part(key: str, names: tuple[str, ...]) -> Function:
    """YEAR(x) and similar: EXTRACT's number as an integer, without fractions of a second."""
    source = extract.FUNCTIONS[0]
    name = Literal(value=key.removesuffix("_of"), type=VARCHAR)

    def bind(called: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        check_count(names[0], arguments, 1, position)
        bound, _ = source.bind(names[0], (name, arguments[0]), position)
        return bound[1:], BIGINT

    def compile_call(call: Call) -> Kernel:
        kernel = source.compile(
            Call(function="extract", arguments=(name, *call.arguments), type=DOUBLE)
        )
        return lambda frame, value: pc.cast(pc.trunc(kernel(frame, None, value)), _INT64)

    return _framed(
        key,
        "x date, time, timestamp or INTERVAL",
        "BIGINT",
        bind,
        compile_call,
        names=names,
    )


def _to_epoch(divisor: int) -> Kernel:
    def run(value: Datum) -> Datum:
        micros = pc.cast(value, _INT64)
        if divisor == 1:
            return micros
        size = pack_scalar(divisor, BIGINT)
        return pc.divide(pc.subtract(micros, pc.modulo(micros, size)), size)

    return run


FUNCTIONS = (
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
    _framed(
        "date_diff",
        "unit, start, end",
        "BIGINT",
        _bind_difference,
        _difference,
        names=("DATE_DIFF", "DATEDIFF"),
    ),
    Function(
        name="overlaps",
        arguments="(start, end) OVERLAPS (start, end)",
        result="BOOLEAN",
        bind=_bind_overlaps,
        compile=lambda call: _overlaps,
        family="date-time",
    ),
    named(
        "last_day",
        "x DATE or TIMESTAMP",
        "DATE",
        _bind_last_day,
        kernel=over_first(_last_day),
        family="date-time",
    ),
    _framed(
        "day_name",
        "x DATE or TIMESTAMP",
        "VARCHAR",
        signature(DATE_OR_TIMESTAMP, result=VARCHAR),
        _named_part(DAYS, lambda value: pc.day_of_week(value, count_from_zero=True, week_start=7)),
        names=("DAYNAME", "DAY_NAME"),
    ),
    _framed(
        "month_name",
        "x DATE or TIMESTAMP",
        "VARCHAR",
        signature(DATE_OR_TIMESTAMP, result=VARCHAR),
        _named_part(MONTHS, lambda value: pc.subtract(pc.month(value), pack_scalar(1, BIGINT))),
        names=("MONTHNAME", "MONTH_NAME"),
    ),
    *(_part(key, names) for key, names in _PARTS.items()),
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
)
