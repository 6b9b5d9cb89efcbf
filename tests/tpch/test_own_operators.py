"""TPC-H at scale factor 0.01 on our own operators, over registered tables, Parquet files and maps,
beside DuckDB.

`python -m benchmarks.tpch 0.1` does the same for larger data and prints the times.
"""

from __future__ import annotations

import subprocess
import sys
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

SOURCES = ("arrow", "parquet", "map")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder, "0.01")
    return folder


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with oracle(folder) as connection:
        yield connection


@pytest.fixture(scope="module")
def ours(folder: Path) -> Iterator[Callable[[str], runnel.Connection]]:
    """A connection over a source, the same each time."""
    with ExitStack() as stack:

        @cache
        def made(source: str) -> runnel.Connection:
            connection = stack.enter_context(closing(connect(folder, source)))
            connection.execute("SET pushdown = off")
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
def test_no_join_is_a_cross_product(source: str, ours: Callable[[str], runnel.Connection]) -> None:
    for number in QUERIES:
        text = "\n".join(
            row[0] for row in ours(source).execute(f"EXPLAIN {query(number)}").fetchall()
        )
        for line in text.split("\n"):
            if "Cross join" in line:
                # A scalar subquery is one row beside the others.
                assert number in (11, 15, 22), (number, line)


def test_the_tables_are_there(folder: Path) -> None:
    assert {path.stem for path in folder.glob("*.parquet")} == set(TABLES)


def test_the_command_runs(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.tpch",
        "--folder",
        str(folder),
        "--queries",
        "6",
        "--pushdown",
        "off",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "same answers" in done.stdout
