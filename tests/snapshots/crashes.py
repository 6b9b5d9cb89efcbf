"""Whole queries on streams that crash and come back: an exactly-once sink has in the end what a run
without crashes gives.

Under dice a plan runs with snapshots, is broken off anywhere, and goes on from the last snapshot
that is safe, perhaps with another number of processors; so a few times, and then to its end.

`python -m tests.snapshots.crashes SECONDS [SEED]` goes on for as long as told; `… case
SEED` repeats one case.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa

import runnel
from runnel.dag import DAG
from runnel.processor import Inbox, Processor, Watermark
from runnel.processors.sinks.result_queue import ResultSink
from runnel.runtime.simulation import Simulation, SimulationOptions, StandstillError
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.snapshots.store import MemorySnapshotStore
from runnel.storage.memory_budget import Memory
from runnel.testing.rows import rows_of
from tests.streams.random_queries.generated import Bench, Case, Rows, _shown, agree
from tests.streams.random_queries.simulated import held_case, late_rows
from tests.streams.scripted_table import IDLE


class Outside:
    """What is outside of the job and survives it: rows that were staged, and rows that everyone can
    see."""

    def __init__(self) -> None:
        self.staged: dict[int, list[pa.RecordBatch]] = {}
        self.visible: list[pa.RecordBatch] = []

    def commit(self, epoch: int) -> None:
        self.visible.extend(self.staged.pop(epoch, ()))

    def recover(self, epoch: int) -> None:
        """A job starts from the snapshot of that number: what was staged for it counts, what came
        later doesn't."""
        for number in sorted(self.staged):
            if number <= epoch:
                self.commit(number)
        self.staged.clear()


class UnchangingStore(MemorySnapshotStore):
    """Finds out state that changes after it was offered: a store that writes it later would write
    something else."""

    def __init__(self) -> None:
        super().__init__()
        self._offered: list[tuple[str, pa.RecordBatch, bytes]] = []

    def write(self, snapshot_id: int, vertex: str, batch: pa.RecordBatch) -> bool:
        self._offered.append((vertex, batch, batch.serialize().to_pybytes()))
        return super().write(snapshot_id, vertex, batch)

    def check(self) -> None:
        for vertex, batch, was in self._offered:
            assert batch.serialize().to_pybytes() == was, (
                f'state of "{vertex}" changed after it was offered'
            )
        self._offered.clear()


class EpochSink(Processor):
    """Stages its rows at each barrier, and commits them when the snapshot is safe; it ends when all
    are committed."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._rows: list[pa.RecordBatch] = []
        self._prepared: list[int] = []
        self._is_asked = False

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self._rows.append(batch)

    def process_watermark(self, watermark: Watermark) -> bool:
        return True

    def prepare_commit(self, snapshot_id: int) -> bool:
        self._outside.staged[snapshot_id] = self._rows
        self._prepared.append(snapshot_id)
        self._rows = []
        return True

    def commit(self, snapshot_id: int, success: bool) -> bool:
        if success:
            for number in self._prepared:
                self._outside.commit(number)
            self._prepared.clear()
        self._is_asked = False
        return True

    def complete(self) -> bool:
        if not self._rows and not self._prepared:
            return True
        if not self._is_asked:
            self._is_asked = True
            assert self.context.job.request_snapshot is not None
            self.context.job.request_snapshot()
        self.context.wake()
        return False


def with_sink(dag: DAG, outside: Outside) -> DAG:
    """The DAG with such a sink in the place of the results."""
    vertices = {
        name: replace(vertex, supplier=lambda: EpochSink(outside))
        if vertex.supplier is ResultSink
        else vertex
        for name, vertex in dag.vertices.items()
    }
    assert vertices != dag.vertices
    return DAG(vertices, list(dag.edges))


class Crashes:
    """How one case crashes: after how many steps each time, and with how many processors it runs
    each time; and the `memory` that there is."""

    memory: Memory | None = None

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"crashes {seed}")
        self.dice = rng.randrange(1 << 30)
        self.steps = [
            rng.choice((20, 60, 150, 400, 1_000)) + rng.randrange(60)
            for _ in range(rng.choice((1, 1, 2, 4)))
        ]
        self.parallelism = [rng.choice((1, 2, 3)) for _ in range(len(self.steps) + 1)]
        self.snapshot = rng.choice((0.02, 0.05, 0.2))


def check(bench: Bench, case: Case, crashes: Crashes) -> int:
    """Runs a case. AssertionError where it isn't right; gives the number of restores."""
    expected = bench.over_tables(case)
    bench.streams.execute(f"SET query_parallelism = {case.parallelism}")
    with bench.scripted(case.feeds, case.ordered) as tables:
        plan: Any = bench.streams._session.prepare(case.sql.ours, ())
        for table in tables.values():
            # Where all sources are idle at once the largest promise counts, so the next rows of one
            # may be late, or not: it depends on the order of events.
            table.scripts = [
                [entry for entry in script if entry is not IDLE] for script in table.scripts
            ]
            table.release()
        return goes_on(plan, expected, crashes)


def check_tables(bench: Bench, case: Case, crashes: Crashes) -> int:
    """The same for the query over tables, by Runnel's own operators."""
    expected = bench.over_tables(case)
    bench.tables.execute("SET pushdown = off")
    try:
        plan: Any = bench.tables._session.prepare(case.sql.tables or case.sql.ours, ())
    finally:
        bench.tables.execute("SET pushdown = on")
    return goes_on(plan, expected, crashes)


def goes_on(plan: Any, expected: Rows, crashes: Crashes) -> int:
    """Runs a plan, with its crashes, to its end."""
    outside, store, restored = Outside(), UnchangingStore(), 0
    for number, parallelism in enumerate(crashes.parallelism):
        last = store.completed
        restored += last is not None
        outside.recover(last or 0)
        coordinator = SnapshotCoordinator(store, restore_from=last)
        options = SimulationOptions(
            parallelism=parallelism, snapshot=crashes.snapshot, memory=crashes.memory
        )
        dag = with_sink(dag_of(plan, parallelism), outside)
        simulation = Simulation(dag, crashes.dice + number, options, coordinator)
        if number < len(crashes.steps):
            broken_off(simulation, crashes.steps[number])
        else:
            simulation.run()
        store.check()
        assert simulation.error is None or number < len(crashes.steps), simulation.error
        assert late_rows(simulation) == 0
    found: Rows = rows_of(outside.visible)
    assert agree(found, expected, exact=True), _shown(found, expected)
    assert outside.staged == {}
    return restored


def dag_of(plan: Any, parallelism: int) -> DAG:
    """As jobs run: the same vertices whatever the number of processors."""
    dag: DAG = plan.dag(max(2, parallelism))
    return dag if parallelism > 1 else dag.narrowed()


def broken_off(simulation: Simulation, steps: int) -> None:
    """Runs for so many steps, as if the process was killed then."""
    for _ in range(steps):
        if simulation.execution.is_over:
            break
        simulation.step()
    assert simulation.error is None, simulation.error
    sinks = [
        tasklet.processor for tasklet in simulation.execution.tasklets if not tasklet.outbox.queues
    ]
    for sink in sinks:
        if isinstance(sink, EpochSink):
            sink._outside = Outside()  # nothing of what is closed now reaches the outside
    simulation.execution.cancel()
    simulation.run()


def tried(
    bench: Bench, seed: int, refused: Counter[str], *, over_tables: bool = False
) -> tuple[str | None, int]:
    """What is wrong with the case of a seed, and how often it was restored."""
    case, crashes = held_case(seed), Crashes(seed)
    try:
        return None, (check_tables if over_tables else check)(bench, case, crashes)
    except runnel.NotSupportedError as error:
        refused[f"{error.message} | {case.sql.ours[:160]}"] += 1
        return None, 0
    except (AssertionError, StandstillError, runnel.Error) as error:
        how = (
            f"steps {crashes.steps}, parallelism {crashes.parallelism}, snapshot {crashes.snapshot}"
        )
        return (
            f"{type(error).__name__}: {error}\npython -m tests.snapshots.crashes case {seed}\n"
            f"  {how}\n  {case.sql.ours}"
        ), 0


def main(seconds: float, seed: int) -> None:
    end, done, failed, restored, bench = time.monotonic() + seconds, 0, 0, 0, Bench()
    refused: Counter[str] = Counter()
    while time.monotonic() < end:
        found, times = tried(bench, seed, refused, over_tables=seed % 5 == 4)
        restored += times
        if found is not None:
            failed += 1
            print(found, flush=True)
        done, seed = done + 1, seed + 1
    bench.close()
    print(
        f"{done} plans, {restored} restores; {refused.total()} refused; {failed} failed; "
        f"next seed {seed}"
    )


if __name__ == "__main__":
    if sys.argv[1] == "case":
        only = Bench()
        seed = int(sys.argv[2])
        print(
            (check_tables if seed % 5 == 4 else check)(only, held_case(seed), Crashes(seed)),
            "restores, all is well",
        )
        only.close()
    else:
        main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
