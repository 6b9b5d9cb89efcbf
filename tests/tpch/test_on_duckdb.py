"""TPC-H at scale factor 0.01 as fragments on DuckDB, over registered tables, Parquet files, maps
and DuckDB's own tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import duckdb
import pytest

import runnel
from benchmarks.tpch import QUERIES, TABLES, query
from benchmarks.tpch.__main__ import agree, connect, generate, oracle
from tests.effort import crossed

SOURCES = ("arrow", "parquet", "map", "duckdb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder, "0.01")
    return folder


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with oracle(folder) as connection:
        yield connection


def over_tables_of_duckdb(folder: Path) -> runnel.Connection:
    with duckdb.connect(str(folder / "tpch.duckdb")) as made:
        for name in TABLES:
            made.execute(
                f"CREATE TABLE IF NOT EXISTS {name} AS SELECT * FROM '{folder / name}.parquet'"
            )
    connection = runnel.connect()
    for name in TABLES:
        connection.execute(
            f"CREATE MAPPING {name} TYPE DuckDB OPTIONS ('path' = '{folder / 'tpch.duckdb'}')"
        )
    return connection


@pytest.fixture(scope="module")
def ours(folder: Path) -> Iterator[Callable[[str], runnel.Connection]]:
    """A connection over a source, the same each time."""
    with ExitStack() as stack:

        @cache
        def made(source: str) -> runnel.Connection:
            connection = (
                over_tables_of_duckdb(folder) if source == "duckdb" else connect(folder, source)
            )
            stack.enter_context(closing(connection))
            if source != "duckdb":
                connection.execute("SET fragment_rows = 0")
            return connection

        yield made


@pytest.mark.parametrize(("number", "source"), crossed(QUERIES, SOURCES))
def test_query(
    number: int,
    source: str,
    ours: Callable[[str], runnel.Connection],
    theirs: duckdb.DuckDBPyConnection,
) -> None:
    expected = theirs.execute(query(number)).fetchall()
    assert agree(ours(source).execute(query(number)).fetchall(), expected)


@pytest.mark.parametrize("source", SOURCES)
def test_the_queries_are_one_fragment_each(
    source: str, ours: Callable[[str], runnel.Connection]
) -> None:
    for number in QUERIES:
        lines = [
            line
            for (line,) in ours(source).execute(f"EXPLAIN (PHYSICAL) {query(number)}").fetchall()
        ]
        assert len(lines) == 1, (number, lines)
        assert lines[0].startswith("Fragment on DuckDB"), number
