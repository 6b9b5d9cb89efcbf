"""Runs queries at full speed for minutes, and checks that memory and threads do not grow.

    python -m benchmarks.soak [minutes]

The queries read unbounded NEXMark bids, as fast as the generator makes them, into sliding windows
(the counts of q5) and sessions at the same time, and are read as Arrow. Each second the resident
memory, the number of threads and the number of rows are recorded. The verdict is over the second
half: the regression line of the memory may rise by at most a twentieth of it in a minute, and the
number of threads may not grow.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from threading import Thread, active_count

import numpy as np

import runnel

MINUTES = 10
BARS = " ▁▂▃▄▅▆▇█"
QUERIES = (
    (
        "SELECT auction, window_end, COUNT(*) AS n "
        "FROM TABLE(HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND, "
        "INTERVAL '2' SECOND)) GROUP BY auction, window_end"
    ),
    (
        "SELECT bidder, COUNT(*) AS n, window_end "
        "FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(date_time), "
        "INTERVAL '1' SECOND)) GROUP BY bidder, window_start, window_end"
    ),
)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def soak(minutes: float) -> tuple[list[int], list[int], list[int]]:
    """Memory, threads and result rows so far, each second."""
    rows = [0] * len(QUERIES)
    memory: list[int] = []
    threads: list[int] = []
    rows_so_far: list[int] = []
    with runnel.connect() as connection:
        connection.execute("CREATE MAPPING bid TYPE Nexmark OPTIONS ('table' = 'bid')")
        cursors = [connection.cursor().execute(query) for query in QUERIES]

        def read(index: int) -> None:
            try:
                for batch in cursors[index].fetch_record_batch():
                    rows[index] += batch.num_rows
            except runnel.OperationalError:
                pass  # closed at the end

        readers = [Thread(target=read, args=(index,), daemon=True) for index in range(len(QUERIES))]
        for reader in readers:
            reader.start()
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            time.sleep(1)
            memory.append(resident())
            threads.append(active_count())
            rows_so_far.append(sum(rows))
            if len(rows_so_far) % 30 == 0:
                print(
                    f"{len(rows_so_far)} s: {memory[-1] >> 20} MiB, {threads[-1]} threads, "
                    f"{rows_so_far[-1]:,} rows out",
                    flush=True,
                )
        for cursor in cursors:
            cursor.close()
        for reader in readers:
            reader.join(10)
    return memory, threads, rows_so_far


def graph(values: list[int], width: int = 100) -> str:
    """The values as a line of bars, the highest the largest value."""
    parts = np.array_split(np.array(values), min(width, len(values)))
    means = np.array([part.mean() for part in parts])
    return "".join(BARS[round(value / means.max() * (len(BARS) - 1))] for value in means)


def section(minutes: float) -> str:
    """The section of RESULTS.md."""
    memory, threads, rows_so_far = soak(minutes)
    half = memory[len(memory) // 2 :]
    slope = float(np.polyfit(np.arange(len(half)), half, 1)[0]) * 60
    is_flat = slope <= np.mean(half) / 20 and max(threads[len(threads) // 2 :]) <= max(
        threads[: len(threads) // 2]
    )
    speed = [b - a for a, b in zip([0, *rows_so_far], rows_so_far, strict=False)]
    return f"""### soak

Two streaming queries over NEXMark bids at full speed for {len(memory)} s, from left to right.

    memory   {graph(memory)}
    threads  {graph(threads)}
    rows     {graph(speed)}

Memory: {min(half) >> 20}–{max(half) >> 20} MiB in the second half,
{slope / (1 << 20):+.2f} MiB a minute.
Threads: at most {max(threads)}, {threads[-1]} at the end.
Rows out: {rows_so_far[-1]:,}, {rows_so_far[-1] / len(rows_so_far):,.0f} a second.

{"No growth." if is_flat else "**Growth.**"}"""


if __name__ == "__main__":
    print(section(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES))
