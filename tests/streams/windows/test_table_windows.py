"""HOP and CUMULATE over tables, against a join with the windows in DuckDB."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

import runnel
from runnel.processors.time_windows import framed_aggregate, sparse_windows

AGGREGATES = (
    "COUNT(*), SUM(v), MAX(v), MIN(d)",
    "AVG(v), COUNT(v), COUNT(DISTINCT v)",
    "STRING_AGG(s, ',' ORDER BY s), SUM(DISTINCT v), BOOL_OR(v > 2)",
)
FILTERS = ("", "WHERE v > 1", "WHERE window_start >= TIMESTAMP '2026-01-01 00:01:00'")
START = datetime(2026, 1, 1)


def random_table(rng: random.Random) -> pa.Table:
    rows = rng.randrange(1, 60)
    span = rng.choice([5, 200, 40_000])
    times = [
        None if rng.random() < 0.05 else START + timedelta(seconds=rng.randrange(-span, span))
        for _ in range(rows)
    ]
    return pa.table(
        {
            "k": pa.array([rng.choice([None, 1, 2, 3]) for _ in range(rows)], pa.int64()),
            "v": pa.array([rng.choice([None, 0, 1, 2, 5]) for _ in range(rows)], pa.int64()),
            "d": pa.array([rng.choice([0.5, -1.0, 2.0]) for _ in range(rows)], pa.float64()),
            "s": pa.array([rng.choice(["a", "b", ""]) for _ in range(rows)], pa.string()),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


def windows_in_duckdb(kind: str, size: int, step: int) -> str:
    """A relation of a row for each window of each row of t."""
    first = "CAST(floor((epoch(ts) - {0}) / {1}) AS BIGINT) * {1} + {1}"
    if kind == "HOP":
        starts = f"range({first.format(size, step)}, {first.format(0, step)}, {step})"
        return (
            f"SELECT t.*, make_timestamp(w * 1000000) window_start, "
            f"make_timestamp((w + {size}) * 1000000) window_end "
            f"FROM t, unnest({starts}) AS u(w)"
        )
    start = f"CAST(floor(epoch(ts) / {size}) AS BIGINT) * {size}"
    ends = f"range({first.format(0, step)}, {start} + {size} + 1, {step})"
    return (
        f"SELECT t.*, make_timestamp({start} * 1000000) window_start, "
        f"make_timestamp(w * 1000000) window_end FROM t, unnest({ends}) AS u(w)"
    )


@pytest.mark.parametrize("way", ["running totals", "repeated groups", "as it comes"])
@pytest.mark.parametrize("seed", range(12))
def test_windows_of_tables(seed: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "as it comes":
        is_sparse = way == "repeated groups"
        monkeypatch.setattr(framed_aggregate, "FEW_WINDOWS", 0 if is_sparse else 1 << 60)
        monkeypatch.setattr(sparse_windows, "ROWS_OF_WINDOW", 1 << 40)
        monkeypatch.setattr(sparse_windows, "MOST_REPEATED", 10)
    rng = random.Random(seed)
    t = random_table(rng)
    kind = rng.choice(["HOP", "CUMULATE"])
    step = rng.choice([1, 7, 60, 600])
    size = step * rng.choice([1, 2, 5, 20]) if kind == "CUMULATE" or seed % 3 else step + 13
    what, only = rng.choice(AGGREGATES), rng.choice(FILTERS)
    spans = f"INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND"
    windows = f"TABLE({kind}(TABLE t, DESCRIPTOR(ts), {spans}))"
    select = f"SELECT window_start, window_end, k, {what} FROM {{}} {only} GROUP BY 1, 2, 3"
    con = runnel.connect()
    con.register("t", t)
    found = con.execute(select.format(windows)).fetchall()
    plan = "\n".join(row[0] for row in con.execute("EXPLAIN " + select.format(windows)))
    duck = duckdb.connect()
    duck.register("t", t)
    below = windows_in_duckdb(kind, size, step)
    expected = duck.execute(select.format(f"(FROM ({below}) WHERE ts IS NOT NULL)")).fetchall()
    timed = [row for row in found if row[0] is not None]
    assert sorted(map(repr, timed)) == sorted(map(repr, expected))
    untimed = duck.execute(
        f"SELECT NULL, NULL, k, {what} FROM t WHERE ts IS NULL "
        f"{only.replace('WHERE', 'AND').replace('window_start', 'ts')} GROUP BY k"
    ).fetchall()
    assert sorted(map(repr, (row for row in found if row[0] is None))) == sorted(map(repr, untimed))
    assert "Aggregate in frames" in plan


def test_rows_far_apart_take_no_time_per_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of few groups are combined by repeating groups, others as running totals."""
    used = []
    repeated = sparse_windows.WindowRange.are_sparse

    def are_sparse(*args: object) -> bool:
        used.append(repeated(*args))  # type: ignore[arg-type]
        return used[-1]

    monkeypatch.setattr(sparse_windows.WindowRange, "are_sparse", are_sparse)
    con = runnel.connect(cooperative_threads=1)
    for span, is_sparse in ((1_000_000, True), (100, False)):
        used.clear()
        con.execute(
            f"SELECT COUNT(*) FROM (SELECT window_start, k FROM TABLE(HOP((SELECT v % 1999 AS k, "
            f"v % {span} AS ts FROM TABLE(GENERATE_SERIES(1, 20000)) g(v)), DESCRIPTOR(ts), 1, 20))"
            " GROUP BY window_start, k)"
        ).fetchall()
        assert used
        assert any(used) is is_sparse
