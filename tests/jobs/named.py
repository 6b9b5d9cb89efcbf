"""Named jobs for tests: a source that gives numbers when told to, a sink that commits with
snapshots, a still clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from runnel.dag import DAG, between
from runnel.errors import Error
from runnel.expressions.context import EvaluationContext
from runnel.named_jobs.named_job import NamedJob
from runnel.named_jobs.record.options import NamedJobOptions
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.registry import NamedJobs
from runnel.named_jobs.run import PreparedJob
from runnel.processor import Inbox, Outbox, Processor, ProcessorContext
from runnel.runtime.light_job import Jobs
from runnel.testing import ManualClock

PATIENCE = 20
SECOND = 1_000_000_000


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], names=["x"])


class World:
    """What outlives executions: how far sources may go, whether they end there, what fails next,
    and what was committed."""

    def __init__(self) -> None:
        self.limit = 0
        self.ends = False
        self.failures: list[Exception] = []
        self.commit_failures: list[Exception] = []
        self.committed: dict[str, list[int]] = {}
        self.starts: list[int] = []
        self.lock = Lock()
        self.wakes: list[Callable[[], None]] = []

    def give(self, limit: int, *, ends: bool = False) -> None:
        """Lets sources give the numbers below the limit."""
        with self.lock:
            self.limit, self.ends = limit, ends
            wakes = list(self.wakes)
        for wake in wakes:
            wake()

    @property
    def rows(self) -> list[int]:
        """What all jobs have committed."""
        return sorted(row for rows in self.committed.values() for row in rows)

    def fail(self, error: Exception) -> None:
        """The source fails with it, once."""
        self.failures.append(error)
        self.give(self.limit, ends=self.ends)


class Counter(Processor):
    """Gives 0, 1, 2, …"""

    def __init__(self, world: World) -> None:
        self.world = world
        self.next = 0

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self.wake = context.wake
        self.world.wakes.append(self.wake)

    def complete(self) -> bool:
        world = self.world
        if world.failures:
            raise world.failures.pop(0)
        while self.next < world.limit:
            if not self.outbox.offer(numbers(self.next)):
                return False
            self.next += 1
        return world.ends

    def save_snapshot(self) -> bool:
        return self.outbox.offer_snapshot(numbers(self.next))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.next = batch.column(0)[0].as_py()
        self.world.starts.append(self.next)

    def close(self) -> None:
        if self.wake in self.world.wakes:
            self.world.wakes.remove(self.wake)

    wake: Callable[[], None] = staticmethod(lambda: None)  # type: ignore[assignment]


class Keeper(Processor):
    """Commits what it got with each snapshot, and is complete when all is committed. What it staged
    is its state: a snapshot that was completed and not committed is committed by the next
    execution, once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.got: list[int] = []
        self.staged: list[int] = []
        self.epoch = 0

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.poll()) is not None:
            self.got += batch.column(0).to_pylist()

    def complete(self) -> bool:
        job = self.context.job
        if job.request_snapshot is None:
            self.commit_rows(self.got)
            self.got = []
        elif self.got or self.staged:
            if not self.staged:
                job.request_snapshot()
            self.context.wake_at(job.clock() + SECOND)
            return False
        return True

    def save_snapshot(self) -> bool:
        if self.got:
            self.epoch += 1
            self.staged, self.got = self.staged + self.got, []
        return self.outbox.offer_snapshot(numbers(self.epoch, *self.staged))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.epoch, *staged = batch.column(0).to_pylist()
        self.commit_rows(staged)

    def commit(self, snapshot_id: int, success: bool) -> bool:
        if self.world.commit_failures:
            raise self.world.commit_failures.pop(0)
        if success:
            self.commit_rows(self.staged)
            self.staged = []
        return True

    def commit_rows(self, rows: list[int]) -> None:
        """Rows come in order, so what is there already is told by the last."""
        with self.world.lock:
            committed = self.world.committed.setdefault(self.context.job.owner, [])
            committed += [row for row in rows if not committed or row > committed[-1]]


class Bench:
    """A registry whose jobs all run Counter → Keeper of `world`."""

    def __init__(
        self, folder: Path | None = None, world: World | None = None, refusals: Sequence[Error] = ()
    ) -> None:
        self.world = world or World()
        self.clock = ManualClock(wall_start=1_000_000)
        self.jobs = Jobs(2, self.clock)
        self.refusals = list(refusals)
        self.named = NamedJobs(self.jobs, self.prepare, folder)
        self.named.open()

    def prepare(self, record: JobRecord) -> PreparedJob:
        if self.refusals:
            raise self.refusals.pop(0)
        dag = DAG()
        source = dag.vertex("count", lambda: Counter(self.world), 1)
        sink = dag.vertex("keep", lambda: Keeper(self.world), 1)
        dag.edge(between(source, sink))
        return PreparedJob(
            dag=dag,
            evaluation=EvaluationContext(),
            is_unbounded=record.query != "bounded",
            written=frozenset(("keep",)),
            signatures={"count": "counts", "keep": "keeps"},
        )

    def create(self, name: str = "j", query: str = "endless", **options: Any) -> NamedJob:
        return self.named.create(
            JobRecord(
                id=0,
                name=name,
                query=query,
                text=f"CREATE JOB {name} AS {query}",
                options=NamedJobOptions(**options),
                created=self.clock.wall(),
                is_unbounded=query != "bounded",
            )
        )

    def close(self) -> None:
        self.named.close()
        self.jobs.close()
