"""What DuckDB refuses to bind our own operators do: found when a statement is planned, or, for its
arguments, when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest

import runnel


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(
            "CREATE MAPPING t (i INTEGER, s VARCHAR, d DATE, z TIMESTAMP WITH TIME ZONE) "
            "TYPE DuckDB"
        )
        made.execute("INSERT INTO t VALUES (1, 'a', DATE '2024-01-01', NULL), (2, 'b', NULL, NULL)")
        yield made


def plan_of(con: runnel.Connection, sql: str, arguments: tuple[Any, ...]) -> str:
    return "\n".join(
        line for (line,) in con.execute(f"EXPLAIN (PHYSICAL) {sql}", arguments).fetchall()
    )


REFUSED: dict[str, tuple[str, tuple[Any, ...], list[tuple[Any, ...]]]] = {
    "no argument": (
        "SELECT i, SUM(i) OVER (ORDER BY d + 1) FROM t WHERE i > 0",
        (),
        [(1, 3), (2, 2)],
    ),
    "an argument beside it": (
        "SELECT i, SUM(i) OVER (ORDER BY d + 1) FROM t WHERE i > ?",
        (0,),
        [(1, 3), (2, 2)],
    ),
    "an argument in it": (
        "SELECT i, SUM(i) OVER (PARTITION BY d + ?) FROM t",
        (1,),
        [(1, 1), (2, 2)],
    ),
    "the zone": (
        "SELECT i, CAST(z AS DATE), SUM(i) OVER (ORDER BY d + 1) FROM t",
        (),
        [(1, None, 3), (2, None, 2)],
    ),
    "the time": (
        "SELECT i, NOW() > z, SUM(i) OVER (ORDER BY d + 1) FROM t",
        (),
        [(1, None, 3), (2, None, 2)],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_found_when_it_is_planned(con: runnel.Connection, case: str) -> None:
    sql, arguments, expected = REFUSED[case]
    assert sorted(con.execute(sql, arguments).fetchall()) == expected
    assert "stopped by: DuckDB: Binder Error" in plan_of(con, sql, arguments)


@pytest.mark.parametrize("order", ["?", "'x'", "1 + 1", "? || 'b'"])
def test_a_constant_orders_no_aggregate(con: runnel.Connection, order: str) -> None:
    arguments = ("x",) * order.count("?")
    sql = f"SELECT STRING_AGG(s, ',' ORDER BY {order}, s DESC) FROM t"
    assert con.execute(sql, arguments).fetchall() == [("b,a",)]
    assert "Fragment on DuckDB" in plan_of(con, sql, arguments)
    assert con.execute(
        f"SELECT STRING_AGG(s, ',' ORDER BY {order}) FROM t WHERE i = 1", arguments
    ).fetchall() == [("a",)]


def test_what_is_taken_goes_there_still(con: runnel.Connection) -> None:
    sql = (
        "SELECT i + ?, SUM(i) OVER (PARTITION BY s || ? ORDER BY CAST(z AS DATE)) FROM t "
        "WHERE d > ? OR s LIKE ? LIMIT ?"
    )
    arguments = (1, "x", date(2023, 1, 1), "b%", 5)
    assert sorted(con.execute(sql, arguments).fetchall()) == [(2, 1), (3, 2)]
    assert plan_of(con, sql, arguments).startswith("Fragment on DuckDB")


def test_what_an_argument_makes_wrong_fails_as_on_our_operators(con: runnel.Connection) -> None:
    """A constant that can't be worked out is a call that fails, which DuckDB takes nowhere among
    the keys."""
    sql = "SELECT i, SUM(i) OVER (PARTITION BY 1 / ?) FROM t"
    assert plan_of(con, sql, (0,)).startswith("Fragment on DuckDB")
    assert con.execute(sql, (2,)).fetchall() == [(1, 3), (2, 3)]
    with pytest.raises(runnel.DataError, match="division by zero"):
        con.execute(sql, (0,)).fetchall()
    con.execute("CREATE MAPPING copy (i INTEGER, n BIGINT) TYPE DuckDB")
    with pytest.raises(runnel.DataError, match="division by zero"):
        con.execute(f"INSERT INTO copy {sql}", (0,))
    assert con.execute(f"INSERT INTO copy {sql}", (2,)).rowcount == 2
    assert con.execute("SELECT n FROM copy").fetchall() == [(3,), (3,)]


def test_rows_for_an_argument_for_which_duckdb_refuses(con: runnel.Connection) -> None:
    sql = (
        "SELECT i, RANK() OVER (PARTITION BY CASE WHEN i > 5 THEN 1 / ? ELSE i END ORDER BY i) "
        "FROM t"
    )
    for argument in (1, 0):
        assert sorted(con.execute(sql, (argument,)).fetchall()) == [(1, 1), (2, 1)]
    with runnel.connect(fragment_rows=0) as other:
        other.register("t", con.execute("SELECT i FROM t").fetch_arrow_table())
        assert sorted(other.execute(sql, (0,)).fetchall()) == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    "keys", ["ORDER BY d + 1", "PARTITION BY n / 100000 ORDER BY d + 1", "ORDER BY d + ?"]
)
def test_a_window_beyond_memory_with_keys_that_can_fail(keys: str) -> None:
    rows = 12_000
    days = pa.array([date(2024, 1, 1) + timedelta(days=j % 300) for j in range(rows)])
    sql = f"SELECT n, RANK() OVER ({keys}), SUM(n) OVER ({keys}) FROM t"
    arguments = (1,) * sql.count("?")
    found = []
    for limit in ("1GB", "1MB"):
        with runnel.connect(pushdown=False, memory_limit=limit) as con:
            con.register("t", pa.table({"n": list(range(rows)), "d": days}))
            found.append(sorted(con.execute(sql, arguments).fetchall()))
            assert con._database.kernel().is_open is (limit == "1MB")
    assert found[0] == found[1]
    assert len(found[0]) == rows
