"""Hand-built jobs in random orders of events, killed and restored from what their records and
snapshots contain: the result is the one of a run without kills."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

from runnel.dag import DAG, ProcessorFactory, between, storable
from runnel.named_jobs.hand_built.dag_record import dag_from_json, dag_to_json
from runnel.processors.library import (
    accumulate_by_key,
    aggregate_by_key,
    combine_by_key,
    counting,
    flat_map,
    source_of,
    to_list,
)
from runnel.processors.sinks.durable_write import DurableWrite
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from tests.effort import some
from tests.jobs.hand_built import steps
from tests.sinks.test_durable_write import Disk, DiskSink
from tests.sinks.test_simulated import MoodyStore

ROWS = 40
DISKS: dict[str, Disk] = {}


@storable()
def written_to(disk: str) -> ProcessorFactory:
    return lambda: DurableWrite(DiskSink(DISKS[disk], "j/t"), counts=False)


def numbers() -> list[pa.RecordBatch]:
    return [steps.one(number) for number in range(ROWS)]


def job(random: Random, has_stages: bool, is_own: bool) -> DAG:
    """Numbers, their parity, and per parity the count and the sum, in one stage or in two."""
    operations = {"n": counting(), "s": steps.SUMS if is_own else to_list("x")}
    dag = DAG()
    source = dag.vertex("numbers", source_of(numbers()), random.randrange(1, 4))
    keys = dag.vertex("keys", flat_map(steps.with_rest), random.randrange(1, 3))
    dag.edge(between(source, keys))
    last = dag.vertex(
        "group",
        (combine_by_key if has_stages else aggregate_by_key)("k", **operations),
        random.randrange(1, 4),
    )
    if has_stages:
        first = dag.vertex("first", accumulate_by_key("k", **operations), random.randrange(1, 4))
        dag.edge(between(keys, first)).edge(between(first, last).partitioned("k"))
    else:
        dag.edge(between(keys, last).partitioned("k"))
    values = dag.vertex("values", flat_map(steps.sums_of if is_own else totals), 1)
    sink = dag.vertex("write", written_to("d"), 1)
    return dag.edge(between(last, values)).edge(between(values, sink))


def totals(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [pa.record_batch({"x": pa.array([sum(values) for values in batch["s"].to_pylist()])})]


def run(seed: int) -> tuple[Disk, int]:
    """The disk in the end, and the number of runs that began with a snapshot."""
    random = Random(seed)
    has_stages, is_own = random.random() < 0.5, random.random() < 0.5
    return run_killed(seed, random, lambda: job(random, has_stages, is_own))


def run_killed(seed: int, random: Random, make: Callable[[], DAG]) -> tuple[Disk, int]:
    """The same for any DAG that writes to the disk; `make` is called for each run."""
    DISKS["d"] = disk = Disk()
    store, restored = MoodyStore(random), 0
    kills = random.randrange(5)
    for number in range(kills + 1):
        stored = json.dumps(dag_to_json(make()))
        coordinator = SnapshotCoordinator(store, restore_from=store.completed)
        restored += store.completed is not None
        options = SimulationOptions(snapshot=random.choice((0.02, 0.2)))
        dag = dag_from_json(json.loads(stored))
        simulation = Simulation(dag, seed * 10 + number, options, coordinator)
        if number == kills:
            simulation.run()
            assert simulation.error is None, (seed, simulation.error)
            break
        for _ in range(random.randrange(600)):
            if simulation.execution.is_over:
                break
            simulation.step()
        for tasklet in simulation.execution.tasklets:
            if isinstance(tasklet.processor, DurableWrite):
                tasklet.processor._sink = DiskSink(Disk(), "")  # a killed process does nothing more
        simulation.execution.cancel()
        simulation.run()
    return disk, restored


@pytest.mark.parametrize("block", some(range(20), 10))
@pytest.mark.filterwarnings("ignore")
def test_killed_dags_write_each_row_once(block: int) -> None:
    restored = 0
    for seed in range(block * 50, block * 50 + 50):
        disk, found = run(seed)
        assert sorted(disk.visible) == [sum(range(0, ROWS, 2)), sum(range(1, ROWS, 2))], seed
        assert not disk.staged, seed
        restored += found
    assert restored > 20
