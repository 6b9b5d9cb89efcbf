"""Windows, edges and watermarks as the document on the concepts describes them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel
from runnel import DAG, Connection, between, library
from runnel.processor import DONE, Inbox, Processor, Watermark
from runnel.runtime.light_job import Job
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.snapshots.store import MemorySnapshotStore
from runnel.testing.rows import assert_rows
from tests.runtime.sample_processors import (
    Collect,
    ToResults,
    chain,
    numbers,
    source,
    values_of,
)
from tests.shared_duckdb import duckdb_over
from tests.waiting import eventually

SECONDS = 20
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("v", pa.int64())])
Row = tuple[int, int, int]

EVENTS = [
    *((1, second, second % 7) for second in (61, 64, 72, 66, 75, 79, 83, 81, 88, 86)),
    *((1, second, second % 7) for second in (92, 95, 99, 97, 101, 104, 103, 110, 108, 112)),
]
"""Of one key, by seconds, out of order by at most 10."""


def streamed(connection: Connection, query: str, rows: list[Row]) -> list[tuple[Any, ...]]:
    """The result of a query over the stream `s` of the rows, once it has ended."""
    writer = connection.register_stream("s", SCHEMA, time_column="ts", max_disorder=10)
    cursor = connection.execute(query)
    for row in rows:
        writer.write([row])
    writer.close()
    return cursor.fetchall()


def test_a_window_of_30_seconds_that_slides_by_10_counts_events(connection: Connection) -> None:
    """Frames of 10 seconds have the counts; a window is the sum of three of them."""
    query = (
        "SELECT window_end, COUNT(*) FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), 30, 10)) "
        "GROUP BY window_end"
    )
    frames = Counter(second // 10 * 10 + 10 for _, second, _ in EVENTS)
    expected = [
        (end, n)
        for end in range(70, 150, 10)
        if (n := sum(frames[end - older] for older in (0, 10, 20)))
    ]
    assert streamed(connection, query, EVENTS) == expected
    assert expected[2:4] == [(90, 10), (100, 11)]


def test_tumbling_windows_are_a_sequence_of_batch_jobs(connection: Connection) -> None:
    found = streamed(
        connection,
        "SELECT window_end, k, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 10)) "
        "GROUP BY window_end, k",
        EVENTS,
    )
    connection.register(
        "t", pa.Table.from_pylist([dict(zip("ktv", row, strict=True)) for row in EVENTS])
    )
    batches = []
    for end in range(70, 130, 10):
        rows = connection.execute(
            "SELECT k, COUNT(*), SUM(v) FROM t WHERE t >= ? AND t < ? GROUP BY k", (end - 10, end)
        )
        batches += [(end, *row) for row in rows.fetchall()]
    assert found == batches


DEDUCTIBLE = ("AVG(v)", "VAR_POP(v)", "STDDEV_SAMP(v)", "REGR_SLOPE(v, ts)", "COUNT(v)", "SUM(v)")
OTHERS = ("MIN(v)", "MAX(v)", "COUNT(DISTINCT v)")


@pytest.mark.parametrize("function", [*DEDUCTIBLE, *OTHERS])
@pytest.mark.parametrize(("size", "slide"), [(30, 10), (10, 10), (25, 10)])
def test_sliding_windows_agree_with_groups_of_all_rows(
    connection: Connection, function: str, size: int, slide: int
) -> None:
    """Functions that can be deducted and functions that can't; a size that is a multiple of the
    slide, equal to it, and neither."""
    draw = random.Random(7)
    rows = [(draw.randrange(3), i + draw.randrange(10), draw.randrange(100)) for i in range(200)]
    found = streamed(
        connection,
        f"SELECT window_end, k, {function} FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), {size}, "
        f"{slide})) GROUP BY window_end, k",
        rows,
    )
    columns = [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]
    if function.startswith("REGR"):  # of a single row NULL, as in the standard
        function = f"NULLIF({function}, CAST('nan' AS DOUBLE))"
    with duckdb_over({"t": pa.table(columns, schema=SCHEMA)}) as other:
        expected = other.sql(
            f"SELECT e, k, {function} FROM t, range(0, 300, {slide}) AS w(b), "
            f"LATERAL (SELECT b - 50 + {size} AS e) WHERE ts >= e - {size} AND ts < e GROUP BY e, k"
        ).fetchall()
    assert_rows(found, expected, ordered=False)


def test_a_map_and_a_filter_drop_no_late_rows(connection: Connection) -> None:
    """Only operators that emit results by event time do."""
    rows = [(1, 100, 0), (2, 5, 1), (3, 7, 2), (4, 200, 3), (5, 1, 4)]
    query = "SELECT k * 10 FROM s WHERE v < 4"
    assert streamed(connection, query, rows) == [(10,), (20,), (30,), (40,)]


def test_a_row_is_late_beyond_the_lag(connection: Connection) -> None:
    """Of two rows of a partition, the second is late if the time of the first, less the lag, is
    above its time."""
    writer = connection.register_stream("s", SCHEMA, time_column="ts", max_disorder=10)
    cursor = connection.execute("SELECT ts FROM s ORDER BY ts")
    (job,) = connection.jobs()
    writer.write([(1, 100, 0)])
    assert eventually(lambda: job.watermark()[0] == 90)
    writer.write([(1, 90, 0), (1, 89, 0)])
    writer.close()
    assert cursor.fetchall() == [(90,), (100,)]
    assert isinstance(job, Job) and job.late_rows == 1


def split(lines: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    words = pc.split_pattern(lines.column("line"), " ").flatten()
    yield pa.record_batch([words], names=["word"])


def test_one_partial_count_per_distinct_word_leaves_the_first_stage(
    connection: Connection,
) -> None:
    """Accumulated where the words are, sent on by the word: the second stage receives as many rows
    as there are distinct words in each of the first one's processors."""
    text = ["to be or not to be"] * 500
    dag = DAG()
    found: list[pa.RecordBatch] = []
    lines = dag.vertex("lines", library.source_of(pa.table({"line": text}).to_batches(100)))
    words = dag.vertex("words", library.flat_map(split), parallelism=2)
    first = library.accumulate_by_key("word", n=library.counting())
    last = library.combine_by_key("word", n=library.counting())
    accumulate = dag.vertex("accumulate", first, parallelism=2)
    combine = dag.vertex("combine", last, parallelism=3)
    sink = dag.vertex("sink", library.sink_to_list(found), parallelism=1)
    dag.edge(between(lines, words)).edge(between(words, accumulate).isolated())
    dag.edge(between(accumulate, combine).partitioned("word")).edge(between(combine, sink))
    job = connection.submit(dag)
    job.join(SECONDS)
    assert_rows(found, [("to", 1000), ("be", 1000), ("or", 500), ("not", 500)], ordered=False)
    counts = job.metrics()
    assert counts["accumulate"].rows_in == 3000
    assert counts["combine"].rows_in in (4, 8), "a partial count per word and processor"


class Tagged(Processor):
    """Adds the number of the processor to each key that it received."""

    def __init__(self, log: dict[int, set[int]]) -> None:
        self.log = log

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            for key in batch.column(0).to_pylist():
                self.log.setdefault(key, set()).add(self.context.index)


def test_a_key_always_goes_to_the_same_processor(connection: Connection) -> None:
    log: dict[int, set[int]] = {}
    dag = DAG()
    values = [numbers(*range(start, start + 50)) for start in (0, 20, 40, 0)]
    read = dag.vertex("read", library.source_of(values), parallelism=2)
    group = dag.vertex("group", lambda: Tagged(log), parallelism=3)
    dag.edge(between(read, group).partitioned("x"))
    connection.submit(dag).join(SECONDS)
    assert set(log) == set(range(90))
    assert {len(processors) for processors in log.values()} == {1}
    assert set().union(*log.values()) == {0, 1, 2}


class Offering(Processor):
    """A source of any values."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = list(values)

    def complete(self) -> bool:
        while self.values:
            if not self.outbox.offer(self.values[0]):
                return False
            self.values.pop(0)
        return True


@pytest.mark.parametrize("times", [(5, 4), (5, 5)])
def test_a_watermark_that_does_not_increase_ends_the_job(
    connection: Connection, times: tuple[int, ...]
) -> None:
    marks = tuple(Watermark(time) for time in times)
    job = connection.submit(chain(lambda: Offering(marks), lambda: Collect([])))
    with pytest.raises(runnel.Error, match="watermark"):
        job.join(SECONDS)


@pytest.mark.parametrize("value", [0, "text", None, DONE, pa.table({"x": [1]}), object()])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_edge_carries_batches_and_control_items_only(
    connection: Connection, value: Any, parallelism: int
) -> None:
    """Another value is refused where it is sent."""
    dag = DAG()
    read = dag.vertex("read", lambda: Offering((numbers(1), value)), parallelism=1)
    write = dag.vertex("write", lambda: Collect([]), parallelism=parallelism)
    dag.edge(between(read, write).partitioned("x"))
    job = connection.submit(dag)
    with pytest.raises(runnel.OperationalError) as caught:
        job.join(SECONDS)
    kind = type(value).__name__
    assert caught.value.message == (
        f'vertex "read" sent a value of class {kind}, which is no item of an edge'
    )
    assert "record batches" in str(caught.value.hint)


def test_a_watermark_reaches_all_processors_whatever_the_edge(connection: Connection) -> None:
    routings: list[Callable[[Any], Any]] = [
        lambda edge: edge,
        lambda edge: edge.broadcast(),
        lambda edge: edge.partitioned("x"),
    ]
    for route in routings:
        logs: list[list[Any]] = []

        def collect(logs: list[list[Any]] = logs) -> Collect:
            logs.append([])
            return Collect(logs[-1])

        dag = DAG()
        read = dag.vertex("read", source(numbers(1), Watermark(3)), parallelism=2)
        dag.edge(route(between(read, dag.vertex("write", collect, parallelism=3))))
        connection.submit(dag).join(SECONDS)
        assert [log.count(Watermark(3)) for log in logs] == [1, 1, 1]


class Pairs(Processor):
    """Emits a number that has come on both inputs, and forgets it; at the end, notes the rest."""

    def __init__(self, rest: list[set[int]]) -> None:
        self.rest = rest
        self.waiting: set[int] = set()

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.peek()) is not None:
            (number,) = values_of([batch])
            if number in self.waiting and not self.outbox.offer(batch):
                return
            self.waiting ^= {number}
            inbox.poll()

    def complete(self) -> bool:
        self.rest.append(self.waiting)
        return True

    def save_snapshot(self) -> bool:
        return self.outbox.offer_snapshot(numbers(*self.waiting))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.waiting = set(values_of([batch]))


@pytest.mark.parametrize("is_aligned", [True, False], ids=["exactlyOnce", "atLeastOnce"])
def test_a_pair_that_is_divided_by_a_barrier(is_aligned: bool) -> None:
    """The first of a pair comes before the barrier of its input, the second after it. Aligned, the
    second is read after the snapshot. Not aligned, it may be read before: then the state of the
    snapshot lacks the first one, and the second one, which comes again, waits without end."""

    def pairs(rest: list[set[int]]) -> DAG:
        dag = DAG()
        left = dag.vertex("left", source(*(numbers(i) for i in range(12))), 1)
        right = dag.vertex("right", source(*(numbers(i) for i in range(12))), 1)
        join = dag.vertex("pairs", lambda: Pairs(rest), 1)
        dag.edge(between(left, join)).edge(between(right, join).to_input(1))
        return dag.edge(between(join, dag.vertex("end", ToResults, 1)))

    rest: list[set[int]] = []
    for seed in range(150):
        store = MemorySnapshotStore()
        coordinator = SnapshotCoordinator(store, is_aligned=is_aligned)
        options = SimulationOptions(snapshot=0.1, spurious=0)
        broken = Simulation(pairs([]), seed, options, coordinator)
        for _ in range(20 + seed):
            if not broken.execution.is_over:
                broken.step()
        if store.completed is not None and not broken.execution.is_over:
            again = SnapshotCoordinator(store, restore_from=store.completed)
            Simulation(pairs(rest), seed, options, again).run()
    assert len(rest) > 30
    assert any(rest) is not is_aligned
