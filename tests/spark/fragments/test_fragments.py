"""Sub-plans that run as Spark SQL: what is taken, and its end. That it means the same:
tests/both_runtimes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

import runnel

EDGES = """
    SELECT * FROM VALUES
        (1L, CAST(0 AS INT), CAST('NaN' AS DOUBLE), CAST(1.50 AS DECIMAL(10, 2)), 'a',
        DATE '2024-02-29', TRUE),
        (2L, -2147483648, -0.0D, -99999999.99, '', DATE '1969-12-31', FALSE),
        (3L, 2147483647, 0.0D, 99999999.99, 'B', DATE '9999-12-31', NULL),
        (4L, NULL, NULL, NULL, NULL, NULL, NULL),
        (5L, 7, CAST('Infinity' AS DOUBLE), 0, 'é🦀', DATE '0001-01-01', TRUE),
        (6L, -7, -1.5D, 0.01, 'a b', DATE '1970-01-01', FALSE)
    AS t(id, i, d, n, s, day, b)
"""


@pytest.fixture
def edges(session: Any, connection: runnel.Connection) -> None:
    connection.register("t", session.sql(EDGES))


def plan(cursor: runnel.Cursor, sql: str) -> list[str]:
    return [line for (line,) in cursor.execute(f"EXPLAIN (PHYSICAL) {sql}")]


@pytest.mark.usefixtures("edges")
def test_explain_shows_the_sql(cursor: runnel.Cursor) -> None:
    (line,) = plan(cursor, "SELECT s, id FROM t WHERE id > 2 AND s = 'x'")
    assert line.partition("  [~")[0] == (
        "Fragment on Spark (sql: SELECT t0.c1 AS c0, t0.c0 AS c1 "
        "FROM (SELECT `id` AS c0, `s` AS c1 FROM `t`) AS t0 "
        "WHERE ((t0.c0 > CAST('2' AS BIGINT)) AND (t0.c1 = 'x')))"
    )


@pytest.mark.usefixtures("edges")
def test_what_spark_can_not_do_is_done_above(cursor: runnel.Cursor) -> None:
    lines = plan(cursor, "SELECT TO_CHAR(day, 'YYYY') FROM t WHERE id = 1")
    assert "stopped by" in "".join(lines)
    assert cursor.execute("SELECT TO_CHAR(day, 'YYYY') FROM t WHERE id = 1").fetchall() == [
        ("2024",)
    ]


VALUES = [
    ("b", True),
    ("y", -128),
    ("i", 2**31 - 1),
    ("l", -(2**63)),
    ("d", 0.1),
    ("n", Decimal("-1.50")),
    ("s", "it's `a` +"),
    ("x", b"\x00\xff"),
    ("day", date(2024, 2, 29)),
    ("tod", time(23, 59, 59, 999999)),
    ("ts", datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("tz", datetime(2024, 2, 29, 12, tzinfo=UTC)),
    ("iv", timedelta(days=-1, microseconds=1)),
]


def test_arguments(session: Any, connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    frame = session.sql(
        "SELECT TRUE AS b, CAST(-128 AS TINYINT) AS y, 2147483647 AS i, "
        "-9223372036854775808L AS l, 0.1D AS d, "
        "CAST(-1.5 AS DECIMAL(10, 2)) AS n, CAST(X'6974277320606160202B' AS STRING) AS s, "
        "X'00FF' AS x, DATE '2024-02-29' AS day, TIME '23:59:59.999999' AS tod, "
        "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' AS ts, "
        "TIMESTAMP '2024-02-29 12:00:00+00:00' AS tz, "
        "INTERVAL '-0 23:59:59.999999' DAY TO SECOND AS iv"
    )
    connection.register("one", frame)
    for name, value in VALUES:
        assert cursor.execute(
            f"SELECT COUNT(*) FROM one WHERE {name} = ?", (value,)
        ).fetchone() == (1,), name
        assert cursor.execute(f"SELECT COUNT(*) FROM one WHERE {name} = ?", (None,)).fetchone() == (
            0,
        ), name
    odd = "it's `a` ${b} \\n {c} -- ; /* */"
    assert cursor.execute("SELECT ? FROM one WHERE l < 0", (odd,)).fetchall() == [(odd,)]


def test_order_is_kept(session: Any, connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    connection.register(
        "t", session.range(0, 200_000, 1, 8).selectExpr("id", "(id * 7919) % 200000 AS k")
    )
    assert cursor.execute("SELECT k FROM t ORDER BY k DESC").fetch_arrow_table().column(
        0
    ).to_pylist() == list(range(199_999, -1, -1))


def test_tables_of_one_session_are_joined_there(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register("a", session.range(1000).selectExpr("id", "id % 5 AS k"))
    cursor.execute(
        "CREATE MAPPING b TYPE Spark OPTIONS ('query' = "
        "'SELECT id AS k, CAST(id AS STRING) AS name FROM range(4)')"
    )
    sql = "SELECT name, COUNT(*) FROM a JOIN b ON a.k = b.k GROUP BY name ORDER BY name"
    assert plan(cursor, sql)[0].startswith("Fragment on Spark")
    assert cursor.execute(sql).fetchall() == [(str(i), 200) for i in range(4)]


def test_the_smaller_side_moves(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register("big", session.range(100_000).selectExpr("id", "id % 100 AS k"))
    cursor.execute(
        "CREATE MAPPING m (__key BIGINT, name VARCHAR) TYPE IMap "
        "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
    )
    cursor.execute("SINK INTO m VALUES (1, 'one'), (2, 'two')")
    sql = (
        "SELECT name, n FROM (SELECT k, COUNT(*) AS n FROM big GROUP BY k) JOIN m ON k = __key "
        "ORDER BY name"
    )
    assert sum("Fragment on Spark" in line for line in plan(cursor, sql)) == 1
    assert cursor.execute(sql).fetchall() == [("one", 1000), ("two", 1000)]


@pytest.mark.usefixtures("edges")
def test_failures_name_the_place(cursor: runnel.Cursor) -> None:
    with pytest.raises(runnel.DataError, match="division by zero") as failure:
        cursor.execute("SELECT 10 / i FROM t").fetchall()
    assert failure.value.position is not None
    assert failure.value.position.line == 1
    assert "[DIVIDE_BY_ZERO]" in (failure.value.detail or "")
    with pytest.raises(runnel.DataError, match="overflow"):
        cursor.execute("SELECT id + CAST(9223372036854775807 AS BIGINT) FROM t").fetchall()
    with pytest.raises(runnel.DataError, match="LIMIT value cannot be negative"):
        cursor.execute("SELECT i FROM t ORDER BY i LIMIT ?", (-1,)).fetchall()


def test_a_column_that_can_not_be_read(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register("t", session.sql("SELECT 1 AS a, MAKE_INTERVAL(1, 2) AS b"))
    with pytest.raises(runnel.NotSupportedError, match='column "b" of "t" can\'t be read'):
        cursor.execute("SELECT COUNT(b) FROM t WHERE a = 1").fetchall()
    assert cursor.execute("SELECT COUNT(a) FROM t WHERE a = 1").fetchall() == [(1,)]


def test_a_plan_is_used_again(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    session.range(3).createOrReplaceTempView("again")
    cursor.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 'again')")
    sql = "SELECT COUNT(*) FROM t WHERE id > ?"
    assert cursor.execute(sql, (0,)).fetchone() == (2,)
    session.range(30).createOrReplaceTempView("again")
    assert cursor.execute(sql, (9,)).fetchone() == (20,)
    session.catalog.dropTempView("again")


def test_the_zone_of_the_statement(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register("t", session.sql("SELECT TIMESTAMP '2024-07-01 00:00:00+00:00' AS tz"))
    sql = "SELECT CAST(tz AS TIMESTAMP), CAST(tz AS DATE) FROM t WHERE tz IS NOT NULL"
    assert cursor.execute(sql).fetchall() == [(datetime(2024, 7, 1), date(2024, 7, 1))]
    cursor.execute("SET time_zone = 'America/New_York'")
    assert cursor.execute(sql).fetchall() == [(datetime(2024, 6, 30, 20), date(2024, 6, 30))]
