"""Whole tables through the cursor: as Python tuples, and as Arrow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import duckdb
import polars
import pyarrow as pa

import runnel
from benchmarks.measure import Budget, Contestant, Result, measure
from benchmarks.point_queries import ENTRIES, filled_map


def results(rounds: int) -> Iterator[Result]:
    """The benchmarks of this file, in sequence."""
    connection = runnel.connect()
    filled_map(connection)
    yield _as_tuples(connection, rounds)
    yield _as_arrow(connection, rounds)
    connection.close()


def _as_tuples(connection: runnel.Connection, rounds: int) -> Result:
    cursor = connection.cursor()
    duck = duckdb.connect()
    duck.execute(f"CREATE TABLE m AS SELECT i AS k, i * 3 AS v FROM range({ENTRIES}) t(i)")
    lite = sqlite3.connect(":memory:")
    lite.execute("CREATE TABLE m (k INTEGER PRIMARY KEY, v INTEGER)")
    lite.executemany("INSERT INTO m VALUES (?, ?)", ((i, i * 3) for i in range(ENTRIES)))
    frame = polars.DataFrame({"k": range(ENTRIES), "v": range(0, 3 * ENTRIES, 3)})
    assert len(cursor.execute("SELECT * FROM m").fetchall()) == ENTRIES
    result = measure(
        "scan to tuples",
        [
            Contestant("Runnel", lambda: cursor.execute("SELECT * FROM m").fetchall()),
            Contestant("DuckDB", lambda: duck.execute("SELECT * FROM m").fetchall()),
            Contestant("sqlite3", lambda: lite.execute("SELECT * FROM m").fetchall()),
            Contestant("Polars, rows()", frame.rows),
        ],
        rounds=rounds,
        note=f"`SELECT * FROM m` and fetchall, {ENTRIES:,} BIGINT → BIGINT entries",
        budget=Budget("DuckDB", 0.8),
    )
    duck.close()
    lite.close()
    return result


def _as_arrow(connection: runnel.Connection, rounds: int) -> Result:
    cursor = connection.cursor()
    stored = cursor.execute("SELECT * FROM m").fetch_arrow_table().to_batches()
    schema = stored[0].schema
    connection.register("r", pa.Table.from_batches(stored))
    duck = duckdb.connect()
    duck.execute(f"CREATE TABLE m AS SELECT i AS k, i * 3 AS v FROM range({ENTRIES}) t(i)")
    calls = 20

    def many(sql: str) -> None:
        for _ in range(calls):
            assert cursor.execute(sql).fetch_arrow_table().num_rows == ENTRIES

    def return_stored() -> None:
        for _ in range(calls):
            reader = pa.RecordBatchReader.from_batches(schema, (batch for batch in stored))
            assert reader.read_all().num_rows == ENTRIES

    result = measure(
        "scan to Arrow",
        [
            Contestant("Runnel, map", lambda: many("SELECT * FROM m"), calls),
            Contestant("Runnel, registered table", lambda: many("SELECT * FROM r"), calls),
            Contestant("returning the stored batches", return_stored, calls),
            Contestant("DuckDB", lambda: duck.sql("SELECT * FROM m").to_arrow_table()),
        ],
        rounds=rounds,
        note=(
            f"`SELECT * FROM m` and fetch_arrow_table, {ENTRIES:,} entries in {len(stored)} batches"
        ),
        budget=Budget("returning the stored batches", 1.2),
    )
    duck.close()
    return result
