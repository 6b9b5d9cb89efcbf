"""Steps of the library in hand-built jobs that are killed and restored with other numbers of
processors: the rows are those of a run without kills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pyarrow as pa
import pytest

from runnel.dag import DAG, Edge, Vertex, between
from runnel.processor import Processor, Stateful
from runnel.processors.library import (
    AggregateOperation,
    accumulate_by_pane,
    aggregate_by_session,
    co_group,
    combine_by_window,
    counting,
    distinct_rows,
    flat_map,
    hash_join,
    insert_watermarks,
    map_batches,
    sliding,
    sort_rows,
    summing,
    top_rows,
)
from tests.effort import some
from tests.jobs.hand_built import steps
from tests.jobs.hand_built.test_simulated_dags import run_killed, written_to

ROWS = 36
ROW = pa.schema([("k", pa.int64()), ("x", pa.int64())])
NAMES = pa.schema([("key", pa.int64()), ("more", pa.int64())])
OTHERS = pa.schema([("other", pa.int64()), ("most", pa.int64())])


class Counted(Processor, Stateful):
    """Numbers from 0, with a position: k is x // 3."""

    def __init__(self, count: int = ROWS, names: tuple[str, str] = ("k", "x")) -> None:
        self.next, self.count, self.names = 0, count, names

    def complete(self) -> bool:
        if self.next < self.count:
            columns = [pa.array([self.next // 3], pa.int64()), pa.array([self.next], pa.int64())]
            row = pa.RecordBatch.from_arrays(columns, names=list(self.names))
            self.next += self.outbox.offer(row)
        return self.next >= self.count

    def save_snapshot(self) -> bool:
        return self.outbox.offer_snapshot(steps.one(self.next))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.next = batch.column(0)[0].as_py()


def numbered(rows: pa.RecordBatch) -> pa.RecordBatch:
    """All columns but the bounds of windows in one number, two digits each."""
    names = [name for name in rows.schema.names if name != "window_start"]
    values = [0] * rows.num_rows
    for name in names:
        column = rows.column(name).to_pylist()
        values = [value * 100 + item for value, item in zip(values, column, strict=True)]
    return pa.record_batch([pa.array(values, pa.int64())], names=["x"])


def by_remainder(keys: pa.RecordBatch, count: int) -> pa.Array:
    return pa.array([(key + 1) % count for key in keys.column(0).to_pylist()])


class Jobs:
    """DAGs with random numbers of processors, by the name of a step."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.dag = DAG()

    def count(self) -> int:
        return self.random.randrange(1, 4)

    def source(self, name: str = "rows", **arguments: object) -> Vertex:
        return self.dag.vertex(name, partial(Counted, **arguments), 1)

    def written(self, last: Vertex, *columns: str) -> DAG:
        rows = self.dag.vertex("numbered", map_batches(numbered), self.count())
        sink = self.dag.vertex("write", written_to("d"), 1)
        return self.dag.edge(between(last, rows)).edge(between(rows, sink))

    def keyed(self, edge: Edge) -> Edge:
        """Partitioned by the key, or by a function of it."""
        column = "key" if edge.source == "names" else "other" if edge.source == "others" else "k"
        return (
            edge.partitioned_by(by_remainder, column)
            if self.by_function
            else edge.partitioned(column)
        )

    by_function = False

    def distinct(self) -> DAG:
        twice = self.dag.vertex("twice", flat_map(steps.doubled), self.count())
        step = self.dag.vertex("step", distinct_rows("k"), self.count())
        self.dag.edge(between(self.source(), twice)).edge(self.keyed(between(twice, step)))
        return self.written(step)

    def sort(self) -> DAG:
        step = self.dag.vertex("step", sort_rows("-x"), 1)
        self.dag.edge(between(self.source(), step))
        return self.written(step)

    def top(self) -> DAG:
        first = self.dag.vertex("first", top_rows(5, "-x"), self.count())
        last = self.dag.vertex("last", top_rows(5, "-x"), 1)
        self.dag.edge(between(self.source(), first)).edge(between(first, last))
        return self.written(last)

    def group(self) -> DAG:
        step = co_group(["k"], {"n": counting()}, {"m": counting()})
        group = self.dag.vertex("step", step, self.count())
        other = self.source("other", count=ROWS // 2)
        self.dag.edge(self.keyed(between(self.source(), group)))
        self.dag.edge(self.keyed(between(other, group).to_input(1)))
        return self.written(group)

    def join(self) -> DAG:
        step = hash_join(ROW, NAMES, {"k": "key"}, partitioned=True)
        join = self.dag.vertex("step", step, self.count())
        names = self.source("names", count=9, names=("key", "more"))
        self.dag.edge(self.keyed(between(names, join)))
        self.dag.edge(self.keyed(between(self.source(), join).to_input(1).with_priority(1)))
        return self.written(join)

    def star(self) -> DAG:
        on = [{"k": "key"}, {"k": "other"}]
        step = hash_join(ROW, [NAMES, OTHERS], on, partitioned=True)
        join = self.dag.vertex("step", step, self.count())
        names = self.source("names", count=9, names=("key", "more"))
        others = self.source("others", count=12, names=("other", "most"))
        self.dag.edge(self.keyed(between(names, join)))
        self.dag.edge(self.keyed(between(others, join).to_input(1)))
        self.dag.edge(self.keyed(between(self.source(), join).to_input(2).with_priority(1)))
        return self.written(join)

    def sessions(self, operation: AggregateOperation = steps.SUMS) -> DAG:
        """Sessions of a row each, and rows that touch a session that was emitted."""
        spread = self.dag.vertex("spread", map_batches(spread_out), 1)
        order = self.dag.vertex("order", insert_watermarks("x", lag=2), 1)
        step = aggregate_by_session("k", time="x", gap=1, n=counting(), s=operation)
        sessions = self.dag.vertex("step", step, self.count())
        self.dag.edge(between(self.source(), spread)).edge(between(spread, order))
        self.dag.edge(self.keyed(between(order, sessions)))
        return self.written(sessions)

    def built_in_sessions(self) -> DAG:
        return self.sessions(summing("x"))

    def panes(self) -> DAG:
        order = self.dag.vertex("order", insert_watermarks("x"), 1)
        arguments = {"time": "x", "window": sliding(6, 3), "n": counting(), "s": steps.SUMS}
        first = self.dag.vertex("first", accumulate_by_pane("k", **arguments), self.count())
        last = self.dag.vertex("last", combine_by_window("k", **arguments), self.count())
        self.dag.edge(between(self.source(), order)).edge(between(order, first))
        self.dag.edge(self.keyed(between(first, last)))
        return self.written(last)


def is_late(x: int) -> bool:
    return x % 5 == 4


def spread_out(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Three keys, and times that are two apart. The time of each fifth row is one after the row of
    its key before it, whose session ends at the watermark: 2 * (x - 3) + 1."""
    found = rows["x"].to_pylist()
    times = [2 * x - 5 if is_late(x) else 2 * x for x in found]
    keys = [x % 3 for x in found]
    return pa.record_batch(
        [pa.array(keys, pa.int64()), pa.array(times, pa.int64())], names=["k", "x"]
    )


def digits(*values: int) -> int:
    found = 0
    for value in values:
        found = found * 100 + value
    return found


def windows() -> list[int]:
    found = {}
    for x in range(ROWS):
        for end in (x // 3 * 3 + 3, x // 3 * 3 + 6):
            count, total = found.get((end, x // 3), (0, 0))
            found[end, x // 3] = count + 1, total + x
    return [digits(*key, *value) for key, value in found.items()]


SESSIONS = [digits(2 * x + 1, x % 3, 1, 2 * x) for x in range(ROWS) if not is_late(x)]
KEYS = range(ROWS // 3)
EXPECTED: dict[str, list[int]] = {
    "distinct": list(KEYS),
    "sort": [digits(x // 3, x) for x in range(ROWS)],
    "top": [digits(x // 3, x) for x in range(ROWS - 5, ROWS)],
    "group": [digits(k, 3, 3 if k < len(KEYS) // 2 else 0) for k in KEYS],
    "join": [digits(x // 3, x, more) for x in range(9) for more in range(9) if x // 3 == more // 3],
    "star": [
        digits(x // 3, x, more, most)
        for x in range(9)
        for more in range(9)
        for most in range(12)
        if x // 3 == more // 3 == most // 3
    ],
    "panes": windows(),
    "sessions": SESSIONS,
    "built_in_sessions": SESSIONS,
}


@pytest.mark.parametrize("block", some(range(10), 10))
@pytest.mark.parametrize("step", EXPECTED)
@pytest.mark.filterwarnings("ignore")
def test_a_step_restored_with_other_processors(step: str, block: int) -> None:
    restored = 0
    for seed in range(block * 12, block * 12 + 12):
        random = Random(seed)
        by_function = random.random() < 0.4

        def make(random: Random = random, by_function: bool = by_function) -> DAG:
            jobs = Jobs(random)
            jobs.by_function = by_function
            build: Callable[[], DAG] = getattr(jobs, step)
            return build()

        disk, found = run_killed(seed, random, make)
        assert sorted(disk.visible) == sorted(EXPECTED[step]), seed
        assert not disk.staged, seed
        restored += found
    assert restored > 3
