"""Runs the benchmarks and writes RESULTS.md.

    python -m benchmarks.run [rounds] [minutes] [suite …]

With names of suites only their sections are measured, and take the place of the old ones. Every benchmark's contestants take
turns for `rounds` rounds (7 by default, at least 5); the figures are medians. A job at full speed is watched for `minutes`
(10 by default).
"""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
from collections.abc import Iterator
from datetime import date
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
SUITES = {
    module.__name__.rpartition(".")[2]: module
    for module in (streams, latency, point_queries, scans, group_by, cold_start, spark, tpch_parquet, bids, memory, snapshots)
}
ORDER = ("streams", "latency", "nexmark_speed", "soak", *list(SUITES)[2:])
OF_OTHERS = ("### jobs that are killed",)
"""How the titles of sections begin that other programs write: they stay when all is measured anew."""


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
        f"- {platform.system()} {platform.machine()}, {os.cpu_count()} cores\n\n"
    )


def suite_parts(name: str, rounds: int, minutes: float) -> Iterator[str]:
    """The sections of one suite, each when it was measured."""
    if name == "soak":
        yield soak.section(minutes)
        return
    if name != "nexmark_speed":
        yield from map(table, SUITES[name].results(rounds))
        return
    found = []
    for result in nexmark_speed.results(rounds):
        found.append(result)
        yield table(result)
    yield nexmark_speed.overview(found)


def put(section: str, text: str) -> str:
    """The text of RESULTS.md with the section in the place of the one of the same title, or at the end."""
    title = section.partition("\n")[0]
    parts = re.split(r"(?m)^(?=##)", text)
    same = [number for number, part in enumerate(parts) if part.partition("\n")[0] == title]
    if same:
        parts[same[0]] = section + "\n\n"
    else:
        parts[-1] = parts[-1].rstrip("\n") + "\n\n"
        parts.append(section + "\n")
    return "".join(parts)


def of_others(text: str) -> str:
    """The sections of RESULTS.md that aren't ours."""
    return "".join(part for part in re.split(r"(?m)^(?=##)", text) if part.startswith(OF_OTHERS))


def main(arguments: list[str]) -> None:
    numbers = [float(item) for item in arguments if item not in ORDER]
    rounds = max(int(numbers[0]) if numbers else 7, 5)
    minutes = numbers[1] if len(numbers) > 1 else soak.MINUTES
    chosen = [name for name in ORDER if name in arguments]
    text = RESULTS.read_text()
    text = text if chosen else heading(rounds) + of_others(text)
    day = f" Measured on {date.today().isoformat()}, apart from the others." if chosen else ""
    for name in chosen or ORDER:
        for section in suite_parts(name, rounds, minutes):
            print(section, end="\n\n", flush=True)
            head, _, rest = section.partition("\n\n")
            note, _, figures = rest.partition("\n")
            text = put(f"{head}\n\n{note}{day}\n{figures}", text)
            RESULTS.write_text(text)
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
