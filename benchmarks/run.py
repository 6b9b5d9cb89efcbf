"""Runs the benchmarks and writes RESULTS.md.

    python -m benchmarks.run [rounds] [minutes] [suite …] [--gb=N] [--events=N] [--rows=N]
        [--folder=PATH]

With names of suites, only their sections are measured, and replace the old sections. The
contestants of each benchmark take turns.

    rounds    number of rounds, of which the figures are medians (7; at least 5)
    minutes   how long the soak test runs a job at full speed (10)
    --gb      the largest input of the suite "scale", in GB (0.1); the suite runs if it or --gb is
              named
    --folder  where the suite "scale" stores its tables and measurements; an interrupted run is
              resumed from it (a temporary folder)
    --events  million events of a streaming job on Spark (10)
    --rows    maximum number of rows of jobs that run on both runtimes (1,000,000)
"""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    bids,
    cold_start,
    group_by,
    groups_and_joins,
    job_runtimes,
    latency,
    memory,
    nexmark_speed,
    point_queries,
    scans,
    snapshots,
    soak,
    spark,
    spark_stream,
    streams,
    tpch_parquet,
)
from benchmarks.measure import Result, spelled
from benchmarks.scale.section import scale_section

RESULTS = Path(__file__).parent / "RESULTS.md"
SUITES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        streams,
        latency,
        point_queries,
        scans,
        group_by,
        groups_and_joins,
        cold_start,
        spark,
        job_runtimes,
        tpch_parquet,
        bids,
        memory,
        snapshots,
    )
}
ORDER = ("streams", "latency", "nexmark_speed", "soak", *list(SUITES)[2:], "spark_stream", "scale")
OF_OTHERS = ("### jobs that are killed", "### scale:", "### streaming job on Spark, 100,000,000")
"""Prefixes of the titles of sections that other programs write, or that take an hour: a run of all
suites does not replace them."""


def table(result: Result) -> str:
    """One benchmark as Markdown."""
    lines = [
        f"### {result.title}",
        "",
        result.note + ".",
        "",
        "| | median | fastest | slowest | Runnel's time as a multiple |",
    ]
    lines.append("|---|---|---|---|---|")
    ours = result.timings[0].median
    for timing in result.timings:
        times = " | ".join(
            spelled(value) for value in (timing.median, timing.fastest, timing.slowest)
        )
        ratio = "" if timing is result.timings[0] else f"{ours / timing.median:.3g}"
        lines.append(f"| {timing.name} | {times} | {ratio} |")
    if result.verdict is not None:
        lines += ["", result.verdict]
    return "\n".join(lines)


def heading(rounds: int) -> str:
    """The first lines of RESULTS.md: the command, the versions and the machine."""
    packages = ", ".join(
        f"{name} {version(name)}"
        for name in ("runnel", "pyarrow", "duckdb", "polars", "numpy", "sqlglot", "pyspark")
    )
    return (
        "# Benchmark results\n\n"
        f"Written by `make bench` (`python -m benchmarks.run {rounds}`): medians of {rounds} "
        "rounds in which the contestants "
        "took turns.\n\n"
        f"- {packages}; sqlite {sqlite3.sqlite_version}; Python {platform.python_version()}\n"
        f"- {platform.system()} {platform.machine()}, {os.cpu_count()} cores\n\n"
    )


def scale_part(limits: Mapping[str, str], rounds: int) -> str:
    """The section of the suite "scale"."""
    largest = float(limits.get("gb", "0.1")) * 1e9
    if "folder" in limits:
        return scale_section(Path(limits["folder"]).resolve(), largest, rounds)
    with tempfile.TemporaryDirectory() as folder:
        return scale_section(Path(folder), largest, rounds)


def suite_parts(name: str, rounds: int, minutes: float, limits: Mapping[str, str]) -> Iterator[str]:
    """Yields the sections of one suite, each as soon as it was measured."""
    if name == "soak":
        yield soak.section(minutes)
        return
    if name == "scale":
        yield scale_part(limits, rounds)
        return
    if name == "spark_stream":
        folder = Path(limits["folder"]) if "folder" in limits else None
        yield from map(table, spark_stream.results(rounds, int(limits.get("events", "10")), folder))
        return
    if name == "job_runtimes":
        yield from map(table, job_runtimes.results(rounds, int(float(limits.get("rows", "1e6")))))
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
    """The text of RESULTS.md, in which `section` replaces the section of the same title, or is
    appended."""
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
    """The sections of RESULTS.md that other programs wrote."""
    return "".join(part for part in re.split(r"(?m)^(?=##)", text) if part.startswith(OF_OTHERS))


def main(arguments: list[str]) -> None:
    limits = dict(item[2:].split("=", 1) for item in arguments if item.startswith("--"))
    numbers = [float(item) for item in arguments if item not in ORDER and not item.startswith("--")]
    rounds = max(int(numbers[0]) if numbers else 7, 5)
    minutes = numbers[1] if len(numbers) > 1 else soak.MINUTES
    chosen = [name for name in ORDER if name in arguments]
    text = RESULTS.read_text()
    text = text if chosen else heading(rounds) + of_others(text)
    day = (
        f" Measured on {date.today().isoformat()}, apart from the other sections." if chosen else ""
    )
    for name in chosen or [item for item in ORDER if item != "scale" or "gb" in limits]:
        for section in suite_parts(name, rounds, minutes, limits):
            print(section, end="\n\n", flush=True)
            head, _, rest = section.partition("\n\n")
            note, _, figures = rest.partition("\n")
            text = put(f"{head}\n\n{note}{day}\n{figures}", text)
            RESULTS.write_text(text)
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
