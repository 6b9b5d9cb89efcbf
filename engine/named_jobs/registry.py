"""All named jobs of a connection: creates, finds and removes them, and starts them again when their
directory is opened."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import randbits
from tempfile import mkdtemp
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING

from runnel.base.forks import closed_error, here, watch
from runnel.deadline import Deadline, DeadlineLock, undisturbed
from runnel.errors import (
    DuplicateObject,
    Error,
    ErrorCode,
    OperationalError,
    ProgrammingError,
    suggest,
)
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.hand_built.preparation import named_outcomes
from runnel.named_jobs.home import Prepare, StoppedJob
from runnel.named_jobs.named_job import NamedJob
from runnel.named_jobs.named_snapshots import NamedSnapshots
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.record.states import (
    COMPLETED,
    COMPLETING,
    FAILED,
    NOT_RUNNING,
    RUNNING,
    STARTING,
)
from runnel.named_jobs.record.store import JobRecords
from runnel.named_jobs.run import JobRun, PreparedJob
from runnel.named_jobs.serial_executor import SerialExecutor
from runnel.named_jobs.state_evolution.adapted_store import AdaptedSnapshots, signatures_in
from runnel.named_jobs.state_evolution.compatibility import (
    StateOutcome,
    check_outcomes,
    grouped,
    state_outcomes,
)
from runnel.processor import Guarantee, JobContext
from runnel.processors.sinks.write import settle_staged
from runnel.runtime.light_job import Jobs
from runnel.snapshots.store import MemorySnapshotStore, SnapshotStore

if TYPE_CHECKING:
    from runnel.named_jobs.foreign_run import ForeignRun

logger = logging.getLogger("runnel.job")

CLOSING = 10.0
"""Seconds that jobs have for their last snapshots when the connection is closed."""
SETTLING = 5_000_000_000
"""Nanoseconds that the sinks of a job that is dropped or changed have to commit or discard staged
rows."""
LISTENING = 2.0
"""Seconds that listeners have, when the connection is closed, to handle pending changes."""
MOST_ENDED = 1000
"""Maximum number of ended jobs that are shown; the oldest are removed first."""


_ID_BITS = 20
"""Number of random bits at the end of an id."""
_LAST_ID_TIME = (1 << 63 - _ID_BITS) - 1
"""The greatest time of an id, in ms since 1970: the year 2248."""


class NamedJobs:
    """The named jobs of one connection. Thread-safe.

    jobs: the light jobs of the connection, with its workers and clock.
    prepare: plans a job's query with the current catalog; raises its errors.
    directory: the connection's directory; None: it is in memory.
    check: raises if the directory was removed.
    """

    def __init__(
        self,
        jobs: Jobs,
        prepare: Prepare,
        directory: Path | None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.jobs = jobs
        self.prepare = prepare
        self.executor = SerialExecutor()
        self.listening = SerialExecutor("runnel job listeners")
        self.records = JobRecords(None if directory is None else directory / "jobs", check)
        self.snapshots = NamedSnapshots(
            None if directory is None else directory / "snapshots", jobs.clock, check
        )
        self._check = check
        self.is_closing = False
        self.is_closed = False
        self._lock = DeadlineLock("the jobs")
        self._jobs: dict[int, NamedJob] = {}
        self._temporary: Path | None = None
        self._origin = here()
        watch(self)

    def leave(self) -> None:
        """In a forked child no job runs: a thread that waits for a job, or changes one, gets the
        error that the connection is closed."""
        self.is_closing = self.is_closed = True
        self._lock = DeadlineLock("the jobs")
        for job in self._jobs.values():
            job.leave_parent()

    def open(self) -> None:
        """Loads the records of the directory, and starts the jobs that ran when it was last
        closed."""
        for record in self.records.load():
            waits = record.runtime != TASKLETS and record.status in (STARTING, RUNNING, COMPLETING)
            found = replace(record, status=NOT_RUNNING) if waits else record
            self._jobs[record.id] = NamedJob(found, self, self._store(record))
        self._purge()
        for job in self.all():
            if job.record.runtime == TASKLETS:
                job.start_again()
            else:
                # Another engine may take seconds to start; opening a directory does not wait for
                # it.
                self.executor.post(job.start_again)

    def create(self, record: JobRecord) -> NamedJob:
        """Creates and starts a job; ProgrammingError if a job that has not ended has its name. An
        ended job of that name is removed."""
        self._purge()
        with self._lock:
            existing = self.check_free(record.name)
            begins_with = record.options.initial_snapshot is not None
            record = replace(
                record, id=self._new_id(), is_resumable=begins_with, may_drop_state=begins_with
            )
            store = self._store(record)
            if record.options.initial_snapshot is not None:
                signatures = self.snapshots.load_into(record.options.initial_snapshot, store)
                record = replace(record, signatures=signatures)
            job = NamedJob(record, self, store)
            try:
                self.records.save(job.record)
                job.start()
            except BaseException:
                with suppress(OperationalError):  # the first error is more helpful than a second
                    self._forget(job)
                raise
            self._jobs[record.id] = job
        if existing is not None:
            # Without the lock: another thread may need it to plan the query of the job removed.
            self.remove(existing)
        return job

    def check_free(self, name: str) -> NamedJob | None:
        """Returns the ended job that has the name, if any; ProgrammingError if a job that has not
        ended has it."""
        existing = self.find(name)
        if existing is not None and not existing.is_done:
            raise DuplicateObject(
                f'job "{existing.name}" exists already',
                detail=f"its status is {existing.status}",
                hint="use IF NOT EXISTS, drop it first, or take another name",
            )
        return existing

    def remove(self, job: NamedJob) -> None:
        """Removes a job that has ended, and all its data."""
        assert job.is_done
        self.clean(job)
        self._jobs.pop(job.id, None)
        self._forget(job)

    def _forget(self, job: NamedJob) -> None:
        with job.cleaning:
            if not job.is_forgotten:
                job.forget()
                job.store.close()
                self.records.remove(job.record)

    def find(self, name: str) -> NamedJob | None:
        """The job with that name; if several have it, the one that has not ended, or else the
        newest."""
        found = [job for job in self.all() if job.name.lower() == name.lower()]
        # Jobs are in the order of the wall clock, which may have been set back.
        return next((job for job in found if not job.is_done), found[-1] if found else None)

    def get(self, name: str) -> NamedJob:
        """The job with that name; ProgrammingError if there is none, OperationalError if its record
        cannot be read."""
        job = self.find(name)
        if job is None:
            self.records.check_readable(name)
            names = [item.name for item in self.all()]
            raise ProgrammingError(
                f'job "{name}" not found',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(
                    name,
                    names,
                    "SHOW JOBS lists the jobs" if names else "there is none: CREATE JOB name AS …",
                ),
            )
        return job

    def by_id(self, job_id: int) -> NamedJob | None:
        return self._jobs.get(job_id)

    def all(self) -> list[NamedJob]:
        """All jobs, ended ones too, the oldest first."""
        with self._lock:
            return list(self._jobs.values())

    def clean(self, job: StoppedJob) -> None:
        """Deletes, once, the data of an ended job that only an execution would need. Not called
        under the job's lock."""
        with job.cleaning:
            if job.is_clean:
                return
            job.is_clean = True
            is_foreign = job.record.runtime != TASKLETS
            if job.status is FAILED and (
                is_foreign or job.record.options.guarantee is not Guarantee.NONE
            ):
                self.settle(job)
            if is_foreign:
                shutil.rmtree(self.runtime_folder(job.id), ignore_errors=True)
            if job.status is COMPLETED:
                job.store.remove_all()

    def settle(self, job: StoppedJob) -> None:
        """Commits the rows that the sinks of a stopped job have staged for its last snapshot, and
        discards all other staged rows."""
        record = job.record
        try:
            if record.runtime != TASKLETS:
                self._settle_foreign(record)
                return
            snapshot_id = job.store.completed
            with undisturbed():  # a timeout during planning would leave the rows uncommitted
                prepared = self.prepare(record)
            with Deadline(monotonic_ns() + SETTLING):
                context = JobContext(
                    0,
                    prepared.evaluation,
                    self.jobs.clock.monotonic,
                    owner=str(record.id),
                    guarantee=record.options.guarantee,
                )
                settle_staged(
                    prepared.dag,
                    context,
                    lambda name: () if snapshot_id is None else job.store.read(snapshot_id, name),
                    may_give_up=job.is_done and not job.is_exported,
                )
        except Exception as error:
            logger.warning(
                'the rows that job "%s" has staged in its sinks can\'t be committed or removed: %s',
                job.name,
                error,
            )

    def _settle_foreign(self, record: JobRecord) -> None:
        folder = self.runtime_folder(record.id)
        if folder.exists():
            with undisturbed():
                foreign = self.prepare(record).foreign
            if foreign is not None:
                foreign.settle(str(record.id), folder)

    def runtime_folder(self, job_id: int) -> Path:
        """The folder in which another engine stores its progress with a job; for a connection in
        memory, a temporary folder that is deleted with it."""
        folder = self.records.folder_of(job_id)
        if folder is not None:
            return folder / "runtime"
        with self._lock:
            if self._temporary is None:
                self._temporary = Path(mkdtemp(prefix="runnel-jobs-"))
            return self._temporary / str(job_id)

    def adapt(
        self,
        record: JobRecord,
        store: SnapshotStore,
        run: JobRun | ForeignRun,
        prepared: PreparedJob,
    ) -> None:
        """Adapts the state of the snapshot to the job's plan before an execution starts.
        OperationalError if some state does not fit: the query computes something else
        than when the snapshot was taken."""
        snapshot_id = run.restored_from
        if snapshot_id is None or not isinstance(run, JobRun):
            return
        before = signatures_in(store, snapshot_id) or record.signatures
        empties = record.may_drop_state and record.options.empties_state
        outcomes_of = state_outcomes if record.dag is None else named_outcomes
        found = outcomes_of(
            store.vertices(snapshot_id), before, prepared.signatures, prepared.dag, empties=empties
        )
        if record.dag is None:
            dropped = check_outcomes(record.name, found, may_drop=record.may_drop_state)
        else:
            dropped = check_outcomes(record.name, found, may_drop=empties, work="DAG")
        for text, _ in grouped(
            [item for item in found if item.outcome is StateOutcome.EMPTY and item.source]
        ):
            logger.warning('job "%s" drops state: %s', record.name, text)
        if dropped:
            names = ", ".join(f'"{name}"' for name in dropped)
            logger.warning(
                'job "%s" drops the state of %s, which its plan does not have',
                record.name,
                names,
            )
        for text, notes in grouped(
            [item for item in found if item.outcome is StateOutcome.RECOMBINED]
        ):
            logger.warning(
                'job "%s" resumes with state of other windows: %s',
                record.name,
                "; ".join((text, *notes)),
            )
        run.coordinator.read_through(
            AdaptedSnapshots(store, found, (before, prepared.signatures), prepared.dag)
        )

    def close(self) -> None:
        """Stops all executions with a last snapshot, waits for them, and ends. Closing twice is no
        error."""
        self.is_closing = True
        jobs = self.all()
        until = monotonic() + CLOSING
        for job in jobs:
            job.leave()
        for job in jobs:
            job.wait_left(until - monotonic())
        self.executor.close()
        self.is_closed = True
        for job in jobs:
            job.closed()
            with suppress(Error):
                job.store.close()
        self.listening.close(LISTENING)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def busy_part(self) -> str | None:
        """A change of a job that is in progress, in words; None: there is none."""
        for job in self.all():
            if job.record.status in (STARTING, COMPLETING):
                return f'job "{job.name}" is {job.record.status}'
        if not (self.executor.is_idle and self.listening.is_idle):
            return "a job changes its status"
        return None

    def check_open(self) -> None:
        """InterfaceError if the connection is closed."""
        if self.is_closed:
            raise closed_error(self._origin)

    def _purge(self) -> None:
        """Removes jobs that ended longer ago than their retention, and surplus ones."""
        now = self.jobs.clock.wall()
        ended = [job for job in self.all() if job.is_done]
        old = [
            job
            for job in ended
            if (job.record.finished or 0) + job.record.options.retention * 1000 < now
        ]
        surplus = [job for job in ended if job not in old][:-MOST_ENDED]
        for job in old + surplus:
            try:
                self.remove(job)
            except OperationalError as error:
                logger.warning("%s", error)

    def _new_id(self) -> int:
        """An id that begins with the time, so that jobs are in order, and ends with random bits,
        because sinks of several directories may write to one folder. If the clock was set back, the
        id begins with a time after the last job's."""
        newest = max(self._jobs, default=0)
        while True:
            time = max(0, self.jobs.clock.wall() // 1000)
            if time <= newest >> _ID_BITS < _LAST_ID_TIME:
                time = (newest >> _ID_BITS) + 1
            number = (min(time, _LAST_ID_TIME) << _ID_BITS) | randbits(_ID_BITS)
            if number and number not in self._jobs:
                return number

    def _store(self, record: JobRecord) -> SnapshotStore:
        folder = self.records.folder_of(record.id)
        if folder is None:
            return MemorySnapshotStore()
        from runnel.snapshots.disk import Disk
        from runnel.snapshots.file_store import FileSnapshotStore

        about = {"job": record.name, "query": record.query}
        return FileSnapshotStore(
            folder / "snapshots", about, disk=Disk(self._check), wall=self.jobs.clock.wall
        )
