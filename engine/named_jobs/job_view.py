"""What there is to see of a named job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.errors import Error
from runnel.named_jobs.record.record import Failure, JobRecord
from runnel.named_jobs.record.states import ENDED
from runnel.named_jobs.run import Run
from runnel.runtime.light_job import Job, JobStatus

if TYPE_CHECKING:
    from runnel.named_jobs.foreign_run import ForeignExecution, ForeignRun
    from runnel.runtime.metrics import VertexMetrics
    from runnel.runtime.snapshots import SnapshotReport
    from runnel.snapshots.store import SnapshotStore


class JobView:
    """The record, the execution and the snapshots of a job, as they are now. From any thread,
    without a lock."""

    def __init__(self, record: JobRecord, store: SnapshotStore) -> None:
        self.store = store
        self.last_snapshot: SnapshotReport | None = None
        """The last that is safe."""
        self.last_report: SnapshotReport | None = None
        """The last, also where it failed."""
        self.unsaved: Failure | None = None
        """Why the record on the disk isn't this one."""
        self._record = record
        self._run: Run | ForeignRun | None = None

    @property
    def record(self) -> JobRecord:
        """What is kept of the job."""
        return self._record

    @property
    def id(self) -> int:
        """A number that no other job has, on whatever machine."""
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
        """The last error as text, or why the last snapshot failed, or why the job's record can't be
        kept."""
        if self.unsaved is not None:
            return str(self.unsaved)
        report, failure = self.last_report, self._record.last_error
        if report is not None and report.error is not None and self._run is not None:
            return f"snapshot {report.snapshot_id} failed: {_told(report.error)}"
        return None if failure is None else str(failure)

    @property
    def is_done(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status in ENDED

    @property
    def execution(self) -> Job | ForeignExecution | None:
        """The execution that runs."""
        run = self._run
        return None if run is None else run.job

    @property
    def rows_in(self) -> int:
        """Rows that the sources have given in this execution, or the last one."""
        job = self.execution
        return self._record.rows_in if job is None else job.rows_in

    @property
    def rows_out(self) -> int:
        """Rows that came to the sink in this execution, or the last one."""
        run = self._run
        return self._record.rows_out if run is None else run.rows_out

    @property
    def late_rows(self) -> int:
        job = self.execution
        return self._record.late_rows if job is None else job.late_rows

    @property
    def late_in_all(self) -> int:
        """The late rows of all executions, as far as they ended in order."""
        job = self.execution
        return self._record.late_in_all + (0 if job is None else job.late_rows)

    @property
    def uptime(self) -> float | None:
        """Seconds since the execution began; of a job that has ended, how long the last one ran.
        None where none runs."""
        job, record = self.execution, self._record
        if job is not None:
            return job.uptime
        if not self.is_done or record.started is None or record.finished is None:
            return None
        return max(0, record.finished - record.started) / 1e6  # the clock may have gone back

    def metrics(self) -> dict[str, VertexMetrics]:
        """What each vertex has done in this execution; empty where none runs."""
        job = self.execution
        return {} if job is None else job.metrics()


def _told(error: Exception) -> str:
    if isinstance(error, Error):
        return error.message if error.detail is None else f"{error.message} ({error.detail})"
    return str(error) or type(error).__name__
