"""Functions on dates, times and intervals in DuckDB and in Spark.

In Spark, local time is computed as TIMESTAMP_NTZ and as µs since 1970, which do not depend on the
zone of Spark's session.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.nodes import Call, Literal
from runnel.rendering.render import FunctionRule, Rendering, by_engine
from runnel.rendering.rules import UNKNOWN, ByEngine, option, refused
from runnel.rendering.spark.arithmetic import (
    as_local,
    local_time,
    micros_of,
    time_of,
)
from runnel.sqltypes import DOUBLE, VARCHAR, Kind

_MICROS = 1_000_000
_WHOLE_FIELDS = {
    "millennium": "millennium",
    "century": "century",
    "decade": "decade",
    "year": "year",
    "isoyear": "isoyear",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "day": "day",
    "dow": "dow",
    "isodow": "isodow",
    "doy": "doy",
    "hour": "hour",
    "minute": "minute",
    "microsecond": "microsecond",
}
_SCALED_FIELDS = {"second": ("microsecond", _MICROS), "millisecond": ("microsecond", 1000)}
_INTERVAL_FIELDS = {
    Kind.INTERVAL: {
        "day": "(({0}) // 86400000000)",
        "hour": "((({0}) % 86400000000) // 3600000000)",
        "minute": "((({0}) % 3600000000) // 60000000)",
        "second": "(CAST((({0}) % 60000000) AS DOUBLE) / 1000000)",
        "millisecond": "(CAST((({0}) % 60000000) AS DOUBLE) / 1000)",
        "microsecond": "(({0}) % 60000000)",
        "epoch": "(CAST(({0}) AS DOUBLE) / 1000000)",
    },
    Kind.INTERVAL_MONTH: {
        "millennium": "(({0}) // 12000)",
        "century": "(({0}) // 1200)",
        "decade": "(({0}) // 120)",
        "year": "(({0}) // 12)",
        "quarter": "((({0}) % 12) // 3 + 1)",
        "month": "(({0}) % 12)",
    },
}


def _duckdb_extract(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    field, kind = call.arguments[0], call.arguments[1].type.kind
    assert isinstance(field, Literal)
    value = arguments[1]
    if kind in _INTERVAL_FIELDS:
        return f"CAST({_INTERVAL_FIELDS[kind][field.value].format(value)} AS {call.type})"
    if field.value == "epoch":
        return f"(CAST(epoch_us({value}) AS DOUBLE) / {_MICROS})"
    if kind is Kind.TIMESTAMP_TZ:
        value = f"timezone({rendering.zone()}, {value})"
    if field.value in _SCALED_FIELDS:
        part, unit = _SCALED_FIELDS[field.value]
        return f"(CAST(extract({part} FROM {value}) AS DOUBLE) / {unit})"
    return f"CAST(extract({_WHOLE_FIELDS[field.value]} FROM {value}) AS {call.type})"


_UNITS = "microsecond millisecond second minute hour day week month quarter year decade".split()


def _duckdb_truncated(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """DuckDB's centuries begin a year too early, and it converts instants to local time by other
    rules."""
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    if unit.value not in _UNITS or call.type.kind is not Kind.TIMESTAMP:
        raise refused(call, f"DATE_TRUNC('{unit.value}', {call.type})")
    return f"date_trunc('{unit.value}', {arguments[1]})"


def _duckdb_at_time_zone(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """From an instant to local time. The reverse only for UTC, where no local time is skipped or
    occurs twice."""
    zone = option(call, 1)
    if zone is None:
        return rendering.literal(None, call.type)
    if zone is UNKNOWN or (call.type.kind is Kind.TIMESTAMP_TZ and zone != "UTC"):
        raise refused(call, "AT TIME ZONE of a local time")
    return f"timezone({arguments[1]}, {arguments[0]})"


_EPOCH_MILLIS = "((epoch_us({0}) - (((epoch_us({0}) % 1000) + 1000) % 1000)) // 1000)"

_ERA = "CASE WHEN {1} > 0 THEN (({1} - 1) div {0}) + 1 ELSE ({1} div {0}) - 1 END"
_YEAR = "extract(YEAR FROM {0})"
_FIELDS = {
    "millennium": _ERA.format(1000, _YEAR),
    "century": _ERA.format(100, _YEAR),
    "decade": "floor(extract(YEAR FROM {0}) / 10)",
    "year": _YEAR,
    "isoyear": "extract(YEAROFWEEK FROM {0})",
    "quarter": "extract(QUARTER FROM {0})",
    "month": "extract(MONTH FROM {0})",
    "week": "extract(WEEK FROM {0})",
    "day": "extract(DAY FROM {0})",
    "dow": "(extract(DAYOFWEEK FROM {0}) - 1)",
    "isodow": "extract(DAYOFWEEK_ISO FROM {0})",
    "doy": "extract(DOY FROM {0})",
    "hour": "extract(HOUR FROM {0})",
    "minute": "extract(MINUTE FROM {0})",
    "second": "extract(SECOND FROM {0})",
    "millisecond": "(extract(SECOND FROM {0}) * 1000)",
    "microsecond": "(extract(SECOND FROM {0}) * 1000000)",
}
_SPAN_FIELDS = {
    "day": "({0} div 86400000000)",
    "hour": "(({0} % 86400000000) div 3600000000)",
    "minute": "(({0} % 3600000000) div 60000000)",
    "second": "(CAST(({0} % 60000000) AS DOUBLE) / 1000000)",
    "millisecond": "(CAST(({0} % 60000000) AS DOUBLE) / 1000)",
    "microsecond": "({0} % 60000000)",
    "epoch": "(CAST({0} AS DOUBLE) / 1000000)",
}
_MONTHS_FIELDS = {
    "millennium": "({0} div 12000)",
    "century": "({0} div 1200)",
    "decade": "({0} div 120)",
    "year": "({0} div 12)",
    "quarter": "((({0} % 12) div 3) + 1)",
    "month": "({0} % 12)",
}


def _spark_extract(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    field, kind = call.arguments[0], call.arguments[1].type.kind
    assert isinstance(field, Literal)
    name, value = str(field.value), arguments[1]
    of_intervals = {Kind.INTERVAL: _SPAN_FIELDS, Kind.INTERVAL_MONTH: _MONTHS_FIELDS}.get(kind)
    if of_intervals is not None and name in of_intervals:
        return f"CAST({of_intervals[name].format(value)} AS {call.type})"
    if kind is Kind.TIMESTAMP_TZ and name == "epoch":
        return f"(CAST(unix_micros({value}) AS DOUBLE) / 1000000)"
    if kind is Kind.TIMESTAMP and name == "epoch":
        return f"(CAST({micros_of(value)} AS DOUBLE) / 1000000)"
    if kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ) or name not in _FIELDS:
        raise refused(call, f"EXTRACT({name.upper()} FROM {call.arguments[1].type})")
    return f"CAST({_FIELDS[name].format(_wall(rendering, call, value, 1))} AS {call.type})"


def _wall(rendering: Rendering, call: Call, text: str, index: int = 0) -> str:
    """The argument as local time, if it is an instant."""
    if call.arguments[index].type.kind is not Kind.TIMESTAMP_TZ:
        return text
    return local_time(rendering, as_local(f"unix_micros({text})"))


def _part(field: str) -> FunctionRule:
    """YEAR(x) and so on: EXTRACT's number without its fraction."""
    name = Literal(value=field, type=VARCHAR)

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        extraction = Call(
            function="extract",
            arguments=(name, *call.arguments),
            type=DOUBLE,
            position=call.position,
        )
        return f"CAST({_spark_extract(rendering, extraction, ('', *arguments))} AS BIGINT)"

    return rule


_DATES = {
    "day": "CAST({0} AS DATE)",
    **{unit: f"trunc({{0}}, '{unit.upper()}')" for unit in ("week", "month", "quarter", "year")},
}
_SIZES = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}


def _spark_truncated(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """By dates and by µs: the result of Spark's own function depends on the zone of its session."""
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    if call.type.kind is not Kind.TIMESTAMP:
        raise refused(call, f"DATE_TRUNC of {call.type}")
    if unit.value == "microsecond":
        return arguments[1]
    if unit.value in _DATES:
        return (
            f"CAST({_DATES[unit.value].format(f'CAST({arguments[1]} AS DATE)')} AS TIMESTAMP_NTZ)"
        )
    size = _SIZES.get(str(unit.value))
    if size is None:
        raise refused(call, f"DATE_TRUNC('{unit.value}', {call.type})")
    micros = micros_of(arguments[1])
    return as_local(f"({micros} - pmod({micros}, {size}))")


def _spark_at_time_zone(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    zone = option(call, 1)
    if zone is None:
        return rendering.literal(None, call.type)
    if zone is UNKNOWN or call.type.kind is Kind.TIMESTAMP_TZ:
        raise refused(call, "AT TIME ZONE of a local time")
    return local_time(rendering, as_local(f"unix_micros({arguments[0]})"), arguments[1])


_PER_MONTH = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}


def _difference(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    """The number of boundaries of a unit between two local times: the difference of the numbers of
    their units since a fixed one."""
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    first, last = (
        _boundary(str(unit.value), _wall(rendering, call, arguments[i], i)) for i in (1, 2)
    )
    return f"CAST(({last} - {first}) AS BIGINT)"


def _boundary(unit: str, wall: str) -> str:
    if unit in _PER_MONTH:
        return (
            f"((extract(YEAR FROM {wall}) * 12 + extract(MONTH "
            f"FROM {wall}) - 1) div {_PER_MONTH[unit]})"
        )
    micros = micros_of(wall)
    if unit == "week":
        days = f"({_floored(micros, _SIZES['day'])} + 3)"
        return _floored(days, 7)
    return micros if unit == "microsecond" else _floored(micros, _SIZES[unit])


def _floored(number: str, size: int) -> str:
    return f"(({number} - pmod({number}, {size})) div {size})"


_ORIGIN = "CAST('946857600000000' AS BIGINT)"
"""2000-01-03, where bins without an origin begin."""


def _bin(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    if call.arguments[0].type.kind is not Kind.INTERVAL:
        raise refused(call, "bins of months")
    stride, is_instant = arguments[0], call.type.kind is Kind.TIMESTAMP_TZ
    time, *rest = (
        f"unix_micros({text})" if is_instant else micros_of(text) for text in arguments[1:]
    )
    origin = rest[0] if rest else _ORIGIN
    start = f"({time} - pmod(({time} - {origin}), {stride}))"
    missing = " OR ".join(f"({text} IS NULL)" for text in arguments)
    checked = time_of(rendering, call, start, instant=is_instant)
    positive = rendering.check(f"{stride} <= 0", "the stride of DATE_BIN must be positive", checked)
    return f"CASE WHEN {missing} THEN NULL ELSE {positive} END"


def _overlaps(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    first, second, third, fourth = arguments
    missing = " OR ".join(f"({text} IS NULL)" for text in arguments)
    start, end = f"least({first}, {second})", f"greatest({first}, {second})"
    begin, stop = f"least({third}, {fourth})", f"greatest({third}, {fourth})"
    return (
        f"CASE WHEN {missing} THEN NULL ELSE ((({start} < {stop}) AND ({begin} < {end})) OR "
        f"({start} = {begin})) END"
    )


def _made_date(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    year, month, day = arguments
    missing = " OR ".join(f"({text} IS NULL)" for text in arguments)
    wrong = (
        f"({year} NOT BETWEEN 1 AND 9999) OR ({month} NOT BETWEEN 1 AND 12) OR ({day} NOT BETWEEN "
        "1 AND 31)"
    )
    made = f"make_date({', '.join(f'CAST({text} AS INT)' for text in arguments)})"
    return (
        f"CASE WHEN {missing} THEN NULL ELSE "
        f"{rendering.check(wrong, 'there is no such date', made)} END"
    )


def _named(rendering: Rendering, call: Call, text: str, field: str, names: Sequence[str]) -> str:
    """The English name of a day or a month by its number, which `field` extracts."""
    if call.arguments[0].type.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        raise refused(call)
    listed = ", ".join(f"'{name}'" for name in names)
    return f"elt(extract({field} FROM {_wall(rendering, call, text)}), {listed})"


def _day_name(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    from runnel.expressions.to_char.patterns import DAYS

    return _named(rendering, call, arguments[0], "DAYOFWEEK", DAYS)


def _month_name(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
    from runnel.expressions.to_char.patterns import MONTHS

    return _named(rendering, call, arguments[0], "MONTH", MONTHS)


def _spans(unit: int) -> FunctionRule:
    """TO_DAYS and so on, of whole numbers."""

    def rule(rendering: Rendering, call: Call, arguments: Sequence[str]) -> str:
        if not call.arguments[0].type.is_integer:
            raise refused(call)
        return f"CAST((CAST({arguments[0]} AS BIGINT) * {unit}) AS {rendering.type(call.type)})"

    return rule


_MILLIS = "((unix_micros({0}) - pmod(unix_micros({0}), 1000)) div 1000)"
_SPANS = {
    "microseconds": 1,
    "milliseconds": 1000,
    "seconds": 1_000_000,
    "minutes": 60_000_000,
    "hours": 3_600_000_000,
    "days": 86_400_000_000,
    "weeks": 604_800_000_000,
    "months": 1,
    "quarters": 3,
    "years": 12,
    "decades": 120,
}
DATES: dict[str, ByEngine[FunctionRule]] = {
    "extract": by_engine(duckdb=_duckdb_extract, spark=_spark_extract),
    **{
        f"{field}_of": by_engine(spark=_part(field))
        for field in _FIELDS
        if field not in ("millisecond", "microsecond")
    },
    "date_trunc": by_engine(duckdb=_duckdb_truncated, spark=_spark_truncated),
    "at_time_zone": by_engine(duckdb=_duckdb_at_time_zone, spark=_spark_at_time_zone),
    "to_epoch_millis": by_engine(duckdb=_EPOCH_MILLIS, spark=_MILLIS),
    "epoch_ms": by_engine(spark=_MILLIS),
    "epoch_us": by_engine(spark="unix_micros({0})"),
    "date_diff": by_engine(spark=_difference),
    "date_bin": by_engine(spark=_bin),
    "overlaps": by_engine(spark=_overlaps),
    "last_day": by_engine(spark="last_day({0})"),
    "day_name": by_engine(spark=_day_name),
    "month_name": by_engine(spark=_month_name),
    "make_date": by_engine(spark=_made_date),
    **{f"to_{name}": by_engine(spark=_spans(unit)) for name, unit in _SPANS.items()},
}
