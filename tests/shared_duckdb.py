"""A DuckDB to compare with. All tests of a process share one: to open it takes longer than most of
what it is asked."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import duckdb
import pyarrow as pa


@contextmanager
def duckdb_over(tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with these tables, and with Runnel's order of NULLs. What a query gives must be read
    inside."""
    connection = _connection()
    for name, table in tables.items():
        connection.register(name, table)
    try:
        yield connection
    finally:
        for name in tables:
            connection.unregister(name)


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    connection.execute("SET threads = 1")
    atexit.register(connection.close)
    return connection
