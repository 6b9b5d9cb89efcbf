"""The time to resume a job: from the start of a process until the killed job emits its first new
row.

    python -m benchmarks.restarts [times] [millions of keys, such as 0.001,1,10]

The job counts by key in windows and follows a folder of Parquet files. Its state is one group for
each key, in a window that stays open; the first row of a new file completes a single window of one
row. Each process (`coming_back`) opens the directory of the killed process before it, and the
connection resumes the job from its last snapshot.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import runnel
from benchmarks.coming_back import TIMEOUT
from benchmarks.measure import Result, Timing
from runnel.columns.batches import Indexes

KEYS = (1_000, 1_000_000, 10_000_000)
SECOND = 1_000_000
LAG = 2_000
"""Lag of the watermark, in seconds of event time."""

SETUP = (
    (
        "CREATE MAPPING events (k BIGINT, v BIGINT, ts TIMESTAMP, "
        "WATERMARK FOR ts AS ts - INTERVAL '{lag}' SECOND) TYPE File "
        "OPTIONS ('path' = '{path}', 'format' = 'parquet', 'follow' = 'true')"
    ),
    "CREATE MAPPING results (__key BIGINT, n BIGINT, s BIGINT, m BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')",
    (
        "CREATE JOB counts OPTIONS ('processingGuarantee' = 'exactlyOnce', "
        "'snapshotIntervalMillis' = '600000') AS "
        "SINK INTO results SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m "
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY window_end, k"
    ),
)


def write_file(folder: Path, name: str, keys: Indexes, times: Indexes) -> None:
    """Writes a file of rows, and renames it when it is complete."""
    columns = [
        pa.array(keys),
        pa.array(np.ones(len(times), np.int64)),
        pa.array(times).cast(pa.timestamp("us")),
    ]
    pq.write_table(
        pa.table(columns, names=["k", "v", "ts"]), folder / f".{name}", row_group_size=1 << 20
    )
    (folder / f".{name}").rename(folder / name)


def prepare(directory: Path, files: Path, keys: int) -> int:
    """Prepares a job whose last snapshot has a group for each key; returns the bytes of the
    snapshot."""
    files.mkdir()
    numbers = np.arange(keys, dtype=np.int64)
    times = np.concatenate(([5 * SECOND], 1_000 * SECOND + numbers * 10 * SECOND // keys))
    write_file(files, "0.parquet", np.concatenate(([0], numbers * 2_654_435_761 % keys)), times)
    with runnel.connect(directory) as connection:
        for statement in SETUP:
            connection.execute(statement.format(lag=LAG, path=files))
        job = connection.job("counts")
        until = time.monotonic() + TIMEOUT
        while job.metrics()["scan events"].rows_out <= keys:
            if time.monotonic() > until:
                raise RuntimeError(f"the rows of {keys:,} keys weren't read in {TIMEOUT:g} s")
            time.sleep(0.01)
        connection.execute("CREATE SNAPSHOT full FOR JOB counts")
        cursor = connection.execute("SHOW SNAPSHOTS")
        names = [column[0] for column in cursor.description or ()]
        size = dict(zip(names, cursor.fetchone() or (), strict=True))["bytes"]
    write_file(files, "1.parquet", np.array([0]), np.array([(LAG + 10) * SECOND]))
    return int(size)


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds from the start of the process until it had imported runnel, opened the directory, and
    emitted a row; and its CPU seconds."""

    imported: float
    opened: float
    row: float
    cpu: float


def restart(directory: Path) -> Restart:
    """Runs one process, and kills it when it has emitted a row."""
    command = [sys.executable, "-m", "benchmarks.coming_back", str(directory)]
    begun = time.time()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
        finally:
            process.kill()
    if not line:
        raise RuntimeError("the process that was restarted said nothing")
    imported, opened, row, cpu = json.loads(line)
    return Restart(imported - begun, opened - begun, row - begun, cpu)


def results(key_counts: Sequence[int] = KEYS, times: int = 5) -> Iterator[Result]:
    """The time to resume the job, for each number of keys."""
    for keys in key_counts:
        with TemporaryDirectory() as folder:
            directory = Path(folder) / "connection"
            size = prepare(directory, Path(folder) / "files", keys)
            # The first process finds a cleanly closed directory; each later one, a killed one.
            restart(directory)
            done = [restart(directory) for _ in range(times)]
        rows = [item.row for item in done]
        imported, opened, cpu = (
            median(getattr(item, name) for item in done) for name in ("imported", "opened", "cpu")
        )
        note = (
            f"Killed by SIGKILL each time; the last snapshot has {keys:,} groups in "
            f"{size / 1e6:,.1f} MB. Medians: runnel is "
            f"imported after {imported:.2f} s, the connection open after {opened:.2f} s; "
            f"{cpu:.2f} s of CPU in all"
        )
        timing = Timing(
            "process started to first new row", median(rows), min(rows), max(rows), times
        )
        yield Result(f"restarts: {keys:,} keys", note, (timing,))


if __name__ == "__main__":
    from benchmarks.run import table

    given = sys.argv[1:]
    asked = (
        [int(float(item) * 1_000_000) for item in given[1].split(",")] if len(given) > 1 else KEYS
    )
    for result in results(asked, int(given[0]) if given else 5):
        print(table(result), "\n", flush=True)
