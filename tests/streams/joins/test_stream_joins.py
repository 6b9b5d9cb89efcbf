"""Joins of streams in SQL: a stream that ends gives what DuckDB gives for the tables."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from runnel.testing import assert_rows
from tests.shared_duckdb import duckdb_over

SCHEMA = pa.schema(
    [("k", pa.int64()), ("ts", pa.timestamp("us")), ("n", pa.int64()), ("v", pa.int64())]
)
DISORDER = 20
"""By how many seconds, and units of n, rows come too early."""


@pytest.fixture(scope="module", params=(1, 2, 3))
def connection(request: pytest.FixtureRequest) -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(f"SET query_parallelism = {request.param}")
        yield made


def rows_of(rng: random.Random, count: int) -> pa.Table:
    """Rows in about the order of their time, which now and then is NULL."""
    found = []
    for number in range(count):
        at = number + rng.randint(0, DISORDER - 1)
        time = None if rng.random() < 0.05 else at
        found.append(
            (rng.choice((None, 1, 2, 3)), None if time is None else time * 1_000_000, time, number)
        )
    columns = (
        [pa.array(column, pa.int64()) for column in zip(*found, strict=True)]
        if found
        else [pa.array([], pa.int64())] * 4
    )
    columns[1] = columns[1].cast(pa.timestamp("us"))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def ordered(name: str, column: str = "ts") -> str:
    lag = f"INTERVAL '{DISORDER}' SECOND" if column == "ts" else str(DISORDER)
    return f"TABLE(IMPOSE_ORDER(TABLE {name}, DESCRIPTOR({column}), {lag}))"


def streamed(
    connection: runnel.Connection, sql: str, tables: dict[str, pa.Table], seed: int, **options: Any
) -> pa.Table:
    """The rows that a query gives over streams of the tables' rows, each written by a thread of its
    own."""
    rng = random.Random(seed)
    cuts = {
        name: [rng.randint(1, 9) for _ in range(table.num_rows + 1)]
        for name, table in tables.items()
    }
    writers = {name: connection.register_stream(name, SCHEMA, **options) for name in tables}
    with connection.cursor() as cursor:
        cursor.execute(sql)
        threads = [
            threading.Thread(target=write, args=(writers[name], table, cuts[name]))
            for name, table in tables.items()
        ]
        for thread in threads:
            thread.start()
        found = cursor.fetch_arrow_table()
        for thread in threads:
            thread.join()
    for name in tables:
        connection.unregister(name)
    return found


def write(writer: Any, table: pa.Table, sizes: Sequence[int]) -> None:
    with writer:
        start = 0
        for size in sizes:
            if start < table.num_rows:
                writer.write(table.slice(start, size))
            start += size


def in_duckdb(sql: str, tables: dict[str, pa.Table]) -> pa.Table:
    with duckdb_over(tables) as other:
        return other.sql(sql).to_arrow_table()


def check_query(
    connection: runnel.Connection, sql: str, seed: int, counts: dict[str, int], column: str = "ts"
) -> None:
    """`sql` has {a}, {b}, … where the tables stand."""
    rng = random.Random(seed)
    tables = {name: rows_of(rng, count) for name, count in counts.items()}
    found = streamed(
        connection, sql.format(**{name: ordered(name, column) for name in tables}), tables, seed
    )
    assert_rows(
        found.to_batches(),
        in_duckdb(sql.format(**{name: name for name in tables}), tables),
        ordered=False,
    )


BETWEEN = "b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '9' SECOND"
QUERIES = {
    "inner": f"SELECT * FROM {{a}} a JOIN {{b}} b ON a.k = b.k AND {BETWEEN}",
    "where": (
        "SELECT a.v, b.v FROM {a} a, {b} b WHERE a.k = b.k AND b.ts > a.ts - INTERVAL '3' SECOND "
        "AND a.ts >= b.ts"
    ),
    "difference": (
        "SELECT a.v, b.v FROM {a} a JOIN {b} b ON b.n - a.n BETWEEN -2 AND 4 AND a.k = b.k"
    ),
    "left": f"SELECT a.v, a.ts, b.v, b.k FROM {{a}} a LEFT JOIN {{b}} b ON a.k = b.k AND {BETWEEN}",
    "right": (
        f"SELECT a.v, b.v, b.k, b.ts FROM {{a}} a RIGHT JOIN {{b}} b ON a.k = b.k AND {BETWEEN} "
        "AND a.v < b.v"
    ),
    "full": f"SELECT a.v, b.v FROM {{a}} a FULL JOIN {{b}} b ON a.k = b.k AND {BETWEEN}",
    "same time": "SELECT a.v, b.v FROM {a} a FULL JOIN {b} b ON a.ts = b.ts",
    "semi": (
        f"SELECT a.v FROM {{a}} a WHERE EXISTS (SELECT 1 FROM {{b}} b "
        f"WHERE a.k = b.k AND {BETWEEN})"
    ),
    "anti": (
        f"SELECT a.v FROM {{a}} a WHERE NOT EXISTS (SELECT 1 FROM {{b}} b "
        f"WHERE a.k = b.k AND {BETWEEN})"
    ),
    "in": f"SELECT a.v FROM {{a}} a WHERE a.k IN (SELECT b.k FROM {{b}} b WHERE {BETWEEN})",
    "mark": (
        f"SELECT a.v, EXISTS (SELECT 1 FROM {{b}} b WHERE a.k = b.k AND {BETWEEN}) FROM {{a}} a"
    ),
    "null-safe": (
        f"SELECT a.v, b.v FROM {{a}} a JOIN {{b}} b ON a.k IS NOT DISTINCT FROM b.k AND {BETWEEN}"
    ),
    "no key": f"SELECT a.v, b.v FROM {{a}} a LEFT JOIN {{b}} b ON {BETWEEN}",
    "computed key": (
        f"SELECT a.v, b.v FROM {{a}} a LEFT JOIN {{b}} b ON a.k + 1 = b.k AND {BETWEEN}"
    ),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(2))
def test_a_stream_that_ends_gives_what_the_tables_give(
    connection: runnel.Connection, name: str, seed: int
) -> None:
    rng = random.Random(f"{name} {seed}")
    check_query(
        connection,
        QUERIES[name],
        seed,
        {"a": rng.randint(0, 150), "b": rng.randint(0, 150)},
        "n" if "n -" in QUERIES[name] else "ts",
    )


THREE = {
    "chain": (
        "SELECT a.v, b.v, c.v FROM {a} a JOIN {b} b ON a.k = b.k AND b.n BETWEEN a.n AND a.n + 6 "
        "JOIN {c} c ON c.k = a.k AND c.n BETWEEN b.n - 2 AND b.n + 2"
    ),
    "star": (
        "SELECT a.v, b.v, c.v FROM {a} a LEFT JOIN {b} b ON a.k = b.k AND b.n BETWEEN a.n AND a.n "
        "+ 6 "
        "LEFT JOIN {c} c ON c.k = a.k AND c.n BETWEEN a.n - 2 AND a.n + 2"
    ),
    "full": (
        "SELECT a.v, b.v, c.v FROM {a} a FULL JOIN {b} b ON a.n = b.n FULL JOIN {c} c ON c.n = b.n"
    ),
    "in any order": "SELECT a.v, b.v, c.v FROM {a} a, {c} c, {b} b WHERE a.k = b.k AND b.k = c.k "
    "AND a.n BETWEEN b.n - 3 AND b.n + 3 AND c.n BETWEEN b.n - 3 AND b.n + 3",
    "a query twice": (
        "WITH p AS (SELECT a.k, a.n, b.v FROM {a} a "
        "JOIN {b} b ON a.k = b.k AND b.n BETWEEN a.n - 2 AND a.n + 8) "
        "SELECT p.v, q.v, c.v FROM p JOIN p q ON p.n = q.n AND p.k = q.k JOIN {c} c ON c.n = p.n"
    ),
    "grouped": "SELECT x.n, x.c, b.v, c.v FROM (SELECT n, COUNT(*) AS c FROM {a} GROUP BY n) x "
    "JOIN {b} b ON b.n BETWEEN x.n - 2 AND x.n + 2 LEFT JOIN {c} c ON c.n = x.n AND c.k = b.k",
}


@pytest.mark.parametrize("name", THREE)
def test_three_streams(connection: runnel.Connection, name: str) -> None:
    check_query(connection, THREE[name], 7, {"a": 70, "b": 90, "c": 80}, "n")


AS_OF = {
    "as of": "SELECT a.v, b.v FROM {a} a ASOF JOIN {b} b ON a.k = b.k AND a.n >= b.n",
    "left": "SELECT a.v, b.v, b.n FROM {a} a ASOF LEFT JOIN {b} b ON a.n > b.n AND a.k = b.k",
    "no key": "SELECT a.v, b.v FROM {a} a ASOF LEFT JOIN {b} b ON a.n >= b.n",
    "below": "SELECT a.v, b.v, c.v FROM {a} a ASOF LEFT JOIN {b} b ON a.k = b.k AND a.n >= b.n "
    "LEFT JOIN {c} c ON c.k = a.k AND c.n BETWEEN a.n - 3 AND a.n",
}


@pytest.mark.parametrize("name", AS_OF)
def test_as_of_joins_of_streams(connection: runnel.Connection, name: str) -> None:
    rng = random.Random(name)
    tables = {"a": rows_of(rng, 120), "b": unique_times(rows_of(rng, 100)), "c": rows_of(rng, 60)}
    tables = {key: table for key, table in tables.items() if f"{{{key}}}" in AS_OF[name]}
    found = streamed(
        connection, AS_OF[name].format(**{key: ordered(key, "n") for key in tables}), tables, 1
    )
    assert_rows(
        found.to_batches(),
        in_duckdb(AS_OF[name].format(**{key: key for key in tables}), tables),
        ordered=False,
    )


def unique_times(table: pa.Table) -> pa.Table:
    """The rows with the first of each key's times: DuckDB doesn't say which of several it picks."""
    kept = duckdb.sql(
        'SELECT k, ts, n, v FROM "table" QUALIFY row_number() OVER (PARTITION BY n ORDER BY v) = 1 '
        "ORDER BY v"
    )
    return kept.to_arrow_table().cast(SCHEMA)


@pytest.mark.parametrize("left", ["", "LEFT "])
def test_the_version_of_a_stream_at_a_time(connection: runnel.Connection, left: str) -> None:
    rng = random.Random(left)
    tables = {"a": rows_of(rng, 120), "b": unique_times(rows_of(rng, 100))}
    sql = f"SELECT a.v, r.v FROM a {left}JOIN b FOR SYSTEM_TIME AS OF a.n AS r ON a.k = r.k"
    found = streamed(connection, sql, tables, 1, time_column="n", max_disorder=DISORDER)
    wanted = in_duckdb(
        f"SELECT a.v, r.v FROM a ASOF {left}JOIN b r ON a.k = r.k AND a.n >= r.n", tables
    )
    assert_rows(found.to_batches(), wanted, ordered=False)


WINDOWS = {
    "inner": (
        "SELECT a.v, b.v, a.window_end FROM {a} a "
        "JOIN {b} b ON a.window_end = b.window_end AND a.k = b.k"
    ),
    "full": (
        "SELECT a.v, b.v FROM {a} a FULL JOIN {b} b ON a.window_start = b.window_start AND a.k = "
        "b.k"
    ),
    "no key": (
        "SELECT a.v, b.v FROM {a} a LEFT JOIN {b} b ON a.window_end = b.window_end AND a.v < b.v"
    ),
    "exists": (
        "SELECT a.v FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b "
        "WHERE a.window_end = b.window_end AND a.k = b.k)"
    ),
    "not exists": "SELECT a.v FROM {a} a "
    "WHERE NOT EXISTS (SELECT 1 FROM {b} b WHERE a.window_end = b.window_end AND a.k = b.k)",
    "in": (
        "SELECT a.v FROM {a} a WHERE a.k IN (SELECT b.k FROM {b} b "
        "WHERE a.window_end = b.window_end)"
    ),
    "not in": (
        "SELECT a.v FROM {a} a WHERE a.k NOT IN (SELECT b.k FROM {b} b "
        "WHERE a.window_end = b.window_end)"
    ),
    "in as a value": (
        "SELECT a.v, a.k IN (SELECT b.k FROM {b} b WHERE a.window_end = b.window_end) FROM {a} a"
    ),
    "the next window": (
        "SELECT a.v, b.v FROM {a} a LEFT JOIN {b} b ON a.window_end = b.window_start AND a.k = b.k"
    ),
    "counted": (
        "SELECT a.window_end, COUNT(*), MAX(b.v) FROM {a} a "
        "JOIN {b} b ON a.window_end = b.window_end "
        "GROUP BY a.window_end"
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_joins_of_windows(connection: runnel.Connection, name: str) -> None:
    rng = random.Random(name)
    tables = {"a": rows_of(rng, 90), "b": rows_of(rng, 110)}
    windows = {key: f"TABLE(TUMBLE({ordered(key, 'n')}, DESCRIPTOR(n), 10))" for key in tables}
    found = streamed(connection, WINDOWS[name].format(**windows), tables, 1)
    assigned = {
        key: f"(SELECT *, n // 10 * 10 AS window_start, n // 10 * 10 + 10 AS window_end FROM {key})"
        for key in tables
    }
    assert_rows(
        found.to_batches(), in_duckdb(WINDOWS[name].format(**assigned), tables), ordered=False
    )
