"""Two sessions of one database: which settings they share, and the plans that they have cached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.database import Database
from runnel.planner.cache import PlanKey
from runnel.planner.environment import PlanSettings
from runnel.results.rows import Result
from runnel.session.session import OWNER, Session
from runnel.settings import SETTINGS, SettingScope
from runnel.statements.run import SessionExecutor

ROWS = 5_000
OTHER_VALUES: dict[str, Any] = {
    "default_null_order": "nulls_last",
    "dml_sync": True,
    "fragment_rows": 7,
    "idle_timeout": 99,
    "latency_target": "20 ms",
    "max_processor_accumulated_records": 8,
    "memory_limit": 50_000_000,
    "pipeline_name": "mine",
    "plan_cache_size": 9,
    "pushdown": False,
    "python_scan": False,
    "query_parallelism": 2,
    "savepoint_path": "saved",
    "snapshot_interval": 77,
    "spark_job_rows": 10,
    "temp_directory": "/tmp",
    "time_zone": "Europe/Vienna",
    "view_freshness": "latest",
}
"""A value other than the default, for each setting that SET may change."""
IN_PLANS = ("time_zone", "pushdown", "fragment_rows", "memory_limit", "default_null_order")


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect(memory_limit=0) as connection:
        table = pa.table({"k": [i % 7 for i in range(ROWS)], "v": range(ROWS)})
        connection.register("t", table)
        yield connection


def other_session(connection: runnel.Connection) -> Session:
    database: Database = connection._database
    return Session(database, OWNER, connection._session.settings.copy())


def run(session: Session, sql: str, *args: Any) -> list[tuple[Any, ...]]:
    outcome = SessionExecutor(session).run(sql, args, None, lambda job: None)
    return [tuple(row) for row in outcome.rest()] if isinstance(outcome, Result) else []


def shown(session: Session, name: str) -> str:
    ((value,),) = run(session, f"SHOW {name}")
    assert isinstance(value, str)
    return value


def test_the_values_cover_all_settings() -> None:
    assert set(OTHER_VALUES) == {item.name for item in SETTINGS if not item.at_start}
    assert all(item.scope is SettingScope.DATABASE for item in SETTINGS if item.at_start)


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_the_scope_of_a_setting_says_which_sessions_see_a_change(
    connection: runnel.Connection, name: str
) -> None:
    (setting,) = (item for item in SETTINGS if item.name == name)
    first, second = connection._session, other_session(connection)
    before = shown(second, name)
    connection.execute(f"SET {name} = {OTHER_VALUES[name]!r}")
    after = shown(first, name)
    assert after == str(OTHER_VALUES[name]) != before
    assert shown(second, name) == (after if setting.scope is SettingScope.DATABASE else before)
    run(second, f"SET {name} = {OTHER_VALUES[name]!r}")
    run(second, f"RESET {name}")
    is_shared = setting.scope is SettingScope.DATABASE
    assert shown(first, name) == (str(setting.default) if is_shared else after)


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_the_key_of_a_plan_has_each_setting_that_changes_plans(
    connection: runnel.Connection, name: str
) -> None:
    session = other_session(connection)
    before = session.plan_key("SELECT 1", ())
    run(session, f"SET {name} = {OTHER_VALUES[name]!r}")
    assert (session.plan_key("SELECT 1", ()) != before) is (name in IN_PLANS)


def test_the_settings_in_the_key_are_the_ones_that_the_planner_reads() -> None:
    settings = [item.replace("time_", "").replace("default_", "") for item in IN_PLANS]
    assert settings == [
        item
        for item in PlanSettings._fields
        if item != "is_at_rest"  # it is of the statement
    ]
    assert "settings" in PlanKey._fields


def test_sessions_with_different_zones_have_plans_of_their_own(
    connection: runnel.Connection,
) -> None:
    first, second = connection._session, other_session(connection)
    run(second, "SET time_zone = 'Europe/Vienna'")
    sql = "SELECT CAST(TIMESTAMP '2024-07-01 12:00:00' AS TIMESTAMP WITH TIME ZONE)"
    for _ in range(2):  # planned, then found in the cache
        ((of_utc,),), ((of_vienna,),) = run(first, sql), run(second, sql)
        assert (of_utc.hour, of_vienna.astimezone(of_utc.tzinfo).hour) == (12, 10)
    cached = [item.key for item in connection._database.plans.entries() if item.key.sql == sql]
    assert sorted(key.settings.zone for key in cached) == ["Europe/Vienna", "UTC"]


def test_sessions_with_and_without_pushdown_have_plans_of_their_own(
    connection: runnel.Connection,
) -> None:
    first, second = connection._session, other_session(connection)
    for session, pushdown in ((first, "on"), (second, "off")):
        run(session, "SET fragment_rows = 0")
        run(session, f"SET pushdown = {pushdown}")
    sql = "SELECT k, SUM(v) FROM t GROUP BY k"
    assert sorted(run(first, sql)) == sorted(run(second, sql))
    texts = ["\n".join(map(str, run(item, f"EXPLAIN {sql}"))) for item in (first, second)]
    assert ["DuckDB" in text for text in texts] == [True, False]
    plans: list[Any] = [session.prepare(sql, ()) for session in (first, second)]
    assert plans[0] is not plans[1]
    assert [session.prepare(sql, ()) for session in (first, second)] == plans


def test_a_limit_of_one_session_does_not_apply_to_the_other(
    connection: runnel.Connection,
) -> None:
    first, second = connection._session, other_session(connection)
    run(second, "SET pushdown = off")
    run(first, "SET pushdown = off")
    run(second, "SET max_processor_accumulated_records = 10")
    sql = "SELECT v, COUNT(*) FROM t GROUP BY v"
    assert len(run(first, sql)) == ROWS
    with pytest.raises(runnel.OperationalError, match="10"):
        run(second, sql)


def test_a_job_runs_by_the_settings_of_the_owner(connection: runnel.Connection) -> None:
    second = other_session(connection)
    run(second, "SET time_zone = 'Europe/Vienna'")
    run(second, "SET max_processor_accumulated_records = 10")
    connection.execute(
        "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
    )
    run(second, "CREATE JOB j AS SINK INTO m SELECT v, COUNT(*) FROM t GROUP BY v")
    job = connection.job("j")
    job.join(60)
    assert job.record.zone == "Europe/Vienna"
    assert connection.execute("SELECT COUNT(*) FROM m").fetchone() == (ROWS,)
