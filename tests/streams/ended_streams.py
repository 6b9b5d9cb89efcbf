"""Queries over streams that end, next to the same over tables."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

import runnel
from runnel.testing.rows import rows_of as values_of
from tests.shared_duckdb import duckdb_over

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("ts", pa.timestamp("us")),
        ("n", pa.int64()),
        ("v", pa.int64()),
        ("s", pa.string()),
    ]
)
DISORDER = 20
"""By how many seconds, and units of n, rows come too early."""

STREAMED = {
    "{a}": "TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20))",
    "{b}": "TABLE(IMPOSE_ORDER(TABLE b, DESCRIPTOR(n), 20))",
    "{at}": "TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(ts), INTERVAL '20' SECOND))",
    "{w}": "TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20)), DESCRIPTOR(n), 10))",
    "{wb}": "TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE b, DESCRIPTOR(n), 20)), DESCRIPTOR(n), 10))",
    "{hop}": "TABLE(HOP(TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20)), DESCRIPTOR(n), 10, 5))",
    "{session}": (
        "TABLE(SESSION(TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20)) PARTITION BY k, "
        "DESCRIPTOR(n), 3))"
    ),
}
"""What stands for the placeholders of a query over streams; over tables the same without
IMPOSE_ORDER."""

IN_DUCKDB = {
    "{a}": "a",
    "{b}": "b",
    "{at}": "a",
    "{w}": (
        "(SELECT *, n // 10 * 10 AS window_start, n // 10 * 10 + 10 AS window_end, "
        "n // 10 * 10 + 9 AS window_time FROM a)"
    ),
    "{wb}": (
        "(SELECT *, n // 10 * 10 AS window_start, n // 10 * 10 + 10 AS window_end, "
        "n // 10 * 10 + 9 AS window_time FROM b)"
    ),
}


def random_table(rng: random.Random, count: int, nulls: float = 0.04) -> pa.Table:
    """Rows in about the order of their times `n` and `ts`, of which so many are NULL; `v` numbers
    them."""
    found = []
    for number in range(count):
        time = None if rng.random() < nulls else number // 2 + rng.randint(0, DISORDER - 1)
        moment = None if time is None else time * 1_000_000
        found.append(
            (rng.choice((None, 1, 2, 3)), moment, time, number, rng.choice((None, "x", "y", "z")))
        )
    if not found:
        return SCHEMA.empty_table()
    columns = [pa.array(column) for column in zip(*found, strict=True)]
    columns[1] = columns[1].cast(pa.timestamp("us"))
    return pa.Table.from_arrays(
        [column.cast(item.type) for column, item in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def filled(sql: str, texts: Mapping[str, str]) -> str:
    for name, text in texts.items():
        sql = sql.replace(name, text)
    return sql


def bounded(sql: str) -> str:
    """The query over tables."""
    plain = {"{a}": "a", "{b}": "b", "{at}": "a"}
    rest = {
        name: text.replace("TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20))", "TABLE a")
        for name, text in STREAMED.items()
    }
    rest = {
        name: text.replace("TABLE(IMPOSE_ORDER(TABLE b, DESCRIPTOR(n), 20))", "TABLE b")
        for name, text in rest.items()
    }
    return filled(sql, {**rest, **plain})


def streamed(
    connection: runnel.Connection, sql: str, tables: Mapping[str, pa.Table], seed: int
) -> list[tuple[Any, ...]]:
    """The rows that a query gives over streams of the tables' rows, each written in pieces by a
    thread of its own."""
    rng = random.Random(seed)
    used = [
        name
        for name in tables
        if f"TABLE {name}," in filled(sql, STREAMED) or f"TABLE {name})" in filled(sql, STREAMED)
    ]
    cuts = {name: [rng.randint(1, 9) for _ in range(tables[name].num_rows + 1)] for name in used}
    writers = {name: connection.register_stream(name, SCHEMA) for name in used}
    threads = [
        threading.Thread(target=_write, args=(writers[name], tables[name], cuts[name]))
        for name in used
    ]
    try:
        with connection.cursor() as cursor:
            cursor.execute(filled(sql, STREAMED))
            for thread in threads:
                thread.start()
            return cursor.fetchall()
    finally:
        for name in used:
            connection.unregister(name)
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _write(writer: Any, table: pa.Table, sizes: Sequence[int]) -> None:
    """Ends early where the query did, and nobody reads any more."""
    with writer, suppress(runnel.InterfaceError):
        start = 0
        for size in sizes:
            if start < table.num_rows:
                writer.write(table.slice(start, size))
            start += size


def over_tables(
    connection: runnel.Connection, sql: str, tables: Mapping[str, pa.Table]
) -> list[tuple[Any, ...]]:
    for name, table in tables.items():
        connection.register(name, table)
    try:
        with connection.cursor() as cursor:
            return cursor.execute(bounded(sql)).fetchall()
    finally:
        for name in tables:
            connection.unregister(name)


def in_duckdb(sql: str, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    with duckdb_over(tables) as other:
        return values_of(other.sql(filled(sql, IN_DUCKDB)).to_arrow_table().to_batches())
