"""Materialized views that can't be created or read, and what the errors say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from runnel import JobStatus
from runnel.testing import ManualClock
from tests.jobs.feeds import PATIENCE

QUERY = "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page"


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect(clock=ManualClock()) as made:
        made.register_stream("clicks", {"page": "VARCHAR", "x": "BIGINT"})
        made.execute("CREATE TABLE t (a BIGINT)")
        made.execute("CREATE MAPPING m (__key VARCHAR, title VARCHAR) TYPE IMap")
        made.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT page, COUNT(*) AS n, MAX(title) AS title "
            "FROM clicks LEFT JOIN m ON page = __key GROUP BY page"
        )
        yield made


@pytest.mark.parametrize(
    ("sql", "message", "remedy"),
    [
        (f"CREATE MATERIALIZED VIEW v AS {QUERY}", "exists already", "CREATE OR REPLACE"),
        (f"CREATE MATERIALIZED VIEW t AS {QUERY}", 'table "t" exists already', "DROP TABLE t"),
        (f"CREATE MATERIALIZED VIEW j AS {QUERY}", 'job "j" exists already', "another name"),
        ("CREATE TABLE v (a INT)", 'view "v" exists already', "DROP MATERIALIZED VIEW v"),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT n FROM v", "can't read itself", None),
        ("CREATE MATERIALIZED VIEW w AS SELECT x FROM clicks LIMIT 2", "LIMIT", "leave it out"),
        ("CREATE MATERIALIZED VIEW w AS SELECT x FROM clicks ORDER BY x", "sorting", "leave ORDER"),
        ("CREATE MATERIALIZED VIEW w AS SELECT n, NOW() FROM v", "NOW()", "event time"),
        ("CREATE MATERIALIZED VIEW w AS SELECT n, RANDOM() AS r FROM v", "RAND()", "below"),
        ("CREATE MATERIALIZED VIEW w AS SELECT x, x FROM clicks", "two columns", "name the"),
        ("CREATE MATERIALIZED VIEW w AS SELECT NULL AS a", "no type", "CAST(NULL AS VARCHAR)"),
        ("CREATE MATERIALIZED VIEW w (a, b) AS SELECT x FROM clicks", "2 names are given", None),
        (f"CREATE MATERIALIZED VIEW w AS {QUERY} EMIT CHANGES", "EMIT CHANGES", "leave EMIT"),
        ("CREATE MATERIALIZED VIEW w OPTIONS ('x' = '1') AS SELECT 1 AS a", "option 'x'", "its"),
        (
            "CREATE MATERIALIZED VIEW w OPTIONS ('epochMillis' = 'x') AS SELECT 1 AS a",
            "epochMillis",
            "from 0",
        ),
        ("INSERT INTO v VALUES ('a', 1, NULL)", "can't be written to", "that the query reads"),
        ("DELETE FROM v", "can't be written to", "that the query reads"),
        ("DROP VIEW v", "is a materialized view", "DROP MATERIALIZED VIEW v"),
        ("DROP MATERIALIZED VIEW t", "is a table", "DROP TABLE t"),
        ("DROP MATERIALIZED VIEW nothing", "not found", None),
        ("DROP MAPPING m", 'is used by the materialized view "v"', "CASCADE"),
        ("DROP JOB v", "belongs to the materialized view", "DROP MATERIALIZED VIEW v"),
        ("STOP JOB v", "belongs to the materialized view", "DROP MATERIALIZED VIEW v"),
        ("CREATE JOB v AS INSERT INTO t SELECT 1", "belongs to", "DROP MATERIALIZED VIEW v"),
        ("ALTER JOB v AS INSERT INTO t SELECT 1", "belongs to", "ALTER MATERIALIZED VIEW"),
        ("EXPLAIN ALTER JOB v AS INSERT INTO t SELECT 1", "belongs to", "ALTER MATERIALIZED VIEW"),
        ("ALTER MATERIALIZED VIEW v AS SELECT 1", "AS is not supported", "CREATE OR REPLACE"),
        ("ALTER MATERIALIZED VIEW v RENAME TO w", "RENAME is not supported", "DROP"),
        ("CREATE MAPPING w TYPE MaterializedView", "can't be a materialized view", "CREATE MAT"),
    ],
)
def test_an_error_names_the_remedy(
    con: runnel.Connection, sql: str, message: str, remedy: str | None
) -> None:
    if " j AS" in sql:
        con.execute("CREATE JOB j AS INSERT INTO t SELECT x FROM clicks")
    with pytest.raises(runnel.Error) as caught:
        con.execute(sql)
    assert message in str(caught.value)
    assert remedy is None or remedy in (caught.value.hint or "")
    assert [row[0] for row in con.execute("SHOW MATERIALIZED VIEWS").fetchall()] == ["v"]


def test_transactions(con: runnel.Connection) -> None:
    con.execute("BEGIN")
    assert con.execute("SELECT COUNT(*) FROM v").fetchall() == [(0,)]
    assert con.execute("SELECT n FROM v WHERE page = 'a'").fetchall() == []
    for sql in (
        f"CREATE MATERIALIZED VIEW w AS {QUERY}",
        "ALTER MATERIALIZED VIEW v SUSPEND",
        "DROP MATERIALIZED VIEW v",
    ):
        with pytest.raises(runnel.NotSupportedError, match="in a transaction"):
            con.execute(sql)
    con.execute("ROLLBACK")
    assert con.execute("SELECT COUNT(*) FROM v").fetchall() == [(0,)]


def test_a_view_that_does_not_run(con: runnel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS c FROM v GROUP BY n")
    assert con.execute("SELECT * FROM w").fetchall() == []
    con.execute("DROP MAPPING m CASCADE")
    for sql in ("SELECT * FROM v", "SELECT n FROM v WHERE page = 'a'", "SELECT * FROM w"):
        with pytest.raises(runnel.OperationalError, match='view "v" is SUSPENDED') as caught:
            con.execute(sql)
        assert "ALTER MATERIALIZED VIEW v RESUME" in (caught.value.hint or "")
    con.execute("SET view_freshness = 'latest'")
    assert con.execute("SELECT * FROM v").fetchall() == []
    with pytest.raises(runnel.ProgrammingError, match='"m" not found'):
        con.execute("ALTER MATERIALIZED VIEW v RESUME")
    with pytest.raises(runnel.ProgrammingError, match='used by the materialized view "w"'):
        con.execute("DROP MATERIALIZED VIEW v")
    con.execute("DROP MATERIALIZED VIEW v CASCADE")
    assert con.job("w").status is JobStatus.SUSPENDED
    con.execute("DROP MATERIALIZED VIEW w")
    assert con.execute("SHOW MATERIALIZED VIEWS").fetchall() == []


def test_a_view_that_others_read_is_not_replaced(con: runnel.Connection) -> None:
    """CREATE OR REPLACE has no CASCADE, so the hint is another one than DROP's."""
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS pages FROM v GROUP BY n")
    with pytest.raises(runnel.DependencyException) as caught:
        con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {QUERY}")
    assert caught.value.hint == "end them: DROP MATERIALIZED VIEW w"
    with pytest.raises(runnel.DependencyException, match="CASCADE"):
        con.execute("DROP MATERIALIZED VIEW v")


def test_a_view_over_a_suspended_view_has_its_rows(con: runnel.Connection) -> None:
    con.execute("ALTER MATERIALIZED VIEW v SUSPEND")
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT n FROM v")
    con.execute("ALTER MATERIALIZED VIEW v RESUME")
    assert con.execute("SELECT * FROM w").fetchall() == []
    con.execute("ALTER MATERIALIZED VIEW v SUSPEND")
    con.execute("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT page FROM v")
    con.execute("SET view_freshness = 'latest'")
    assert con.execute("SELECT * FROM w").fetchall() == []  # v is complete, although suspended


@pytest.mark.parametrize("query", [QUERY, "SELECT page, COUNT(DISTINCT x) FROM clicks GROUP BY 1"])
def test_state_that_is_too_large_suspends_the_view(con: runnel.Connection, query: str) -> None:
    clicks = con.register_stream("clicks", {"page": "VARCHAR", "x": "BIGINT"})
    options = "'maxStateBytes' = '500000', 'epochMillis' = '0'"
    con.execute(f"CREATE MATERIALIZED VIEW w OPTIONS ({options}) AS {query}")
    con.execute("DROP MATERIALIZED VIEW v")
    clicks.write([("a", 1)])
    assert con.execute("SELECT * FROM w").fetchall() == [("a", 1)]
    clicks.write([(f"page {number}", number) for number in range(20_000)])
    assert con.job("w").await_status(JobStatus.SUSPENDED, PATIENCE)
    with pytest.raises(runnel.OperationalError, match='view "w" is SUSPENDED') as caught:
        con.execute("SELECT * FROM w")
    assert 'the state of "w" is larger than maxStateBytes, 500,000 bytes' in str(caught.value)
    assert 'vertex "live' in str(caught.value)
    assert "raise the option 'maxStateBytes'" in (caught.value.hint or "")
    con.execute("ALTER MATERIALIZED VIEW w OPTIONS ('maxStateBytes' = '0')")
    con.execute("ALTER MATERIALIZED VIEW w RESUME")
    clicks.write([("b", 1)])
    assert ("b", 1) in con.execute("SELECT * FROM w").fetchall()


def test_state_of_a_query_that_is_too_large(con: runnel.Connection) -> None:
    con.execute("DROP MATERIALIZED VIEW v")
    clicks = con.register_stream("clicks", {"page": "VARCHAR", "x": "BIGINT"})
    cursor = con.cursor().execute(
        f"{QUERY} EMIT CHANGES OPTIONS ('maxStateBytes' = '100000', 'epochMillis' = '0')"
    )
    clicks.write([(f"page {number}", number) for number in range(20_000)])
    with pytest.raises(runnel.OperationalError, match="the state of the query is larger"):
        while True:
            cursor.fetchmany(1000, timeout=PATIENCE)


def test_a_view_without_its_record(tmp_path: Path) -> None:
    """The catalog has the view, and its job was removed by hand."""
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a")
        assert connection.execute("SELECT * FROM v").fetchall() == [(1,)]
    [record] = (tmp_path / "db" / "jobs").glob("*/job.json")
    record.unlink()
    with runnel.connect(tmp_path / "db") as connection:
        with pytest.raises(runnel.OperationalError, match="without its job") as caught:
            connection.execute("SELECT * FROM v")
        assert "DROP MATERIALIZED VIEW v" in (caught.value.hint or "")
        connection.execute("DROP MATERIALIZED VIEW v")


def test_a_subscription_ends_with_the_view(con: runnel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT 7 AS a")
    cursor = con.cursor().execute("SELECT * FROM w EMIT CHANGES OPTIONS ('epochMillis' = '0')")
    assert cursor.fetchone(timeout=PATIENCE) == (1, 1, 7)
    con.execute("DROP MATERIALIZED VIEW w")
    with pytest.raises(runnel.OperationalError, match='view "w" was dropped'):
        cursor.fetchone(timeout=PATIENCE)
