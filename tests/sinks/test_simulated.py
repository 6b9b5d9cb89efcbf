"""Writing at snapshots under the scheduler's dice: barriers, failed snapshots and crashes come in
any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pyarrow as pa
import pytest

from runnel.dag import DAG, between
from runnel.errors import OperationalError
from runnel.processor import Processor
from runnel.processors.sinks.durable_write import DurableWrite
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.snapshots.store import MemorySnapshotStore, Outcome, VertexState
from tests.sinks.test_durable_write import Disk, DiskSink

BATCHES = 9


class Counting(Processor):
    """Gives the numbers from 0, three at a time."""

    _next = 0

    def complete(self) -> bool:
        while self._next < BATCHES:
            first = 3 * self._next
            if not self.outbox.offer(
                pa.record_batch({"n": pa.array([first, first + 1, first + 2], pa.int64())})
            ):
                return False
            self._next += 1
        return True

    def save_snapshot(self) -> bool:
        return self.outbox.offer_snapshot(
            pa.record_batch({"next": pa.array([self._next], pa.int64())})
        )

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._next = batch.column(0)[0].as_py()


class MoodyStore(MemorySnapshotStore):
    """Some snapshots fail."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def complete(
        self, snapshot_id: int, more: Sequence[VertexState], on_done: Callable[[Outcome], None]
    ) -> None:
        if self._random.random() < 0.2:
            self.give_up(snapshot_id)
            on_done(OperationalError("no room"))
        else:
            super().complete(snapshot_id, more, on_done)


def job(disk: Disk, counts: bool) -> DAG:
    dag = DAG()
    source = dag.vertex("count", Counting, 1)
    target = dag.vertex("write", lambda: DurableWrite(DiskSink(disk, "j/t"), counts=counts), 1)
    return dag.edge(between(source, target))


def run(seed: int) -> tuple[Disk, int]:
    """The disk in the end, and how many crashes there were."""
    random, disk = Random(seed), Disk()
    store = MoodyStore(random)
    crashes = random.randrange(5)
    for number in range(crashes + 1):
        coordinator = SnapshotCoordinator(store, restore_from=store.completed)
        options = SimulationOptions(snapshot=random.choice((0.02, 0.2)))
        simulation = Simulation(job(disk, counts=False), seed * 10 + number, options, coordinator)
        if number == crashes:
            simulation.run()
            assert simulation.error is None
            return disk, crashes
        for _ in range(random.randrange(120)):
            if simulation.execution.is_over:
                break
            simulation.step()
        for tasklet in simulation.execution.tasklets:
            if isinstance(tasklet.processor, DurableWrite):
                tasklet.processor._sink = DiskSink(Disk(), "")  # a killed process does nothing more
        simulation.execution.cancel()
        simulation.run()
    raise AssertionError("unreachable")


@pytest.mark.parametrize("block", range(4))
@pytest.mark.filterwarnings("ignore")
def test_every_order_of_events_writes_each_row_once(block: int) -> None:
    total = 0
    for seed in range(block * 50, block * 50 + 50):
        disk, crashes = run(seed)
        assert sorted(disk.visible) == list(range(3 * BATCHES)), seed
        assert not disk.staged, seed
        assert disk.commits == sorted(disk.commits), seed
        total += crashes
    assert total > 50
