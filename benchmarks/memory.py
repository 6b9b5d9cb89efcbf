"""Queries over more than memory may hold, each in a process of its own.

    python -m benchmarks.memory [millions of rows] [limit]

The rows are 24 bytes each (three BIGINT), read from a Parquet file or made by GENERATE_SERIES; the
limit is by default 100 MB, a fifth of the size of the rows. The memory of a query is the excess of
the process's peak over the peak of the same query over 1,000 rows, which has loaded all code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Result, Timing

MILLIONS = 22
LIMIT = "100MB"
SHORT = (5, "24MB")
"""The limit in a run of all benchmarks, on Runnel's own operators: half of it would be too little
for DuckDB."""

ROW_BYTES = 24
PRIME = 1_000_003

WAYS = (
    "own operators, Parquet",
    "Parquet, as the planner chooses",
    "own operators, GENERATE_SERIES",
)
"""The origin of the rows, and the engine that may run the query; `results` uses the first only."""

QUERIES = {
    "GROUP BY, a group for every fifth row": (
        "SELECT COUNT(*), SUM(n) FROM (SELECT k, COUNT(*) AS n, SUM(v) AS s FROM {rows} AS t "
        "GROUP BY k)"
    ),
    "JOIN of two such inputs": (
        "SELECT COUNT(*), SUM(a.g) FROM {rows} AS a JOIN {rows} AS b ON a.v = b.v"
    ),
    "ORDER BY": (
        "SELECT COUNT(*), SUM(g) FROM (SELECT v, k, g FROM {rows} AS t ORDER BY k, v OFFSET 1)"
    ),
    "OVER (PARTITION BY …)": (
        "SELECT COUNT(*), SUM(r) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY g ORDER BY v) AS r, "
        "SUM(v) OVER (PARTITION BY g) AS s, k FROM {rows} AS t) WHERE s > k"
    ),
    "OVER (ORDER BY …)": (
        "SELECT COUNT(*), SUM(r - l) FROM (SELECT ROW_NUMBER() OVER (ORDER BY v) AS r, "
        "LAG(v, 1, 0) OVER (ORDER BY v) AS l "
        "FROM {rows} AS t)"
    ),
}

CHILD = """
import json, sys, time
import runnel
query, limit, pushdown, large, small = sys.argv[1:]
def peak():
    # Not ru_maxrss, which begins with the peak of the process that started this one.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
con = runnel.connect(memory_limit=limit, pushdown=pushdown)
con.execute(query.format(rows=small)).fetchall()
before, start = peak(), time.perf_counter()
answer = con.execute(query.format(rows=large)).fetchall()
seconds = time.perf_counter() - start
print(json.dumps([answer, seconds, peak() - before, con._database.memory.spilled_bytes]))
"""


def series(rows: int) -> str:
    """The rows as a subquery."""
    return (
        f"(SELECT v, v * {PRIME} % {rows // 5} AS k, v * 31 % 1000 AS g "
        f"FROM TABLE(GENERATE_SERIES(0, {rows - 1})) AS s(v))"
    )


def write_parquet(path: Path, rows: int) -> str:
    """Writes the same rows to a file; returns the FROM item that reads it."""
    schema = pa.schema([("v", pa.int64()), ("k", pa.int64()), ("g", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1 << 17):
            v = np.arange(start, min(start + (1 << 17), rows))
            writer.write_table(pa.table([v, v * PRIME % (rows // 5), v * 31 % 1000], schema=schema))
    return f"TABLE(PARQUET_FILE('{path}'))"


class QueryFailed(Exception):
    """A process ended with an error, which is its text."""


def run(
    query: str, limit: str, pushdown: str, large: str, small: str
) -> tuple[list[list[int]], float, int, int]:
    """The answer, seconds, bytes of growth and bytes spilled."""
    command = [sys.executable, "-c", CHILD, query, limit, pushdown, large, small]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise QueryFailed(
            next(
                (line for line in done.stderr.split("\n") if line.startswith("runnel.")),
                done.stderr,
            )
        )
    answer, seconds, growth, spilled = json.loads(done.stdout)
    return answer, seconds, growth, spilled


def measured(millions: int, limit: str, ways: Sequence[str]) -> Iterator[Result]:
    """Each query over `millions` of rows, with a limit of memory, in some of the WAYS."""
    rows = millions * 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        file = write_parquet(Path(folder) / "large.parquet", rows)
        little = write_parquet(Path(folder) / "small.parquet", 1000)
        cases = (("off", file, little), ("on", file, little), ("off", series(rows), series(1000)))
        sources = dict(zip(WAYS, cases, strict=True))
        for title, query in QUERIES.items():
            timings, answers, failures = [], set(), []
            for name in ways:
                pushdown, large, small = sources[name]
                try:
                    answer, seconds, growth, spilled = run(query, limit, pushdown, large, small)
                except QueryFailed as failure:
                    failures.append(f"; **failed** with {name}: {failure}")
                    continue
                answers.add(str(answer))
                shown = (
                    f"{name}: {growth / 1e6:,.0f} MB beyond idle, "
                    f"{spilled / 1e6:,.0f} MB in Runnel's files"
                )
                timings.append(Timing(shown, seconds, seconds, seconds, 1))
            assert len(answers) < 2, answers
            bytes_ = rows * ROW_BYTES * query.count("{rows}")
            note = (
                f"{rows:,} rows of {ROW_BYTES} bytes ({bytes_ / 1e6:,.0f} MB of input), "
                f"memory_limit {limit}; one run each"
            )
            # A table needs a line, even if every way failed.
            never = Timing("none finished", nan, nan, nan, 0)
            yield Result(f"memory: {title}", note + "".join(failures), tuple(timings or [never]))


def results(rounds: int) -> Iterator[Result]:
    """The benchmarks of this file, one after the other; each process runs once, over a quarter of
    the rows."""
    yield from measured(SHORT[0], SHORT[1], WAYS[:1])


def main(arguments: list[str]) -> None:
    millions = int(arguments[0]) if arguments else MILLIONS
    limit = arguments[1] if len(arguments) > 1 else LIMIT
    for result in measured(millions, limit, WAYS):
        print(f"{result.title} ({result.note})")
        for timing in result.timings:
            print(f"  {timing.median:6.1f} s  {timing.name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
