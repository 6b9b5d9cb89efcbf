"""NEXMark on Runnel, query by query: from memory, from its generator, from JSON lines; compared
with Flink SQL if it is installed.

    python -m benchmarks.nexmark_speed [million events] [query …]

Each run is a process of its own, which reports its time, CPU seconds and peak memory
(`benchmarks.nexmark.run_runnel`). Flink runs in an environment of its own that `make flink` makes;
its job manager and workers share one JVM on the same cores, its time is the job's net run time.
Flink reads the same JSON lines. Instead of rows in memory it reads "datagen", a counter with
columns computed from it, which can generate bids only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import polars as pl

import runnel
from benchmarks.measure import Result, Timing
from benchmarks.nexmark import NAMES, STREAMED, TABLES, query
from benchmarks.nexmark.run_runnel import GENERATED, tables_of

MILLIONS = 1
FLINK = Path(__file__).parent.parent / ".flink" / "bin" / "python"
RUNNER = Path(__file__).parent / "nexmark" / "run_flink.py"
ON_FLINK = ("q00", "q01", "q02", "q05", "q07", "q08", "q11", "q12", "q14", "q22")
GOALS = {"q00": 20, "q01": 20, "q02": 20, "q05": 20, "q07": 20, "q14": 10, "q22": 10}
"""The goal for a query from memory: this many times the speed of Flink. From JSON lines: five
times."""

_TO_FLINK = (
    (
        re.compile(
            r"(HOP\(TABLE \w+, DESCRIPTOR\(\w+\)), (INTERVAL '\d+' \w+), (INTERVAL '\d+' \w+)"
        ),
        r"\1, \3, \2",
    ),
    (
        re.compile(r"SPLIT_PART\(url, '/', (\d)\)"),
        lambda match: f"SPLIT_INDEX(url, '/', {int(match[1]) - 1})",
    ),
    (re.compile(r"LENGTH\("), "CHAR_LENGTH("),
)


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one process.

    seconds: run time.
    cpu: CPU seconds; None: unknown.
    peak: maximum memory in bytes.
    rows: number of result rows.
    """

    seconds: float
    cpu: float | None = None
    peak: int = 0
    rows: int = 0


def flink_query(name: str) -> str:
    """A query in Flink's SQL: HOP takes the slide first."""
    text = re.sub(r"--.*\n", "", query(name))
    for pattern, replacement in _TO_FLINK:
        text = pattern.sub(replacement, text)
    return text


def write_json(folder: Path, events: int) -> None:
    """The three tables as JSON lines."""
    with runnel.connect() as connection:
        for table in TABLES:
            cursor = connection.cursor()
            cursor.execute(GENERATED.format(name=table, table=table, events=events, more=""))
            frame = cursor.execute(f"SELECT * FROM {table}").fetch_polars()
            times = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
            frame = frame.with_columns(
                [pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%S%.3f") for name in times]
            )
            frame.write_ndjson(folder / f"{table}.jsonl")


def _run(command: Sequence[str]) -> Run:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found = json.loads(done.stdout.strip().split("\n")[-1])
    return Run(found["seconds"], found.get("cpu"), found.get("peak", 0), found.get("rows", 0))


def runnel_run(name: str, source: str, events: int, folder: str) -> Run:
    return _run(
        [sys.executable, "-m", "benchmarks.nexmark.run_runnel", name, source, str(events), folder]
    )


def flink_run(name: str, source: str, events: int, folder: str) -> Run:
    return _run(
        [
            str(FLINK),
            str(RUNNER),
            flink_query(name),
            source,
            str(events),
            str(os.cpu_count()),
            folder,
        ]
    )


def _timing(label: str, runs: Sequence[Run], events: int) -> Timing:
    seconds = [run.seconds for run in runs]
    last = runs[-1]
    cpu = "" if last.cpu is None else f", {last.cpu:.2f} s of CPU, peak {last.peak >> 20} MiB"
    name = f"{label}: {events / median(seconds) / 1e6:.2f} M events/s{cpu}"
    return Timing(name, median(seconds), min(seconds), max(seconds), len(seconds))


def measured(name: str, events: int, folder: str, rounds: int, flink_rounds: int) -> Result:
    """One query, from each source."""
    ways = [
        ("Runnel, memory", runnel_run, "memory"),
        ("Runnel, generator", runnel_run, "generator"),
    ]
    ways.append(("Runnel, JSON lines", runnel_run, "json"))
    if FLINK.exists() and name in ON_FLINK and flink_rounds:
        ways.append(("Flink, JSON lines", flink_run, "json"))
        if tables_of(query(name)) == ["bid"]:
            ways.append(("Flink, datagen", flink_run, "datagen"))
    runs: dict[str, list[Run]] = {label: [] for label, _, _ in ways}
    for number in range(rounds):
        for label, run, source in ways:
            if run is runnel_run or number < flink_rounds:
                runs[label].append(run(name, source, events, folder))
    timings = tuple(_timing(label, done, events) for label, done in runs.items())
    kind = "as a stream" if name in STREAMED else "over tables"
    note = (
        f"{kind}, one run each; {events:,} events, {runs['Runnel, memory'][0].rows:,} rows out; "
        f"{os.cpu_count()} cores"
    )
    return Result(f"NEXMark {name}", note + _goals(name, timings), timings)


def _goals(name: str, timings: Sequence[Timing]) -> str:
    seen = {timing.name.partition(":")[0]: timing.median for timing in timings}
    verdicts = []
    for ours, theirs, goal in (
        ("Runnel, memory", "Flink, datagen", GOALS.get(name)),
        ("Runnel, JSON lines", "Flink, JSON lines", 5),
    ):
        if goal is not None and theirs in seen:
            times = seen[theirs] / seen[ours]
            verdicts.append(
                f"{times:.3g} times {theirs} (goal {goal}: "
                f"{'kept' if times >= goal else '**missed**'})"
            )
    return "; " + "; ".join(verdicts) if verdicts else ""


def results(
    rounds: int = 7, millions: float = MILLIONS, names: Sequence[str] = NAMES
) -> Iterator[Result]:
    """All queries, once each in a process of its own: starting Flink takes half a minute."""
    with tempfile.TemporaryDirectory() as folder:
        events = int(millions * 1_000_000)
        write_json(Path(folder), events)
        for name in names:
            yield measured(name, events, folder, 1, 1)


def overview(found: Sequence[Result]) -> str:
    """All queries in one table: millions of events a second, and how many times Flink's."""
    ways = (
        "Runnel, memory",
        "Runnel, generator",
        "Runnel, JSON lines",
        "Flink, datagen",
        "Flink, JSON lines",
    )
    lines = [
        "### NEXMark, all queries",
        "",
        "Millions of events a second; ×: how many times Flink's.",
        "",
    ]
    lines.append("| | " + " | ".join(ways) + " | × from memory | × from JSON lines |")
    lines.append("|---" * 8 + "|")
    for result in found:
        seen = {
            name.partition(":")[0]: float(name.partition(": ")[2].split()[0])
            for name in (t.name for t in result.timings)
        }
        took = {timing.name.partition(":")[0]: timing.median for timing in result.timings}
        pairs = ((ways[0], ways[3]), (ways[2], ways[4]))
        times = [
            f"{took[theirs] / took[ours]:.3g}" if theirs in took else "" for ours, theirs in pairs
        ]
        cells = [f"{seen[way]:.2f}" if way in seen else "" for way in ways]
        lines.append(f"| {result.title.split()[1]} | " + " | ".join([*cells, *times]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    given = sys.argv[1:]
    for result in results(1, float(given[0]) if given else MILLIONS, given[1:] or NAMES):
        print(result.title, result.note)
        for timing in result.timings:
            print(f"  {timing.name}: {timing.median:.3f} s")
