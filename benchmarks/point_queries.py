"""Key look-ups and light jobs: how long a small answer takes through the cursor."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import cycle

import duckdb
import polars
import pyarrow as pa

import runnel
from benchmarks.measure import Budget, Contestant, Result, measure

ENTRIES = 1_000_000
CALLS = 2_000
DUCKDB_CALLS = 200


def results(rounds: int) -> Iterator[Result]:
    """The benchmarks of this file, in sequence."""
    yield _key_look_up(rounds)
    yield _light_job(rounds)


def _keys(count: int) -> list[int]:
    return [(i * 7919) % ENTRIES for i in range(count)]


def filled_map(connection: runnel.Connection, entries: int = ENTRIES) -> None:
    """A map `m` of BIGINT keys and BIGINT values."""
    cursor = connection.cursor()
    cursor.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )
    cursor.execute("SINK INTO m SELECT v, v * 3 FROM TABLE(GENERATE_SERIES(0, ?))", (entries - 1,))
    assert cursor.rowcount == entries


def _repeat(query: Callable[[int], object], calls: int) -> Callable[[], None]:
    keys = _keys(calls)

    def run() -> None:
        for key in keys:
            query(key)

    return run


def _key_look_up(rounds: int) -> Result:
    connection = runnel.connect()
    filled_map(connection)
    cursor = connection.cursor()
    duck = duckdb.connect()
    duck.execute("CREATE TABLE m (k BIGINT PRIMARY KEY, v BIGINT)")
    duck.execute(f"INSERT INTO m SELECT i, i * 3 FROM range({ENTRIES}) t(i)")
    lite = sqlite3.connect(":memory:")
    lite.execute("CREATE TABLE m (k INTEGER PRIMARY KEY, v INTEGER)")
    lite.executemany("INSERT INTO m VALUES (?, ?)", ((i, i * 3) for i in range(ENTRIES)))
    result = measure(
        "key look-up",
        [
            Contestant(
                "Runnel",
                _repeat(
                    lambda k: cursor.execute("SELECT this FROM m WHERE __key = ?", (k,)).fetchone(),
                    CALLS,
                ),
                CALLS,
            ),
            Contestant(
                "DuckDB, primary key",
                _repeat(
                    lambda k: duck.execute("SELECT v FROM m WHERE k = ?", [k]).fetchone(),
                    DUCKDB_CALLS,
                ),
                DUCKDB_CALLS,
            ),
            Contestant(
                "sqlite3, primary key",
                _repeat(
                    lambda k: lite.execute("SELECT v FROM m WHERE k = ?", (k,)).fetchone(), CALLS
                ),
                CALLS,
            ),
        ],
        rounds=rounds,
        note=f"`SELECT this FROM m WHERE __key = ?` and fetchone, {ENTRIES:,} BIGINT entries",
        budget=Budget("DuckDB, primary key", 0.1),
    )
    connection.close()
    duck.close()
    lite.close()
    return result


def _light_job(rounds: int) -> Result:
    table = pa.table({"k": [i % 10 for i in range(100)], "v": list(range(100))})
    sql = "SELECT k, SUM(v) FROM t WHERE v > ? GROUP BY k"
    connection = runnel.connect()
    connection.register("t", table)
    cursor = connection.cursor()
    duck = duckdb.connect()
    duck.execute("CREATE TABLE t AS SELECT i % 10 AS k, i AS v FROM range(100) s(i)")
    lite = sqlite3.connect(":memory:")
    lite.execute("CREATE TABLE t (k INTEGER, v INTEGER)")
    lite.executemany("INSERT INTO t VALUES (?, ?)", [(i % 10, i) for i in range(100)])
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    bounds = cycle(range(50))
    result = measure(
        "light job",
        [
            Contestant(
                "Runnel",
                _repeat(lambda _: cursor.execute(sql, (next(bounds),)).fetchall(), 1_000),
                1_000,
            ),
            Contestant(
                "DuckDB",
                _repeat(lambda _: duck.execute(sql, [next(bounds)]).fetchall(), DUCKDB_CALLS),
                DUCKDB_CALLS,
            ),
            Contestant(
                "sqlite3",
                _repeat(lambda _: lite.execute(sql, (next(bounds),)).fetchall(), 1_000),
                1_000,
            ),
            Contestant(
                "Polars, lazy",
                _repeat(
                    lambda _: (
                        frame.lazy()
                        .filter(polars.col("v") > next(bounds))
                        .group_by("k")
                        .agg(polars.col("v").sum())
                        .collect()
                        .rows()
                    ),
                    DUCKDB_CALLS,
                ),
                DUCKDB_CALLS,
            ),
        ],
        rounds=rounds,
        note=f"`{sql}` and fetchall, cached plan, 100 rows: scan, aggregate, result on one thread",
        budget=Budget("DuckDB", 0.25),
    )
    connection.close()
    duck.close()
    lite.close()
    return result
