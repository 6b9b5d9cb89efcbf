"""The rule "simpler conditions"."""

from __future__ import annotations

from datetime import date, datetime

import pyarrow as pa
import pytest

import runnel


@pytest.fixture
def days(connection: runnel.Connection) -> runnel.Cursor:
    """A table of three days, one of them NULL."""
    values = [date(1993, 12, 31), date(1994, 1, 1), None, date(1994, 1, 2)]
    connection.register(
        "days",
        pa.table({"d": pa.array(values, pa.date32()), "a": [1, 2, 3, 4], "b": [1, None, 3, 3]}),
    )
    return connection.cursor()


def plan(cursor: runnel.Cursor, sql: str) -> str:
    return "\n".join(line for (line,) in cursor.execute(f"EXPLAIN (LOGICAL) {sql}").fetchall())


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=", "<>"])
@pytest.mark.parametrize(
    "moment", ["1994-01-01 00:00:00", "1994-01-01 00:00:00.000001", "1993-12-31 23:59:59"]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_days_compare_with_times_as_before(
    days: runnel.Cursor, operator: str, moment: str, swapped: bool
) -> None:
    left, right = ("d", f"TIMESTAMP '{moment}'")[:: -1 if swapped else 1]
    found = days.execute(f"SELECT d FROM days WHERE {left} {operator} {right}").fetchall()
    wanted = datetime.fromisoformat(moment)
    compare = {
        "<": datetime.__lt__,
        "<=": datetime.__le__,
        ">": datetime.__gt__,
        ">=": datetime.__ge__,
        "=": datetime.__eq__,
        "<>": datetime.__ne__,
    }[operator]
    expected = []
    for (day,) in days.execute("SELECT d FROM days WHERE d IS NOT NULL").fetchall():
        instant = datetime(day.year, day.month, day.day)
        pair = (wanted, instant) if swapped else (instant, wanted)
        if compare(*pair):
            expected.append((day,))
    assert found == expected


def test_a_day_plus_an_interval_is_compared_as_a_day(days: runnel.Cursor) -> None:
    assert "where: d < DATE '1994-01-02'" in plan(
        days, "SELECT a FROM days WHERE d < DATE '1994-01-01' + INTERVAL '1' DAY"
    )


def test_a_join_key_in_every_alternative_is_found(days: runnel.Cursor) -> None:
    sql = (
        "SELECT COUNT(*) FROM days x, days y WHERE (x.a = y.b AND x.a > 2) OR (x.a = y.b AND y.a < "
        "2)"
    )
    assert "on: a = b" in plan(days, sql)
    assert days.execute(sql).fetchall() == [(3,)]


def test_an_alternative_that_says_no_more_absorbs_the_others(days: runnel.Cursor) -> None:
    assert "where: a > 2)" in plan(days, "SELECT a FROM days WHERE (a > 2) OR (a > 2 AND b = 3)")


def test_alternatives_that_can_fail_are_left_alone(days: runnel.Cursor) -> None:
    text = plan(days, "SELECT a FROM days WHERE (a > 2 AND 1 / b > 0) OR (a > 2 AND b < 0)")
    assert " OR " in text
    assert text.count("a > 2") == 2
