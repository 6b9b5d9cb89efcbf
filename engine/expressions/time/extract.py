"""EXTRACT(field FROM value) and DATE_PART: a field of a date, a time, a timestamp or an interval.

The result is BIGINT, or DOUBLE for the fields that have a fraction: SECOND, MILLISECOND, EPOCH and
JULIAN.

The fields of an instant are those in the session's zone. SECOND includes the fraction; MILLISECOND
and MICROSECOND include the seconds and their fraction. Years before 1 count 0, −1, …; weeks are ISO
weeks; Sunday has DOW 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import Position, ProgrammingError, suggest
from runnel.expressions.casts.temporal import local
from runnel.expressions.coercion import check_count, convert
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import Bound, Datum, Function, Kernel
from runnel.expressions.kernels.buffers import DAY_US, pack_scalar
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.time.intervals import HOUR_US, MINUTE_US, SECOND_US
from runnel.sqltypes import BIGINT, DOUBLE, INTERVAL_MIXED, TIMESTAMP, VARCHAR, Kind

_FLOAT, _INT64 = pa.float64(), pa.int64()
_OPTIONS = pc.CastOptions(target_type=_FLOAT, allow_float_truncate=True)


def _number(value: int) -> pa.Scalar:
    return pack_scalar(value, BIGINT)


def _quotient(unit: int) -> pa.Scalar:
    return pack_scalar(float(unit), DOUBLE)


def _float(value: Datum) -> Datum:
    return pc.cast(value, options=_OPTIONS)


def _micros(value: Datum) -> Datum:
    return pc.cast(value, _INT64)


def _in_minute(value: Datum) -> Datum:
    """µs since the full minute, also before 1970."""
    return pc.modulo(_micros(value), _number(MINUTE_US))


def _century(size: int) -> Callable[[Datum], Datum]:
    """Centuries and millennia begin with year 1; before it they count backwards from −1."""

    def run(value: Datum) -> Datum:
        year = pc.year(value)
        after = pc.add(pc.divide(pc.subtract(year, _number(1)), _number(size)), _number(1))
        before = pc.subtract(pc.divide(year, _number(size)), _number(1))
        return pc.if_else(pc.greater(year, _number(0)), after, before)

    return run


def _decade(value: Datum) -> Datum:
    year = pc.year(value)
    return pc.divide(pc.subtract(year, pc.modulo(year, _number(10))), _number(10))


def _scaled(unit: int, part: Callable[[Datum], Datum] = _in_minute) -> Callable[[Datum], Datum]:
    scalar = _quotient(unit)
    return lambda value: pc.divide(_float(part(value)), scalar)


_DATE_FIELDS: dict[str, Callable[[Datum], Datum]] = {
    "millennium": _century(1000),
    "century": _century(100),
    "decade": _decade,
    "year": pc.year,
    "isoyear": pc.iso_year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "dow": lambda value: pc.day_of_week(value, count_from_zero=True, week_start=7),
    "isodow": lambda value: pc.day_of_week(value, count_from_zero=False, week_start=1),
    "doy": pc.day_of_year,
    "julian": lambda value: pc.divide(
        pc.add(_float(_micros(value)), _quotient(2_440_588 * DAY_US)), _quotient(DAY_US)
    ),
}
_TIME_FIELDS: dict[str, Callable[[Datum], Datum]] = {
    "hour": pc.hour,
    "minute": pc.minute,
    "second": _scaled(SECOND_US),
    "millisecond": _scaled(1000),
    "microsecond": _in_minute,
}
_EPOCH: dict[str, Callable[[Datum], Datum]] = {"epoch": _scaled(SECOND_US, _micros)}


def _offset(value: Datum, zone: str) -> Datum:
    """The offset of local time from UTC, in seconds."""
    return pc.divide(pc.subtract(_micros(local(value, zone)), _micros(value)), _number(SECOND_US))


_OFFSET_FIELDS: dict[str, Callable[[Datum], Datum]] = {
    "timezone": lambda offset: offset,
    "timezone_hour": lambda offset: pc.divide(offset, _number(3600)),
    "timezone_minute": lambda offset: pc.remainder(pc.divide(offset, _number(60)), _number(60)),
}


def _of_duration(unit: int, within: int | None) -> Callable[[Datum], Datum]:
    """A field of an interval of days and time: whole units, of the remainder by `within` if that is
    set.
    """

    def run(value: Datum) -> Datum:
        micros = _micros(value)
        rest = micros if within is None else pc.remainder(micros, _number(within))
        return pc.divide(rest, _number(unit))

    return run


def _seconds_of_duration(unit: int) -> Callable[[Datum], Datum]:
    return _scaled(unit, lambda value: pc.remainder(_micros(value), _number(MINUTE_US)))


_DURATION_FIELDS: dict[str, Callable[[Datum], Datum]] = {
    "day": _of_duration(DAY_US, None),
    "hour": _of_duration(HOUR_US, DAY_US),
    "minute": _of_duration(MINUTE_US, HOUR_US),
    "second": _seconds_of_duration(SECOND_US),
    "millisecond": _seconds_of_duration(1000),
    "microsecond": _seconds_of_duration(1),
    "epoch": _scaled(SECOND_US, _micros),
}
_MONTH_FIELDS: dict[str, Callable[[Datum], Datum]] = {
    "millennium": lambda value: pc.divide(_micros(value), _number(12000)),
    "century": lambda value: pc.divide(_micros(value), _number(1200)),
    "decade": lambda value: pc.divide(_micros(value), _number(120)),
    "year": lambda value: pc.divide(_micros(value), _number(12)),
    "quarter": lambda value: pc.add(
        pc.divide(pc.remainder(_micros(value), _number(12)), _number(3)), _number(1)
    ),
    "month": lambda value: pc.remainder(_micros(value), _number(12)),
}
_FIELDS: dict[Kind, dict[str, Callable[[Datum], Datum]]] = {
    Kind.TIME: _TIME_FIELDS | _EPOCH,
    Kind.TIMESTAMP: _DATE_FIELDS | _TIME_FIELDS | _EPOCH,
    Kind.TIMESTAMP_TZ: _DATE_FIELDS | _TIME_FIELDS | _EPOCH | _OFFSET_FIELDS,
    Kind.INTERVAL: _DURATION_FIELDS,
    Kind.INTERVAL_MONTH: _MONTH_FIELDS,
}
_INTERVAL_FIELDS = frozenset(_MONTH_FIELDS) | frozenset(_DURATION_FIELDS)
PLURALS = {
    "millennia": "millennium",
    "centuries": "century",
    "seconds": "second",
    "years": "year",
    "dayofweek": "dow",
}
"""Other names of the fields."""
PLURALS |= {
    f"{unit}s": unit for unit in ("decade", "quarter", "month", "week", "day", "hour", "minute")
}
PLURALS |= {"milliseconds": "millisecond", "microseconds": "microsecond", "dayofyear": "doy"}


def field_name(argument: Expression, function: str, position: Position | None) -> str:
    """The field that a literal names, in lower case and singular."""
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise ProgrammingError(
            f"the field of {function.upper()} must be a text literal",
            position=argument.position or position,
        )
    lower = argument.value.lower()
    return PLURALS.get(lower, lower)


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 2, position)
    argument = arguments[1]
    if argument.type.kind in (Kind.DATE, Kind.NULL):
        argument = convert(argument, TIMESTAMP)
    known: Collection[str] | None = _FIELDS.get(argument.type.kind)
    field = field_name(arguments[0], name, position)
    if argument.type.is_interval and (known is None or field not in known):
        argument, known = convert(argument, INTERVAL_MIXED), _INTERVAL_FIELDS
    if known is None:
        raise ProgrammingError(
            f"argument 2 of {name.upper()} must be a date, a time or an INTERVAL, "
            f"not {argument.type}",
            hint="add an explicit CAST",
            position=argument.position or position,
        )
    if field not in known:
        raise ProgrammingError(
            f"cannot extract {field.upper()} from {arguments[1].type}",
            hint=suggest(field, known),
            position=arguments[0].position or position,
        )
    literal = Literal(value=field, type=VARCHAR, position=arguments[0].position)
    return (literal, argument), DOUBLE if field in WITH_FRACTION else BIGINT


WITH_FRACTION = frozenset({"second", "millisecond", "epoch", "julian"})
"""The fields whose value is a DOUBLE."""


def _compile(call: Call) -> Kernel:
    number = _float if call.type == DOUBLE else _micros
    field, kind = call.arguments[0], call.arguments[1].type.kind
    assert isinstance(field, Literal)
    if kind is Kind.INTERVAL_MIXED:
        # Loaded on first use: few statements have intervals of months and days.
        from runnel.expressions.time.mixed_intervals import field_kernel

        kernel = field_kernel(str(field.value))
        return lambda frame, name, value: kernel(value)
    part = _FIELDS[kind][field.value]
    in_zone = kind is Kind.TIMESTAMP_TZ and field.value != "epoch"
    offset = _OFFSET_FIELDS.get(str(field.value))
    if offset is not None:
        return lambda frame, name, value: number(offset(_offset(value, frame.context.zone)))

    def run(frame: EvaluationInput, name: Datum, value: Datum) -> Datum:
        return number(part(local(value, frame.context.zone) if in_zone else value))

    return run


FUNCTIONS = (
    Function(
        name="extract",
        arguments="field, x DATE, TIME, TIMESTAMP or INTERVAL",
        result="BIGINT; DOUBLE for SECOND, MILLISECOND, EPOCH, JULIAN",
        bind=_bind,
        compile=_compile,
        sql_names=("EXTRACT", "DATE_PART"),
        needs_frame=True,
        depends_on_session=lambda call: call.arguments[1].type.kind is Kind.TIMESTAMP_TZ,
        family="date-time",
    ),
)
