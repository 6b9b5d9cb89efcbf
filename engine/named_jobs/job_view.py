"""The observable properties of a named job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.errors import Error
from runnel.named_jobs.record.record import JobRecord, RecordedError
from runnel.named_jobs.record.states import ENDED
from runnel.named_jobs.run import JobRun
from runnel.runtime.light_job import Job, JobStatus

if TYPE_CHECKING:
    from runnel.named_jobs.foreign_run import ForeignExecution, ForeignRun
    from runnel.runtime.metrics import VertexMetrics
    from runnel.runtime.snapshots import SnapshotReport
    from runnel.snapshots.store import SnapshotStore


class JobView:
    """The current record, execution and snapshots of a job. For any thread, without a lock.

    store: store of its snapshots.
    """

    def __init__(self, record: JobRecord, store: SnapshotStore) -> None:
        self.store = store
        self.last_snapshot: SnapshotReport | None = None
        """The report of the last durable snapshot."""
        self.last_report: SnapshotReport | None = None
        """The report of the last snapshot, also if it failed."""
        self.unsaved: RecordedError | None = None
        """Why the record on the disk is not the current one; None: it is."""
        self._record = record
        self._run: JobRun | ForeignRun | None = None

    @property
    def record(self) -> JobRecord:
        """The durable record of the job."""
        return self._record

    @property
    def id(self) -> int:
        """A number that is unique among all jobs, on all machines."""
        return self._record.id

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def kind(self) -> str:
        return "job"

    @property
    def query(self) -> str:
        return self._record.query

    @property
    def status(self) -> JobStatus:
        return self._record.status

    @property
    def error(self) -> Error | None:
        """The last error, also of a job that was restarted after it."""
        failure = self._record.last_error
        return None if failure is None else failure.error()

    @property
    def last_trouble(self) -> str | None:
        """The last error as text, or why the last snapshot failed, or why the job's record cannot
        be written."""
        if self.unsaved is not None:
            return str(self.unsaved)
        report, failure = self.last_report, self._record.last_error
        if report is not None and report.error is not None and self._run is not None:
            return f"snapshot {report.snapshot_id} failed: {_described(report.error)}"
        return None if failure is None else str(failure)

    @property
    def is_done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self.status in ENDED

    @property
    def execution(self) -> Job | ForeignExecution | None:
        """The current execution, if any."""
        run = self._run
        return None if run is None else run.job

    @property
    def rows_in(self) -> int:
        """Number of rows that the sources returned in this execution, or in the last one."""
        job = self.execution
        return self._record.rows_in if job is None else job.rows_in

    @property
    def rows_out(self) -> int:
        """Number of rows that reached the sink in this execution, or in the last one."""
        run = self._run
        return self._record.rows_out if run is None else run.rows_out

    @property
    def late_rows(self) -> int:
        job = self.execution
        return self._record.late_rows if job is None else job.late_rows

    @property
    def late_in_all(self) -> int:
        """Number of late rows in all executions, except executions that were killed."""
        job = self.execution
        return self._record.late_in_all + (0 if job is None else job.late_rows)

    @property
    def uptime(self) -> float | None:
        """Seconds since the execution began; of a job that has ended, the duration of its last
        execution. None if it does not run."""
        job, record = self.execution, self._record
        if job is not None:
            return job.uptime
        if not self.is_done or record.started is None or record.finished is None:
            return None
        return max(0, record.finished - record.started) / 1e6  # the clock may have been set back

    def metrics(self) -> dict[str, VertexMetrics]:
        """The metrics of each vertex in this execution; empty if none runs."""
        job = self.execution
        return {} if job is None else job.metrics()


def _described(error: Exception) -> str:
    if isinstance(error, Error):
        return error.message if error.detail is None else f"{error.message} ({error.detail})"
    return str(error) or type(error).__name__
