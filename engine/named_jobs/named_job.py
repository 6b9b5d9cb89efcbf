"""One named job: its life from CREATE JOB to its end, through any number of executions.

A change that a user requests (by a statement, or through the handle) is made on the caller's
thread, under the job's lock; then the caller waits until it is complete. Events (the execution
ended, a restart is due) are tasks of the serial executor, so they are handled in order, on one
thread.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from runnel.deadline import seconds as seconds_left
from runnel.deadline import waiting_time
from runnel.errors import Error, ErrorCode, OperationalError, internal
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.job_waiting import JobWaiting
from runnel.named_jobs.listeners import StatusChange, notify
from runnel.named_jobs.named_snapshots import check_name
from runnel.named_jobs.newest_snapshot import NewestSnapshot
from runnel.named_jobs.record.record import JobRecord, RecordedError
from runnel.named_jobs.record.states import (
    COMPLETED,
    COMPLETING,
    ENDED,
    EXPORTING,
    FAILED,
    NOT_RUNNING,
    RUNNING,
    STARTING,
    SUSPENDED,
    TRANSITIONS,
    check_allowed,
)
from runnel.named_jobs.run import JobRun, PreparedJob
from runnel.processor import Guarantee
from runnel.processors.sources.scan import ScanMetaSupplier, beginnings_of
from runnel.runtime.light_job import JobStatus

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.named_jobs.foreign_run import ForeignRun
    from runnel.named_jobs.home import JobHome
    from runnel.runtime.snapshots import SnapshotReport
    from runnel.snapshots.store import SnapshotStore

logger = logging.getLogger("runnel.job")

FIRST_DELAY = 1_000_000_000
LONGEST_DELAY = 60_000_000_000
"""Nanoseconds before a restart. The delay doubles after each failure, from FIRST_DELAY to
LONGEST_DELAY, and starts over when a snapshot has succeeded."""
SAVE_AGAIN = 1_000_000_000
"""Nanoseconds after which a record that could not be written is written again."""
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


class NamedJob(JobWaiting):
    """The handle of a named job. Threads may share it."""

    __module__ = "runnel"

    def __init__(self, record: JobRecord, home: JobHome, store: SnapshotStore) -> None:
        super().__init__(record, home, store)
        self._aim = Aim.COMPLETE
        self._resumes = False
        self._dag: DAG | None = None
        self._failures = 0
        self._newest = NewestSnapshot(record.snapshot, home, self._keep)

    def start(self) -> None:
        """Starts it for the first time; raises the reason if it cannot run."""
        with self._lock:
            self._launch("created")

    def start_again(self) -> None:
        """Starts a job that ran when its directory was last closed. A failure is treated like a
        failure of an execution."""
        with self._lock:
            is_suspended = self.status in (SUSPENDED, EXPORTING) and not self._record.resumes
            if (
                self.status not in ENDED
                and not is_suspended
                and self._run is None
                and not self._home.is_closing
            ):
                self._record = replace(self._record, status=NOT_RUNNING)
                self._launch_or_fail("resumed when the directory was opened")
                if self._run is not None:
                    logger.info('job "%s" resumes %s', self.name, self._run.where)
            elif self.status is EXPORTING:
                self._record = replace(self._record, status=SUSPENDED)

    def suspend(self, timeout: float | None = None) -> None:
        """Takes a last snapshot and stops; waits until the job is suspended. After `timeout`
        seconds it raises OperationalError, and the suspension continues."""
        self._suspend(waiting_time(timeout))

    def pause(self, timeout: float | None = None) -> None:
        """Suspends the job for a change, after which it is resumed. If the wait or the process ends
        before that, the job continues unchanged."""
        try:
            self._suspend(waiting_time(timeout), resumes=True)
        except BaseException as error:
            if isinstance(error, OperationalError) and error.code is ErrorCode.TIMEOUT:
                error.hint = "the job continues unchanged; give the statement more time"
            with self._changed, suppress(Error):
                if self._run is not None and self._aim is Aim.SUSPEND and self._resumes:
                    self._aim = Aim.RESTART
                elif self.status is SUSPENDED and self._record.resumes:
                    self.resume()
            raise

    def _suspend(self, timeout: float | None, resumes: bool = False) -> None:
        with self._lock:
            self._check("suspended")
            self._resumes = resumes
            if self.status is NOT_RUNNING:
                self._home.jobs.pool.forget((), self._restart_due)
                self._set(
                    SUSPENDED,
                    "suspended while it waited for a restart",
                    is_user=True,
                    resumes=resumes,
                )
                self._save()
                if self.unsaved is not None:
                    raise self.unsaved.error()
                return
            before = self._run
            self._stop(Aim.SUSPEND, "being suspended")
        self._wait_for(
            lambda: self._run is not before and self.status not in ENDED, timeout, "suspended"
        )

    def resume(self) -> None:
        """Starts a suspended job from its last snapshot; raises the reason if it cannot run. Does
        nothing if the job is not suspended."""
        with self._lock:
            self._check("resumed")
            self._wait_for_export()
            if self.status is not SUSPENDED:
                return
            self._failures = 0
            self._set(NOT_RUNNING, "resumed", is_user=True)
            try:
                self._launch("resumed")
            except Error as error:
                self._set(SUSPENDED, "it couldn't be resumed", last_error=RecordedError.of(error))
                raise

    def restart(self, timeout: float | None = None) -> None:
        """Takes a last snapshot, stops, and starts again from it; waits until the job runs again.
        Raises the error if it fails meanwhile; the job is then suspended, or restarted later."""
        timeout = waiting_time(timeout)
        with self._lock:
            self._check("restarted")
            if self.status is NOT_RUNNING:
                self._home.jobs.pool.forget((), self._restart_due)
                try:
                    self._launch("restarted")
                except Error as error:
                    self._failed(error)
                    raise
                return
            before = self._run
            self._stop(Aim.RESTART, "being restarted")
        self._wait_for(
            lambda: self._run is not before and self.status is RUNNING, timeout, "restarted"
        )

    def cancel(self, timeout: float | None = None) -> None:
        """Ends the job permanently, without a snapshot; waits until it has ended."""
        timeout = waiting_time(timeout)
        with self._lock:
            self._check("cancelled")
            if self._run is None:
                self._home.jobs.pool.forget((), self._restart_due)
                self._end(FAILED, "cancelled", is_user_cancelled=True)
                return
            self._aim = Aim.CANCEL
            if self.status is not COMPLETING:
                self._set(COMPLETING, "being cancelled", is_user=True)
            self._run.job.cancel()
        self._wait_for(lambda: self.is_done, timeout, "cancelled")

    def export_snapshot(self, name: str, timeout: float | None = None) -> None:
        """Takes a snapshot and stores it under a name, replacing a snapshot with that name. Of a
        suspended job the last snapshot is stored."""
        timeout = waiting_time(timeout)
        check_name(name)
        self._check_has_snapshots()
        # Another job may start from that snapshot, and commit the rows staged by then.
        self.is_exported = True
        with self._lock:
            self._check("exported")
            run = self._run
            if run is None:
                self._set(EXPORTING, "its snapshot is being copied")
        if run is not None:
            with self.store.pin():
                self._home.snapshots.export(
                    name, self._record, self.store, run.take_snapshot(timeout)
                )
            return
        try:
            has_snapshot = self._takes_snapshots or self._record.is_resumable
            self._home.snapshots.export(
                name, self._record, self.store, self.store.completed if has_snapshot else None
            )
        finally:
            with self._changed:
                if self.status is EXPORTING:
                    self._set(SUSPENDED, "its snapshot was copied")

    def _wait_for_export(self) -> None:
        """Waits until the state has been copied, if it is being copied; the thread that copies it
        does not need the lock. Called under the lock."""
        self._wait_for(lambda: self.status is not EXPORTING, seconds_left(LONGEST), "exported")

    def last_point(self, timeout: float | None = None) -> int | None:
        """Takes a snapshot, if the job runs, waits until the sinks have committed it, and returns
        its number. Otherwise returns the number of the last snapshot, after the sinks have
        committed it. None: there is no snapshot, or the job has ended and all its input counts."""
        with self._lock:
            self._check("verified")
            run = self._run
            if run is None:
                if self.status is COMPLETED:
                    return None
                if self._takes_snapshots:
                    self._home.settle(self)
                return (
                    self.store.completed
                    if self._takes_snapshots or self._record.is_resumable
                    else None
                )
        self._check_has_snapshots()
        assert isinstance(run, JobRun)
        return run.take_snapshot(waiting_time(timeout))

    def cancel_and_export_snapshot(self, name: str, timeout: float | None = None) -> None:
        """Takes a last snapshot, stores it under a name, and ends the job. If that fails, the job
        is suspended."""
        check_name(name)
        self._check_has_snapshots()
        if self.status is not SUSPENDED:
            self.suspend(timeout)
        self.export_snapshot(name, timeout)
        self.cancel(timeout)

    def _check_has_snapshots(self) -> None:
        if self._record.runtime != TASKLETS:
            from runnel.named_jobs.foreign_run import no_snapshots

            raise no_snapshots(self.name, self._record.runtime)

    def change(self, **changes: Any) -> None:
        """Changes the record of a suspended job."""
        with self._lock:
            self._wait_for_export()
            self._check("changed")
            if "query" in changes and self._takes_snapshots:
                # The new query may not have these sinks.
                self._home.settle(self)
            before = self._record
            self._record = replace(before, **changes)
            try:
                self._save_or_raise()
            except Error:
                self._record = before
                raise

    def forget(self) -> None:
        """From now on its record is not written. Waits for a write in progress."""
        with self._changed:
            self.is_forgotten = True

    def closed(self) -> None:
        """The connection is closed: wakes all waiting callers. Tries for the last time to write a
        record that could not be written."""
        with self._changed:
            self._home.jobs.pool.forget((), self._save_due)
            if self.unsaved is not None:
                with suppress(OperationalError):
                    self._save_or_raise()
            self._notify()

    def leave(self) -> None:
        """The connection is being closed: stops the execution, so that a later connection can
        resume it."""
        with self._lock:
            self._home.jobs.pool.forget((), self._restart_due)
            if self.status is RUNNING:
                self._stop(Aim.LEAVE, "the connection is being closed")

    def wait_left(self, timeout: float) -> None:
        """Waits until no execution runs. After `timeout` seconds a running one is cancelled. If it
        does not end within CANCELLING seconds either, because a call of a connector does not
        return, it is abandoned: the job later resumes from its last snapshot."""
        with self._changed:
            if (
                self._changed.wait_for(lambda: self._run is None, max(timeout, 0))
                or self._run is None
            ):
                return
            if self._aim is Aim.COMPLETE:
                self._aim = Aim.LEAVE
            self._run.job.cancel()
            if not self._changed.wait_for(lambda: self._run is None, CANCELLING):
                logger.error(
                    'job "%s" did not stop and is abandoned: it resumes from its last snapshot',
                    self.name,
                )

    @property
    def _takes_snapshots(self) -> bool:
        return self._record.options.guarantee is not Guarantee.NONE

    def _check(self, action: str) -> None:
        self._home.check_open()
        check_allowed(action, self.name, self.status)

    def _stop(self, aim: Aim, description: str) -> None:
        assert self._run is not None
        self._aim = aim
        self._set(COMPLETING, description, is_user=True)
        self._run.stop()

    def _launch(self, description: str) -> None:
        """From NOT_RUNNING to RUNNING. If it cannot run, its status is NOT_RUNNING again, and the
        reason is raised."""
        self._set(STARTING, description)
        try:
            prepared = self._home.prepare(self._record)
            self.store.recheck()
            if self._takes_snapshots or self._record.is_resumable:
                self._home.records.check_snapshot(self._record, self.store)
            run = self._run_of(prepared)
            self._home.adapt(self._record, self.store, run, prepared)
            run.start(lambda: self._home.executor.post(lambda: self._ended(run)), self._on_message)
        except Exception as error:
            self._set(NOT_RUNNING, "it couldn't be started")
            raise (
                error if isinstance(error, Error) else internal(str(error) or type(error).__name__)
            ) from error
        self._run, self._aim = run, Aim.COMPLETE
        self._forget_sources()  # the sources of the last execution that this one does not have
        self._dag = prepared.dag
        now = self._home.jobs.clock.wall()
        found: dict[str, Any] = {"is_unbounded": prepared.is_unbounded, "promise": prepared.promise}
        found |= {"meanings": prepared.meanings, "is_resumable": False, "resumes": False}
        passed_over = self.store.passed_over if run.restored_from is not None else None
        if passed_over is not None:
            self.last_snapshot = None
            message = (
                f"{passed_over.partition(':')[0]}, so snapshot {run.restored_from} is used instead"
            )
            found["last_error"] = RecordedError.of(OperationalError(message, detail=passed_over))
        if run.restored_from is None:
            found["beginnings"] = beginnings_of(prepared.dag)
        self._set(RUNNING, description, started=now, **found)
        self._save()

    def _run_of(self, prepared: PreparedJob) -> JobRun | ForeignRun:
        if prepared.foreign is None:
            return JobRun(self._home.jobs, self._record, prepared, self.store, self._reported)
        # Loaded on first use: few jobs run on another engine.
        from runnel.named_jobs.foreign_run import ForeignRun

        return ForeignRun(
            self._home.jobs,
            self._record,
            prepared,
            self._home.runtime_folder(self.id),
            self._reported,
        )

    def _launch_or_fail(self, description: str) -> None:
        try:
            self._launch(description)
        except Error as error:
            self._failed(error)

    def _ended(self, run: JobRun | ForeignRun) -> None:
        """The execution has ended. On the executor's thread."""
        with self._lock:
            if run is not self._run:
                return
            aim, self._aim, self._run = self._aim, Aim.COMPLETE, None
            error = None if run.is_cut else run.job.error
            late, before, batch = (
                run.job.late_rows,
                self._record,
                run.last_batch or self._record.last_batch,
            )
            self._record = replace(
                before, rows_in=run.job.rows_in, rows_out=run.rows_out, late_rows=late
            )
            self._record = replace(
                self._record, late_in_all=before.late_in_all + late, last_batch=batch
            )
            if aim is Aim.CANCEL:
                self._end(FAILED, "cancelled", is_user_cancelled=True)
            elif error is None and run.terminal is None and not run.is_cut:
                self._end(COMPLETED, "its inputs have ended")
            elif aim is Aim.LEAVE:
                self._set(NOT_RUNNING, "the connection was closed", is_resumable=run.is_stopped)
                self._save()
            elif aim is Aim.SUSPEND:
                failure = run.stop_failure or self._record.last_error
                self._set(
                    SUSPENDED,
                    "suspended",
                    is_resumable=run.is_stopped,
                    last_error=failure,
                    resumes=self._resumes,
                )
                self._save()
            elif aim is Aim.RESTART and error is None:
                failure = run.stop_failure or self._record.last_error
                self._set(NOT_RUNNING, "stopped", is_resumable=run.is_stopped, last_error=failure)
                if self._home.is_closing:
                    self._save()  # the next connection starts it
                else:
                    self._launch_again("restarted")
            else:
                self._failed(error or internal("the execution ended without a reason"))

    def _failed(self, error: Error) -> None:
        """An execution failed, or could not be started: restarts the job if that may help, suspends
        it, or ends it."""
        record, failure = self._record, RecordedError.of(error)
        was_running = record.status is not NOT_RUNNING
        self._failures += 1
        may_pass = isinstance(error, OperationalError) and error.code not in _LASTING
        if may_pass and (
            record.is_unbounded or (self._takes_snapshots and self._failures <= MOST_RESTARTS)
        ):
            delay = min(FIRST_DELAY << min(self._failures - 1, 20), LONGEST_DELAY)
            logger.warning(
                'job "%s" failed and is restarted in %g s: %s', self.name, delay / 1e9, failure
            )
            if was_running:
                self._set(NOT_RUNNING, "it failed and is to be restarted", last_error=failure)
            else:  # it was not even started
                self._record = replace(record, last_error=failure)
            self._save()
            self._home.jobs.pool.call_at(
                self._home.jobs.clock.monotonic() + delay, self._restart_due
            )
            return
        suspends = record.options.suspend_on_failure
        if suspends is None:  # a job that could not be started may find what it needs later
            suspends = (
                record.is_unbounded or not was_running or error.code is ErrorCode.POSITION_EXPIRED
            )
        if suspends:
            logger.error('job "%s" failed and is suspended: %s', self.name, failure)
            self._set(SUSPENDED, "it failed", last_error=failure)
            self._save()
        else:
            logger.error('job "%s" failed: %s', self.name, failure)
            self._end(FAILED, "it failed", last_error=failure)

    def _restart_due(self) -> None:
        self._home.executor.post(self._restart)

    def _restart(self) -> None:
        with self._lock:
            if self.status is NOT_RUNNING and not self._home.is_closing:
                self._launch_again("restarted after a failure")

    def _launch_again(self, description: str) -> None:
        self._record = replace(self._record, restarts=self._record.restarts + 1)
        self._launch_or_fail(description)

    def _forget_sources(self) -> None:
        """The sources of the last execution may delete the state for a next one."""
        if self._dag is not None:
            for vertex in self._dag.vertices.values():
                if isinstance(vertex.supplier, ScanMetaSupplier):
                    vertex.supplier.source.forget(str(self.id))

    def _end(self, status: JobStatus, description: str, **changes: Any) -> None:
        is_user = bool(changes.get("is_user_cancelled"))
        self._forget_sources()
        self._set(
            status, description, is_user=is_user, finished=self._home.jobs.clock.wall(), **changes
        )
        self._save()

    def _on_message(self, message: str) -> None:
        """A source reported a message for the job's owner: writes it to the log and, soon, to the
        record. On any thread."""
        logger.warning('job "%s": %s', self.name, message)
        failure = RecordedError.of(OperationalError(message, code=ErrorCode.POSITION_EXPIRED))
        self._home.executor.post(lambda: self._keep(last_error=failure))

    def _keep(self, **changes: Any) -> None:
        with self._lock:
            self._record = replace(self._record, **changes)
            self._save()

    def _reported(self, report: SnapshotReport) -> None:
        """A snapshot is durable, or was discarded. On any thread, without the lock."""
        self.last_report = report
        if report.is_safe:
            self.last_snapshot = report
            self._failures = 0
            if self._record.runtime == TASKLETS and self._home.records.folder is not None:
                self._newest.report(report.snapshot_id)

    def _set(
        self, status: JobStatus, description: str, *, is_user: bool = False, **changes: Any
    ) -> None:
        old = self._record.status
        if status not in TRANSITIONS[old]:
            raise internal(f"a job can't go from {old} to {status}")
        self._record = replace(self._record, status=status, **changes)
        self._notify()
        if self._listeners:
            change = StatusChange(self.name, old, status, description, is_user)
            listeners = tuple(self._listeners)
            self._home.listening.post(lambda: notify(listeners, change))

    def _save(self) -> None:
        """Writes the record. If that fails, the job continues, the previous record remains on the
        disk, and the write is repeated every second. The data of a job that has ended is deleted
        only after its end was recorded: until then the next connection would start it."""
        try:
            self._save_or_raise()
        except OperationalError as error:
            if self.unsaved is None:
                logger.error("%s", error)
            self.unsaved = RecordedError.of(error)
            self._home.jobs.pool.forget((), self._save_due)
            self._home.jobs.pool.call_at(
                self._home.jobs.clock.monotonic() + SAVE_AGAIN, self._save_due
            )
            return
        if self.is_done:
            self._home.executor.post(lambda: self._home.clean(self))

    def _save_or_raise(self) -> None:
        self._record = self._newest.named_in(self._record)
        if not self.is_forgotten:
            self._home.records.save(self._record)
        self.unsaved = None

    def _save_due(self) -> None:
        self._home.executor.post(self._save_again)

    def _save_again(self) -> None:
        with self._lock:
            if self.unsaved is not None:
                self._save()
