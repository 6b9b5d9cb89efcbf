"""What the coordinator does beside barriers: who asks when, what is told of a snapshot, what has
ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from runnel.dag import DAG, between
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator, SnapshotReport
from runnel.snapshots.file_store import FileSnapshotStore
from runnel.snapshots.store import ENDED, MemorySnapshotStore, Outcome, VertexState
from tests.runtime.sample_processors import (
    ItemSource,
    Pass,
    ToResults,
    chain,
    numbers,
    source,
    values_of,
)

BATCHES = [numbers(i) for i in range(30)]
QUIET = SimulationOptions(snapshot=0, spurious=0)


def steps(simulation: Simulation, count: int) -> None:
    for _ in range(count):
        simulation.step()


def test_who_asks_while_one_is_under_way_is_heard_after_it() -> None:
    heard: list[tuple[str, bool]] = []
    reports: list[SnapshotReport] = []
    coordinator = SnapshotCoordinator(MemorySnapshotStore())
    coordinator.on_report = reports.append
    simulation = Simulation(chain(source(*BATCHES), Pass, ToResults), 4, QUIET, coordinator)
    steps(simulation, 20)
    assert coordinator.begin(on_done=lambda is_safe: heard.append(("first", is_safe))) == 1
    assert coordinator.is_active
    assert coordinator.begin() is None, "one is under way"
    assert coordinator.request(on_done=lambda is_safe: heard.append(("second", is_safe))) == 2
    assert coordinator.request(on_done=lambda is_safe: heard.append(("third", is_safe))) == 3
    simulation.run()
    assert heard == [("first", True), ("second", True), ("third", True)]
    assert [report.snapshot_id for report in reports] == [1, 2, 3]
    assert coordinator.last is reports[-1]
    assert all(
        report.size is not None and report.size.rows > 0 and report.duration >= 0
        for report in reports
    )
    assert coordinator.request(on_done=lambda is_safe: heard.append(("late", is_safe))) is None
    assert len(heard) == 3


def test_who_asked_is_told_when_the_job_is_cancelled() -> None:
    heard: list[bool] = []
    coordinator = SnapshotCoordinator(MemorySnapshotStore())
    simulation = Simulation(chain(source(*BATCHES), Pass, ToResults), 4, QUIET, coordinator)
    steps(simulation, 20)
    for _ in range(3):
        coordinator.request(on_done=heard.append)
    simulation.execution.cancel()
    simulation.run()
    assert heard == [False, False, False]


class Refusing(MemorySnapshotStore):
    """Takes every third batch only, as a store does that can't keep up, and says when there is
    room."""

    offers = 0

    def write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> bool:
        self.offers += 1
        if self.offers % 3:
            assert self.on_room is not None
            self.on_room()
            return False
        return super().write(snapshot_id, vertex, batch)

    def complete(
        self, snapshot_id: int, more: Sequence[VertexState], on_done: Callable[[Outcome], None]
    ) -> None:
        self.offers = 2
        super().complete(snapshot_id, (), on_done)


def test_a_store_without_room_is_asked_again() -> None:
    for seed in range(30):
        coordinator = SnapshotCoordinator(Refusing())
        simulation = Simulation(
            chain(source(*BATCHES), Pass, ToResults),
            seed,
            SimulationOptions(snapshot=0.1),
            coordinator,
        )
        assert sorted(values_of(simulation.run())) == list(range(30))
        assert simulation.error is None


class Unrepeatable(ItemSource):
    holds_snapshots = True

    def save_snapshot(self) -> bool:
        raise AssertionError("its state in the middle is of no use")


def two_sources(held: type[ItemSource]) -> DAG:
    dag = DAG()
    first = dag.vertex("first", lambda: held(BATCHES[:10]), 1)
    second = dag.vertex("second", source(*BATCHES), 1)
    union = dag.vertex("union", Pass, 1)
    end = dag.vertex("end", ToResults, 1)
    dag.edge(between(first, union)).edge(between(second, union).to_input(1))
    return dag.edge(between(union, end))


class EndsQuietly(Unrepeatable):
    def save_snapshot(self) -> bool:
        assert self.place == len(self.items)
        return True


def test_what_could_not_go_on_ends_before_a_snapshot_begins_and_stays_ended() -> None:
    restored = 0
    for seed in range(60):
        store = MemorySnapshotStore()
        coordinator = SnapshotCoordinator(store)
        broken = Simulation(
            two_sources(EndsQuietly), seed, SimulationOptions(snapshot=0.3), coordinator
        )
        is_held = [coordinator.is_blocked]
        for _ in range(60 + 4 * seed):
            if not broken.execution.is_over:
                broken.step()
                is_held.append(coordinator.is_blocked)
        assert is_held[0]
        if store.completed is None or broken.execution.is_over:
            continue
        restored += 1
        assert "first" in store.read(store.completed, ENDED)[0].column(0).to_pylist()
        again = SnapshotCoordinator(store, restore_from=store.completed)
        simulation = Simulation(two_sources(Failing), seed, SimulationOptions(snapshot=0.1), again)
        simulation.run()
        assert simulation.error is None, simulation.error
    assert restored > 10


class Failing(ItemSource):
    """Must not be called: it has ended in an earlier execution."""

    def complete(self) -> bool:
        raise AssertionError("ended vertices are not run again")


def test_a_job_goes_on_from_the_snapshot_of_another_store(tmp_path: Path) -> None:
    """A named snapshot begins a new job, whose own snapshots come after it."""
    named = FileSnapshotStore(tmp_path / "named")
    for number in range(1, 8):
        named.write(number, "v0", numbers(29))
        named.complete(number, (), lambda outcome: None)
    named.close()
    own = FileSnapshotStore(tmp_path / "own")
    coordinator = SnapshotCoordinator(own, restore_from=named.completed, initial=named)
    simulation = Simulation(chain(source(*BATCHES), Pass, ToResults), 1, QUIET, coordinator)
    assert coordinator.begin() == 8
    while not simulation.execution.is_over:
        own.close()  # waits for the thread that writes, of which the simulation knows nothing
        simulation.step()
    assert values_of(simulation.run()) == [29]
    assert own.completed == 8
    named.close()
