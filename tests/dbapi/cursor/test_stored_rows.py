"""Queries that return the rows of a table in memory as they are stored: they start no job."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import runnel
from runnel.connector import BATCH_ROWS
from runnel.errors import ErrorCode, InterfaceError, OperationalError

ROWS = 3 * BATCH_ROWS + 5
TABLE = pa.table({"n": pa.array(range(ROWS)), "t": pa.array([f"t{i % 7}" for i in range(ROWS)])})


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.register("r", TABLE)
        cursor = connection.cursor()
        cursor.execute("CREATE MAPPING m (__key BIGINT, this VARCHAR) TYPE IMap")
        cursor.execute("INSERT INTO m SELECT n, t FROM r")
        cursor.execute("DELETE FROM m WHERE __key % 10 = 3")
        yield connection


STORED = {
    "SELECT * FROM r": TABLE,
    "SELECT t, n AS x FROM r": TABLE.select(["t", "n"]).rename_columns(["t", "x"]),
    "SELECT n, n AS again FROM r": pa.table([TABLE["n"], TABLE["n"]], ["n", "again"]),
}


@pytest.mark.parametrize("sql", STORED)
def test_all_ways_of_fetching_return_the_rows(connection: runnel.Connection, sql: str) -> None:
    expected = STORED[sql]
    rows = list(zip(*(column.to_pylist() for column in expected.columns), strict=True))
    cursor = connection.cursor()
    assert cursor.execute(sql).fetch_arrow_table().equals(expected)
    assert cursor.execute(sql).fetchall() == rows
    assert list(cursor.execute(sql)) == rows
    cursor.execute(sql)
    assert cursor.fetchone() == rows[0]
    assert cursor.fetchmany(70_000) == rows[1:70_001]
    assert cursor.fetch_arrow_table().equals(expected.slice(70_001))
    assert cursor.fetchall() == []
    assert cursor.rowcount == ROWS
    batches = list(cursor.execute(sql).fetch_record_batch())
    assert pa.Table.from_batches(batches).equals(expected)
    assert len(batches) == 4


def test_a_map_without_its_dead_rows(connection: runnel.Connection) -> None:
    alive = sorted(
        (n, t)
        for n, t in zip(*map(pa.ChunkedArray.to_pylist, TABLE.columns), strict=True)
        if n % 10 != 3
    )
    cursor = connection.cursor()
    assert sorted(cursor.execute("SELECT * FROM m").fetchall()) == alive
    found = cursor.execute("SELECT this, __key FROM m").fetch_arrow_table()
    assert found.schema.names == ["this", "__key"]
    assert found.num_rows == len(alive)


def test_the_rows_are_those_of_the_time_of_execute(connection: runnel.Connection) -> None:
    before = connection.cursor().execute("SELECT * FROM m")
    count = connection.cursor().execute("SELECT COUNT(*) FROM m").fetchone()
    connection.cursor().execute("DELETE FROM m")
    connection.cursor().execute("INSERT INTO m VALUES (1, 'new')")
    assert count == (len(before.fetchall()),)
    assert connection.cursor().execute("SELECT * FROM m").fetchall() == [(1, "new")]


def test_no_job_is_started(connection: runnel.Connection) -> None:
    cursor = connection.cursor().execute("SELECT * FROM r")
    assert cursor.progress() is None
    other = connection.cursor()
    by_job = other.execute("SELECT * FROM r", timeout=60).fetch_arrow_table()
    assert by_job.sort_by("n").equals(TABLE.combine_chunks())
    plan = other.execute("EXPLAIN (PHYSICAL) SELECT n FROM r").fetchall()
    assert plan == [(f"Scan r, without a job (read: n)  [~{ROWS} rows]",)]
    ((line,),) = other.execute("EXPLAIN ANALYZE SELECT n FROM r").fetchall()
    assert line.startswith(f"{ROWS:,} rows in ")
    assert line.endswith(", without a job")
    for query in ("SELECT n + 0 FROM r", "SELECT n FROM r WHERE n > 3", "SELECT n FROM r LIMIT 2"):
        (first, *_) = other.execute(f"EXPLAIN (PHYSICAL) {query}").fetchone()
        assert "without a job" not in first, query


def test_a_closed_cursor_has_no_rows_left(connection: runnel.Connection) -> None:
    cursor = connection.cursor().execute("SELECT * FROM r")
    rows = cursor.fetch_record_batch()
    assert next(rows).num_rows == BATCH_ROWS
    cursor.execute("SELECT 1")
    with pytest.raises(InterfaceError, match="before all rows were read"):
        next(rows)


def test_a_cancelled_cursor_returns_no_more_rows(connection: runnel.Connection) -> None:
    cursor = connection.cursor().execute("SELECT * FROM r")
    assert cursor.fetchone() == (0, "t0")
    cursor.cancel()
    with pytest.raises(OperationalError) as caught:
        cursor.fetchall()
    assert caught.value.code is ErrorCode.CANCELLED


def test_rows_that_are_shown_remain(connection: runnel.Connection) -> None:
    cursor = connection.cursor().execute("SELECT n FROM r")
    assert f"20 rows of {ROWS:,}" in repr(cursor)
    assert cursor.fetch_arrow_table().equals(TABLE.select(["n"]))


def test_an_empty_table(connection: runnel.Connection) -> None:
    connection.register("empty", TABLE.slice(0, 0))
    cursor = connection.cursor().execute("SELECT t FROM empty")
    assert cursor.fetch_arrow_table().equals(TABLE.select(["t"]).slice(0, 0))
    assert connection.cursor().execute("SELECT * FROM empty").fetchall() == []
