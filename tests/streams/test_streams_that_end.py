"""A stream that ends gives what the same query gives over a table, and what DuckDB gives."""

from __future__ import annotations

import random
import threading
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.testing import assert_rows
from runnel.testing.rows import rows_of
from tests.processors.random_tables import duckdb_rows
from tests.streams.random_streams import batch_of, random_rows, schema_of

AGGREGATES = (
    "COUNT(*), COUNT(v), SUM(v), MIN(v), MAX(s), AVG(f), COUNT(DISTINCT s), "
    "SUM(v) FILTER (WHERE k = 1)"
)
PLAIN = "COUNT(*), SUM(v), MAX(f), MIN(s), STDDEV_POP(f)"
WINDOWS = {
    "TUMBLE": "TUMBLE({input}, DESCRIPTOR(t), {a})",
    "TUMBLE with offset": "TUMBLE({input}, DESCRIPTOR(t), {a}, {c})",
    "HOP": "HOP({input}, DESCRIPTOR(t), {a}, {b})",
    "HOP with offset": "HOP({input}, DESCRIPTOR(t), {a}, {b}, {c})",
    "CUMULATE": "CUMULATE({input}, DESCRIPTOR(t), {c}, {d})",
    "SESSION": "SESSION({input} PARTITION BY k, DESCRIPTOR(t), {c})",
}
QUERIES = [
    (
        "SELECT window_start, window_end, k, {plain} FROM TABLE({windows}) "
        "GROUP BY window_start, window_end, k"
    ),
    (
        "SELECT window_start, window_end, k, {all} FROM TABLE({windows}) "
        "GROUP BY window_start, window_end, k"
    ),
    (
        "SELECT window_end, {plain} FROM TABLE({windows}) WHERE v > -50 GROUP BY window_end "
        "HAVING COUNT(*) > 1"
    ),
    "SELECT DISTINCT window_time, s FROM TABLE({windows})",
    "SELECT window_start, COUNT(*), SUM(v) FROM TABLE({windows}) GROUP BY window_start",
    (
        "SELECT window_end, MAX(n), COUNT(*) FROM "
        "(SELECT window_end, k, COUNT(*) AS n FROM TABLE({windows}) GROUP BY window_end, k) "
        "GROUP BY window_end"
    ),
    (
        "SELECT e + 1, x, SUM(n) FROM (SELECT window_end AS e, k + 1 AS x, v AS n "
        "FROM TABLE({windows})) GROUP BY e, x"
    ),
]


def sql_of(query: str, windows: str, source: str, units: bool) -> str:
    spans = {"a": 12, "b": 5, "c": 3, "d": 9}
    shown = {
        name: f"INTERVAL '0.0000{span:02d}' SECOND" if units else str(span)
        for name, span in spans.items()
    }
    text = WINDOWS[windows].format(input=source, **shown)
    if units:
        query = query.replace("e + 1", "e + INTERVAL '1' SECOND")
    return query.replace("{windows}", text).replace("{plain}", PLAIN).replace("{all}", AGGREGATES)


def as_a_stream(
    sql: str, batches: list[pa.RecordBatch], schema: pa.Schema, parallelism: int
) -> list[tuple[Any, ...]]:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(f"SET query_parallelism = {parallelism}")
        writer = connection.register_stream("events", schema)
        cursor.execute(sql)

        def write() -> None:
            for batch in batches:
                writer.write(batch)
            writer.close()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            found: list[tuple[Any, ...]] = cursor.fetchall()
        finally:
            thread.join()
        return found


def as_a_table(sql: str, table: pa.Table) -> list[tuple[Any, ...]]:
    with runnel.connect() as connection:
        connection.register("events", table)
        cursor = connection.cursor()
        cursor.execute(sql)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def batches_of(
    rng: random.Random, rows: list[dict[str, Any]], schema: pa.Schema
) -> list[pa.RecordBatch]:
    found, at = [], 0
    while at < len(rows):
        size = rng.choice((1, 3, 20, 60))
        found.append(batch_of(rows[at : at + size], schema))
        at += size
    return found


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("query", range(len(QUERIES)))
def test_a_stream_that_ends_gives_what_the_table_gives(query: int, windows: str) -> None:
    if (
        windows == "SESSION"
        and "BY window_start" in QUERIES[query]
        and "window_end" not in QUERIES[query]
    ):
        pytest.skip("the start of a session has no bound")
    rng = random.Random(f"{query} {windows}")
    is_temporal = rng.random() < 0.5
    schema = schema_of(pa.timestamp("us") if is_temporal else pa.int64())
    rows = random_rows(rng, rng.choice((0, 1, 150)), disorder=20)
    lag = "INTERVAL '0.000020' SECOND" if is_temporal else "20"
    table = sql_of(QUERIES[query], windows, "TABLE events", is_temporal)
    stream = sql_of(
        QUERIES[query],
        windows,
        f"TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(t), {lag}))",
        is_temporal,
    )
    wanted = as_a_table(table, pa.Table.from_batches([batch_of(rows, schema)], schema))
    found = as_a_stream(stream, batches_of(rng, rows, schema), schema, rng.choice((1, 2, 3)))
    assert_rows(found, wanted, ordered=False)


@pytest.mark.parametrize("seed", range(4))
def test_tumbling_windows_are_what_duckdb_makes_them(seed: int) -> None:
    rng = random.Random(seed)
    schema = schema_of(pa.int64())
    rows = random_rows(rng, 200, disorder=20)
    sql = sql_of(
        QUERIES[0], "TUMBLE", "TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(t), 20))", False
    )
    found = as_a_stream(sql, batches_of(rng, rows, schema), schema, seed % 3 + 1)
    start = "CAST(floor(t / 12.0) AS BIGINT) * 12"
    duckdb = (
        f"SELECT {start}, {start} + 12, k, {PLAIN.replace('SUM(v)', 'SUM(v)::BIGINT')} FROM events "
        "GROUP BY ALL"
    )
    wanted = rows_of(
        duckdb_rows(duckdb, events=pa.Table.from_batches([batch_of(rows, schema)], schema))
    )
    assert_rows(found, wanted, ordered=False)


def test_two_streams_with_unequal_watermarks_share_the_lesser_one() -> None:
    """Rows of the slower stream are on time however far the other one is."""
    schema = pa.schema([("t", pa.int64()), ("v", pa.int64())])
    with runnel.connect() as connection:
        fast, slow = (
            connection.register_stream(name, schema, idle_timeout=None) for name in ("fast", "slow")
        )
        parts = " UNION ALL ".join(
            f"SELECT t FROM TABLE(IMPOSE_ORDER(TABLE {name}, DESCRIPTOR(t), 0))"
            for name in ("fast", "slow")
        )
        cursor = connection.cursor()
        cursor.execute(
            f"SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(({parts}), DESCRIPTOR(t), 10)) "
            "GROUP BY window_end"
        )
        fast.write([(1, 0), (1000, 0)])
        fast.close()
        slow.write([(2, 0), (15, 0)])
        slow.close()
        assert sorted(cursor.fetchall()) == [(10, 2), (20, 1), (1010, 1)]


def test_results_come_while_the_stream_goes_on() -> None:
    schema = pa.schema([("t", pa.int64())])
    with runnel.connect() as connection:
        writer = connection.register_stream("events", schema)
        cursor = connection.cursor()
        source = (
            "TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(t), 0)), DESCRIPTOR(t), 10))"
        )
        cursor.execute(f"SELECT window_end, COUNT(*) FROM {source} GROUP BY window_end")
        writer.write([(-15,), (-11,), (3,)])
        assert cursor.fetchone() == (-10, 2)
        writer.write([(25,)])
        assert cursor.fetchone() == (10, 1)
        writer.close()
        assert cursor.fetchall() == [(30, 1)]


@pytest.mark.parametrize(
    ("time", "values"),
    [
        (pa.int8(), [126, -128]),
        (pa.int16(), [3, None, -3]),
        (pa.int64(), [2**63 - 1, -(2**63), 5]),
        (pa.int64(), [2**62, 5]),
        (pa.date32(), [-3, 10, 11]),
    ],
)
@pytest.mark.parametrize(
    "windows", ["TUMBLE({}, 10)", "HOP({}, 10, 5)", "CUMULATE({}, 5, 10)", "SESSION({}, 5)"]
)
def test_the_ends_of_time_are_as_in_a_table(
    windows: str, time: pa.DataType, values: list[int | None]
) -> None:
    if pa.types.is_date(time):
        windows = windows.replace("10", "INTERVAL '10' DAY").replace(" 5", " INTERVAL '5' DAY")
    lag = "INTERVAL '5' DAY" if pa.types.is_date(time) else "5"
    schema = pa.schema([("t", time)])
    query = "SELECT window_start, window_end, window_time, COUNT(*) FROM TABLE({}) GROUP BY 1, 2, 3"
    table = query.format(windows.format("TABLE events, DESCRIPTOR(t)"))
    ordered = f"TABLE(IMPOSE_ORDER(TABLE events, DESCRIPTOR(t), {lag})), DESCRIPTOR(t)"
    batch = pa.RecordBatch.from_arrays([pa.array(values, time)], schema=schema)
    wanted: list[tuple[Any, ...]] | None = None
    try:
        wanted = as_a_table(table, pa.Table.from_batches([batch]))
    except runnel.DataError as error:
        with pytest.raises(runnel.DataError, match=str(error).split("\n")[0]):
            as_a_stream(query.format(windows.format(ordered)), [batch], schema, 1)
    if wanted is not None:
        assert_rows(
            as_a_stream(query.format(windows.format(ordered)), [batch], schema, 2),
            wanted,
            ordered=False,
        )
