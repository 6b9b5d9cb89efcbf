"""The life of a named job, from CREATE JOB to its end, through any number of executions.

A change that a user requests is made on the caller's thread; then the caller waits until it is
complete. Events (the execution ended, a restart is due) are tasks of the serial executor, so they
are handled in order, on one thread.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from runnel.deadline import seconds as seconds_left
from runnel.errors import Error, ErrorCode, OperationalError, internal
from runnel.named_jobs.foreign_run import ForeignRun
from runnel.named_jobs.listeners import Listeners, StatusChange
from runnel.named_jobs.record.record import RecordedError
from runnel.named_jobs.record.states import (
    COMPLETED,
    COMPLETING,
    EXPORTING,
    FAILED,
    NOT_RUNNING,
    RUNNING,
    STARTING,
    SUSPENDED,
    TRANSITIONS,
    check_allowed,
)
from runnel.named_jobs.record.stored_metrics import metrics_to_json
from runnel.named_jobs.run import JobRun, PreparedJob
from runnel.processors.sources.scan import ScanMetaSupplier, beginnings_of

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.named_jobs.foreign_run import ForeignRun
    from runnel.named_jobs.home import JobHome
    from runnel.named_jobs.job_locks import JobLocks
    from runnel.named_jobs.job_snapshots import JobSnapshots
    from runnel.named_jobs.record.current import CurrentRecord
    from runnel.named_jobs.waiters import JobWaiters
    from runnel.runtime.light_job import JobStatus
    from runnel.runtime.snapshots import SnapshotReport

logger = logging.getLogger("runnel.job")

FIRST_DELAY = 1_000_000_000
LONGEST_DELAY = 60_000_000_000
"""Nanoseconds before a restart. The delay doubles after each failure, from FIRST_DELAY to
LONGEST_DELAY, and starts over when a snapshot has succeeded."""
LONGEST = 1e6
"""Maximum time in seconds that a change waits for the state to be copied; in practice the
statement's timeout is the limit."""
_LASTING = (
    ErrorCode.CANCELLED,
    ErrorCode.GENERIC,
    ErrorCode.NOT_ALLOWED,
    ErrorCode.POSITION_EXPIRED,
)
"""The codes of an OperationalError that is permanent: a restart would not help."""
CANCELLING = 5.0
"""Seconds that a cancelled execution has to end when the connection is closed."""
MOST_RESTARTS = 10
"""Maximum number of consecutive restarts of a job with bounded input; a job that reads a stream is
restarted without a limit."""


class Aim(Enum):
    """The next step of the job when its current execution has ended."""

    COMPLETE = "complete"
    SUSPEND = "suspend"
    RESTART = "restart"
    CANCEL = "cancel"
    LEAVE = "leave"


class JobLifecycle:
    """The status of a job, its current execution, and the steps between executions.

    Locks: the status changes only under the job's lock. `start`, `suspend`, `resume` and the other
    requests acquire it, and release it while they wait for the end of the change (`JobWaiters`).
    Tasks of the serial executor acquire it. `check`, `set_status` and `wait_for_export` are called
    under it. Any thread may read `run` without it.

    run: the current execution; None if none runs.
    """

    def __init__(
        self,
        record: CurrentRecord,
        snapshots: JobSnapshots,
        waiters: JobWaiters,
        listeners: Listeners,
        locks: JobLocks,
        home: JobHome,
    ) -> None:
        self.run: JobRun | ForeignRun | None = None
        self._record = record
        self._snapshots = snapshots
        self._waiters = waiters
        self._listeners = listeners
        self._locks = locks
        self._home = home
        self._aim = Aim.COMPLETE
        self._resumes = False
        """Whether the suspension in progress is for a change, after which the job is resumed."""
        self._dag: DAG | None = None
        self._failures = 0
        """Number of failures since the last durable snapshot."""

    def start(self) -> None:
        """Starts it for the first time; raises the reason if it cannot run."""
        with self._locks.mutex:
            self._launch("created")

    def start_again(self) -> None:
        """Starts a job that ran when its directory was last closed. A failure is treated like a
        failure of an execution."""
        record = self._record
        with self._locks.mutex:
            is_suspended = record.status in (SUSPENDED, EXPORTING) and not record.value.resumes
            if (
                not record.is_done
                and not is_suspended
                and self.run is None
                and not self._home.is_closing
            ):
                restarts = record.value.restarts + (record.value.started is not None)
                record.change(status=NOT_RUNNING, restarts=restarts)
                self._launch_or_fail("resumed when the directory was opened")
                if self.run is not None:
                    logger.info('job "%s" resumes %s', self._name, self.run.where)
            elif record.status is EXPORTING:
                record.change(status=SUSPENDED)

    def suspend(self, timeout: float | None, resumes: bool = False) -> None:
        """Takes a last snapshot and stops; waits until the job is suspended.

        resumes: the job is suspended for a change, and resumed after it, also if the process ends
            before.
        """
        with self._locks.mutex:
            self.check("suspended")
            self._resumes = resumes
            if self._record.status is NOT_RUNNING:
                self._suspend_waiting(resumes)
                return
            before = self.run
            self._stop(Aim.SUSPEND, "being suspended")
        self._waiters.wait_for_change(
            lambda: self.run is not before and not self._record.is_done, timeout, "suspended"
        )

    def _suspend_waiting(self, resumes: bool) -> None:
        """Suspends a job that waits for a restart."""
        self._home.jobs.pool.forget((), self._restart_due)
        self.set_status(
            SUSPENDED, "suspended while it waited for a restart", is_user=True, resumes=resumes
        )
        self._record.save()
        if self._record.unsaved is not None:
            raise self._record.unsaved.error()

    def pause(self, timeout: float | None) -> None:
        """Suspends the job for a change, after which it is resumed. If the wait or the process ends
        before that, the job continues unchanged."""
        try:
            self.suspend(timeout, resumes=True)
        except BaseException as error:
            if isinstance(error, OperationalError) and error.code is ErrorCode.TIMEOUT:
                error.hint = "the job continues unchanged; give the statement more time"
            with self._locks.changed, suppress(Error):
                if self.run is not None and self._aim is Aim.SUSPEND and self._resumes:
                    self._aim = Aim.RESTART
                elif self._record.status is SUSPENDED and self._record.value.resumes:
                    self.resume()
            raise

    def resume(self) -> None:
        """Starts a suspended job from its last snapshot; raises the reason if it cannot run. Does
        nothing if the job is not suspended."""
        with self._locks.mutex:
            self.check("resumed")
            self.wait_for_export()
            if self._record.status is not SUSPENDED:
                return
            self._failures = 0
            self.set_status(NOT_RUNNING, "resumed", is_user=True)
            try:
                self._launch("resumed")
            except Error as error:
                self.set_status(
                    SUSPENDED, "it couldn't be resumed", last_error=RecordedError.of(error)
                )
                raise

    def restart(self, timeout: float | None) -> None:
        """Takes a last snapshot, stops, and starts again from it; waits until the job runs again.
        Raises the error if it fails meanwhile; the job is then suspended, or restarted later."""
        with self._locks.mutex:
            self.check("restarted")
            if self._record.status is NOT_RUNNING:
                self._home.jobs.pool.forget((), self._restart_due)
                try:
                    self._launch("restarted")
                except Error as error:
                    self._failed(error)
                    raise
                return
            before = self.run
            self._stop(Aim.RESTART, "being restarted")
        self._waiters.wait_for_change(
            lambda: self.run is not before and self._record.status is RUNNING, timeout, "restarted"
        )

    def cancel(self, timeout: float | None) -> None:
        """Ends the job permanently, without a snapshot; waits until it has ended."""
        with self._locks.mutex:
            self.check("cancelled")
            if self.run is None:
                self._home.jobs.pool.forget((), self._restart_due)
                self._end(FAILED, "cancelled", is_user_cancelled=True)
                return
            self._aim = Aim.CANCEL
            if self._record.status is not COMPLETING:
                self.set_status(COMPLETING, "being cancelled", is_user=True)
            self.run.job.cancel()
        self._waiters.wait_for_change(lambda: self._record.is_done, timeout, "cancelled")

    def leave(self) -> None:
        """The connection is being closed: stops the execution, so that a later connection can
        resume it."""
        with self._locks.mutex:
            self._home.jobs.pool.forget((), self._restart_due)
            if self._record.status is RUNNING:
                self._stop(Aim.LEAVE, "the connection is being closed")

    def wait_left(self, timeout: float) -> None:
        """Waits until no execution runs. After `timeout` seconds a running one is cancelled. If it
        does not end within CANCELLING seconds either, because a call of a connector does not
        return, it is abandoned: the job later resumes from its last snapshot."""
        with self._locks.changed:
            changed = self._locks.changed
            if changed.wait_for(lambda: self.run is None, max(timeout, 0)) or self.run is None:
                return
            if self._aim is Aim.COMPLETE:
                self._aim = Aim.LEAVE
            self.run.job.cancel()
            if not changed.wait_for(lambda: self.run is None, CANCELLING):
                logger.error(
                    'job "%s" did not stop and is abandoned: it resumes from its last snapshot',
                    self._name,
                )

    def check(self, action: str) -> None:
        """Raises if the connection is closed, or the job cannot be `action` ("suspended", …) in its
        status."""
        self._home.check_open()
        check_allowed(action, self._name, self._record.status)

    def wait_for_export(self) -> None:
        """Waits until the state has been copied, if it is being copied; the thread that copies it
        does not need the lock."""
        self._waiters.wait_for_change(
            lambda: self._record.status is not EXPORTING, seconds_left(LONGEST), "exported"
        )

    def set_status(
        self, status: JobStatus, description: str, *, is_user: bool = False, **changes: Any
    ) -> None:
        """Changes the status, and other fields of the record, in memory; wakes the waiters and
        reports to the listeners.

        description: reason of the change, for the listeners.
        is_user: a user requested the change.
        """
        old = self._record.status
        if status not in TRANSITIONS[old]:
            raise internal(f"a job can't go from {old} to {status}")
        self._record.change(status=status, **changes)
        self._waiters.notify()
        self._listeners.report(StatusChange(self._name, old, status, description, is_user))

    @property
    def _name(self) -> str:
        return self._record.value.name

    def _stop(self, aim: Aim, description: str) -> None:
        assert self.run is not None
        self._aim = aim
        self.set_status(COMPLETING, description, is_user=True)
        self.run.stop()

    def _launch(self, description: str) -> None:
        """From NOT_RUNNING to RUNNING. If it cannot run, its status is NOT_RUNNING again, and the
        reason is raised."""
        self.set_status(STARTING, description)
        record, store = self._record.value, self._snapshots.store
        try:
            prepared = self._home.prepare(record)
            store.recheck()
            if self._snapshots.are_taken or record.is_resumable:
                self._home.records.check_snapshot(record, store)
            run = self._run_of(prepared)
            self._home.adapt(record, store, run, prepared)
            run.start(lambda: self._home.executor.post(lambda: self._ended(run)), self._on_message)
        except Exception as error:
            self.set_status(NOT_RUNNING, "it couldn't be started")
            raise (
                error if isinstance(error, Error) else internal(str(error) or type(error).__name__)
            ) from error
        self.run, self._aim = run, Aim.COMPLETE
        self._forget_sources()  # the sources of the last execution that this one does not have
        self._dag = prepared.dag
        now = self._home.jobs.clock.wall()
        self.set_status(RUNNING, description, started=now, **self._found(run, prepared))
        self._record.save()

    def _found(self, run: JobRun | ForeignRun, prepared: PreparedJob) -> dict[str, Any]:
        """The fields of the record that a new execution determines."""
        found: dict[str, Any] = {"is_unbounded": prepared.is_unbounded, "guarantee": run.end_to_end}
        found |= {"signatures": prepared.signatures, "is_resumable": False, "resumes": False}
        found["metrics"] = ()
        if run.restored_from is None:
            found["beginnings"] = beginnings_of(prepared.dag)
            return found
        passed_over = self._snapshots.store.passed_over
        if passed_over is not None:
            self._snapshots.last_snapshot = None
            message = (
                f"{passed_over.partition(':')[0]}, so snapshot {run.restored_from} is used instead"
            )
            found["last_error"] = RecordedError.of(OperationalError(message, detail=passed_over))
        return found

    def _run_of(self, prepared: PreparedJob) -> JobRun | ForeignRun:
        record, jobs = self._record.value, self._home.jobs
        if prepared.foreign is None:
            return JobRun(jobs, record, prepared, self._snapshots.store, self._reported)
        folder = self._home.runtime_folder(record.id)
        return ForeignRun(jobs, record, prepared, folder, self._reported)

    def _launch_or_fail(self, description: str) -> None:
        try:
            self._launch(description)
        except Error as error:
            self._failed(error)

    def _ended(self, run: JobRun | ForeignRun) -> None:
        """The execution has ended. A task of the executor."""
        with self._locks.mutex:
            if run is not self.run:
                return
            aim, self._aim, self.run = self._aim, Aim.COMPLETE, None
            before = self._record.value
            self._record.change(
                rows_in=run.job.rows_in,
                rows_out=run.rows_out,
                late_rows=run.job.late_rows,
                late_in_all=before.late_in_all + run.job.late_rows,
                last_batch=run.last_batch or before.last_batch,
                metrics=metrics_to_json(run.job.metrics()),
            )
            error = None if run.is_cut else run.job.error
            if aim is Aim.CANCEL:
                self._end(FAILED, "cancelled", is_user_cancelled=True)
            elif error is None and run.terminal is None and not run.is_cut:
                self._end(COMPLETED, "its inputs have ended")
            elif aim is Aim.LEAVE:
                self.set_status(
                    NOT_RUNNING, "the connection was closed", is_resumable=run.is_stopped
                )
                self._record.save()
            elif aim is Aim.SUSPEND or (aim is Aim.RESTART and error is None):
                self._stopped(run, aim)
            else:
                self._failed(error or internal("the execution ended without a reason"))

    def _stopped(self, run: JobRun | ForeignRun, aim: Aim) -> None:
        """The execution was stopped, to suspend or to restart the job."""
        is_resumable = run.is_stopped
        failure = run.stop_failure or self._record.value.last_error
        if aim is Aim.SUSPEND:
            self.set_status(
                SUSPENDED,
                "suspended",
                is_resumable=is_resumable,
                last_error=failure,
                resumes=self._resumes,
            )
            self._record.save()
            return
        self.set_status(NOT_RUNNING, "stopped", is_resumable=is_resumable, last_error=failure)
        if self._home.is_closing:
            self._record.save()  # the next connection starts it
        else:
            self._launch_again("restarted")

    def _failed(self, error: Error) -> None:
        """An execution failed, or could not be started: restarts the job if that may help, suspends
        it, or ends it."""
        record, failure = self._record.value, RecordedError.of(error)
        was_running = record.status is not NOT_RUNNING
        self._failures += 1
        may_pass = isinstance(error, OperationalError) and error.code not in _LASTING
        if may_pass and (
            record.is_unbounded or (self._snapshots.are_taken and self._failures <= MOST_RESTARTS)
        ):
            self._restart_later(failure, was_running)
            return
        suspends = record.options.suspend_on_failure
        if suspends is None:
            # A job that could not be started may find what it needs later; whether the input of a
            # hand-built DAG ends is not known.
            suspends = (
                record.is_unbounded
                or record.dag is not None
                or not was_running
                or error.code is ErrorCode.POSITION_EXPIRED
            )
        if suspends:
            logger.error('job "%s" failed and is suspended: %s', self._name, failure)
            self.set_status(SUSPENDED, "it failed", last_error=failure)
            self._record.save()
        else:
            logger.error('job "%s" failed: %s', self._name, failure)
            self._end(FAILED, "it failed", last_error=failure)

    def _restart_later(self, failure: RecordedError, was_running: bool) -> None:
        delay = min(FIRST_DELAY << min(self._failures - 1, 20), LONGEST_DELAY)
        logger.warning(
            'job "%s" failed and is restarted in %g s: %s', self._name, delay / 1e9, failure
        )
        if was_running:
            self.set_status(NOT_RUNNING, "it failed and is to be restarted", last_error=failure)
        else:  # it was not even started
            self._record.change(last_error=failure)
        self._record.save()
        jobs = self._home.jobs
        jobs.pool.call_at(jobs.clock.monotonic() + delay, self._restart_due)

    def _restart_due(self) -> None:
        self._home.executor.post(self._restart)

    def _restart(self) -> None:
        with self._locks.mutex:
            if self._record.status is NOT_RUNNING and not self._home.is_closing:
                self._launch_again("restarted after a failure")

    def _launch_again(self, description: str) -> None:
        self._record.change(restarts=self._record.value.restarts + 1)
        self._launch_or_fail(description)

    def _end(self, status: JobStatus, description: str, **changes: Any) -> None:
        is_user = bool(changes.get("is_user_cancelled"))
        self._forget_sources()
        now = self._home.jobs.clock.wall()
        self.set_status(status, description, is_user=is_user, finished=now, **changes)
        self._record.save()

    def _forget_sources(self) -> None:
        """The sources of the last execution may delete the state for a next one."""
        if self._dag is not None:
            for vertex in self._dag.vertices.values():
                if isinstance(vertex.supplier, ScanMetaSupplier):
                    vertex.supplier.source.forget(str(self._record.value.id))

    def _on_message(self, message: str) -> None:
        """A source reported a message for the job's owner: writes it to the log and, soon, to the
        record. On any thread, without the lock."""
        logger.warning('job "%s": %s', self._name, message)
        failure = RecordedError.of(OperationalError(message, code=ErrorCode.POSITION_EXPIRED))
        self._home.executor.post(lambda: self._record.keep(last_error=failure))

    def _reported(self, report: SnapshotReport) -> None:
        """A snapshot is durable, or was discarded. On any thread, without the lock."""
        if report.is_safe:
            self._failures = 0
        self._snapshots.report(report)
