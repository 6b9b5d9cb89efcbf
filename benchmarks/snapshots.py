"""The cost of snapshots: a job that counts by key, with exactly-once snapshots every second and
without snapshots.

    python -m benchmarks.snapshots [rounds] [millions of keys, such as 0.001,1,10]

A thread writes rows to a pushed stream. The job groups them in time windows that contain all rows,
or nearly all, so that the state grows to a group for each key and keeps this size. HAVING drops all
groups, so that the time to write results does not count. Runs with and without snapshots alternate
in one process; each is the whole job, from CREATE JOB to its end. Flink runs the same job once of
each kind, over rows that it generates (`snapshots_on_flink`). With `restarts`, all of it needs
about 25 minutes.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

import runnel
from benchmarks import restarts
from benchmarks.measure import Budget, Result, Timing

FLINK = Path(__file__).parent.parent / ".flink" / "bin" / "python"
FLINK_JOB = Path(__file__).parent / "snapshots_on_flink.py"

FLINK_LIMIT = 300.0

BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters for one number of keys.

    window: size of the windows in seconds of event time; a second has a million rows.
    speed_left: the goal: the speed with snapshots as a share of the speed without.
    backends: Flink's state backends; with the first, Flink also runs without checkpoints.
    flink_rows: number of rows of each run of Flink, which is limited to 300 seconds."""

    rows: int
    window: int
    speed_left: float
    backends: tuple[str, ...]
    flink_rows: int
    most_rounds: int


SHAPES = {
    1_000: Shape(60_000_000, 10, 0.9, ("hashmap",), 20_000_000, 5),
    1_000_000: Shape(12_000_000, 10, 0.9, ("hashmap", "rocksdb"), 6_000_000, 5),
    10_000_000: Shape(20_000_000, 20, 0.8, ("rocksdb",), 12_000_000, 3),
}

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
MAPPING = (
    "CREATE MAPPING results (__key BIGINT, n BIGINT, s BIGINT, m BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
)
JOB = """
CREATE JOB counts OPTIONS ('processingGuarantee' = '{guarantee}',
    'snapshotIntervalMillis' = '1000') AS
SINK INTO results
SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{window}' SECOND)) GROUP BY window_end, k
    HAVING COUNT(*) < 0
"""


@dataclass(slots=True)
class Run:
    """One run: seconds, CPU seconds, and the longest wait of the writing thread in seconds. For
    each snapshot, its duration in seconds, its size in bytes, and the bytes written for it."""

    seconds: float
    cpu: float | None = None
    stall: float = 0.0
    snapshots: list[tuple[float, int, int]] = field(default_factory=list)


def batches(rows: int, keys: int) -> Iterator[pa.RecordBatch]:
    """The rows of the stream, generated on demand."""
    first = np.arange(BATCH_ROWS)
    for start in range(0, rows, BATCH_ROWS):
        n = first[: rows - start] + start
        columns = [
            pa.array(n * 2_654_435_761 % keys),
            pa.array(n % 1000),
            pa.array(n).view(pa.timestamp("us")),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Feed:
    """Writes the rows, and records the snapshots of the job meanwhile."""

    def __init__(self, writer: Any, job: Any, source: Iterator[pa.RecordBatch]) -> None:
        self._writer = writer
        self._job = job
        self._source = source
        self._reports: dict[int, Any] = {}
        self.stall = 0.0
        self.thread = Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        for batch in self._source:
            start = perf_counter()
            self._writer.write(batch)
            self.stall = max(self.stall, perf_counter() - start)
            self.look()
        self._writer.close()

    def look(self) -> None:
        report = self._job.last_snapshot
        if report is not None:
            self._reports[report.snapshot_id] = report

    @property
    def snapshots(self) -> list[tuple[float, int, int]]:
        reports = [report for report in self._reports.values() if report.size is not None]
        return [
            (report.duration / 1e9, report.size.bytes, report.size.bytes_written)
            for report in reports
        ]


def run(guarantee: str, keys: int) -> Run:
    """The whole job, from its creation to its end."""
    shape = SHAPES[keys]
    with TemporaryDirectory() as folder, runnel.connect(folder) as connection:
        connection.execute(MAPPING)
        writer = connection.register_stream(
            "events", SCHEMA, time_column="ts", max_disorder=timedelta(0)
        )
        gc.collect()
        start, cpu = perf_counter(), process_time()
        connection.execute(JOB.format(guarantee=guarantee, window=shape.window))
        job = connection.job("counts")
        feed = Feed(writer, job, batches(shape.rows, keys))
        feed.thread.start()
        feed.thread.join()
        job.join()
        done = Run(perf_counter() - start, process_time() - cpu, feed.stall)
        feed.look()
        done.snapshots = feed.snapshots
        return done


def flink_run(keys: int, interval: int, backend: str) -> Run | str:
    """The same on Flink, with fewer rows; a text with the reason if the run failed."""
    shape = SHAPES[keys]
    with TemporaryDirectory() as folder:
        values = (shape.flink_rows, keys, shape.window, os.cpu_count(), interval, backend, folder)
        command = [str(FLINK), str(FLINK_JOB), *map(str, values)]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        ) as process:
            try:
                output, errors = process.communicate(timeout=FLINK_LIMIT)
            except subprocess.TimeoutExpired:
                return f"not done after {FLINK_LIMIT:.0f} s"
            finally:
                with suppress(ProcessLookupError):
                    # Kill the JVM too: it outlives the process that started it.
                    os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        reason = [line for line in errors.splitlines() if line.strip()]
        return f"failed: {reason[-1][:200] if reason else process.returncode}"
    found = json.loads(output.strip().split("\n")[-1])
    return Run(
        found["seconds"],
        snapshots=[(took / 1000, state, new) for took, new, state in found["checkpoints"]],
    )


def snapshots_text(snapshots: Sequence[tuple[float, int, int]]) -> str:
    """The durations and sizes of snapshots, as a text."""
    if not snapshots:
        return "none seen"
    times = sorted(took for took, _, _ in snapshots)
    largest = max(size for _, size, _ in snapshots)
    written = median(new for _, _, new in snapshots)
    return (
        f"{len(snapshots)}, of {median(times) * 1000:,.0f} ms (median; at most "
        f"{times[-1] * 1000:,.0f}), "
        f"{largest / 1e6:,.1f} MB at most, {written / 1e6:,.1f} MB written (median)"
    )


def timing(label: str, runs: Sequence[Run]) -> Timing:
    seconds = [item.seconds for item in runs]
    return Timing(label, median(seconds), min(seconds), max(seconds), len(runs))


def beside(keys: int) -> list[str]:
    """The text of the comparison with Flink: speeds instead of times, because it has fewer rows."""
    notes, without = [], None
    shape = SHAPES[keys]
    ways = [(shape.backends[0], 0), *((backend, 1000) for backend in shape.backends)]
    for backend, interval in ways:
        label = f"Flink, {backend}, {'with' if interval else 'without'}"
        done = flink_run(keys, interval, backend)
        if isinstance(done, str):
            notes.append(f"{label}: {done}")
            continue
        text = (
            f"{label}: {shape.flink_rows / done.seconds / 1e6:.2f} M/s of {shape.flink_rows:,} rows"
        )
        if not interval:
            without = done
        elif without is not None and backend == shape.backends[0]:
            text += f", {without.seconds / done.seconds:.2f} of the speed is left"
        notes.append(
            f"{text}; its snapshots: {snapshots_text(done.snapshots)}" if interval else text
        )
    return notes


def measured(keys: int, rounds: int, with_flink: bool = True) -> Result:
    """One number of keys: runs with and without snapshots alternate, and so does their order."""
    shape = SHAPES[keys]
    found: dict[str, list[Run]] = {"exactlyOnce": [], "none": []}
    for number in range(min(rounds, shape.most_rounds) + 1):
        for guarantee in sorted(found, reverse=bool(number % 2)):
            done = run(guarantee, keys)
            if number:
                found[guarantee].append(done)
    timings = [timing("with", found["exactlyOnce"]), timing("without", found["none"])]
    cpu = [median(item.cpu or 0.0 for item in found[kind]) for kind in ("none", "exactlyOnce")]
    stalls = [1000 * median(item.stall for item in found[kind]) for kind in ("exactlyOnce", "none")]
    speeds = [shape.rows / item.median / 1e6 for item in timings]
    taken = [item for done in found["exactlyOnce"] for item in done.snapshots]
    notes = [
        (
            f"{shape.rows:,} rows in each run, {speeds[0]:.2f} M/s with, {speeds[1]:.2f} without: "
            f"{speeds[0] / speeds[1]:.2f} of "
            f"the speed is left, {cpu[0] / cpu[1]:.2f} by CPU time ({cpu[1]:.2f} s and "
            f"{cpu[0]:.2f} s)"
        ),
        f"snapshots: {snapshots_text(taken)}",
        (
            f"the longest wait of the writer is {stalls[0]:,.0f} ms with, {stalls[1]:,.0f} ms "
            "without (medians)"
        ),
    ]
    if with_flink and FLINK.exists():
        notes += beside(keys)
    title = f"snapshots: exactly-once every second, {keys:,} keys"
    budget = Budget(timings[1].name, round(1 / shape.speed_left, 2))
    return Result(title, "; ".join(notes), tuple(timings), budget)


def results(rounds: int = 7, key_counts: Sequence[int] = tuple(SHAPES)) -> Iterator[Result]:
    """The row of DESIGN's table on snapshots, for each number of keys, and how long restarts
    take."""
    for keys in key_counts:
        yield measured(keys, rounds)
    yield from restarts.results(key_counts)


if __name__ == "__main__":
    from benchmarks.run import table

    asked = (
        [int(float(item) * 1_000_000) for item in sys.argv[2].split(",")]
        if len(sys.argv) > 2
        else list(SHAPES)
    )
    for result in results(int(sys.argv[1]) if len(sys.argv) > 1 else 7, tuple(asked)):
        print(table(result), "\n", flush=True)
