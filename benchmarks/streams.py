"""Windows over streams: speed compared with a hand-written loop, growth with input, windows and
keys.

    python -m benchmarks.streams [rounds]

The rows (key, value, time; times in order, 100 µs apart) are generated in advance as Arrow batches;
a thread writes them to a pushed stream. The hand-written loop computes the tumbling query with
numpy, batch by batch, on one thread, and returns Arrow batches.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from threading import Thread
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import runnel
from benchmarks.measure import Budget, Contestant, Result, Timing, measure
from runnel.columns.batches import Indexes, from_numbers, numbers

ROWS = 5_000_000
KEYS = 1_000
BATCH_ROWS = 1 << 16
STEP = 100
"""Microseconds of event time from one row to the next."""

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
QUERY = (
    "SELECT window_end, k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM TABLE({window}) "
    "GROUP BY window_end, k"
)
TUMBLE = "TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
HOP_10 = "HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' SECOND)"
HOP_100 = "HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '100' SECOND, INTERVAL '1' SECOND)"
SESSION = "SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '500' MILLISECOND)"


def batches(rows: int, keys: int) -> list[pa.RecordBatch]:
    """The rows of the stream."""
    made = []
    for start in range(0, rows, BATCH_ROWS):
        n = np.arange(start, min(start + BATCH_ROWS, rows))
        k = (n * 2_654_435_761 >> 7) % keys
        made.append(
            pa.RecordBatch.from_arrays(
                [pa.array(k), pa.array(n % 1000), pa.array(n * STEP).view(pa.timestamp("us"))],
                schema=SCHEMA,
            )
        )
    return made


def streamed(
    window: str, stream_batches: Iterable[pa.RecordBatch], schema: pa.Schema = SCHEMA
) -> int:
    """Runs the query over the rows as a stream; returns the number of result rows."""
    with runnel.connect() as connection:
        writer = connection.register_stream(
            "events", schema, time_column="ts", max_disorder=timedelta(0)
        )
        cursor = connection.cursor().execute(QUERY.format(window=window))

        def write() -> None:
            for batch in stream_batches:
                writer.write(batch)
            writer.close()

        thread = Thread(target=write, daemon=True)
        thread.start()
        rows = sum(batch.num_rows for batch in cursor.fetch_record_batch())
        thread.join()
        return rows


def by_hand(stream_batches: Sequence[pa.RecordBatch]) -> int:
    """The tumbling query as the fastest loop that pyarrow and numpy allow: the times are in order
    and the keys are small integers, so each window is an array per aggregate, indexed by key."""
    width = 10_000_000
    rows = 0
    window = ByHandWindow(width)
    for batch in stream_batches:
        keys, values = numbers(batch.column(0), np.int64), numbers(batch.column(1), np.int64)
        times = numbers(batch.column(2), np.int64)
        start, stop = 0, len(times)
        while times[-1] >= window.end:
            border = int(np.searchsorted(times, window.end))
            window.add(keys[start:border], values[start:border])
            rows += window.result().num_rows
            start, window = border, ByHandWindow(window.end + width)
        window.add(keys[start:stop], values[start:stop])
    return rows + window.result().num_rows


class ByHandWindow:
    """The counts, sums and maxima of one window, by key."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.counts = np.zeros(KEYS, np.int64)
        self.sums = np.zeros(KEYS, np.int64)
        self.maxima = np.full(KEYS, np.iinfo(np.int64).min)

    def add(self, keys: Indexes, values: Indexes) -> None:
        if len(keys):
            self.counts += np.bincount(keys, minlength=KEYS)
            np.add.at(self.sums, keys, values)
            np.maximum.at(self.maxima, keys, values)

    def result(self) -> pa.RecordBatch:
        found = np.flatnonzero(self.counts)
        columns = [np.full(len(found), self.end), found]
        columns += [states[found] for states in (self.counts, self.sums, self.maxima)]
        return pa.RecordBatch.from_arrays(
            [from_numbers(column, pa.int64()) for column in columns], names=list("wknsm")
        )


def results(rounds: int = 7) -> Iterator[Result]:
    """The rows of DESIGN's table on windows."""
    rows = batches(ROWS, KEYS)
    note = f"{ROWS:,} rows, {KEYS:,} keys, COUNT, SUM and MAX of a BIGINT"
    assert streamed(TUMBLE, rows) == by_hand(rows)
    yield measure(
        "stream: tumbling windows of 10 s",
        [
            Contestant("Runnel", partial(streamed, TUMBLE, rows)),
            Contestant("a loop by hand", partial(by_hand, rows)),
        ],
        rounds=rounds,
        note=note,
        budget=Budget("a loop by hand", round(1 / 0.7, 2)),
    )
    yield measure(
        "stream: sliding windows of 10 s by 1 s",
        [
            Contestant("sliding", partial(streamed, HOP_10, rows)),
            Contestant("tumbling", partial(streamed, TUMBLE, rows)),
        ],
        rounds=rounds,
        note=note,
        budget=Budget("tumbling", 2.5),
    )
    yield measure(
        "stream: sliding windows of 100 s by 1 s",
        [
            Contestant("100 s by 1 s", partial(streamed, HOP_100, rows)),
            Contestant("10 s by 1 s", partial(streamed, HOP_10, rows)),
        ],
        rounds=rounds,
        note=note,
        budget=Budget("10 s by 1 s", 1.2),
    )
    yield measure(
        "stream: sessions",
        [Contestant("Runnel", partial(streamed, SESSION, rows))],
        rounds=rounds,
        note=note + ", a gap of half a second",
    )
    yield from growth()


def growth() -> Iterator[Result]:
    """Growth of the time with the number of rows, and with the number of keys of a window. One run
    each."""
    timings = []
    for millions in (1, 10, 100):
        rows = batches(1_000_000, KEYS)
        shifted = (_later(batch, number) for number in range(millions) for batch in rows)
        timings.append(
            _once(f"{millions} M rows, {KEYS:,} keys", TUMBLE, shifted, millions * 1_000_000)
        )
    yield Result("stream: growth with the rows", "tumbling windows of 10 s", tuple(timings))
    timings = []
    for keys in (1_000, 100_000, 1_000_000, 10_000_000):
        count = max(ROWS, 2 * keys)
        timings.append(
            _once(f"{keys:,} keys, {count:,} rows", WIDE, iter(batches(count, keys)), count)
        )
    yield Result(
        "stream: growth with the keys",
        "one window of 10,000 s, so that all groups are open at once",
        tuple(timings),
    )


WIDE = "TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10000' SECOND)"


def _later(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The same rows, with times shifted by a million steps for each `number`."""
    if not number:
        return batch
    times = pc.add(batch.column(2).view(pa.int64()), number * 1_000_000 * STEP).view(
        pa.timestamp("us")
    )
    return pa.RecordBatch.from_arrays([batch.column(0), batch.column(1), times], schema=SCHEMA)


def _once(label: str, window: str, stream_batches: Iterable[pa.RecordBatch], rows: int) -> Timing:
    start = perf_counter()
    streamed(window, stream_batches)
    seconds = perf_counter() - start
    return Timing(f"{label}: {rows / seconds / 1e6:.2f} M rows/s", seconds, seconds, seconds, 1)


if __name__ == "__main__":
    for result in results(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        print(result.title, result.note)
        for timing in result.timings:
            print(f"  {timing.name}: {timing.median:.3f} s")
        print(" ", result.verdict)
