"""SET, SHOW and the settings given to connect."""

from __future__ import annotations

from pathlib import Path

import pytest

import runnel
from runnel import Cursor
from runnel.settings import SETTINGS


def test_show_lists_all(cursor: Cursor) -> None:
    rows = cursor.execute("SHOW SETTINGS").fetchall()
    assert [row[0] for row in rows] == sorted(setting.name for setting in SETTINGS)
    assert all(meaning for *_, meaning in rows)
    assert cursor.execute("SHOW ALL").fetchall() == rows


def test_set_show_reset(cursor: Cursor) -> None:
    assert cursor.execute("SHOW plan_cache_size").fetchall() == [("1000",)]
    cursor.execute("SET plan_cache_size = 5")
    assert cursor.description is None and cursor.rowcount == -1
    assert cursor.execute("SHOW PLAN_CACHE_SIZE").fetchall() == [("5",)]
    cursor.execute("SET plan_cache_size = DEFAULT")
    assert cursor.execute("SHOW plan_cache_size").fetchall() == [("1000",)]


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            "SET plan_cash_size = 1",
            'setting "plan_cash_size" not found',
            'did you mean "plan_cache_size"?',
        ),
        ("SHOW zzz", 'setting "zzz" not found', "the settings are cooperative_threads, "),
        ("SET plan_cache_size = -1", 'wrong value -1 for setting "plan_cache_size"', "at least 0"),
        (
            "SET plan_cache_size = 1.5",
            'wrong value 1.5 for setting "plan_cache_size"',
            "at least 0",
        ),
        (
            "SET plan_cache_size = many",
            "wrong value 'many' for setting \"plan_cache_size\"",
            "at least 0",
        ),
        (
            "SET time_zone = 'Mars/Olympus'",
            "wrong value 'Mars/Olympus' for setting \"time_zone\"",
            "Europe/Vienna",
        ),
        (
            "SET cooperative_threads = 1",
            'setting "cooperative_threads" can\'t be changed',
            "connect(cooperative_threads=",
        ),
    ],
)
def test_refusals(cursor: Cursor, sql: str, message: str, hint: str) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        cursor.execute(sql)
    assert caught.value.message.startswith(message)
    assert caught.value.hint is not None and hint in caught.value.hint


def test_given_at_the_start() -> None:
    with runnel.connect(cooperative_threads=1, time_zone="Europe/Vienna") as connection:
        assert connection.execute("SHOW time_zone").fetchone() == ("Europe/Vienna",)
        assert connection.execute("SHOW cooperative_threads").fetchone() == ("1",)
    with pytest.raises(runnel.ProgrammingError, match='setting "thread" not found'):
        runnel.connect(thread=1)
    with runnel.connect(threads=1) as connection:
        assert connection.execute("SHOW threads").fetchone() == ("1",)
    with pytest.raises(runnel.ProgrammingError, match="wrong value 0"):
        runnel.connect(cooperative_threads=0)


def test_the_time_zone_changes_casts(cursor: Cursor) -> None:
    sql = "SELECT CAST(TIMESTAMP '2024-07-01 12:00:00' AS TIMESTAMP WITH TIME ZONE)"
    (before,) = cursor.execute(sql).fetchone() or ()
    cursor.execute("SET time_zone = 'Europe/Vienna'")
    (after,) = cursor.execute(sql).fetchone() or ()
    assert (before - after).total_seconds() == 7200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_zone", "'Europe/Vienna'"),
        ("pushdown", "off"),
        ("fragment_rows", "7"),
        ("memory_limit", "'512MB'"),
    ],
)
def test_a_plan_is_cached_with_the_settings_that_change_it(
    cursor: Cursor, name: str, value: str
) -> None:
    def hits() -> int:
        return next(row[3] for row in cursor.execute("SHOW PLANS") if row[0] == "hits")

    sql = "SELECT CAST(TIMESTAMP '2024-07-01 12:00:00' AS TIMESTAMP WITH TIME ZONE)"
    cursor.execute(sql).fetchall()
    before = hits()
    cursor.execute(f"SET {name} = {value}")
    cursor.execute(sql).fetchall()
    assert hits() == before, "the plan of other settings isn't taken"
    cursor.execute(f"SET {name} = DEFAULT")
    cursor.execute(sql).fetchall()
    assert hits() == before + 1, "the first plan is found again"


def test_a_size_of_nothing_keeps_no_plans(cursor: Cursor) -> None:
    cursor.execute("SELECT 1").fetchall()
    plans = [row for row in cursor.execute("SHOW PLANS") if row[0] == "plan"]
    assert ("plan", "SELECT 1", "", 1) in plans
    cursor.execute("SET plan_cache_size = 0")
    cursor.execute("SELECT 1").fetchall()
    assert [row for row in cursor.execute("SHOW PLANS") if row[0] == "plan"] == []


def test_show_plans_counts(cursor: Cursor) -> None:
    for number in range(3):
        cursor.execute("SELECT ? + 1", (number,)).fetchall()
    cursor.execute("SELECT ? + 1", (1.5,)).fetchall()
    rows = cursor.execute("SHOW PLANS").fetchall()
    plans = {(sql, types): uses for kind, sql, types, uses in rows if kind == "plan"}
    assert plans[("SELECT ? + 1", "BIGINT")] == 3
    assert plans[("SELECT ? + 1", "DOUBLE")] == 1
    counts = {kind: uses for kind, _, _, uses in rows if kind != "plan"}
    assert counts == {
        "size": 2,
        "capacity": 1000,
        "hits": 2,
        "misses": 3,
        "evictions": 0,
        "invalidations": 0,
    }


def test_a_limit_on_what_a_processor_holds(cursor: Cursor) -> None:
    cursor.execute("SET max_processor_accumulated_records = 100")
    cursor.execute("SELECT v FROM TABLE(GENERATE_SERIES(1, 100)) ORDER BY v DESC").fetchall()
    with pytest.raises(runnel.Error):
        cursor.execute("SELECT v FROM TABLE(GENERATE_SERIES(1, 101)) ORDER BY v DESC").fetchall()


def test_a_plan_over_a_file_named_in_the_statement_is_not_kept(
    cursor: Cursor, tmp_path: Path
) -> None:
    file = tmp_path / "data.csv"
    sql = f"SELECT * FROM TABLE(CSV_FILE('{file}'))"
    file.write_text("a,b\n1,2\n")
    assert cursor.execute(sql).fetchall() == [(1, 2)]
    file.write_text("a,b,c\n1,x,3\n")
    assert cursor.execute(sql).fetchall() == [(1, "x", 3)]
