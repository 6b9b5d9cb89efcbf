"""Windows over TIMESTAMP WITH TIME ZONE on streams, in session zones whose clocks change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import runnel
from runnel import Connection

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
SCHEMA = pa.schema([("t", pa.timestamp("us", "UTC")), ("v", pa.int64())])


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        yield connection


def around(*days: tuple[int, int, int]) -> list[datetime]:
    """Every ten minutes of these days and of half a day before and after."""
    starts = [datetime(*day, tzinfo=UTC) - timedelta(hours=12) for day in days]
    return [start + timedelta(minutes=10 * number) for start in starts for number in range(2 * 144)]


MOMENTS = around(
    (2026, 3, 8), (2026, 3, 29), (2026, 4, 5), (2026, 10, 4), (2026, 10, 25), (2026, 11, 1)
)


def over_a_stream(con: Connection, sql: str, times: list[datetime]) -> list[Any]:
    """The rows of a query on a stream `s` of the times, a little out of order."""
    writer = con.register_stream("s", SCHEMA, time_column="t", max_disorder=timedelta(hours=2))
    cursor = con.execute(sql)
    for start in range(0, len(times), 7):
        rows = list(enumerate(times))[start : start + 7]
        writer.write([(time, number) for number, time in reversed(rows)])
    writer.close()
    return list(cursor.fetchall())


@pytest.mark.parametrize("zone", ZONES)
def test_an_hour_that_comes_twice_is_two_windows(con: Connection, zone: str) -> None:
    con.execute(f"SET TIME ZONE '{zone}'")
    sql = (
        "SELECT window_start, window_end, COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end"
    )
    found = over_a_stream(con, sql, MOMENTS)
    assert len(found) == len(MOMENTS) // 6
    assert {count for _, _, count in found} == {6}
    starts = [start.astimezone(UTC) for start, _, _ in found]
    assert sorted(starts) == sorted({time.replace(minute=0) for time in MOMENTS})
    assert all(
        end.astimezone(UTC) - start.astimezone(UTC) == timedelta(hours=1) for start, end, _ in found
    )


@pytest.mark.parametrize("zone", ZONES)
def test_streams_and_tables_agree_in_every_zone(con: Connection, zone: str) -> None:
    con.execute(f"SET TIME ZONE '{zone}'")
    windows = (
        "TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL '1' DAY, INTERVAL '3' HOUR)",
        "HOP(TABLE s, DESCRIPTOR(t), INTERVAL '3' HOUR, INTERVAL '90' MINUTE)",
        "CUMULATE(TABLE s, DESCRIPTOR(t), INTERVAL '6' HOUR, INTERVAL '1' DAY)",
        "SESSION(TABLE s, DESCRIPTOR(t), INTERVAL '1' HOUR)",
    )
    for window in windows:
        sql = (
            "SELECT window_start, window_end, CAST(MIN(t) AS VARCHAR), SUM(v) "
            f"FROM TABLE({window}) w "
        )
        sql += "GROUP BY window_start, window_end"
        found = over_a_stream(con, sql, MOMENTS)
        con.register(
            "s",
            pa.table({"t": pa.array(MOMENTS, SCHEMA.field("t").type), "v": range(len(MOMENTS))}),
        )
        assert sorted(found) == sorted(con.execute(sql).fetchall())
        assert len(found) > 3


def test_days_of_a_zone_by_the_wall_clock(con: Connection) -> None:
    """Windows are of equal length; who wants the days of a zone groups by them, which have 23 to 25
    hours."""
    con.execute("SET TIME ZONE 'Europe/Berlin'")
    sql = (
        "SELECT window_end, CAST(t AS DATE), COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL '30' DAY)) "
        "GROUP BY window_end, CAST(t AS DATE)"
    )
    times = around((2026, 3, 29), (2026, 10, 25))
    days: dict[Any, int] = {}
    for time in times:
        day = time.astimezone(ZoneInfo("Europe/Berlin")).date()
        days[day] = days.get(day, 0) + 1
    assert {23 * 6, 25 * 6} <= set(days.values())
    assert sorted((day, count) for _, day, count in over_a_stream(con, sql, times)) == sorted(
        days.items()
    )
