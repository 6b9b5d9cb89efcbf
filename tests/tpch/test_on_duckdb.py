"""TPC-H at scale factor 0.01 as fragments on DuckDB, over registered tables, Parquet files, maps and DuckDB's own tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import runnel
from benchmarks.tpch import QUERIES, TABLES, query
from benchmarks.tpch.__main__ import agree, connect, generate, oracle


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder, "0.01")
    return folder


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with oracle(folder) as connection:
        yield connection


@pytest.fixture(scope="module", params=["arrow", "parquet", "map", "duckdb"])
def ours(request: pytest.FixtureRequest, folder: Path, theirs: duckdb.DuckDBPyConnection) -> Iterator[runnel.Connection]:
    if request.param != "duckdb":
        with connect(folder, request.param) as connection:
            connection.execute("SET fragment_rows = 0")
            yield connection
        return
    with duckdb.connect(str(folder / "tpch.duckdb")) as made:
        for name in TABLES:
            made.execute(f"CREATE TABLE IF NOT EXISTS {name} AS SELECT * FROM '{folder / name}.parquet'")
    with runnel.connect() as connection:
        for name in TABLES:
            connection.execute(f"CREATE MAPPING {name} TYPE DuckDB OPTIONS ('path' = '{folder / 'tpch.duckdb'}')")
        yield connection


@pytest.mark.parametrize("number", QUERIES)
def test_query(number: int, ours: runnel.Connection, theirs: duckdb.DuckDBPyConnection) -> None:
    expected = theirs.execute(query(number)).fetchall()
    assert agree(ours.execute(query(number)).fetchall(), expected)


def test_the_queries_are_one_fragment_each(ours: runnel.Connection) -> None:
    for number in QUERIES:
        lines = [line for (line,) in ours.execute(f"EXPLAIN (PHYSICAL) {query(number)}").fetchall()]
        assert len(lines) == 1, (number, lines)
        assert lines[0].startswith("Fragment on DuckDB"), number
