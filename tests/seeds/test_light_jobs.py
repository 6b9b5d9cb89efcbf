"""Light jobs as the documents that Runnel was conceived from describe them, on one process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import runnel
from runnel import DAG, Connection, between, library
from runnel.dag import ProcessorMetaSupplier, ProcessorSupplier
from runnel.processor import Guarantee, Inbox, JobContext, Processor
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.runtime.snapshots import SnapshotCoordinator
from runnel.snapshots.store import MemorySnapshotStore
from tests.runtime.sample_processors import (
    Collect,
    ItemSource,
    Pass,
    ToResults,
    chain,
    numbers,
    source,
    values_of,
)

SECONDS = 20
ENDLESS = "SELECT v FROM TABLE(GENERATE_STREAM(1000))"
MAP = "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
QUIET = SimulationOptions(snapshot=0, spurious=0)


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of change of each file."""
    states = ((path, path.stat()) for path in folder.rglob("*"))
    return {path: (state.st_size, state.st_mtime_ns) for path, state in states}


class Stateful(ItemSource):
    """A source with state that no snapshot may ask for."""

    guarantees: list[Guarantee]

    def complete(self) -> bool:
        self.guarantees.append(self.context.job.guarantee)
        assert self.context.job.request_snapshot is None
        return super().complete()

    def save_snapshot(self) -> bool:
        raise AssertionError("a light job has no snapshots")

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        raise AssertionError("a light job is not restored")


def test_a_light_job_writes_nothing_to_the_directory(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "directory") as connection:
        connection.execute(MAP)
        connection.execute("INSERT INTO m VALUES (1, 2)")
        before = contents(tmp_path)
        assert connection.execute("SELECT SUM(this) FROM m GROUP BY __key").fetchall() == [(2,)]
        connection.submit(chain(source(numbers(1)), lambda: Collect([]))).join(SECONDS)
        running = connection.execute(ENDLESS)
        assert running.fetchone() == (0,)
        assert contents(tmp_path) == before
    with runnel.connect(tmp_path / "directory") as connection:
        assert connection.jobs() == [], "nothing of them comes back"


def test_a_light_job_has_no_snapshots(connection: Connection) -> None:
    found: list[Guarantee] = []
    seen: list[object] = []

    def make() -> Stateful:
        made = Stateful([numbers(1), numbers(2)])
        made.guarantees = found
        return made

    connection.submit(chain(make, lambda: Collect(seen))).join(SECONDS)
    assert set(found) == {Guarantee.NONE}
    assert seen == [(0, 1), (0, 2), ("end", 0), "closed"]


class Failing(Processor):
    def complete(self) -> bool:
        raise runnel.OperationalError("the network is down")


def test_a_light_job_is_not_restarted_after_a_failure(connection: Connection) -> None:
    """An OperationalError restarts a named job."""
    made: list[Processor] = []

    def make() -> Processor:
        made.append(Failing())
        return made[-1]

    job = connection.submit(chain(make))
    with pytest.raises(runnel.OperationalError, match="the network is down"):
        job.join(SECONDS)
    assert (str(job.status), len(made)) == ("FAILED", 1)
    assert connection.jobs() == []


def test_a_light_job_can_only_be_joined_or_cancelled(connection: Connection) -> None:
    job = connection.submit(chain(partial(Waiting, threading.Event()), Pass, Discard), name="light")
    for action in ("suspend", "resume", "restart", "export_snapshot", "update"):
        assert not hasattr(job, action)
    for statement in (
        "ALTER JOB light SUSPEND",
        "ALTER JOB light RESTART",
        "CREATE SNAPSHOT s FOR JOB light",
        "DROP JOB light",
    ):
        with pytest.raises(runnel.ProgrammingError, match='job "light" not found'):
            connection.execute(statement)
    job.cancel()
    with pytest.raises(runnel.Error, match="cancelled"):
        job.join(SECONDS)


class Waiting(Processor):
    """A source that says nothing until it is released."""

    def __init__(self, released: threading.Event) -> None:
        self.released = released

    def complete(self) -> bool:
        if not self.released.is_set():
            self.context.wake_at(self.context.job.clock() + 1_000_000)
            return False
        return True


class Discard(Processor):
    def process(self, ordinal: int, inbox: Inbox) -> None:
        while inbox.poll() is not None:
            pass


def test_submit_returns_before_the_job_ends(connection: Connection) -> None:
    released = threading.Event()
    job = connection.submit(chain(partial(Waiting, released), Discard))
    assert str(job.status) == "RUNNING"
    assert not job.wait(0)
    assert connection.jobs() == [job]
    released.set()
    assert job.wait(SECONDS)
    assert (str(job.status), connection.jobs()) == ("COMPLETED", [])


def test_no_item_follows_the_end_of_an_edge() -> None:
    for seed in range(20):
        log: list[object] = []
        dag = chain(source(*(numbers(i) for i in range(9))), Pass, partial(Collect, log))
        assert Simulation(dag, seed).run() == []
        assert log[-2:] == [("end", 0), "closed"]
        assert [item for item in log if isinstance(item, tuple) and item[0] == 0] == [
            (0, i) for i in range(9)
        ]


class FailsLate(ItemSource):
    """Fails after all its items."""

    def complete(self) -> bool:
        if super().complete():
            raise ValueError("broken")
        return False


@pytest.mark.parametrize("fails", [False, True])
def test_a_snapshot_of_an_execution_that_ends(fails: bool) -> None:
    """A snapshot that is under way when the last processor ends is complete; when the job fails, it
    has failed. After the end there is none."""
    heard: list[bool] = []
    for seed in range(30):
        coordinator = SnapshotCoordinator(MemorySnapshotStore())
        kind = FailsLate if fails else ItemSource
        dag = chain(lambda kind=kind: kind([numbers(1)]), Pass, ToResults)  # type: ignore[misc]
        simulation = Simulation(dag, seed, QUIET, coordinator)
        coordinator.request(on_done=heard.append)
        while not simulation.execution.is_over:
            simulation.step()
        assert (simulation.error is not None) is fails
        assert coordinator.request(on_done=lambda _: pytest.fail("the job has ended")) is None
    assert len(heard) == 30
    assert fails or all(heard)
    assert not fails or not all(heard)


def test_closing_the_connection_ends_light_jobs_abruptly() -> None:
    connection = runnel.connect()
    running = connection.execute(ENDLESS)
    assert running.fetchone() == (0,)
    job = connection.submit(chain(partial(Waiting, threading.Event()), Discard))
    connection.close()
    assert str(job.status) == "FAILED"
    with pytest.raises(runnel.Error, match="the job was cancelled"):
        job.join(SECONDS)


class Slices(ProcessorMetaSupplier):
    """Each processor reads another slice of the numbers below a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.calls: list[tuple[int, int]] = []
        self.suppliers: list[SliceSupplier] = []

    def get(
        self, context: JobContext, members: int, parallelism: int
    ) -> Sequence[ProcessorSupplier]:
        assert context.job_id > 0
        self.calls.append((members, parallelism))
        self.suppliers += (made := [SliceSupplier(self.limit) for _ in range(members)])
        return made


class SliceSupplier(ProcessorSupplier):
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.counts: list[int] = []
        self.errors: list[BaseException | None] = []

    def get(self, count: int) -> Sequence[Processor]:
        self.counts.append(count)
        return [ItemSource([numbers(*range(i, self.limit, count))]) for i in range(count)]

    def close(self, error: BaseException | None) -> None:
        self.errors.append(error)


def test_a_meta_supplier_knows_the_members_and_configures_each_processor(
    connection: Connection,
) -> None:
    """One process is one member: one supplier is made for each execution, which makes as many
    processors as the vertex has in parallel."""
    made = Slices(100)
    found: list[pa.RecordBatch] = []
    dag = DAG()
    read = dag.vertex("read", made, parallelism=8)
    write = dag.vertex("write", library.sink_to_list(found), parallelism=1)
    dag.edge(between(read, write))
    for _ in range(2):
        connection.submit(dag).join(SECONDS)
    assert made.calls == [(1, 8), (1, 8)]
    assert [supplier.counts for supplier in made.suppliers] == [[8], [8]]
    assert [supplier.errors for supplier in made.suppliers] == [[None], [None]]
    assert sorted(values_of(found)) == sorted([*range(100), *range(100)])
    assert {batch.num_rows for batch in found} == {12, 13}, "one slice each"


def test_a_fixed_number_of_threads_runs_any_number_of_jobs() -> None:
    def workers() -> list[str]:
        names = (thread.name for thread in threading.enumerate())
        return [name for name in names if name.startswith("runnel worker")]

    before = len(workers())
    with runnel.connect(cooperative_threads=2) as connection:
        running = [connection.execute(ENDLESS) for _ in range(20)]
        assert [cursor.fetchone() for cursor in running] == [(0,)] * 20
        assert len(workers()) - before == 2
        for cursor in running:
            cursor.close()


def test_small_queries_run_while_a_large_one_does() -> None:
    """With a single worker, which the large one never leaves idle."""
    with runnel.connect(cooperative_threads=1) as connection:
        released = threading.Event()
        large = connection.submit(chain(partial(Busy, released), Discard))
        for number in range(20):
            assert connection.execute("SELECT ? + 1", (number,)).fetchall() == [(number + 1,)]
            connection.submit(chain(source(numbers(number)), Discard)).join(SECONDS)
        assert str(large.status) == "RUNNING"
        released.set()
        large.join(SECONDS)


class Busy(Waiting):
    """A source that emits as fast as it is read."""

    def complete(self) -> bool:
        return self.released.is_set() or (self.outbox.offer(numbers(*range(1000))) and False)
