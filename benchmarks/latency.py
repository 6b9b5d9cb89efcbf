"""The latency of results of sliding windows over a paced stream of a million rows a second, and the
cost of idle streams.

    python -m benchmarks.latency [seconds]

Windows have a second, and slide by 100 ms. The event time of a row is the time at which it is due
to be written, so the result of a window that ends at t could be emitted at t at the earliest. The
latency of a result row is the time at which the cursor returns it, minus t. For comparison, the
jitter of the machine is measured in the same run: the excess of a sleep of one millisecond.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from threading import Event, Thread

import numpy as np
import pyarrow as pa

import runnel
from benchmarks.measure import Result, TimeBudget, Timing

RATE = 1_000_000
TICK = 1_000_000
"""Nanoseconds between two writes."""
KEYS = 1_000
SECONDS = 20
WARM_UP = 3
SHARES = (0.5, 0.99, 0.999, 0.9999)
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
QUERY = (
    "SELECT window_end, k, COUNT(*) AS n, SUM(v) AS s "
    "FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), 1000000, 100000)) "
    "GROUP BY window_end, k"
)


def paced(seconds: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Latencies of result rows and the machine's jitter, both in seconds, and the rows written per
    second."""
    origin = time.perf_counter_ns() + 500_000_000
    jitter: list[int] = []
    over = Event()

    def sleep() -> None:
        while not over.is_set():
            asked = time.perf_counter_ns() + 1_000_000
            time.sleep(0.001)
            jitter.append(time.perf_counter_ns() - asked)

    written = 0

    def write() -> None:
        nonlocal written
        total = int(seconds * RATE)
        while written < total:
            now = time.perf_counter_ns() - origin
            if now > 2 * seconds * 1e9:
                break  # the query can't keep up; report the rate that it reached
            due = min(now * RATE // 1_000_000_000, total)
            if due < total and due - written < RATE * TICK // 1_000_000_000:
                time.sleep(max(TICK - now % TICK, 50_000) / 1e9)
                continue
            n = np.arange(written, due)
            times = n * (1_000_000 // RATE)
            columns = [pa.array(n % KEYS), pa.array(n), pa.array(times)]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
            written = int(due)
        writer.close()

    found: list[tuple[int, int, int]] = []
    with runnel.connect() as connection:
        writer = connection.register_stream("events", SCHEMA, time_column="ts", max_disorder=0)
        cursor = connection.cursor().execute(QUERY)
        threads = [Thread(target=write, daemon=True), Thread(target=sleep, daemon=True)]
        for thread in threads:
            thread.start()
        for batch in cursor.fetch_record_batch():
            now = time.perf_counter_ns() - origin
            ends, counts = np.unique(batch.column("window_end").to_numpy(), return_counts=True)
            found.extend(
                (now, end * 1000, count)
                for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
            )
        elapsed = (time.perf_counter_ns() - origin) / 1e9
        over.set()
        for thread in threads:
            thread.join()
    # The end of the stream flushes windows before their time; the first seconds load code.
    used = [(now - end, n) for now, end, n in found if WARM_UP * 1e9 < end < (seconds - 1) * 1e9]
    latencies = np.repeat([item[0] for item in used], [item[1] for item in used]) / 1e9
    return latencies, np.array(jitter) / 1e9, written / elapsed


def idle(jobs: int = 100, seconds: float = 5) -> float:
    """The share of one core that `count` streaming queries without input use."""
    with runnel.connect() as connection:
        writer = connection.register_stream("events", SCHEMA, time_column="ts", max_disorder=0)
        cursors = [connection.cursor().execute(QUERY) for _ in range(jobs)]
        writer.write([(1, 1, 1)])
        time.sleep(2)
        busy = time.process_time()
        time.sleep(seconds)
        share = (time.process_time() - busy) / seconds
        assert len(cursors) == jobs
    return share


def results(rounds: int = 7, seconds: float = SECONDS) -> Iterator[Result]:
    """One paced run, and one of 100 idle jobs."""
    latencies, jitter, speed = paced(seconds)
    timings = []
    for label, values in (("result rows", latencies), ("the machine's jitter", jitter)):
        for share in SHARES:
            value = float(np.quantile(values, share))
            timings.append(
                Timing(
                    f"{label}, p{share * 100:g}", value, float(values.min()), float(values.max()), 1
                )
            )
    order = [1, 0, 2, 3, 4, 5, 6, 7]
    note = (
        f"windows of 1 s by 100 ms over {speed / 1e6:.2f} M rows a second, {KEYS:,} keys, "
        f"{len(latencies):,} result rows"
    )
    yield Result("stream: latency", note, tuple(timings[i] for i in order), TimeBudget(0.010))
    share = idle()
    note = f"100 streaming queries without input take {share * 100:.3g} % of one core"
    yield Result(
        "stream: 100 idle jobs",
        note,
        (Timing("CPU seconds per second", share, share, share, 1),),
        TimeBudget(0.01),
    )


if __name__ == "__main__":
    for result in results(1, float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS):
        print(result.title, result.note)
        for timing in result.timings:
            print(f"  {timing.name}: {timing.median * 1000:.3f} ms")
        print(" ", result.verdict)
