"""OVER in Spark's fragments: what is taken means what our operator means, what isn't the same is
left to it."""

from __future__ import annotations

from typing import Any

import pytest

import runnel
from tests.spark.fragments.test_fragments import plan

ROWS = """
    SELECT id, id % 3 AS g, NULLIF(id * 7 % 11, 4) AS v,
        CAST(id * 5 % 4 AS DECIMAL(12, 2)) / 4 AS n,
        CAST(id % 5 AS STRING) AS s, CAST(id % 6 AS DOUBLE) AS d, 9223372036854775807L - id AS large
    FROM RANGE(40)
"""

TAKEN = [
    "ROW_NUMBER() OVER (ORDER BY id)",
    "ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC, id)",
    "RANK() OVER (PARTITION BY g ORDER BY v NULLS FIRST)",
    "DENSE_RANK() OVER (ORDER BY s DESC, v)",
    "COUNT(*) OVER ()",
    "COUNT(v) OVER (PARTITION BY g)",
    "SUM(v) OVER (PARTITION BY g ORDER BY id)",
    "SUM(v) OVER (PARTITION BY s ORDER BY v)",
    "SUM(n) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "SUM(v) OVER (ORDER BY id ROWS BETWEEN 3 FOLLOWING AND 5 FOLLOWING)",
    "SUM(v) OVER (ORDER BY id ROWS BETWEEN 5 PRECEDING AND 3 PRECEDING)",
    "SUM(v) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)",
    "SUM(large) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND CURRENT ROW)",
    "MIN(s) OVER (PARTITION BY g ORDER BY id ROWS 4 PRECEDING)",
    "MAX(v) OVER (PARTITION BY d)",
    "COUNT(*) OVER (ORDER BY v RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "BOOL_AND(v > 2) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "AVG(v) OVER (PARTITION BY g)",
    "AVG(n) OVER (PARTITION BY g ORDER BY id)",
    "LAG(v) OVER (ORDER BY id)",
    "LAG(d, 2, -1.5) OVER (PARTITION BY g ORDER BY id)",
    "LAG(v, 0) OVER (ORDER BY id)",
    "LEAD(s, 3, 'none') OVER (PARTITION BY g ORDER BY id DESC)",
    "LEAD(v) IGNORE NULLS OVER (ORDER BY id)",
    "LEAD(v, 1, id) OVER (ORDER BY id)",
    "FIRST_VALUE(v) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    (
        "FIRST_VALUE(v) IGNORE NULLS OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED "
        "FOLLOWING)"
    ),
    "LAST_VALUE(d) OVER (PARTITION BY g ORDER BY id)",
    "LAST_VALUE(v) IGNORE NULLS OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING)",
    "NTH_VALUE(v, 3) OVER (PARTITION BY g ORDER BY id)",
    "NTH_VALUE(v, 2) IGNORE NULLS OVER (ORDER BY id)",
    "NTILE(7) OVER (ORDER BY id)",
    "NTILE(50) OVER (PARTITION BY g ORDER BY id DESC)",
    "PERCENT_RANK() OVER (PARTITION BY g ORDER BY v)",
    "CUME_DIST() OVER (ORDER BY s, v NULLS LAST)",
]

LEFT = [
    "SUM(d) OVER (ORDER BY id)",
    "RANK() OVER (ORDER BY d)",
    "AVG(d) OVER (PARTITION BY g)",
    "LAG(v) OVER (ORDER BY d)",
    "LAG(v, id) OVER (ORDER BY id)",
    "LEAD(v, -1) OVER (ORDER BY id)",
    "NTILE(id) OVER (ORDER BY id)",
    "COUNT(DISTINCT v) OVER (PARTITION BY g)",
    "SUM(v) FILTER (WHERE id > 5) OVER (PARTITION BY g)",
    "SUM(v) OVER (ORDER BY v RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "SUM(v) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW)",
    "SUM(v) OVER (ORDER BY v GROUPS 1 PRECEDING)",
    "SUM(v) OVER (ORDER BY id ROWS 2147483648 PRECEDING)",
    "SUM(v) OVER (ORDER BY id ROWS ? PRECEDING)",
]


@pytest.fixture(autouse=True)
def table(session: Any, connection: runnel.Connection) -> None:
    connection.register("t", session.sql(ROWS))


def test_what_is_the_same_runs_there(cursor: runnel.Cursor) -> None:
    for call in TAKEN:
        (line,) = plan(cursor, f"SELECT id, {call} FROM t ORDER BY id")
        assert line.startswith("Fragment on Spark"), call
    together = f"SELECT id, {', '.join(TAKEN)} FROM t ORDER BY id"
    there = cursor.execute(together).fetchall()
    cursor.execute("SET pushdown = off")
    here = cursor.execute(together).fetchall()
    for place, call in enumerate(("id", *TAKEN)):
        assert [row[place] for row in there] == [row[place] for row in here], call


def test_the_rest_is_left_to_our_operator(cursor: runnel.Cursor) -> None:
    for call in LEFT:
        arguments = (1,) if "?" in call else ()
        lines = [
            line
            for (line,) in cursor.execute(f"EXPLAIN (PHYSICAL) SELECT id, {call} FROM t", arguments)
        ]
        assert any("Window" in line for line in lines), call


def test_sums_that_are_too_large_fail(cursor: runnel.Cursor) -> None:
    sql = "SELECT SUM(large) OVER (ORDER BY id ROWS 1 PRECEDING) FROM t"
    assert plan(cursor, sql)[0].startswith("Fragment on Spark")
    with pytest.raises(runnel.DataError):
        cursor.execute(sql).fetchall()


def test_the_first_of_each_group(cursor: runnel.Cursor) -> None:
    sql = (
        "SELECT g, id FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY g "
        "ORDER BY v DESC NULLS LAST, id) = 1 ORDER BY g"
    )
    there = cursor.execute(sql).fetchall()
    cursor.execute("SET pushdown = off")
    assert cursor.execute(sql).fetchall() == there
    assert len(there) == 3
