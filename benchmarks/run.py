"""Runs the benchmarks and writes RESULTS.md.

    python -m benchmarks.run [rounds] [minutes]

Every benchmark's contestants take turns for `rounds` rounds (7 by default, at least 5); the figures are medians. A job at full
speed is watched for `minutes` (10 by default).
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    bids,
    cold_start,
    group_by,
    latency,
    memory,
    nexmark_speed,
    point_queries,
    scans,
    snapshots,
    soak,
    spark,
    streams,
    tpch_parquet,
)
from benchmarks.measure import Result, spelled

RESULTS = Path(__file__).parent / "RESULTS.md"
STREAMING = (streams, latency)
OTHERS = (point_queries, scans, group_by, cold_start, spark, tpch_parquet, bids, memory, snapshots)


def table(result: Result) -> str:
    """One benchmark as Markdown."""
    lines = [f"### {result.title}", "", result.note + ".", "", "| | median | fastest | slowest | Runnel's time as a multiple |"]
    lines.append("|---|---|---|---|---|")
    ours = result.timings[0].median
    for timing in result.timings:
        times = " | ".join(spelled(value) for value in (timing.median, timing.fastest, timing.slowest))
        ratio = "" if timing is result.timings[0] else f"{ours / timing.median:.3g}"
        lines.append(f"| {timing.name} | {times} | {ratio} |")
    if result.verdict is not None:
        lines += ["", result.verdict]
    return "\n".join(lines)


def heading(rounds: int) -> str:
    """What was measured, with what, on what."""
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("runnel", "pyarrow", "duckdb", "polars", "numpy", "sqlglot", "pyspark")
    )
    return (
        "# Benchmark results\n\n"
        f"Written by `make bench` (`python -m benchmarks.run {rounds}`): medians of {rounds} rounds in which the contestants "
        "took turns.\n\n"
        f"- {packages}; sqlite {sqlite3.sqlite_version}; Python {platform.python_version()}\n"
        f"- {platform.system()} {platform.machine()}, {os.cpu_count()} cores\n"
    )


def sections(rounds: int, minutes: float) -> Iterator[str]:
    """The parts of RESULTS.md, each when it was measured."""
    yield heading(rounds)
    for suite in STREAMING:
        yield from map(table, suite.results(rounds))
    found = []
    for result in nexmark_speed.results(rounds):
        found.append(result)
        yield table(result)
    yield nexmark_speed.overview(found)
    yield soak.section(minutes)
    for suite in OTHERS:
        yield from map(table, suite.results(rounds))


def main(arguments: list[str]) -> None:
    rounds = max(int(arguments[0]) if arguments else 7, 5)
    minutes = float(arguments[1]) if len(arguments) > 1 else soak.MINUTES
    parts: list[str] = []
    for part in sections(rounds, minutes):
        parts.append(part)
        print(part, end="\n\n", flush=True)
        RESULTS.write_text("\n\n".join(parts) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
