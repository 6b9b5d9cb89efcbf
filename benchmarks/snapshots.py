"""What snapshots cost: a job that counts by key, with exactly-once snapshots every second and without.

    python -m benchmarks.snapshots [rounds] [millions of keys, such as 0.001,1,10]

A thread writes rows to a pushed stream; the job groups them in windows of 10 s of event time, in which each key comes about ten
times or more, so that the state is that of all keys. No group passes the HAVING: writing results isn't what is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa

import runnel
from benchmarks.measure import Budget, Contestant, Result, measure

BATCH_ROWS = 1 << 16
WINDOW = 10_000_000
"""Event time, in µs."""

ROWS = {1_000: 60_000_000, 1_000_000: 12_000_000, 10_000_000: 30_000_000}
"""How many rows are written, by the number of keys: enough for some seconds."""

BUDGETS = {1_000: 0.9, 1_000_000: 0.9, 10_000_000: 0.8}
"""Which part of the speed without snapshots must be left."""

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
JOB = """
CREATE JOB counts OPTIONS ('processingGuarantee' = '{guarantee}', 'snapshotIntervalMillis' = '1000') AS
SINK INTO results
SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_end, k HAVING COUNT(*) < 0
"""


def batches(rows: int, keys: int) -> Iterator[pa.RecordBatch]:
    """The rows of the stream, made as they are asked for: only their times differ from one round of 16 batches to the next."""
    step = max(1, WINDOW // max(10 * keys, 10_000_000))
    first = [np.arange(start, start + BATCH_ROWS) for start in range(0, 16 * BATCH_ROWS, BATCH_ROWS)]
    values = [pa.array(n % 1000) for n in first]
    for number in range(rows // BATCH_ROWS):
        n = first[number % 16] + number // 16 * 16 * BATCH_ROWS
        k = (n * 2_654_435_761 >> 7) % keys
        times = pa.array(n * step).view(pa.timestamp("us"))
        yield pa.RecordBatch.from_arrays([pa.array(k), values[number % 16], times], schema=SCHEMA)


def run(guarantee: str, rows: int, keys: int, seen: list[Any] | None = None) -> None:
    """The whole job, from its making to its end; `seen` is given the last snapshot."""
    with TemporaryDirectory() as folder, runnel.connect(folder) as connection:
        connection.execute(
            "CREATE MAPPING results (__key BIGINT, n BIGINT, s BIGINT, m BIGINT) TYPE IMap "
            "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
        )
        writer = connection.register_stream("events", SCHEMA, time_column="ts", max_disorder=timedelta(0))
        connection.execute(JOB.format(guarantee=guarantee))

        def write() -> None:
            for batch in batches(rows, keys):
                writer.write(batch)
            writer.close()

        thread = Thread(target=write, daemon=True)
        thread.start()
        thread.join()
        if seen is not None:
            cursor = connection.execute("SHOW JOBS")
            seen.append(dict(zip([column[0] for column in cursor.description or ()], cursor.fetchone() or (), strict=True)))
        connection.job("counts").join()


def results(rounds: int = 7, key_counts: tuple[int, ...] = tuple(ROWS)) -> Iterator[Result]:
    """The row of DESIGN's table on snapshots, for each number of keys."""
    for keys in key_counts:
        seen: list[Any] = []
        run("exactlyOnce", ROWS[keys], keys, seen)
        taken, size, duration = (seen[0][name] for name in ("last_snapshot", "snapshot_bytes", "snapshot_duration"))
        yield measure(
            f"snapshots: exactly-once every second, {keys:,} keys",
            [
                Contestant("with", partial(run, "exactlyOnce", ROWS[keys], keys)),
                Contestant("without", partial(run, "none", ROWS[keys], keys)),
            ],
            rounds=rounds,
            note=f"{ROWS[keys]:,} rows; the last of {taken} snapshots had {size or 0:,} bytes and took {duration}",
            budget=Budget("without", round(1 / BUDGETS[keys], 2)),
        )


if __name__ == "__main__":
    from benchmarks.run import table

    asked = [int(float(item) * 1_000_000) for item in sys.argv[2].split(",")] if len(sys.argv) > 2 else list(ROWS)
    for result in results(int(sys.argv[1]) if len(sys.argv) > 1 else 7, tuple(asked)):
        print(table(result), "\n", flush=True)
