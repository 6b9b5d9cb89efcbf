"""The scheduler under dice: hundreds of orders of events for each shape of DAG, all with queues of
one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from runnel.columns.key_hash import keyed_state
from runnel.dag import DAG, between
from runnel.errors import OperationalError
from runnel.processor import IDLE, Inbox, Processor, Watermark
from runnel.runtime.simulation import Simulation, SimulationOptions, StandstillError
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.runtime.template import Template
from runnel.snapshots.store import MemorySnapshotStore
from tests.runtime.sample_processors import (
    BuildThenProbe,
    Collect,
    ItemSource,
    Pass,
    Recording,
    ToResults,
    chain,
    numbers,
    source,
    values_of,
)

SEEDS = range(120)
BATCHES = [numbers(i, i + 100) for i in range(5)]
VALUES = sorted(values_of(BATCHES))


def diamond() -> DAG:
    """One source broadcast to two branches that meet in one vertex."""
    dag = DAG()
    start = dag.vertex("start", source(*BATCHES), 1)
    left = dag.vertex("left", Pass, 2)
    right = dag.vertex("right", Pass, 1)
    end = dag.vertex("end", ToResults, 1)
    dag.edge(between(start, left)).edge(between(start, right).from_output(1))
    return dag.edge(between(left, end)).edge(between(right, end).to_input(1))


def shared_scan() -> DAG:
    """A scan shared by the build side and the probe side of a join: the shape of which the design
    warns."""
    dag = DAG()
    scan = dag.vertex("scan", source(*BATCHES), 1)
    build = dag.vertex("build", Pass, 1)
    probe = dag.vertex("probe", Pass, 1)
    join = dag.vertex("join", BuildThenProbe, 1)
    end = dag.vertex("end", ToResults, 1)
    dag.edge(between(scan, build)).edge(between(scan, probe).from_output(1))
    dag.edge(between(build, join)).edge(between(probe, join).to_input(1).with_priority(1))
    return dag.edge(between(join, end))


def two_scans() -> DAG:
    dag = DAG()
    build = dag.vertex("build", source(*BATCHES), 1)
    probe = dag.vertex("probe", source(*BATCHES), 1)
    join = dag.vertex("join", BuildThenProbe, 1)
    end = dag.vertex("end", ToResults, 1)
    dag.edge(between(build, join)).edge(between(probe, join).to_input(1).with_priority(1))
    return dag.edge(between(join, end))


SHAPES: dict[str, tuple[Callable[[], DAG], list[int]]] = {
    "chain": (lambda: chain(source(*BATCHES), Pass, ToResults), VALUES),
    "wide": (
        lambda: chain(source(*BATCHES), Pass, Pass, ToResults, parallelism=2),
        sorted(VALUES * 2),
    ),
    "diamond": (diamond, sorted(VALUES * 2)),
    "two inputs with priorities": (two_scans, VALUES),
    "a scan shared under a priority": (shared_scan, VALUES),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_order_gives_every_row_once(shape: str) -> None:
    make, expected = SHAPES[shape]
    dag = make()
    for seed in SEEDS:
        simulation = Simulation(dag, seed)
        rows = sorted(values_of(simulation.run()))
        assert simulation.error is None, (seed, simulation.error)
        assert rows == expected, seed
        assert simulation.ends == 1


def test_same_seed_same_run() -> None:
    def trace(seed: int) -> tuple[int, list[int]]:
        simulation = Simulation(diamond(), seed)
        return simulation.run() and (simulation.steps, values_of(simulation.batches))

    assert trace(7) == trace(7)
    assert len({trace(seed)[0] for seed in range(20)}) > 1


def test_shared_scan_would_come_to_a_standstill_on_bounded_queues() -> None:
    template = Template(shared_scan())
    assert [edge.source for edge in template.relaxed] == ["probe"]
    template.relaxed = frozenset()
    with pytest.raises(StandstillError) as caught:
        Simulation(shared_scan(), 1, template=template).run()
    assert "<tasklet scan COMPLETE parked>" in str(caught.value)
    assert "<queue probe → join 1/1 producer waits>" in str(caught.value)


class Order(Processor):
    """Passes batches on, and fails if a row comes that an earlier watermark said would not."""

    last = -1

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.peek()) is not None:
            assert min(values_of([batch])) >= self.last, "a row behind the watermark"
            if not self.outbox.offer(batch):
                return
            inbox.poll()

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.outbox.offer(watermark):
            return False
        assert watermark.time > self.last
        self.last = watermark.time
        return True


def timed(*times: int) -> list[Any]:
    """Each row with the watermark that allows just the next one."""
    return [item for time in times for item in (Watermark(time), numbers(time))]


def test_watermarks_of_unequal_sources() -> None:
    for seed in SEEDS:
        log: list[Any] = []
        dag = DAG()
        fast = dag.vertex("fast", source(*timed(1, 5, 9, 20)), 1)
        slow = dag.vertex("slow", source(*timed(2, 3)), 1)
        order = dag.vertex("order", Order, 2)
        sink = dag.vertex("sink", lambda log=log: Collect(log), 1)
        dag.edge(between(fast, order)).edge(between(slow, order).to_input(1)).edge(
            between(order, sink)
        )
        simulation = Simulation(dag, seed)
        simulation.run()
        assert simulation.error is None, (seed, simulation.error)
        times = [item.time for item in log if isinstance(item, Watermark)]
        assert times == sorted(set(times))
        assert times[-1] >= 3, "what both have promised is passed on, whoever ends first"
        assert sorted(item[1] for item in log if isinstance(item, tuple) and item[0] == 0) == [
            1,
            2,
            3,
            5,
            9,
            20,
        ]


def test_idle_source_holds_nothing_back() -> None:
    class Quiet(ItemSource):
        """Says that it is idle, and ends only when the other one's watermark got through."""

        def complete(self) -> bool:
            return super().complete() and any(isinstance(item, Watermark) for item in log)

    for seed in SEEDS:
        log: list[Any] = []
        dag = DAG()
        quiet = dag.vertex("quiet", lambda: Quiet([IDLE]), 1)
        busy = dag.vertex("busy", source(numbers(1), Watermark(5), numbers(6)), 1)
        sink = dag.vertex("sink", lambda log=log: Collect(log), 1)
        dag.edge(between(quiet, sink)).edge(between(busy, sink).to_input(1))
        simulation = Simulation(dag, seed)
        simulation.run()
        assert simulation.error is None
        assert Watermark(5) in log


class Total(Processor):
    """Sums up by parity, and gives the sums at the end; its state is keyed."""

    def __init__(self) -> None:
        self.sums: Counter[int] = Counter()
        self.rows: list[pa.RecordBatch] | None = None

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            for value in values_of([batch]):
                self.sums[value % 2] += value

    def complete(self) -> bool:
        if self.rows is None:
            self.rows = [numbers(key, total) for key, total in self.sums.items()]
        while self.rows:
            if not self.outbox.offer(self.rows[-1]):
                return False
            self.rows.pop()
        return True

    def save_snapshot(self) -> bool:
        columns = [
            pa.array(list(self.sums.keys()), pa.int64()),
            pa.array(list(self.sums.values()), pa.int64()),
        ]
        return self.outbox.offer_snapshot(
            keyed_state(pa.record_batch(columns, names=["x", "total"]), "x")
        )

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        for key, total in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            self.sums[key] += total


def totals(parallelism: int, batches: list[pa.RecordBatch]) -> DAG:
    dag = DAG()
    first = dag.vertex("first", source(*batches), 1)
    second = dag.vertex("second", source(*batches[:2]), 1)
    parity = dag.vertex("parity", Parity, 2)
    total = dag.vertex("total", Total, parallelism)
    end = dag.vertex("end", ToResults, 1)
    dag.edge(between(first, parity)).edge(between(second, parity).to_input(1))
    return dag.edge(between(parity, total).partitioned("parity")).edge(between(total, end))


class Parity(Pass):
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        parity = pa.array([value % 2 for value in values_of([batch])], pa.int64())
        return pa.record_batch([batch.column(0), parity], names=["x", "parity"])


@pytest.mark.parametrize("is_aligned", [True, False])
def test_barriers_change_nothing(is_aligned: bool) -> None:
    expected = sorted(
        [0, sum(v for v in inputs() if v % 2 == 0), 1, sum(v for v in inputs() if v % 2)]
    )
    taken = 0
    for seed in SEEDS:
        coordinator = SnapshotCoordinator(MemorySnapshotStore(), is_aligned=is_aligned)
        simulation = Simulation(
            totals(2, BATCHES), seed, SimulationOptions(snapshot=0.2), coordinator
        )
        rows = sorted(values_of(simulation.run()))
        assert simulation.error is None, (seed, simulation.error)
        assert rows == expected, seed
        taken += simulation.snapshots_taken
    assert taken > len(SEEDS)


def inputs() -> list[int]:
    return values_of(BATCHES) + values_of(BATCHES[:2])


def test_restore_goes_on_exactly_where_the_snapshot_was_taken() -> None:
    """Jobs are broken off at arbitrary points; restored, at another parallelism, they give what an
    undisturbed one gives."""
    expected = sorted(
        [0, sum(v for v in inputs() if v % 2 == 0), 1, sum(v for v in inputs() if v % 2)]
    )
    restored = 0
    for seed in SEEDS:
        store = MemorySnapshotStore()
        options = SimulationOptions(snapshot=0.2, spurious=0.0)
        broken = Simulation(totals(2, BATCHES), seed, options, SnapshotCoordinator(store))
        for _ in range(15 + seed // 2):
            if not broken.execution.is_over:
                broken.step()
        totals_left = [
            tasklet
            for tasklet in broken.execution.tasklets
            if tasklet.vertex == "total" and not tasklet.is_closed
        ]
        if store.completed is None or len(totals_left) < 2:
            continue  # what a vertex has given when it ended isn't given again
        restored += 1
        again = SnapshotCoordinator(store, restore_from=store.completed)
        simulation = Simulation(totals(1 + seed % 3, BATCHES), seed, options, again)
        rows = sorted(values_of(simulation.run()))
        assert simulation.error is None, (seed, simulation.error)
        assert rows == expected, seed
    assert restored > len(SEEDS) // 3


def test_cancelled_anywhere_everything_is_closed_once() -> None:
    for seed in SEEDS:
        log: list[str] = []
        dag = chain(source(*BATCHES), Pass, lambda log=log: Recording(log), Pass, ToResults)
        simulation = Simulation(dag, seed)
        for _ in range(seed % 40):
            if not simulation.execution.is_over:
                simulation.step()
        was_over = simulation.execution.is_over
        simulation.execution.cancel()
        simulation.run()
        assert log.count("close") == 1
        assert log[-1] == "close"
        assert simulation.ends == 1
        assert was_over or (
            isinstance(simulation.error, OperationalError)
            and "cancelled" in simulation.error.message
        )


@pytest.mark.parametrize(
    "method",
    ["init", "process", "flush", "complete_edge", "complete", "close", "process_watermark"],
)
def test_failure_anywhere_ends_the_job_once(method: str) -> None:
    failed = 0
    for seed in range(40):
        log: list[str] = []
        items = [*BATCHES, Watermark(1)]
        dag = chain(source(*items), Pass, lambda log=log: Recording(log, method), Pass, ToResults)
        simulation = Simulation(dag, seed)
        simulation.run()
        assert log.count("close") == 1
        assert simulation.ends == 1
        if simulation.error is not None:
            failed += 1
            assert simulation.error.message == 'vertex "v2" failed: ValueError: boom'
    assert failed == 40 or (method == "flush" and failed > 20)


def test_satisfied_consumers_end_their_producers() -> None:
    class Endless(ItemSource):
        def complete(self) -> bool:
            self.items = self.items or [numbers(1)]
            self.place = 0
            super().complete()
            return False

    class First(Pass):
        """Wants one batch."""

        def process(self, ordinal: int, inbox: Inbox) -> None:
            batch = inbox.peek()
            if batch is not None and self.outbox.offer(batch):
                self.is_satisfied = True

    for seed in SEEDS:
        simulation = Simulation(chain(lambda: Endless([]), Pass, First, ToResults), seed)
        assert values_of(simulation.run()) == [1], seed
        assert simulation.error is None


def test_satisfied_consumer_does_not_end_what_others_read() -> None:
    class Nothing(Pass):
        is_satisfied = True

    for seed in SEEDS:
        dag = DAG()
        start = dag.vertex("start", source(*BATCHES), 1)
        nothing = dag.vertex("nothing", Nothing, 1)
        every = dag.vertex("every", Pass, 1)
        end = dag.vertex("end", ToResults, 1)
        dag.edge(between(start, nothing)).edge(between(start, every).from_output(1))
        dag.edge(between(nothing, end)).edge(between(every, end).to_input(1))
        assert sorted(values_of(Simulation(dag, seed).run())) == VALUES


def test_naive_source_is_polled_and_one_that_wakes_itself_is_not() -> None:
    calls: Counter[str] = Counter()

    class Naive(ItemSource):
        def complete(self) -> bool:
            calls["naive"] += 1
            return calls["naive"] > 30 and super().complete()

    class Knowing(ItemSource):
        def complete(self) -> bool:
            calls["knowing"] += 1
            if self.context.job.clock() < 5_000_000:
                self.context.wake_at(5_000_000)
                return False
            return super().complete()

    for name, kind in (("naive", Naive), ("knowing", Knowing)):
        simulation = Simulation(
            chain(lambda kind=kind: kind(BATCHES), ToResults), 3, SimulationOptions(spurious=0.0)
        )
        assert sorted(values_of(simulation.run())) == VALUES, name
    assert calls["knowing"] < 20
