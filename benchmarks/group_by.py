"""GROUP BY over ten million rows of a registered Arrow table: few groups, and a million of them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import polars
import pyarrow as pa

import runnel
from benchmarks.measure import Budget, Contestant, Result, measure

ROWS = 10_000_000
THREADS = 2
QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS largest FROM t GROUP BY k"


def results(rounds: int) -> Iterator[Result]:
    """The benchmarks of this file, in sequence."""
    for groups in (1_000, 1_000_000):
        yield _group_by(groups, rounds)


def _group_by(groups: int, rounds: int) -> Result:
    random = np.random.default_rng(7)
    table = pa.table(
        {"k": random.integers(0, groups, ROWS), "v": random.integers(0, 1_000_000, ROWS)}
    )
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    with runnel.connect(cooperative_threads=THREADS) as connection:
        connection.register("t", table)
        cursor = connection.cursor()
        duck = duckdb.connect(config={"threads": THREADS})
        duck.register("t", table)

        def ours() -> pa.Table:
            return cursor.execute(QUERY).fetch_arrow_table()

        def theirs() -> pa.Table:
            return duck.sql(QUERY).to_arrow_table()

        def lazy() -> object:
            value = polars.col("v")
            return (
                frame.lazy()
                .group_by("k")
                .agg(polars.len(), value.sum(), value.max().alias("largest"))
                .collect()
            )

        assert _checksum(ours()) == _checksum(theirs())
        result = measure(
            f"GROUP BY, {groups:,} groups",
            [
                Contestant("Runnel", ours),
                Contestant("DuckDB", theirs),
                Contestant("Polars, lazy", lazy),
            ],
            rounds=rounds,
            note=f"`{QUERY}` as Arrow, {ROWS:,} rows registered, {THREADS} threads",
            budget=Budget("DuckDB", 1 / 0.9),
        )
        duck.close()
    return result


def _checksum(table: pa.Table) -> tuple[int, ...]:
    return (
        table.num_rows,
        *(
            int(np.asarray(table["total"], dtype=np.float64).sum()),
            *(int(table["k"].to_numpy().sum()),),
        ),
    )
