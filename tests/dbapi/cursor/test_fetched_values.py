"""Values that a cursor returns in another form than the engine works with: intervals of months, and
instants in the time zone of the session."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import runnel
from runnel import Connection, Cursor, DataError, Interval, ProgrammingError

NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)


def test_intervals_add_up() -> None:
    assert Interval(1, 2, 3) + Interval(1) == Interval(2, 2, 3)
    assert Interval(1) + timedelta(days=1, seconds=2) == Interval(1, 1, 2_000_000)
    assert timedelta(hours=1) + Interval(1) == Interval(1, 0, 3_600_000_000)
    assert Interval(5) - Interval(7, 1) == Interval(-2, -1)
    assert timedelta(days=3) - Interval(1) == Interval(-1, 3)
    assert 3 * Interval(1, -2) == Interval(1, -2) * 3 == Interval(3, -6)
    assert sum([Interval(1), Interval(2)], Interval()) == Interval(3)
    assert not Interval() and Interval(0, 0, 1)
    with pytest.raises(TypeError):
        Interval(1) + 1
    with pytest.raises(TypeError):
        Interval(1) * 1.5


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(), "00:00:00"),
        (Interval(14, 3, 14_706_700_000), "1 year 2 mons 3 days 04:05:06.7"),
        (Interval(-25, -1, -1_500_000), "-2 years -1 mons -1 days -00:00:01.5"),
        (Interval(1, 1), "1 mon 1 day"),
        (Interval(0, 0, 90_000_000_000), "25:00:00"),
    ],
)
def test_the_text_is_that_of_sql(interval: Interval, text: str) -> None:
    assert str(interval) == text


@pytest.mark.parametrize("months", [0, 1, -1, 12, 14, -25])
def test_months_have_the_text_of_a_cast(cursor: Cursor, months: int) -> None:
    cursor.execute(
        "SELECT CAST(? * INTERVAL '1' MONTH AS VARCHAR), ? * INTERVAL '1' MONTH", (months,) * 2
    )
    text, value = cursor.fetchone() or ()
    assert value == Interval(months)
    assert months == 0 or str(value) == text


def test_an_interval_is_an_argument(cursor: Cursor) -> None:
    cursor.execute(
        "SELECT DATE '2024-01-31' + ?, ?, ?", (Interval(1), Interval(13), Interval(0, 1, 5))
    )
    assert cursor.fetchall() == [
        (datetime(2024, 2, 29), Interval(13), timedelta(days=1, microseconds=5))
    ]
    cursor.execute("CREATE TABLE spans (i INTERVAL YEAR TO MONTH)")
    cursor.executemany("INSERT INTO spans VALUES (?)", [(Interval(1),), (None,), (Interval(26),)])
    assert cursor.execute("SELECT MAX(i) FROM spans").fetchall() == [(Interval(26),)]
    assert cursor.execute("SELECT ?", (Interval(1, 1),)).fetchall() == [(Interval(1, 1),)]
    with pytest.raises(ProgrammingError, match="INTERVAL YEAR TO MONTH from"):
        cursor.execute("INSERT INTO spans VALUES (?)", (Interval(1, 1),))
    with pytest.raises(DataError, match="is too long"):
        cursor.execute("SELECT ?", (Interval(0, 10**10),))


def test_months_within_other_values(cursor: Cursor) -> None:
    cursor.execute(
        "SELECT [INTERVAL 1 MONTH, NULL], {'a': INTERVAL 1 YEAR}, map {'k': INTERVAL 2 MONTH}"
    )
    assert cursor.fetchall() == [([Interval(1), None], {"a": Interval(12)}, {"k": Interval(2)})]


def test_months_of_a_subquery(cursor: Cursor) -> None:
    cursor.execute(
        "SELECT x FROM (VALUES (INTERVAL 1 MONTH), (INTERVAL 2 MONTH)) t(x) "
        "WHERE x > (SELECT INTERVAL 1 MONTH)"
    )
    assert cursor.fetchall() == [(Interval(2),)]


def test_instants_are_in_the_zone_of_the_session(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.execute(
        "CREATE MAPPING m (__key BIGINT, this TIMESTAMP WITH TIME ZONE) TYPE IMap "
        "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'timestamp with time zone')"
    )
    cursor.execute("INSERT INTO m VALUES (1, ?)", (NOON,))
    asked = ("SELECT this FROM m", "SELECT this FROM m WHERE __key = 1", "SELECT MAX(this) FROM m")
    for zone in ("UTC", "Europe/Vienna", "Asia/Kolkata"):
        cursor.execute(f"SET time_zone = '{zone}'")
        for sql in asked:
            ((value,),) = cursor.execute(sql).fetchall()
            assert value == NOON
            assert value.utcoffset() == NOON.astimezone(ZoneInfo(zone)).utcoffset()
        ((values,),) = cursor.execute("SELECT [this, NULL] FROM m WHERE __key = 1").fetchall()
        assert values == [NOON, None]
        assert values[0].utcoffset() == NOON.astimezone(ZoneInfo(zone)).utcoffset()
    assert "2024-07-01 17:30:00+05:30" in repr(cursor.execute("SELECT this FROM m"))


def test_a_year_of_the_first_hours_outside_python(connection: Connection) -> None:
    connection.execute("SET time_zone = 'America/New_York'")
    cursor = connection.execute("SELECT TIMESTAMPTZ '0001-01-01 00:00:00+00'")
    with pytest.raises(DataError, match="outside the years 1 to 9999"):
        cursor.fetchall()
    assert connection.execute("SELECT DATE '0001-01-01'").fetchall() == [(date(1, 1, 1),)]


def test_the_default_connection_knows_the_class() -> None:
    assert runnel.Interval(1).__class__.__module__ == "runnel"
