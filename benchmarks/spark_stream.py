"""A streaming job on Spark over 100 million events, compared with the same query in Structured
Streaming.

    python -m benchmarks.spark_stream [millions of events] [rounds] [folder]

The events are Parquet files in a folder that is followed, several files per batch: 10,000 keys,
10,000 events a second and key, in windows of 10 seconds. One event with a much later time closes
the last of these windows. A run ends when all rows of all windows are in the sink; then their
number, the number of events and the sum of all values must be exact.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import runnel
from benchmarks.measure import Budget, Result, Timing
from benchmarks.scale.contestant import java_process, processor_seconds
from benchmarks.spark import has_java, new_session

MILLIONS = 100
FILE_ROWS = 1_000_000
FILES_A_BATCH = 5
KEYS = 10_000
EVENTS_A_SECOND = 100_000
WINDOW = 10
WARMING = 10
WARM_UPS = 3
"""Number of warm-up runs of each contestant, over WARMING million events. A real job runs for
months, while Java compiles the code of a query in its first minute."""
SECONDS = 1_800
PAUSE = 0.25
EPOCH = datetime(2026, 1, 1)
LAG = 2


@dataclass(frozen=True)
class Figures:
    """One run: seconds, CPU seconds of this process and its Java, number of batches, and the
    maximum number of rows and bytes of state."""

    seconds: float
    cpu: float
    batches: int
    state_rows: int
    state_bytes: int


@dataclass(frozen=True)
class Events:
    """The events in a folder."""

    folder: Path
    count: int
    total: int

    @property
    def result_rows(self) -> int:
        return self.count // (EVENTS_A_SECOND * WINDOW) * KEYS


def write(folder: Path, millions: int) -> Events:
    """Writes the files. The last one, by name and time, has the event that closes the windows."""
    folder.mkdir()
    step = 1_000_000 // EVENTS_A_SECOND
    start = np.datetime64(EPOCH, "us").astype(np.int64)
    total = 0
    for number in range(millions):
        ids = np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        values = ids * 7919 % 1009
        total += int(values.sum())
        _write_file(folder / f"{number:05d}.parquet", start + ids * step, ids % KEYS, values)
    closing = np.array([start + (millions * FILE_ROWS * step) + 86_400_000_000])
    _write_file(folder / f"{millions:05d}.parquet", closing, np.array([0]), np.array([0]))
    return Events(folder, millions * FILE_ROWS, total)


def _write_file(path: Path, at: Any, keys: Any, values: Any) -> None:
    columns = {
        "at": pa.array(at, pa.timestamp("us", "UTC")),
        "k": pa.array(keys),
        "v": pa.array(values),
    }
    pq.write_table(pa.table(columns), path)


def processors() -> float:
    """CPU seconds of this process and its Java so far."""
    return processor_seconds("self") + processor_seconds(java_process())


def job(session: Any, events: Events, scratch: Path) -> Figures:
    """One run as a Runnel job."""
    with runnel.connect(scratch / "db", spark=session) as connection:
        connection.execute(f"""CREATE MAPPING events (at TIMESTAMP WITH TIME ZONE, k BIGINT,
                v BIGINT,
                WATERMARK FOR at AS at - INTERVAL '{LAG}' SECOND) TYPE Spark
            OPTIONS ('format' = 'parquet', 'path' = '{events.folder}', 'follow' = 'true',
                'maxFilesPerTrigger' = '{FILES_A_BATCH}')""")
        connection.execute(f"""CREATE MAPPING sink (ended TIMESTAMP WITH TIME ZONE, k BIGINT,
            n BIGINT, total BIGINT) TYPE Spark
            OPTIONS ('format' = 'parquet', 'path' = '{scratch / "out"}')""")
        began, before = monotonic(), processors()
        connection.execute(f"""CREATE JOB j OPTIONS ('runtime' = 'spark',
            'snapshotIntervalMillis' = '100') AS
            INSERT INTO sink SELECT window_end, k, COUNT(*), SUM(v)
            FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '{WINDOW}' SECOND))
            GROUP BY window_end, window_start, k""")
        shown = connection.execute("SHOW JOBS FULL")
        names = [item[0] for item in shown.description]
        batches = state_rows = state_bytes = 0
        found: dict[str, Any] = {}
        while (found.get("rows_out") or 0) < events.result_rows:
            cursor = connection.execute("SHOW JOBS FULL")
            found = dict(zip(names, cursor.fetchall()[0], strict=True))
            assert found["status"] in ("STARTING", "NOT_RUNNING", "RUNNING"), found
            assert monotonic() < began + SECONDS, f"not done in {SECONDS} s: {found}"
            for vertex in connection.job("j").metrics().values():
                state_rows, state_bytes = (
                    max(state_rows, vertex.state_rows),
                    max(state_bytes, vertex.state_bytes),
                )
                batches = vertex.batches_in
            sleep(PAUSE)
        seconds, cpu = monotonic() - began, processors() - before
        assert not found["late_rows"], found
        rows = connection.execute(
            "SELECT COUNT(*), SUM(n), SUM(total), COUNT(DISTINCT ended) FROM sink"
        ).fetchall()
        connection.execute("DROP JOB j")
    assert rows == [(events.result_rows, events.count, events.total, events.result_rows // KEYS)], (
        rows
    )
    return Figures(seconds, cpu, batches, state_rows, state_bytes)


def native(session: Any, events: Events, scratch: Path) -> Figures:
    """One run of Structured Streaming, with Spark's file sink."""
    from pyspark.sql import functions as f

    frame = session.readStream.schema("at TIMESTAMP, k BIGINT, v BIGINT").option(
        "maxFilesPerTrigger", FILES_A_BATCH
    )
    frame = frame.parquet(str(events.folder)).withWatermark("at", f"{LAG} seconds")
    frame = frame.groupBy(f.window("at", f"{WINDOW} seconds").alias("w"), "k").agg(
        f.count("*").alias("n"), f.sum("v").alias("total")
    )
    writer = (
        frame.selectExpr("w.end AS ended", "k", "n", "total")
        .writeStream.format("parquet")
        .outputMode("append")
    )
    writer = writer.option("checkpointLocation", str(scratch / "checkpoint")).option(
        "path", str(scratch / "out")
    )
    began, before = monotonic(), processors()
    query = writer.trigger(processingTime="100 milliseconds").start()
    end = np.datetime64(EPOCH + timedelta(hours=20)).astype("datetime64[ms]").item()
    try:
        while (last := query.lastProgress) is None or _watermark(last) < end or last.numInputRows:
            assert query.isActive, query.exception()
            assert monotonic() < began + SECONDS, f"not done in {SECONDS} s"
            sleep(PAUSE)
        seconds, cpu = monotonic() - began, processors() - before
        progress = [item for item in query.recentProgress if item.numInputRows]
    finally:
        query.stop()
    row = (
        session.read.parquet(str(scratch / "out"))
        .selectExpr("count(*)", "sum(n)", "sum(total)")
        .collect()[0]
    )
    assert tuple(row) == (events.result_rows, events.count, events.total), row
    states = [item.stateOperators[0] for item in progress]
    rows, size = (
        max((getattr(item, name) for item in states), default=0)
        for name in ("numRowsTotal", "memoryUsedBytes")
    )
    return Figures(seconds, cpu, len(progress), rows, size)


def _watermark(progress: Any) -> datetime:
    text = dict(progress.eventTime).get("watermark", "1970-01-01T00:00:00.000Z")
    return datetime.fromisoformat(text).replace(tzinfo=None)


def results(rounds: int, millions: int = MILLIONS, folder: Path | None = None) -> Iterator[Result]:
    """One result; none without Java. Each contestant runs 100 million events twice, fewer events
    `rounds` times."""
    if not has_java():
        return
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=folder) as name:
        warnings.simplefilter("ignore")
        scratch = Path(name)
        events = write(scratch / "events", millions)
        first = write(scratch / "first", min(millions, WARMING))
        session = new_session()
        try:
            found: dict[str, list[Figures]] = {"Runnel's job": [], "Structured Streaming": []}
            for number in range(-WARM_UPS, rounds if millions < MILLIONS else 2):
                for label, run in zip(found, (job, native), strict=True):
                    folder_of_run = scratch / f"run-{number}-{run.__name__}"
                    folder_of_run.mkdir()
                    if number < 0:
                        run(session, first, folder_of_run)
                    else:
                        found[label].append(run(session, events, folder_of_run))
                    shutil.rmtree(folder_of_run)
        finally:
            session.stop()
    yield _result(found, events)


def _result(found: dict[str, list[Figures]], events: Events) -> Result:
    timings = []
    for label, runs in found.items():
        times = [run.seconds for run in runs]
        rate = events.count / median(times) / 1e6
        last = runs[-1]
        shown = (
            f"{label}: {rate:.2f} M events/s, {last.batches} batches, state of at most "
            f"{last.state_rows:,} rows"
        )
        shown += (
            f" in {last.state_bytes / 1e6:.1f} MB, "
            f"{median(run.cpu for run in runs):.0f} s of processors"
        )
        timings.append(Timing(shown, median(times), min(times), max(times), len(times)))
    note = (
        f"{events.count:,} events in Parquet files that are followed, {FILES_A_BATCH} files a "
        f"batch, {KEYS:,} keys, tumbling "
        f"windows of {WINDOW} s with COUNT and SUM into Parquet, {events.result_rows:,} rows; from "
        "the start of the job until "
        f"all of them are in the sink, after {WARM_UPS} runs each over {WARMING} million or fewer; "
        "their number, the number of "
        "events and the sum were exact, and no row was late"
    )
    return Result(
        f"streaming job on Spark, {events.count:,} events",
        note,
        tuple(timings),
        Budget(timings[1].name, 1.2),
    )


if __name__ == "__main__":
    given = sys.argv[1:]
    for item in results(
        max(1, int(given[1])) if len(given) > 1 else 1,
        int(given[0]) if given else MILLIONS,
        Path(given[2]) if len(given) > 2 else None,
    ):
        print(item.title, "—", item.note)
        for timing in item.timings:
            print(f"  {timing.median:8.1f} s  {timing.name}")
        print(item.verdict)
