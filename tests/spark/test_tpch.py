"""TPC-H at scale factor 0.01 from Spark's tables: DuckDB's answers, with sub-plans in Spark and, for a few queries, without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import runnel
from benchmarks.tpch import QUERIES, TABLES, query
from benchmarks.tpch.__main__ import agree, generate, oracle

pytestmark = pytest.mark.timeout(300)

RUN = (1, 3, 6, 13, 16)
"""A few of different kinds; all of them by `python -m benchmarks.tpch 0.1 --source spark`."""


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
def ours(session: Any, folder: Path) -> Iterator[runnel.Connection]:
    with runnel.connect(spark=session) as made:
        for name in TABLES:
            made.register(name, session.read.parquet(f"{folder / name}.parquet"))
        yield made


def test_all_queries_run_in_spark(ours: runnel.Connection) -> None:
    for number in QUERIES:
        (line,) = ours.execute(f"EXPLAIN (PHYSICAL) {query(number)}").fetchone() or ("",)
        assert line.startswith("Fragment on Spark"), number


@pytest.mark.parametrize("number", RUN)
def test_in_spark(number: int, ours: runnel.Connection, theirs: duckdb.DuckDBPyConnection) -> None:
    assert agree(ours.execute(query(number)).fetchall(), theirs.execute(query(number)).fetchall())


@pytest.mark.parametrize("number", [3, 13])
def test_by_our_operators(number: int, ours: runnel.Connection, theirs: duckdb.DuckDBPyConnection) -> None:
    ours.execute("SET pushdown = off")
    try:
        assert agree(ours.execute(query(number)).fetchall(), theirs.execute(query(number)).fetchall())
    finally:
        ours.execute("SET pushdown = on")
