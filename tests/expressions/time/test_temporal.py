"""Dates, times and intervals: arithmetic, zones, the statement's time, fields, what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.errors import DataError, ProgrammingError
from runnel.expressions import build
from runnel.expressions.kernels.python_values import python_values
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Literal
from runnel.sqltypes import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    INTERVAL_MONTH,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARCHAR,
    SqlType,
)
from tests.effort import examples
from tests.expressions.edge_values import ZONE, Rows, assert_like_duckdb, call, literal

DAY = timedelta(days=1)


def _run(operation: str, left: tuple[SqlType, Any], right: tuple[SqlType, Any]) -> Any:
    """The operation on columns and on scalars, which must agree; NULL on either side gives NULL."""
    rows = Rows(a=(left[0], [left[1], None, left[1]]), b=(right[0], [right[1], right[1], None]))
    result, *nulls = rows.run(call(operation, (rows["a"], rows["b"])))
    assert nulls == [None, None]
    literals = (Literal(value=left[1], type=left[0]), Literal(value=right[1], type=right[0]))
    assert Rows().run(call(operation, literals)) == [result]
    return result


@pytest.mark.parametrize(
    ("operation", "left", "right", "result"),
    [
        ("add", (DATE, date(2020, 1, 31)), (INTERVAL_MONTH, 1), datetime(2020, 2, 29)),
        ("add", (INTERVAL_MONTH, 1), (DATE, date(2020, 1, 31)), datetime(2020, 2, 29)),
        ("subtract", (DATE, date(2020, 3, 31)), (INTERVAL_MONTH, 1), datetime(2020, 2, 29)),
        ("subtract", (DATE, date(2020, 2, 29)), (INTERVAL_MONTH, 12), datetime(2019, 2, 28)),
        (
            "add",
            (TIMESTAMP, datetime(1969, 12, 31, 1)),
            (INTERVAL_MONTH, 2),
            datetime(1970, 2, 28, 1),
        ),
        (
            "add",
            (DATE, date(2020, 1, 31)),
            (INTERVAL, timedelta(hours=25)),
            datetime(2020, 2, 1, 1),
        ),
        ("add", (DATE, date(2020, 1, 31)), (INTEGER, 1), date(2020, 2, 1)),
        ("add", (INTEGER, 1), (DATE, date(2020, 1, 31)), date(2020, 2, 1)),
        ("subtract", (DATE, date(2020, 1, 1)), (INTEGER, 1), date(2019, 12, 31)),
        ("add", (TIME, time(23)), (INTERVAL, timedelta(hours=2)), time(1)),
        ("subtract", (TIME, time(1)), (INTERVAL, timedelta(hours=2)), time(23)),
        ("add", (TIME, time(1)), (INTERVAL_MONTH, 2), time(1)),
        (
            "add",
            (TIMESTAMP_TZ, datetime(2020, 1, 31, tzinfo=UTC)),
            (INTERVAL_MONTH, 1),
            datetime(2020, 2, 29, tzinfo=UTC),
        ),
        (
            "subtract",
            (TIMESTAMP_TZ, datetime(2020, 1, 1, tzinfo=UTC)),
            (INTERVAL, DAY),
            datetime(2019, 12, 31, tzinfo=UTC),
        ),
        ("subtract", (DATE, date(2020, 3, 1)), (DATE, date(2020, 2, 1)), 29),
        (
            "subtract",
            (TIMESTAMP, datetime(2020, 3, 1, 1)),
            (TIMESTAMP, datetime(2020, 2, 1)),
            timedelta(days=29, hours=1),
        ),
        ("subtract", (DATE, date(2020, 3, 1)), (TIMESTAMP, datetime(2020, 2, 29)), DAY),
        ("subtract", (TIME, time(1)), (TIME, time(2)), timedelta(hours=-1)),
        ("add", (INTERVAL, DAY), (INTERVAL, -2 * DAY), -DAY),
        ("subtract", (INTERVAL_MONTH, 3), (INTERVAL_MONTH, 5), -2),
        ("multiply", (INTERVAL, DAY), (INTEGER, 3), 3 * DAY),
        ("multiply", (DOUBLE, 0.5), (INTERVAL, DAY), timedelta(hours=12)),
        ("divide", (INTERVAL, DAY), (INTEGER, 2), timedelta(hours=12)),
        ("multiply", (INTERVAL_MONTH, 5), (INTEGER, -2), -10),
    ],
    ids=str,
)
def test_arithmetic(
    operation: str, left: tuple[SqlType, Any], right: tuple[SqlType, Any], result: Any
) -> None:
    assert _run(operation, left, right) == result


@pytest.mark.parametrize(
    ("operation", "left", "right"),
    [
        ("add", DATE, DATE),
        ("subtract", TIME, DATE),
        ("subtract", INTERVAL, DATE),
        ("multiply", INTERVAL, INTERVAL),
        ("multiply", DATE, INTEGER),
        ("add", TIMESTAMP, INTEGER),
        ("divide", INTEGER, INTERVAL),
    ],
    ids=str,
)
def test_operands_that_do_not_go_together(operation: str, left: SqlType, right: SqlType) -> None:
    rows = Rows(a=(left, [None]), b=(right, [None]))
    with pytest.raises(ProgrammingError, match="operator to"):
        call(operation, (rows["a"], rows["b"]))


@pytest.mark.parametrize(
    ("operation", "left", "right", "message"),
    [
        ("add", (DATE, date(9999, 12, 31)), (INTERVAL, DAY), "TIMESTAMP overflow in '+' operator"),
        ("subtract", (DATE, date(1, 1, 1)), (INTEGER, 1), "DATE overflow in '-' operator"),
        (
            "add",
            (TIMESTAMP, datetime(9999, 12, 1)),
            (INTERVAL_MONTH, 1),
            "TIMESTAMP overflow in '+' operator",
        ),
        (
            "subtract",
            (TIMESTAMP, datetime(1, 1, 1)),
            (INTERVAL_MONTH, 1),
            "TIMESTAMP overflow in '-' operator",
        ),
        (
            "multiply",
            (INTERVAL, 10**6 * DAY),
            (BIGINT, 10**6),
            "INTERVAL DAY TO SECOND overflow in '*' operator",
        ),
        ("divide", (INTERVAL, DAY), (INTEGER, 0), "division by zero"),
    ],
    ids=str,
)
def test_overflow(
    operation: str, left: tuple[SqlType, Any], right: tuple[SqlType, Any], message: str
) -> None:
    rows = Rows(a=(left[0], [None, left[1]]), b=(right[0], [right[1], right[1]]))
    with pytest.raises(DataError) as raised:
        rows.run(call(operation, (rows["a"], rows["b"])))
    assert raised.value.message == message


MOMENTS = st.one_of(st.none(), st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1)))


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(MOMENTS, st.one_of(st.none(), st.integers(-100, 100))), min_size=1, max_size=8
    )
)
def test_months_like_duckdb(pairs: list[tuple[datetime | None, int | None]]) -> None:
    pairs = [
        (moment, months) for moment, months in pairs if moment is None or 20 < moment.year < 9980
    ]
    rows = Rows(
        t=(TIMESTAMP, [moment for moment, _ in pairs]),
        n=(INTERVAL_MONTH, [months for _, months in pairs]),
    )
    if pairs:
        assert_like_duckdb(rows, call("add", (rows["t"], rows["n"])), "t + to_months(n)")
        assert_like_duckdb(rows, call("subtract", (rows["t"], rows["n"])), "t - to_months(n)")


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.lists(MOMENTS, min_size=1, max_size=8))
def test_fields_like_duckdb(moments: list[datetime | None]) -> None:
    rows = Rows(t=(TIMESTAMP, moments))
    for field in ("century", "decade", "isoyear", "week", "dow", "doy", "epoch"):
        assert_like_duckdb(
            rows,
            call("EXTRACT", (literal(field), rows["t"])),
            f"extract({field} FROM t)",
            relative=1e-15,
        )
    for unit in ("week", "month", "quarter", "year"):
        assert_like_duckdb(
            rows, call("DATE_TRUNC", (literal(unit), rows["t"])), f"date_trunc('{unit}', t)"
        )


NOON = datetime(2020, 2, 29, 12, 14, 15, 678901)


@pytest.mark.parametrize(
    ("field", "value", "sql_type", "result"),
    [
        ("SECOND", NOON, TIMESTAMP, 15.678901),
        ("MILLISECOND", NOON, TIMESTAMP, 15678.901),
        ("MICROSECOND", NOON, TIMESTAMP, 15678901.0),
        ("milliseconds", NOON, TIMESTAMP, 15678.901),
        ("SECOND", datetime(1969, 12, 31, 23, 59, 59, 500000), TIMESTAMP, 59.5),
        ("EPOCH", datetime(1969, 12, 31, 23, 59, 59, 500000), TIMESTAMP, -0.5),
        ("EPOCH", time(1, 0, 0, 500000), TIME, 3600.5),
        ("HOUR", time(23, 1), TIME, 23.0),
        ("HOUR", date(2020, 1, 1), DATE, 0.0),
        ("MILLENNIUM", datetime(2000, 12, 31), TIMESTAMP, 2.0),
        ("MILLENNIUM", datetime(2001, 1, 1), TIMESTAMP, 3.0),
        ("DAY", timedelta(days=3, hours=5), INTERVAL, 3.0),
        ("HOUR", timedelta(days=3, hours=5), INTERVAL, 5.0),
        ("SECOND", -timedelta(seconds=1.5), INTERVAL, -1.5),
        ("EPOCH", timedelta(days=1), INTERVAL, 86400.0),
        ("YEAR", 14, INTERVAL_MONTH, 1.0),
        ("MONTH", 14, INTERVAL_MONTH, 2.0),
    ],
    ids=str,
)
def test_extract(field: str, value: Any, sql_type: SqlType, result: float) -> None:
    rows = Rows(v=(sql_type, [value, None]))
    assert rows.run(call("EXTRACT", (literal(field), rows["v"]))) == [result, None]


@pytest.mark.parametrize(
    ("field", "sql_type", "message", "hint"),
    [
        ("YEAR", TIME, "cannot extract YEAR from TIME", None),
        ("yeer", TIMESTAMP, "cannot extract YEER from TIMESTAMP", 'did you mean "year"?'),
        (
            "YEAR",
            BIGINT,
            "argument 2 of EXTRACT must be a date, a time or an INTERVAL, not BIGINT",
            "add an explicit CAST",
        ),
    ],
)
def test_extract_refuses(field: str, sql_type: SqlType, message: str, hint: str | None) -> None:
    rows = Rows(v=(sql_type, [None]))
    with pytest.raises(ProgrammingError) as raised:
        call("EXTRACT", (literal(field), rows["v"]))
    assert (raised.value.message, raised.value.hint) == (message, hint)


def test_truncation_to_long_units() -> None:
    rows = Rows(
        t=(TIMESTAMP, [datetime(2019, 5, 6), datetime(2000, 5, 6), datetime(99, 1, 1), None])
    )
    for unit, results in (
        ("decade", [datetime(2010, 1, 1), datetime(2000, 1, 1), datetime(90, 1, 1), None]),
        ("century", [datetime(2001, 1, 1), datetime(1901, 1, 1), datetime(1, 1, 1), None]),
        ("millennium", [datetime(2001, 1, 1), datetime(1001, 1, 1), datetime(1, 1, 1), None]),
    ):
        assert rows.run(call("DATE_TRUNC", (literal(unit), rows["t"]))) == results
    with pytest.raises(ProgrammingError, match="cannot truncate to YEER"):
        call("DATE_TRUNC", (literal("yeer"), rows["t"]))
    with pytest.raises(ProgrammingError, match="the field of DATE_TRUNC must be a text literal"):
        call("DATE_TRUNC", (rows["t"], rows["t"]))


def test_the_time_of_the_statement() -> None:
    instant = datetime(2024, 7, 1, 23, 30, 0, 5, tzinfo=UTC)
    micros = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    results = {
        "NOW": (TIMESTAMP_TZ, instant),
        "CURRENT_TIMESTAMP": (TIMESTAMP_TZ, instant),
        "LOCALTIMESTAMP": (TIMESTAMP, datetime(2024, 7, 2, 1, 30, 0, 5)),
        "CURRENT_DATE": (DATE, date(2024, 7, 2)),
        "CURRENT_TIME": (TIME, time(1, 30, 0, 5)),
        "LOCALTIME": (TIME, time(1, 30, 0, 5)),
    }
    rows = Rows(n=(BIGINT, [1, 2, 3]))
    for name, (sql_type, value) in results.items():
        expression = call(name, ())
        assert expression.type == sql_type
        assert rows.run(expression, now=micros, zone=ZONE) == [value] * 3


@pytest.mark.parametrize(
    ("number", "result"),
    [
        (-1, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (1, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (31_535_999_999, datetime(2969, 5, 2, 23, 59, 59, tzinfo=UTC)),
        (1_577_836_800_000, datetime(2020, 1, 1, tzinfo=UTC)),
        (1_577_836_800_000_000, datetime(2020, 1, 1, tzinfo=UTC)),
        (1_577_836_800_000_000_999, datetime(2020, 1, 1, tzinfo=UTC)),
    ],
)
def test_to_timestamp_tz(number: int, result: datetime) -> None:
    rows = Rows(n=(BIGINT, [number, None]))
    assert rows.run(call("TO_TIMESTAMP_TZ", (rows["n"],))) == [result, None]
    assert Rows().run(call("TO_TIMESTAMP_TZ", (Literal(value=number, type=BIGINT),))) == [result]


def test_to_timestamp_tz_out_of_range() -> None:
    rows = Rows(n=(BIGINT, [-(2**62)]))
    with pytest.raises(
        DataError, match="TIMESTAMP WITH TIME ZONE overflow in TO_TIMESTAMP_TZ function"
    ):
        rows.run(call("TO_TIMESTAMP_TZ", (rows["n"],)))


def test_zones() -> None:
    rows = Rows(t=(TIMESTAMP, [NOON]), z=(TIMESTAMP_TZ, [NOON.replace(tzinfo=UTC)]))
    there = call("at_time_zone", (rows["t"], literal(ZONE)))
    assert there.type == TIMESTAMP_TZ
    assert rows.run(there) == [NOON.replace(hour=11, tzinfo=UTC)]
    assert rows.run(call("at_time_zone", (rows["z"], literal(ZONE)))) == [NOON.replace(hour=13)]
    with pytest.raises(ProgrammingError) as raised:
        call("at_time_zone", (rows["t"], literal("Europe/Berln")))
    assert raised.value.message == 'time zone "Europe/Berln" not found'
    assert raised.value.hint == 'did you mean "Europe/Berlin"?'


@pytest.mark.parametrize(
    "zone",
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Tokyo"],
)
def test_clocks_change_after_2037_too(zone: str) -> None:
    """Arrow's tables of zones end there; the rule doesn't."""
    start, place = datetime(2036, 12, 31), ZoneInfo(zone)
    moments = [start + timedelta(minutes=97 * number) for number in range(3 * 5420)]
    moments += [
        datetime(2692, 7, 16, 12, 14, 37, 55851),
        datetime(9999, 12, 31),
        datetime(9999, 6, 30, 23, 59, 59, 999999),
    ]
    rows = Rows(x=(TIMESTAMP_TZ, [*(moment.replace(tzinfo=UTC) for moment in moments), None]))
    local = [
        moment.replace(tzinfo=UTC).astimezone(place).replace(tzinfo=None) for moment in moments[:-2]
    ]
    assert rows.run(build.cast(rows["x"], TIMESTAMP), zone=zone)[: len(local)] == local
    walls = Rows(x=(TIMESTAMP, [*moments[:-2], None]))
    for wall, found in zip(
        moments, walls.run(build.cast(walls["x"], TIMESTAMP_TZ), zone=zone)[:-1], strict=False
    ):
        first, second = (wall.replace(tzinfo=place, fold=fold).utcoffset() for fold in (0, 1))
        # The offset before a gap (which is that of fold 0), and the second of two times.
        assert found == (wall - min(first, second)).replace(tzinfo=UTC), wall  # type: ignore[type-var]


LOCAL_TIMES = """
    2024-03-31 02:30:00|Europe/Vienna|2024-03-31 01:30:00
    2024-03-31 02:00:00|Europe/Vienna|2024-03-31 01:00:00
    2024-03-31 03:00:00|Europe/Vienna|2024-03-31 01:00:00
    2024-10-27 02:30:00|Europe/Vienna|2024-10-27 01:30:00
    2024-10-27 02:00:00|Europe/Vienna|2024-10-27 01:00:00
    2024-10-27 03:00:00|Europe/Vienna|2024-10-27 02:00:00
    2050-03-27 02:30:00|Europe/Vienna|2050-03-27 01:30:00
    2050-10-30 02:30:00|Europe/Vienna|2050-10-30 01:30:00
    2024-10-06 02:15:00|Australia/Lord_Howe|2024-10-05 15:45:00
    2024-04-07 01:45:00|Australia/Lord_Howe|2024-04-06 15:15:00
    2011-12-30 12:00:00|Pacific/Apia|2011-12-30 22:00:00
    2024-03-10 02:30:00|America/New_York|2024-03-10 07:30:00
    2024-11-03 01:30:00|America/New_York|2024-11-03 06:30:00
    1893-03-31 23:55:00|Europe/Vienna|1893-03-31 22:55:00
    2018-10-28 02:30:00|Europe/Dublin|2018-10-28 02:30:00
    2018-10-28 01:30:00|Europe/Dublin|2018-10-28 01:30:00
    2018-03-25 01:30:00|Europe/Dublin|2018-03-25 01:30:00
""".split("\n")[1:-1]
"""A local time, its zone, and the instant in UTC, by PostgreSQL 15."""


@pytest.mark.parametrize("row", LOCAL_TIMES, ids=str.strip)
def test_local_times_that_are_skipped_or_come_twice(row: str) -> None:
    text, zone, expected = row.strip().split("|")
    wall, instant = (
        datetime.fromisoformat(text),
        datetime.fromisoformat(expected).replace(tzinfo=UTC),
    )
    rows = Rows(
        t=(TIMESTAMP, [wall, datetime(2024, 1, 1), None]), s=(VARCHAR, [text, "2024-01-01", None])
    )
    assert rows.run(call("at_time_zone", (rows["t"], literal(zone))))[::2] == [instant, None]
    for column in ("t", "s"):
        assert rows.run(build.cast(rows[column], TIMESTAMP_TZ), zone=zone)[::2] == [instant, None]
    assert python_values(array_of([wall], TIMESTAMP_TZ, zone), TIMESTAMP_TZ) == [instant]


@pytest.mark.parametrize(
    ("unit", "zone", "text", "expected"),
    [
        ("hour", "Europe/Vienna", "2024-10-27 00:30:00", "2024-10-27 00:00:00"),
        ("hour", "Europe/Vienna", "2024-10-27 01:30:00", "2024-10-27 01:00:00"),
        ("minute", "Europe/Vienna", "2024-10-27 00:30:30", "2024-10-27 00:30:00"),
        ("day", "Europe/Vienna", "2024-10-27 01:30:00", "2024-10-26 22:00:00"),
        ("hour", "America/Havana", "2024-11-03 04:30:00", "2024-11-03 04:00:00"),
        ("day", "America/Havana", "2024-11-03 04:30:00", "2024-11-03 05:00:00"),
    ],
)
def test_date_trunc_as_the_clock_is_set_back(
    unit: str, zone: str, text: str, expected: str
) -> None:
    """By PostgreSQL 15, which takes the second of two midnights, too."""
    found = datetime.fromisoformat(expected).replace(tzinfo=UTC)
    rows = Rows(z=(TIMESTAMP_TZ, [datetime.fromisoformat(text).replace(tzinfo=UTC)]))
    assert rows.run(call("date_trunc", (literal(unit), rows["z"])), zone=zone) == [found]
    assert rows.run(call("date_trunc", (literal(unit), rows["z"], literal(zone)))) == [found]
