"""Roles of processors: classes that do not name them, and processors without them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from runnel.processor import (
    Inbox,
    Processor,
    SourceCounters,
    Stateful,
    StatelessProcessor,
    Transactional,
    WatermarkSource,
)
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator, SnapshotReport
from runnel.runtime.tasklets.processor_tasklet import Counts as Counters
from runnel.runtime.tasklets.processor_tasklet import ProcessorTasklet
from runnel.snapshots.store import MemorySnapshotStore
from runnel.testing.verify import verify_processor
from tests.runtime.sample_processors import chain, numbers, source, values_of

ROLES = (Stateful, Transactional, SourceCounters, WatermarkSource)


class Plain(Processor):
    def process(self, ordinal: int, inbox: Inbox) -> None:
        inbox.poll()


class Restores(Processor):
    """Defines one method of a role, and does not name the role."""

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.restored = batch


class Commits(Restores):
    def commit(self, snapshot_id: int, success: bool) -> bool:
        return success


class Counts(StatelessProcessor):
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def tasks(self) -> tuple[int, int]:
        return 1, 2


def roles_of(processor: Processor) -> set[type[object]]:
    return {role for role in ROLES if isinstance(processor, role)}


def test_a_class_has_the_roles_whose_methods_it_defines() -> None:
    assert roles_of(Plain()) == set()
    assert roles_of(Restores()) == {Stateful}
    assert roles_of(Commits()) == {Stateful, Transactional}
    assert roles_of(Counts()) == {SourceCounters}


class SavesNumber:
    """A mixin that is no processor."""

    number = 0

    def save_snapshot(self) -> bool:
        self.number += 1
        return True


class Mixed(SavesNumber, Plain):
    pass


class MixedLast(Plain, SavesNumber):
    pass


def test_a_class_has_the_roles_whose_methods_it_inherits_from_a_mixin() -> None:
    for processor in (Mixed(), MixedLast()):
        assert roles_of(processor) == {Stateful}
        assert isinstance(processor, Stateful)
        assert processor.save_snapshot() and processor.number == 1


class Measured(StatelessProcessor):
    """Stateful for its counter alone: it saves nothing."""

    late_rows = 1

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


class Extends(StatelessProcessor, Stateful):
    """Calls the implementation that it overrides."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def save_snapshot(self) -> bool:
        return super().save_snapshot()


@pytest.mark.parametrize("processor", [Measured, Extends])
def test_a_processor_that_saves_no_state_retains_no_row_at_a_barrier(
    processor: type[Processor],
) -> None:
    assert roles_of(processor()) == {Stateful}
    batches = [numbers(1), numbers(2), numbers(3)]
    verify_processor(processor, [batches], [(1,), (2,), (3,)])


class CountsLate(Plain, SourceCounters):
    """One counter is created in `init`, the other is always there."""

    late_rows = 7

    @property
    def malformed_records(self) -> int:
        return int(self.created_in_init)  # type: ignore[attr-defined]


def test_a_counter_that_does_not_exist_yet_hides_no_other_counter() -> None:
    processor = CountsLate()
    tasklet = cast(
        ProcessorTasklet, SimpleNamespace(stateful=processor, counters=processor, last_counts=None)
    )
    assert ProcessorTasklet.counts(tasklet) == Counters(late_rows=7)


def test_the_other_methods_of_the_role_have_their_defaults() -> None:
    restores = Restores()
    assert isinstance(restores, Stateful)
    assert restores.save_snapshot() and restores.finish_restore()
    assert (restores.state_size(), restores.late_rows) == ((0, 0), 0)
    counts = Counts()
    assert isinstance(counts, SourceCounters)
    assert (counts.tasks(), counts.reads, counts.skipped_rows) == ((1, 2), 0, 0)


class Pairs(Processor):
    """Emits rows in batches of two. It has no state, so at a barrier it must not retain any."""

    def __init__(self) -> None:
        self.retained: list[pa.RecordBatch] = []

    def process(self, ordinal: int, inbox: Inbox) -> None:
        if len(self.retained) == 2 and not self.flush():
            return
        batch = inbox.poll()
        if batch is not None:
            self.retained.append(batch)

    def flush(self) -> bool:
        if self.retained:
            pair = pa.Table.from_batches(self.retained).combine_chunks().to_batches()[0]
            self.retained = [pair]
            if not self.outbox.offer(pair):
                return False
            self.retained = []
        return True

    def complete(self) -> bool:
        return self.flush()


class Total(Processor, Stateful):
    """Counts rows; the number is its state."""

    count = 0

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self.count += batch.num_rows

    def save_snapshot(self) -> bool:
        return self.outbox.offer_snapshot(numbers(self.count))


def test_a_processor_without_state_is_flushed_at_a_barrier() -> None:
    dag = chain(source(*(numbers(i) for i in range(30))), Pairs, Total)
    compared: list[tuple[list[int], list[int]]] = []

    def compare(report: SnapshotReport) -> None:
        if report.is_safe:
            states = [store.read(report.snapshot_id, vertex) for vertex in ("v0", "v2")]
            compared.append((values_of(states[0]), values_of(states[1])))

    for seed in range(20):
        store = MemorySnapshotStore()
        coordinator = SnapshotCoordinator(store)
        coordinator.on_report = compare
        simulation = Simulation(dag, seed, SimulationOptions(snapshot=0.1), coordinator)
        simulation.run()
        assert simulation.error is None
    assert len(compared) > 20
    for read, counted in compared:
        assert read == counted, "all rows before the barrier have passed the processor"
