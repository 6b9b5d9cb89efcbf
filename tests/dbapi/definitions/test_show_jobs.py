"""SHOW JOBS and the tables of information_schema that describe the session."""

from __future__ import annotations

import pytest

import runnel
from runnel import Connection

SHORT = [
    *("id", "name", "status", "query", "uptime"),
    *("rows_per_second", "watermark_lag", "last_error"),
]


@pytest.fixture
def shop(connection: Connection) -> Connection:
    cursor = connection.cursor()
    for name in ("daily_sales", "daily_clicks", "audit"):
        cursor.execute(
            f"CREATE MAPPING {name} (__key BIGINT, this BIGINT) TYPE IMap "
            "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
        )
        cursor.execute(
            f"CREATE JOB {name} AS SINK INTO {name} SELECT v, v "
            "FROM TABLE(GENERATE_STREAM(1)) AS g(v)"
        )
    return connection


def names(connection: Connection, statement: str, *args: object) -> list[str]:
    cursor = connection.execute(statement, args)
    column = [item[0] for item in cursor.description or ()].index("name")
    return [row[column] for row in cursor.fetchall()]


def test_eight_columns(shop: Connection) -> None:
    cursor = shop.execute("SHOW JOBS")
    assert [item[0] for item in cursor.description or ()] == SHORT
    assert [row[1:3] for row in cursor.fetchall()] == [
        ("daily_sales", "RUNNING"),
        ("daily_clicks", "RUNNING"),
        ("audit", "RUNNING"),
    ]


def test_full_has_the_columns_of_the_table(shop: Connection) -> None:
    full = shop.execute("SHOW JOBS FULL").description
    table = shop.execute("SELECT * FROM information_schema.jobs").description
    assert full is not None and len(full) == 28
    assert full == table


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("LIKE 'daily%'", ["daily_sales", "daily_clicks"]),
        ("ILIKE 'DAILY%' ORDER BY name", ["daily_clicks", "daily_sales"]),
        ("NOT LIKE 'daily%'", ["audit"]),
        ("LIKE 'daily%' AND name <> 'daily_sales'", ["daily_clicks"]),
        ("WHERE status = 'RUNNING' AND kind = 'job' ORDER BY name LIMIT 1", ["audit"]),
        ("FULL WHERE runtime = 'spark'", []),
        ("ORDER BY name DESC LIMIT 1", ["daily_sales"]),
    ],
)
def test_conditions(shop: Connection, rest: str, expected: list[str]) -> None:
    assert names(shop, f"SHOW JOBS {rest}") == expected


def test_parameters(shop: Connection) -> None:
    assert names(shop, "SHOW JOBS LIKE ?", "aud%") == ["audit"]


def test_the_position_of_an_error_is_in_the_text(shop: Connection) -> None:
    with pytest.raises(runnel.ProgrammingError, match='column "stat" does not exist') as caught:
        shop.execute("SHOW JOBS WHERE stat = 'RUNNING'")
    assert caught.value.position is not None
    assert caught.value.position.column == 17


def test_running_queries_are_listed(shop: Connection) -> None:
    reader = shop.execute("SELECT * FROM TABLE(GENERATE_STREAM(1))")
    query = "SELECT query FROM information_schema.jobs WHERE kind = 'light'"
    assert shop.execute(query).fetchall() == [("SELECT * FROM TABLE(GENERATE_STREAM(1))",)]
    reader.close()


def test_plans_and_settings(connection: Connection) -> None:
    connection.execute("SELECT 1 + 1").fetchall()
    found = connection.execute("SELECT query, uses FROM information_schema.plans").fetchall()
    assert ("SELECT 1 + 1", 1) in found
    connection.execute("SET query_parallelism = 2")
    setting = connection.execute(
        "SELECT value, scope FROM information_schema.settings WHERE name = 'query_parallelism'"
    )
    assert setting.fetchall() == [("2", "session")]
