"""The handle of a named job: what a program may ask of it, and what the connection has it do.

A job is made of objects with one concern each: its record (`record/current.py`), the callers that
wait for it (`waiters.py`), its life (`lifecycle.py`), its snapshots (`job_snapshots.py`) and its
listeners (`listeners.py`). They share the job's locks (`job_locks.py`). The handle passes calls on,
and combines the objects where one call needs several.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from runnel.deadline import current, waiting_time
from runnel.errors import Error, ErrorCode, InterfaceError, OperationalError, internal
from runnel.named_jobs.hand_built.submission import update_dag
from runnel.named_jobs.job_locks import JobLocks
from runnel.named_jobs.job_snapshots import JobSnapshots
from runnel.named_jobs.lifecycle import JobLifecycle
from runnel.named_jobs.listeners import Listener, Listeners
from runnel.named_jobs.named_snapshots import check_name
from runnel.named_jobs.record.current import CurrentRecord
from runnel.named_jobs.record.record import JobRecord, RecordedError
from runnel.named_jobs.record.states import COMPLETED, EXPORTING, FAILED, SUSPENDED
from runnel.named_jobs.record.stored_metrics import metrics_from_json
from runnel.named_jobs.run import JobRun
from runnel.named_jobs.waiters import JobWaiters
from runnel.runtime.light_job import Job, JobStatus

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.named_jobs.foreign_run import ForeignExecution
    from runnel.named_jobs.home import JobHome
    from runnel.runtime.metrics import VertexMetrics
    from runnel.runtime.snapshots import SnapshotReport
    from runnel.snapshots.store import SnapshotStore


class NamedJob:
    """The handle of a named job. Threads may share it.

    store: store of its snapshots.
    is_exported: whether another job may start from a snapshot of its state.
    is_clean: whether the data that only an execution would need was deleted.
    cleaning: lock that is held while that data is deleted.
    """

    __module__ = "runnel"

    def __init__(self, record: JobRecord, home: JobHome, store: SnapshotStore) -> None:
        self.store = store
        self.is_exported = False
        self.is_clean = False
        self.cleaning = Lock()
        self._home = home
        self._locks = locks = JobLocks(record.name)
        self._record = CurrentRecord(record, locks, home, on_end=lambda: home.clean(self))
        self._snapshots = JobSnapshots(self._record, store, home)
        self._waiters = JobWaiters(self._record, locks, home)
        self._listeners = Listeners(locks, home.listening)
        self._lifecycle = JobLifecycle(
            self._record, self._snapshots, self._waiters, self._listeners, locks, home
        )

    def leave_parent(self) -> None:
        """Replaces the locks in a forked child."""
        self._locks.renew()

    def start(self) -> None:
        """Starts it for the first time; raises the reason if it cannot run."""
        self._lifecycle.start()

    def start_again(self) -> None:
        """Starts a job that ran when its directory was last closed."""
        self._lifecycle.start_again()

    def suspend(self, timeout: float | None = None) -> None:
        """Takes a last snapshot and stops; waits until the job is suspended. After `timeout`
        seconds it raises OperationalError, and the suspension continues."""
        self._lifecycle.suspend(waiting_time(timeout))

    def pause(self, timeout: float | None = None) -> None:
        """Suspends the job for a change, after which it is resumed."""
        self._lifecycle.pause(waiting_time(timeout))

    def resume(self) -> None:
        """Starts a suspended job from its last snapshot; raises the reason if it cannot run. Does
        nothing if the job is not suspended."""
        self._lifecycle.resume()

    def restart(self, timeout: float | None = None) -> None:
        """Takes a last snapshot, stops, and starts again from it; waits until the job runs again.
        Raises the error if it fails meanwhile; the job is then suspended, or restarted later."""
        self._lifecycle.restart(waiting_time(timeout))

    def update(
        self,
        dag: DAG,
        options: Mapping[str, object] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Replaces the DAG of a hand-built job. Vertices keep their state under the same name and
        supplier. Waits until the job runs again; if it cannot, it continues with its old DAG, and
        the error is raised. OperationalError if the state of a vertex would be lost, unless
        `options` has "incompatibleState": "empty".

        options: options of CREATE JOB to change.
        timeout: seconds that the job has to be suspended.
        """
        with self.altered_alone():
            update_dag(self, dag, options or {}, waiting_time(timeout))

    def cancel(self, timeout: float | None = None) -> None:
        """Ends the job permanently, without a snapshot; waits until it has ended."""
        self._lifecycle.cancel(waiting_time(timeout))

    def export_snapshot(self, name: str, timeout: float | None = None) -> None:
        """Takes a snapshot and stores it under a name, replacing a snapshot with that name. Of a
        suspended job the last snapshot is stored."""
        timeout = waiting_time(timeout)
        check_name(name)
        self._snapshots.check_supported()
        # Another job may start from that snapshot, and commit the rows staged by then.
        self.is_exported = True
        with self._locks.mutex:
            self._lifecycle.check("exported")
            run = self._lifecycle.run
            if run is None:
                self._lifecycle.set_status(EXPORTING, "its snapshot is being copied")
        try:
            self._snapshots.export(name, run, timeout)
        finally:
            if run is None:
                with self._locks.changed:
                    if self.status is EXPORTING:
                        self._lifecycle.set_status(SUSPENDED, "its snapshot was copied")

    def cancel_and_export_snapshot(self, name: str, timeout: float | None = None) -> None:
        """Takes a last snapshot, stores it under a name, and ends the job. If that fails, the job
        is suspended."""
        check_name(name)
        self._snapshots.check_supported()
        if self.status is not SUSPENDED:
            self.suspend(timeout)
        self.export_snapshot(name, timeout)
        self.cancel(timeout)

    def last_point(self, timeout: float | None = None) -> int | None:
        """Takes a snapshot, if the job runs, waits until the sinks have committed it, and returns
        its number. Otherwise returns the number of the last snapshot, after the sinks have
        committed it. None: there is no snapshot, or the job has ended and all its input counts."""
        with self._locks.mutex:
            self._lifecycle.check("verified")
            run = self._lifecycle.run
            if run is None:
                if self.status is COMPLETED:
                    return None
                if self._snapshots.are_taken:
                    self._home.settle(self)
                return self._snapshots.last_number
        self._snapshots.check_supported()
        assert isinstance(run, JobRun)
        return run.take_snapshot(waiting_time(timeout))

    def change(self, **changes: Any) -> None:
        """Changes the record of a suspended job."""
        with self._locks.mutex:
            self._lifecycle.wait_for_export()
            self._lifecycle.check("changed")
            if "query" in changes and self._snapshots.are_taken:
                # The new query may not have these sinks.
                self._home.settle(self)
            self._record.change_or_raise(**changes)

    @contextmanager
    def altered_alone(self) -> Iterator[None]:
        """Waits until no other thread changes the job's record: a change that fails restores the
        record as it was before."""
        deadline, altering = current(), self._locks.altering
        while not altering.acquire(timeout=0.05):
            deadline.check()
            deadline.check_time()
            self._home.check_open()
        try:
            yield
        finally:
            altering.release()

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """For a job that another engine runs: inside, its sink contains exactly the rows of the
        batches committed so far, and no batch is written. OperationalError if the job is stopped
        meanwhile."""
        with self._locks.mutex:
            self._lifecycle.check("verified")
            run = self._lifecycle.run
            if run is None:
                self._home.settle(self)
                yield  # a thread that resumes the job waits for the lock
                return
        assert not isinstance(run, JobRun)
        with run.between_batches():
            self._lifecycle.check("verified")
            yield
            if self._lifecycle.run is not run:
                message = f'job "{self.name}" was stopped meanwhile'
                raise OperationalError(message, code=ErrorCode.GENERIC, hint="VERIFY it again")

    def forget(self) -> None:
        """From now on its record is not written. Waits for a write in progress."""
        self._record.forget()

    def leave(self) -> None:
        """The connection is being closed: stops the execution, so that a later connection can
        resume it."""
        self._lifecycle.leave()

    def wait_left(self, timeout: float) -> None:
        """Waits until no execution runs; after `timeout` seconds a running one is cancelled."""
        self._lifecycle.wait_left(timeout)

    def closed(self) -> None:
        """The connection is closed: wakes all waiting callers. Tries for the last time to write a
        record that could not be written."""
        self._record.close()
        with self._locks.changed:
            self._waiters.notify()

    def add_listener(self, listener: Listener) -> None:
        """From now on `listener` is called with each StatusChange, in order, on a thread of the
        connection."""
        self._listeners.add(listener)

    def remove_listener(self, listener: Listener) -> None:
        """The listener is not called again; does nothing if it was not added."""
        self._listeners.remove(listener)

    def join(self, timeout: float | None = None) -> None:
        """Waits until the job has ended, and raises its error if it failed; OperationalError
        (TIMEOUT) if it has not ended after `timeout` seconds."""
        if not self.wait(timeout):
            raise OperationalError(
                f'job "{self.name}" has not ended after {timeout:g} s', code=ErrorCode.TIMEOUT
            )
        if self.record.is_user_cancelled:
            raise OperationalError(f'job "{self.name}" was cancelled', code=ErrorCode.CANCELLED)
        if self.status is FAILED:
            raise self.error or internal("a job failed without an error")

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the job has ended; False if it has not within `timeout` seconds.
        InterfaceError if the connection is closed before."""
        return self._waiters.wait(lambda: self.is_done, timeout)

    def await_status(self, status: JobStatus, timeout: float | None = None) -> bool:
        """Waits until the job has that status; False if it has not within `timeout` seconds."""
        _check_status(status)
        return self._waiters.wait(lambda: self.status is status, timeout)

    def __await__(self) -> Generator[Any, None, None]:
        """`await job` waits as `join` does, while other coroutines run; no thread waits for it."""
        return self._joined().__await__()

    async def _joined(self) -> None:
        await self._waiters.wait_async(lambda: self.is_done)
        self.join()

    async def reaches(self, status: JobStatus) -> bool:
        """`await_status` in a coroutine: waits until the job has that status. False: the job has
        ended with another status."""
        _check_status(status)
        await self._waiters.wait_async(lambda: self.status is status or self.is_done)
        return self.status is status

    @property
    def record(self) -> JobRecord:
        """The durable record of the job."""
        return self._record.value

    @property
    def is_forgotten(self) -> bool:
        """Whether the job was removed."""
        return self._record.is_forgotten

    @property
    def unsaved(self) -> RecordedError | None:
        """Why the record on the disk is not the current one; None: it is."""
        return self._record.unsaved

    @property
    def id(self) -> int:
        """A number that is unique among all jobs, on all machines."""
        return self.record.id

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def kind(self) -> str:
        return "job"

    @property
    def query(self) -> str:
        return self.record.query

    @property
    def status(self) -> JobStatus:
        return self.record.status

    @property
    def is_done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self._record.is_done

    @property
    def error(self) -> Error | None:
        """The last error, also of a job that was restarted after it."""
        return self._record.error

    @property
    def last_trouble(self) -> str | None:
        """The last error as text, or why the last snapshot failed, or why the job's record cannot
        be written."""
        if self.unsaved is not None:
            return str(self.unsaved)
        report, failure = self.last_report, self.record.last_error
        if report is not None and report.error is not None and self._lifecycle.run is not None:
            return f"snapshot {report.snapshot_id} failed: {_described(report.error)}"
        return None if failure is None else str(failure)

    @property
    def last_snapshot(self) -> SnapshotReport | None:
        """The report of the last durable snapshot."""
        return self._snapshots.last_snapshot

    @property
    def last_report(self) -> SnapshotReport | None:
        """The report of the last snapshot, also if it failed."""
        return self._snapshots.last_report

    @property
    def execution(self) -> Job | ForeignExecution | None:
        """The current execution, if any."""
        run = self._lifecycle.run
        return None if run is None else run.job

    @property
    def rows_in(self) -> int:
        """Number of rows that the sources returned in this execution, or in the last one."""
        job = self.execution
        return self.record.rows_in if job is None else job.rows_in

    @property
    def rows_out(self) -> int:
        """Number of rows that reached the sink in this execution, or in the last one."""
        run = self._lifecycle.run
        return self.record.rows_out if run is None else run.rows_out

    @property
    def late_rows(self) -> int:
        job = self.execution
        return self.record.late_rows if job is None else job.late_rows

    @property
    def late_in_all(self) -> int:
        """Number of late rows in all executions, except executions that were killed."""
        job = self.execution
        return self.record.late_in_all + (0 if job is None else job.late_rows)

    @property
    def uptime(self) -> float | None:
        """Seconds since the execution began; of a job that has ended, the duration of its last
        execution. None if it does not run."""
        job, record = self.execution, self.record
        if job is not None:
            return job.uptime
        if not self.is_done or record.started is None or record.finished is None:
            return None
        return max(0, record.finished - record.started) / 1e6  # the clock may have been set back

    def metrics(self) -> dict[str, VertexMetrics]:
        """The metrics of each vertex in this execution, or in the last one that ended; empty if
        there was none."""
        job = self.execution
        return metrics_from_json(self.record.metrics) if job is None else job.metrics()

    def __repr__(self) -> str:
        return f"<job {self.name!r} {self.status}>"


def _check_status(status: object) -> None:
    if not isinstance(status, JobStatus):
        raise InterfaceError(f"a status is one of runnel.JobStatus, not {status!r}")


def _described(error: Exception) -> str:
    if isinstance(error, Error):
        return error.message if error.detail is None else f"{error.message} ({error.detail})"
    return str(error) or type(error).__name__
