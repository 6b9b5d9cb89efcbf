"""Fragments on DuckDB under a memory limit: what is larger than the limit runs on operators that
spill, and what runs out of memory all the same is run once more by them."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import runnel
from runnel.connectors.duckdb.fragments import DuckDBEngine
from runnel.duckdb.stream import DuckDBStream
from runnel.errors import ErrorCode
from tests.effort import some

ROWS = 1_600_000
LIMIT = "40MB"
"""DuckDB then has its least, 34 MB, less than it needs for a join, a sort or a window over these
rows."""

SUM = 1000 * 999 // 2
"""Of g, which counts from 0 to 999 again and again."""

QUERIES = {
    "join": (
        "SELECT COUNT(*), SUM(a.g) FROM t AS a JOIN t AS b ON a.v = b.v",
        (ROWS, ROWS // 1000 * SUM),
    ),
    "sort": (
        "SELECT COUNT(*), SUM(g), MAX(k) FROM (SELECT v, k, g FROM t ORDER BY v OFFSET 1)",
        (ROWS - 1, ROWS // 1000 * SUM, ROWS // 5 - 1),
    ),
    "over": (
        (
            "SELECT COUNT(*), SUM(r), MAX(k) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY g "
            "ORDER BY v) AS r, k FROM t)"
        ),
        (ROWS, ROWS * (ROWS // 1000 + 1) // 2, ROWS // 5 - 1),
    ),
    "except": (
        "SELECT COUNT(*) FROM (SELECT v, k FROM t EXCEPT SELECT v, k FROM t WHERE g > 0)",
        (ROWS // 1000,),
    ),
}


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    v = np.arange(ROWS)
    return pa.table({"v": v, "k": v * 1_000_003 % (ROWS // 5), "g": v % 1000})


@pytest.fixture
def con(rows: pa.Table) -> Iterator[runnel.Connection]:
    with runnel.connect(memory_limit=LIMIT) as connection:
        connection.register("t", rows)
        yield connection


@pytest.fixture
def eager(con: runnel.Connection, monkeypatch: pytest.MonkeyPatch) -> runnel.Connection:
    """A connection whose planner takes every plan for small enough, and whose DuckDB has next to no
    memory."""
    monkeypatch.setattr(DuckDBEngine, "memory", None)
    con._database.kernel().configure(6_000_000, None)
    return con


def explained(con: runnel.Connection, sql: str) -> str:
    return "\n".join(row[0] for row in con.execute(f"EXPLAIN (PHYSICAL) {sql}").fetchall())


@pytest.mark.parametrize("name", some(sorted(QUERIES), 2))
def test_what_is_larger_than_the_limit_is_for_operators_that_spill(
    con: runnel.Connection, name: str
) -> None:
    sql, wanted = QUERIES[name]
    plan = explained(con, sql)
    assert "Fragment on DuckDB" not in plan
    assert "not on DuckDB: about" in plan
    assert "memory_limit" in plan
    assert con.execute(sql).fetchall() == [wanted]
    assert con._database.memory.spilled_bytes > 1_000_000


def test_a_join_needs_room_for_its_smaller_side(con: runnel.Connection) -> None:
    con.register("few", pa.table({"g": np.arange(100_000), "w": np.arange(100_000)}))
    sql = "SELECT COUNT(*), SUM(t.k), SUM(few.w) FROM t JOIN few ON t.v = few.g"
    assert "not on DuckDB" not in explained(con, sql)
    expected = con.execute(sql).fetchall()
    con.execute("SET pushdown = off")
    assert con.execute(sql).fetchall() == expected
    con.execute("SET pushdown = on")
    joins = " ".join(f"JOIN few AS f{number} ON t.v = f{number}.g" for number in range(12))
    assert "to join" in explained(
        con, f"SELECT COUNT(*), {', '.join(f'SUM(f{i}.w)' for i in range(12))} FROM t {joins}"
    )


def test_joins_below_groups_may_go_by_way_of_files() -> None:
    """With enough memory for that; what gives rows before its end couldn't begin anew."""
    rows = pa.table({"v": np.arange(12_000_000)})
    for limit, fits in (("600MB", True), ("300MB", False)):
        with runnel.connect(memory_limit=limit) as connection:
            connection.register("t", rows)
            joined = "FROM t AS a JOIN t AS b ON a.v = b.v"
            assert (
                "not on DuckDB" not in explained(connection, f"SELECT COUNT(*) {joined}")
            ) is fits
            assert "not on DuckDB: about 384 MB to join" in explained(
                connection, f"SELECT a.v {joined}"
            )


def test_a_larger_limit_brings_the_fragment_back(con: runnel.Connection) -> None:
    sql, _ = QUERIES["sort"]
    assert "Fragment on DuckDB" not in explained(con, sql)
    con.execute("SET memory_limit = '1GB'")
    assert "Fragment on DuckDB" in explained(con, sql)
    con.execute("SET memory_limit = '0'")
    assert "Fragment on DuckDB" in explained(con, sql)


def test_groups_and_first_rows_stay_with_duckdb(con: runnel.Connection) -> None:
    assert "Fragment on DuckDB" in explained(con, "SELECT k, COUNT(*) FROM t GROUP BY k")
    held = explained(con, "SELECT k, ARRAY_AGG(v), MAX(g) FROM t GROUP BY k")
    assert "Fragment on DuckDB" not in held
    assert "to group" in held
    below = explained(con, "SELECT k, COUNT(*) AS n, SUM(v) FROM t GROUP BY k ORDER BY k")
    assert below.startswith("Sort")
    assert "Fragment on DuckDB" in below


def test_tables_of_duckdb_are_read_where_they_are(con: runnel.Connection, tmp_path: Any) -> None:
    path = tmp_path / "d.duckdb"
    con.execute(
        "CREATE MAPPING d (v BIGINT, k BIGINT, g BIGINT) TYPE DuckDB "
        f"OPTIONS ('path'='{path}', 'create'='true')"
    )
    con.execute("INSERT INTO d SELECT v, k, g FROM t")
    sql, wanted = (
        item.replace(" t ", " d ") if isinstance(item, str) else item for item in QUERIES["join"]
    )
    plan = explained(con, sql)
    assert plan.count("Fragment on DuckDB") == 2
    assert "stopped by: about" in plan
    assert con.execute(sql).fetchall() == [wanted]


@pytest.mark.parametrize("name", some(["join", "over", "sort"], 2))
def test_a_fragment_without_room_is_run_by_our_operators(
    eager: runnel.Connection, name: str
) -> None:
    sql, wanted = QUERIES[name]
    assert "Fragment on DuckDB" in explained(eager, sql)
    assert eager.execute(sql).fetchall() == [wanted]
    assert eager._database.memory.spilled_bytes > 1_000_000
    assert eager._database.memory.used == 0
    assert eager.jobs() == []


def test_rows_one_by_one_after_a_fragment_without_room(eager: runnel.Connection) -> None:
    cursor = eager.execute("SELECT v, k, g FROM t ORDER BY k, v")
    assert cursor.fetchone() == (0, 0, 0)
    (job,) = eager.jobs()
    cursor.cancel()
    with pytest.raises(runnel.OperationalError) as caught:
        cursor.fetchall()
    assert caught.value.code == ErrorCode.CANCELLED
    job.wait()
    assert eager._database.memory.used == 0


def test_a_change_after_a_fragment_without_room(eager: runnel.Connection, tmp_path: Any) -> None:
    path = tmp_path / "d.duckdb"
    eager.execute(
        "CREATE MAPPING d (v BIGINT, k BIGINT) TYPE DuckDB "
        f"OPTIONS ('path'='{path}', 'create'='true')"
    )
    cursor = eager.execute("INSERT INTO d SELECT a.v, b.k FROM t AS a JOIN t AS b ON a.v = b.v")
    assert cursor.rowcount == ROWS
    assert eager.execute("SELECT COUNT(*), SUM(v) FROM d").fetchall() == [
        (ROWS, ROWS * (ROWS - 1) // 2)
    ]
    lines = eager.execute(f"EXPLAIN ANALYZE {QUERIES['join'][0]}").fetchall()
    assert lines[-1][0].startswith("1 row in")


def test_rows_that_were_given_are_not_given_again(
    con: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute("SET memory_limit = '1GB'")
    put = DuckDBStream._put
    seen: list[int] = []

    def failing(self: DuckDBStream, batch: pa.RecordBatch) -> None:
        seen.append(batch.num_rows)
        if len(seen) > 6:
            raise RuntimeError("Out of Memory Error: no room")
        put(self, batch)

    monkeypatch.setattr(DuckDBStream, "_put", failing)
    cursor = con.execute("SELECT v, k FROM t ORDER BY v")
    assert cursor.fetchone() == (0, 0)
    with pytest.raises(runnel.OperationalError, match="out of memory") as caught:
        cursor.fetchall()
    assert caught.value.code == ErrorCode.OUT_OF_MEMORY
    assert "pushdown" in (caught.value.hint or "")


def test_a_query_that_reads_a_stream_is_not_begun_anew(
    con: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: DuckDBStream, limit: int | None) -> bool:
        assert written.wait(30)
        raise RuntimeError("Out of Memory Error: no room")

    written = Event()
    monkeypatch.setattr(DuckDBStream, "_read", failing)
    con.execute("SET fragment_rows = 0")
    with con.register_stream("s", {"v": "BIGINT"}) as writer:
        cursor = con.execute(
            "SELECT s.v, n FROM s JOIN (SELECT v, COUNT(*) AS n FROM t "
            "GROUP BY v) AS c ON s.v = c.v"
        )
        writer.write([(1,)])
        written.set()
        with pytest.raises(runnel.OperationalError, match="out of memory") as caught:
            cursor.fetchall()
    assert caught.value.code == ErrorCode.OUT_OF_MEMORY, "the row that was written would be lost"
