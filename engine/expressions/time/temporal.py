"""Functions on dates and times: the statement's time, truncation, epochs, zones.

NOW() and related functions return the statement's time: the same for all rows. Values that depend
on the session's zone aren't folded into a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import numbers
from runnel.errors import DataError, Position, ProgrammingError, suggest
from runnel.expressions.casts.temporal import instant, local
from runnel.expressions.coercion import check_count, convert
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.function import Bound, Datum, Function, Kernel, always_may_fail, over_first
from runnel.expressions.kernels.buffers import pack_scalar, validity
from runnel.expressions.kernels.options import by_option
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import named, signature
from runnel.expressions.time.extract import field_name
from runnel.expressions.time.intervals import UNIT_US
from runnel.sqltypes import (
    BIGINT,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARCHAR,
    Kind,
    SqlType,
    to_arrow,
)

_UTC, _INT64 = to_arrow(TIMESTAMP_TZ), pa.int64()
_FIXED_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week")
_MONTH_UNITS = {
    "month": 1,
    "quarter": 3,
    "year": 12,
    "decade": 120,
    "century": 1200,
    "millennium": 12000,
}
_YEAR_ZERO = 1970 * 12


def _now(context: EvaluationContext) -> Datum:
    return pc.cast(pack_scalar(context.now, BIGINT), _UTC)


def _clock_function(name: str, sql_names: tuple[str, ...], result: SqlType) -> Function:
    arrow = to_arrow(result)

    def kernel(frame: EvaluationInput) -> Datum:
        now = _now(frame.context)
        return now if result == TIMESTAMP_TZ else pc.cast(local(now, frame.context.zone), arrow)

    return Function(
        name=name,
        arguments="",
        result=str(result),
        bind=signature(result=result),
        compile=lambda call: kernel,
        sql_names=(name.upper(), *sql_names),
        needs_frame=True,
        depends_on_session=lambda call: True,
        family="date-time",
    )


def _processing_time(frame: EvaluationInput) -> Datum:
    context = frame.context
    now = context.now if context.current is None else context.current()
    return pc.cast(pack_scalar(now, BIGINT), _UTC)


_INTERVAL_UNITS = {
    Kind.INTERVAL: [*_FIXED_UNITS[:-1]],
    Kind.INTERVAL_MONTH: [*_MONTH_UNITS],
    Kind.INTERVAL_MIXED: [*_FIXED_UNITS[:-1], *_MONTH_UNITS],
}
"""The units to which each kind of interval is truncated."""


def _bind_truncate(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 2, position)
    unit = field_name(arguments[0], name, position)
    known = [*_FIXED_UNITS, *_MONTH_UNITS]
    if arguments[1].type.is_interval:
        known = _INTERVAL_UNITS[arguments[1].type.kind]
    if unit not in known:
        raise ProgrammingError(
            f"cannot truncate to {unit.upper()}",
            hint=suggest(unit, known),
            position=arguments[0].position or position,
        )
    argument = arguments[1]
    if argument.type.kind in (Kind.DATE, Kind.NULL):
        argument = convert(argument, TIMESTAMP)
    if argument.type.kind not in (
        Kind.TIMESTAMP,
        Kind.TIMESTAMP_TZ,
        Kind.INTERVAL,
        Kind.INTERVAL_MONTH,
        Kind.INTERVAL_MIXED,
    ):
        raise ProgrammingError(
            f"argument 2 of {name.upper()} must be a DATE or TIMESTAMP, not {argument.type}",
            hint="add an explicit CAST",
            position=argument.position or position,
        )
    return (
        Literal(value=unit, type=VARCHAR, position=arguments[0].position),
        argument,
    ), argument.type


def keeps_offset(call: Expression) -> bool:
    """Whether a call of DATE_TRUNC truncates to an hour or less.

    The hour that occurs twice when clocks are set back is two distinct hours. So the result must
    have the offset of its argument.
    """
    unit = call.arguments[0] if isinstance(call, Call) else None
    return isinstance(unit, Literal) and unit.value in _FIXED_UNITS[:5]


def _compile_truncate(call: Call) -> Kernel:
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    months = _MONTH_UNITS.get(unit.value)
    in_zone = call.type.kind is Kind.TIMESTAMP_TZ
    if call.type.is_interval:
        return _compile_interval_truncate(call, unit.value, months)

    def truncate(value: Datum) -> Datum:
        if months is None:
            return pc.floor_temporal(value, 1, unit=unit.value, week_starts_monday=True)
        return over_first(lambda array: _floor_months(array, months))(value)

    within_hours = keeps_offset(call)

    def run(frame: EvaluationInput, name: Datum, value: Datum) -> Datum:
        if not in_zone:
            return truncate(value)
        wall = local(value, frame.context.zone)
        if within_hours:
            return pc.subtract(value, pc.subtract(wall, truncate(wall)))
        return instant(truncate(wall), frame.context.zone)

    return run


def _compile_interval_truncate(call: Call, unit: str, months: int | None) -> Kernel:
    """Truncates toward zero."""
    if call.type.kind is Kind.INTERVAL_MIXED:
        # Loaded on first use: few statements have intervals of months and days.
        from runnel.expressions.time.mixed_intervals import truncation

        kernel = truncation(unit, UNIT_US.get(unit), months)
        return lambda frame, name, value: kernel(value)
    size = pack_scalar(UNIT_US[unit] if months is None else months, BIGINT)
    arrow = to_arrow(call.type)
    whole = _INT64 if call.type.kind is Kind.INTERVAL else pa.int32()

    def run(frame: EvaluationInput, name: Datum, value: Datum) -> Datum:
        count = pc.cast(value, _INT64)
        return pc.cast(pc.cast(pc.subtract(count, pc.remainder(count, size)), whole), arrow)

    return run


# For 2024-08-15 and the quarter (size = 3):
#     months   24295        months since year 0: 2024 * 12 + 7
#     floored  654          24294 (a multiple of 3) − 1970 * 12, months since 1970-01
#     first    2024-07-01
# Centuries begin with years 1, 101, …: one year (shift = 12) after multiples of 1200 months.
def _floor_months(array: pa.Array, size: int) -> pa.Array:
    """The first instant of the month, quarter, year, …; centuries and millennia begin with a year
    1.
    """
    stamps = numbers(array, "datetime64[us]")
    months = stamps.astype("datetime64[M]").astype(np.int64) + _YEAR_ZERO
    shift = 12 if size >= 1200 else 0
    floored = (months - shift) // size * size + shift - _YEAR_ZERO
    first = floored.view("datetime64[M]").astype("datetime64[us]")
    return pa.Array.from_buffers(
        array.type, len(array), [validity(array), pa.py_buffer(first.view(np.int64))]
    )


_YEAR_MS = 31_536_000_000
_FACTORS = ((_YEAR_MS, 1_000_000), (_YEAR_MS * 1000, 1000), (_YEAR_MS * 1_000_000, 1))


def _to_instant(value: Datum) -> Datum:
    """Seconds, ms, µs or ns since the epoch, distinguished by their size.

    A number below the ms of a year is seconds, and so on. Negative numbers are seconds.
    """
    answer: Datum = pc.divide(value, pack_scalar(1000, BIGINT))
    zero = pack_scalar(0, BIGINT)
    for limit, factor in reversed(_FACTORS):
        below = pc.less(value, pack_scalar(limit, BIGINT))
        scaled = pc.multiply_checked(pc.if_else(below, value, zero), pack_scalar(factor, BIGINT))
        answer = pc.if_else(below, scaled, answer)
    return pc.cast(answer, _UTC)


def _to_epoch_millis(value: Datum) -> Datum:
    micros = pc.cast(value, _INT64)
    thousand = pack_scalar(1000, BIGINT)
    return pc.divide(pc.subtract(micros, pc.modulo(micros, thousand)), thousand)


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    from zoneinfo import available_timezones

    return frozenset(available_timezones())


def check_zone(name: str) -> str:
    """The zone's name if the zone exists; otherwise DataError with the name that is spelled most
    alike.
    """
    if name not in _zones():
        raise DataError(f'time zone "{name}" not found', hint=suggest(name, _zones()))
    return name


def _bind_zone(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """x AT TIME ZONE zone: of an instant the local time in the zone; of a local time in the zone
    the instant.
    """
    check_count(name, arguments, 2, position)
    value, zone = arguments
    if value.type.kind in (Kind.DATE, Kind.NULL):
        value = convert(value, TIMESTAMP)
    if (
        value.type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)
        or zone.type.kind is not Kind.VARCHAR
    ):
        raise ProgrammingError(
            f"cannot apply 'AT TIME ZONE' operator to [{value.type}, {zone.type}]",
            hint="add an explicit CAST",
            position=position,
        )
    if isinstance(zone, Literal) and zone.value is not None:
        try:
            check_zone(zone.value)
        except DataError as error:
            raise ProgrammingError(
                error.message, hint=error.hint, position=zone.position or position
            ) from None
    return (value, zone), TIMESTAMP if value.type.kind is Kind.TIMESTAMP_TZ else TIMESTAMP_TZ


def _compile_zone(call: Call) -> Kernel:
    convert_to = local if call.arguments[0].type.kind is Kind.TIMESTAMP_TZ else instant
    source = call.arguments[0].type

    def make(zone: str) -> Kernel:
        known = check_zone(zone)
        return lambda value: convert_to(value, known)

    def of_row(value: object, zone: str) -> object:
        return make(zone)(pack_scalar(value, source)).as_py()

    return by_option(make, of_row)(call)


FUNCTIONS = (
    _clock_function(
        "now", ("CURRENT_TIMESTAMP", "TRANSACTION_TIMESTAMP", "STATEMENT_TIMESTAMP"), TIMESTAMP_TZ
    ),
    Function(
        name="proctime",
        arguments="",
        result=str(TIMESTAMP_TZ),
        bind=signature(result=TIMESTAMP_TZ),
        compile=lambda call: _processing_time,
        sql_names=("PROCTIME", "CURRENT_ROW_TIMESTAMP"),
        needs_frame=True,
        is_volatile=True,
        family="date-time",
    ),
    _clock_function("localtimestamp", (), TIMESTAMP),
    _clock_function("current_date", ("TODAY",), DATE),
    _clock_function("current_time", ("LOCALTIME",), TIME),
    Function(
        name="date_trunc",
        arguments="unit, x DATE, TIMESTAMP, TIMESTAMP WITH TIME ZONE or INTERVAL [, zone VARCHAR]",
        result="the type of x; TIMESTAMP for a DATE",
        bind=_bind_truncate,
        compile=_compile_truncate,
        sql_names=("DATE_TRUNC",),
        needs_frame=True,
        depends_on_session=lambda call: call.type.kind is Kind.TIMESTAMP_TZ,
        family="date-time",
    ),
    Function(
        name="at_time_zone",
        arguments="x TIMESTAMP [WITH TIME ZONE], zone VARCHAR",
        result="TIMESTAMP WITH TIME ZONE for a TIMESTAMP, and the other way round",
        bind=_bind_zone,
        compile=_compile_zone,
        can_fail=always_may_fail,
        family="date-time",
    ),
    named(
        "to_timestamp_tz",
        "x BIGINT",
        "TIMESTAMP WITH TIME ZONE",
        signature(BIGINT, result=TIMESTAMP_TZ),
        kernel=_to_instant,
        can_fail=always_may_fail,
        family="date-time",
    ),
    named(
        "to_epoch_millis",
        "x TIMESTAMP WITH TIME ZONE",
        "BIGINT",
        signature(TIMESTAMP_TZ, result=BIGINT),
        kernel=_to_epoch_millis,
        family="date-time",
    ),
)
