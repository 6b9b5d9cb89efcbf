"""One execution of a named job, and its snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from threading import Event
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.dag import DAG
from runnel.deadline import GOES_ON, current
from runnel.errors import ErrorCode, OperationalError
from runnel.expressions.context import EvaluationContext
from runnel.named_jobs.durability import Durability
from runnel.named_jobs.hand_built.endpoints import check_sources, weakest
from runnel.named_jobs.record.record import JobRecord, RecordedError
from runnel.named_jobs.state_evolution.adapted_store import encoded_signatures
from runnel.processor import Guarantee
from runnel.runtime.light_job import Job, JobOptions, Jobs
from runnel.runtime.snapshots import SnapshotCoordinator, SnapshotReport

if TYPE_CHECKING:
    from runnel.foreign.job_runtime import RuntimePlan
    from runnel.snapshots.store import SnapshotStore
    from runnel.sqltypes import SqlType


@frozen(kw_only=True)
class PreparedJob:
    """A job's query as planned now, and the values for its execution.

    dag: DAG of the query.
    evaluation: context in which expressions are evaluated.
    is_unbounded: it reads a source without an end.
    written: names of the vertices that write rows.
    event_time: type of the event time; None: none.
    linger: maximum time, in ns, that rows of a stream may wait in a source for larger batches.
    accumulation_limit: maximum number of rows that one processor may accumulate; 0: no limit.
    guarantee: the job's guarantee from end to end.
    signatures: state signatures by vertex (`state_evolution.compatibility`).
    foreign: plan of the query for another engine, which then runs instead of the DAG.
    """

    dag: DAG
    evaluation: EvaluationContext
    is_unbounded: bool
    written: frozenset[str]
    event_time: SqlType | None = None
    linger: int = 0
    accumulation_limit: int = 0
    guarantee: str = ""
    signatures: Mapping[str, str] = field(default_factory=dict)
    foreign: RuntimePlan | None = None


Progress = tuple[object, ...]
"""The progress of all tasklets of an execution: equal to an earlier one if no item has reached any
of them since."""


def _progress(job: Job) -> Progress:
    return tuple(
        [
            (
                item.outbox.rows,
                item.outbox.batches,
                item.watermark,
                item.is_closed,
                item.counts().reads,
            )
            for item in job.execution.tasklets
        ]
    )


class JobRun:
    """One execution, from `start` until `on_end` is called. If the job has a guarantee, a snapshot
    is begun at each interval unless no item arrived meanwhile; if a snapshot takes longer than the
    interval, the next one begins when it is done. Thread-safe."""

    last_batch: Sequence[int] = ()

    def __init__(
        self,
        jobs: Jobs,
        record: JobRecord,
        prepared: PreparedJob,
        store: SnapshotStore,
        on_report: Callable[[SnapshotReport], None],
    ) -> None:
        self._jobs = jobs
        self._record = record
        self._prepared = prepared
        self._on_report = on_report
        self._interval = record.options.snapshot_interval * 1_000_000
        self._takes_snapshots = record.options.guarantee is not Guarantee.NONE
        self.terminal: SnapshotReport | None = None
        self._progress: Progress | None = None
        self._saved: Progress | None = None
        self.is_over = False
        self.is_cut = False
        self.restored_from = (
            store.completed if self._takes_snapshots or record.is_resumable else None
        )
        self.coordinator = SnapshotCoordinator(
            store,
            is_aligned=record.options.guarantee is not Guarantee.AT_LEAST_ONCE,
            restore_from=self.restored_from,
            more=encoded_signatures(prepared.signatures),
        )
        self.coordinator.on_report = self._reported
        self.job: Job

    def start(self, on_end: Callable[[], object], report: Callable[[str], object]) -> None:
        """Starts it; raises the reason if it cannot start. `on_end` is called once, on the thread
        that ends it; `report` receives messages for the job's owner, on any thread."""
        record, prepared = self._record, self._prepared
        expired = record.options.expired_position
        options = JobOptions(
            name=record.name,
            kind="job",
            is_hand_built=record.dag is not None,
            accumulation_limit=prepared.accumulation_limit,
            state_limit=record.options.state_limit,
            is_measured=record.options.is_measured,
            event_time=prepared.event_time,
            linger=prepared.linger,
            durability=Durability(
                str(record.id), record.options.guarantee, self.coordinator, expired, report
            ),
        )

        def begun(job: Job) -> None:
            if record.dag is not None and self._takes_snapshots:
                check_sources(prepared.dag, job.execution.tasklets)
            self.job = job
            job.on_end(self._ended)
            job.on_end(on_end)

        self._jobs.start(
            prepared.dag,
            evaluation=prepared.evaluation,
            query=record.query,
            is_unbounded=prepared.is_unbounded,
            options=options,
            on_start=begun,
        )
        self.job.hand_over()
        if self._takes_snapshots:
            self._jobs.pool.call_at(self._jobs.clock.monotonic() + self._interval, self._due)

    @property
    def where(self) -> str:
        """The position from which it started, for the log."""
        return (
            "from its beginning"
            if self.restored_from is None
            else f"from snapshot {self.restored_from}"
        )

    @property
    def end_to_end(self) -> str:
        """The guarantee of the job from end to end."""
        if self._record.dag is None:
            return self._prepared.guarantee
        return weakest(self._prepared.dag, self.job.execution.tasklets, self._prepared.guarantee)

    @property
    def is_stopped(self) -> bool:
        """Whether it ended with a terminal snapshot that is durable."""
        return self.terminal is not None and self.terminal.is_safe

    @property
    def stop_failure(self) -> RecordedError | None:
        """The error that occurred when it was stopped."""
        if self.job.error is not None and not self.is_cut:
            return RecordedError.of(self.job.error)
        report = self.terminal
        if report is None or report.error is None:
            return None
        message = "the last snapshot failed, so the one before it is used"
        return RecordedError(
            "OperationalError", ErrorCode.INPUT_OUTPUT.name, message, str(report.error)
        )

    @property
    def rows_out(self) -> int:
        """Number of rows that reached the vertices that write."""
        tasklets = [
            item for item in self.job.execution.tasklets if item.vertex in self._prepared.written
        ]
        return sum(edge.rows for item in tasklets for edge in item.inputs.edges)

    def stop(self) -> None:
        """Ends it with a last snapshot, unless it ends by itself before. If no snapshot can begin
        before much of the input is read, it is cancelled: the sinks have committed nothing since
        the last snapshot."""
        if self.coordinator.is_blocked:
            self.is_cut = True
            self.job.cancel()
        else:
            self.coordinator.request(is_terminal=True)

    def take_snapshot(self, timeout: float | None) -> int:
        """Takes a snapshot that begins after this call, waits for it, and returns its number;
        OperationalError if it fails, or is not done within `timeout` seconds."""
        done = Event()
        safe: list[bool] = []

        def on_done(is_safe: bool) -> None:
            safe.append(is_safe)
            done.set()

        snapshot_id = self.coordinator.request(on_done=on_done)
        name = self._record.name
        if snapshot_id is None:
            raise OperationalError(
                f'job "{name}" ended before its snapshot was taken', code=ErrorCode.GENERIC
            )
        deadline = current()
        with deadline.on_cancel(done.set):
            is_done = done.wait(timeout)
        if not safe:
            deadline.check(GOES_ON)
        if not is_done:
            raise OperationalError(
                f'the snapshot of job "{name}" is not done after {timeout:g} s',
                code=ErrorCode.TIMEOUT,
            )
        if not safe[0]:
            report = self.coordinator.last
            reason = None if report is None or report.error is None else str(report.error)
            raise OperationalError(
                f'the snapshot of job "{name}" failed', code=ErrorCode.GENERIC, detail=reason
            )
        return snapshot_id

    def _due(self) -> None:
        """Begins a snapshot after an interval, unless no item arrived since the last
        one. On a worker's thread."""
        if self.is_over:
            return
        self._progress = _progress(self.job)
        if self._progress == self._saved or self.coordinator.begin(on_done=self._taken) is None:
            self._next(self._jobs.clock.monotonic() + self._interval)

    def _taken(self, is_safe: bool) -> None:
        if is_safe:
            self._saved = self._progress
        clock = self._jobs.clock.monotonic
        report = self.coordinator.last
        started = clock() if report is None else report.started
        self._next(max(started + self._interval, clock()))

    def _next(self, time: int) -> None:
        if not self.is_over:
            self._jobs.pool.call_at(time, self._due)

    def _reported(self, report: SnapshotReport) -> None:
        if report.is_terminal:
            self.terminal = report
        self._on_report(report)

    def _ended(self) -> None:
        self.is_over = True
        self._jobs.pool.forget((), self._due)
