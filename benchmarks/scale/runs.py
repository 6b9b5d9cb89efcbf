"""The runs: each in a process of its own, contestants in turn; each point is stored at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import time

from benchmarks.scale import CONTESTANTS, SIZES
from benchmarks.scale.data import bytes_of, made
from benchmarks.scale.points import Point, Points

HOME = Path(__file__).parent.parent.parent
SECONDS = 1_800.0
"""The time limit of a run in seconds; a contestant that exceeds it skips larger sizes."""


def rounds_of(size: str, most: int) -> int:
    """The number of runs of each contestant: one if a run takes minutes."""
    if SIZES[size] > 1e9:
        return 1
    return min(most, 3) if SIZES[size] > 1e8 else most


def run(name: str, tables: Path, scratch: Path, seconds: float) -> dict[str, object]:
    """Runs one process; returns the figures of the point."""
    spill = Path(tempfile.mkdtemp(prefix="spill-", dir=scratch))
    command = [
        sys.executable,
        "-m",
        "benchmarks.scale.contestant",
        name,
        str(tables),
        str(spill),
        str(time()),
    ]
    try:
        with subprocess.Popen(
            command,
            cwd=HOME,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except BaseException as error:
                # Also kill its child process, Java.
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    return {"failure": f"not done in {seconds:,.0f} s"}
                raise
            if process.returncode:
                return {"failure": _reason(err) or f"ended with {process.returncode}"}
            answer: dict[str, object] = json.loads(out.strip().split("\n")[-1])
            return answer
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def _reason(said: str) -> str:
    lines = [line for line in said.strip().split("\n") if line.strip()]
    found = [
        line
        for line in lines
        if line.startswith(("runnel.", "duckdb.", "_duckdb.", "py4j.", "pyspark."))
    ]
    return (found or lines or [""])[-1 if not found else 0][:500]


def measure(
    root: Path,
    points: Points,
    sizes: Sequence[str],
    names: Sequence[str],
    rounds: int,
    seconds: float,
) -> None:
    """Measures the missing points. AssertionError if the answers of two contestants differ."""
    for size in sizes:
        for number in range(rounds_of(size, rounds)):
            # Each round starts with another contestant.
            for name in [*names[number % len(names) :], *names[: number % len(names)]]:
                before = points.failed(name)
                if points.has(size, name, number):
                    continue
                if before is not None:
                    _tell(
                        f"{size}, {CONTESTANTS[name]}: left out, as at {before.size}: "
                        f"{before.failure}"
                    )
                    continue
                tables = made(root, size)
                point = Point(
                    size, bytes_of(tables), name, number, **run(name, tables, root, seconds)
                )  # type: ignore[arg-type]
                points.add(point)
                _tell(_line(point))
                answers = {
                    item.answer: item.contestant
                    for item in points.all
                    if item.size == size and item.answer
                }
                assert len(answers) < 2, f"different answers at {size}: {answers}"


def _line(point: Point) -> str:
    head = f"{point.size}, round {point.round + 1}, {CONTESTANTS[point.contestant]}: "
    if point.failure:
        return head + point.failure
    java = f" and Java's {point.java_peak / 1e6:,.0f} MB" if point.java_peak else ""
    times = (
        f"{point.warm:.3f} s, {point.cold:.2f} s with the start ({point.cpu:.1f} s of processors)"
    )
    return f"{head}{times}, peak {point.peak / 1e6:,.0f} MB{java}; {point.answer}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
