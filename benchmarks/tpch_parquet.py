"""The 22 queries of TPC-H at scale factor 1 over Parquet files, all of them one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

import runnel
from benchmarks.measure import Budget, Contestant, Result, measure
from benchmarks.tpch import QUERIES, TABLES, query
from benchmarks.tpch.__main__ import generate

SCALE = "1"
THREADS = 2


def results(rounds: int) -> Iterator[Result]:
    """One result: the total over the queries."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        generate(folder, SCALE)
        yield _total(folder, rounds)


def _total(folder: Path, rounds: int) -> Result:
    texts = [query(number) for number in QUERIES]
    with (
        runnel.connect(cooperative_threads=THREADS) as connection,
        duckdb.connect(config={"threads": THREADS}) as duck,
    ):
        for name in TABLES:
            options = f"'format'='parquet', 'path'='{folder}', 'glob'='{name}.parquet'"
            connection.execute(f"CREATE MAPPING {name} TYPE File OPTIONS ({options})")
            duck.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}.parquet'")
        cursor = connection.cursor()

        def ours() -> None:
            for text in texts:
                cursor.execute(text).fetchall()

        def theirs() -> None:
            for text in texts:
                duck.sql(text).fetchall()

        return measure(
            "TPC-H over Parquet",
            [Contestant("Runnel", ours), Contestant("DuckDB", theirs)],
            rounds=rounds,
            note=(
                f"the total of the {len(texts)} queries and fetchall, scale factor {SCALE}, "
                f"{THREADS} threads, cached plans"
            ),
            budget=Budget("DuckDB", 1.15),
        )
