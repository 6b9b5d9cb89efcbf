"""All named jobs of a connection: made, found, ended, and started again when their directory is
opened."""

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
from runnel.deadline import Patience, PatientLock, undisturbed
from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError, suggest
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.errands import Errands
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
from runnel.named_jobs.run import PreparedJob, Run
from runnel.named_jobs.state_evolution.adapted_store import AdaptedSnapshots, meanings_in
from runnel.named_jobs.state_evolution.compatibility import Fate, check_fates, fates, told
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
"""Nanoseconds that the sinks of a job that is dropped or changed have to commit or give up what is
staged."""
LISTENING = 2.0
"""Seconds that listeners have, when the connection is closed, to hear what was told them."""
MOST_ENDED = 1000
"""So many jobs are shown when they have ended; the oldest go."""


class NamedJobs:
    """The named jobs of one connection; `directory` is its directory, or None in memory. Safe for
    threads.

    `prepare` plans a job's query as the catalog is now; it raises what is wrong with it. `check`
    raises where the directory was removed.
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
        self.executor = Errands()
        self.listening = Errands("runnel job listeners")
        self.records = JobRecords(None if directory is None else directory / "jobs", check)
        self.snapshots = NamedSnapshots(
            None if directory is None else directory / "snapshots", jobs.clock, check
        )
        self._check = check
        self.is_closing = False
        self.is_closed = False
        self._lock = PatientLock("the jobs")
        self._jobs: dict[int, NamedJob] = {}
        self._temporary: Path | None = None
        self._origin = here()
        watch(self)

    def leave(self) -> None:
        """In a forked child no job runs: whoever waits for one, or wants to change it, is told that
        the connection is closed."""
        self.is_closing = self.is_closed = True
        self._lock = PatientLock("the jobs")
        for job in self._jobs.values():
            job.leave_parent()

    def open(self) -> None:
        """Takes in what the directory has, and starts the jobs that ran when it was left."""
        for record in self.records.load():
            waits = record.runtime != TASKLETS and record.status in (STARTING, RUNNING, COMPLETING)
            found = replace(record, status=NOT_RUNNING) if waits else record
            self._jobs[record.id] = NamedJob(found, self, self._store(record))
        self._purge()
        for job in self.all():
            if job.record.runtime == TASKLETS:
                job.start_again()
            else:
                # Another engine may take seconds to start, for which nobody who opens a directory
                # need wait.
                self.executor.post(job.start_again)

    def create(self, record: JobRecord) -> NamedJob:
        """Makes and starts a job; a ProgrammingError where one that hasn't ended has its name. The
        one that has goes."""
        self._purge()
        with self._lock:
            existing = self.check_free(record.name)
            begins_with = record.options.initial_snapshot is not None
            record = replace(
                record, id=self._new_id(), is_resumable=begins_with, may_drop_state=begins_with
            )
            store = self._store(record)
            if record.options.initial_snapshot is not None:
                meanings = self.snapshots.load_into(record.options.initial_snapshot, store)
                record = replace(record, meanings=meanings)
            job = NamedJob(record, self, store)
            try:
                self.records.save(job.record)
                job.start()
            except BaseException:
                with suppress(OperationalError):  # the disk's second fault says less than the first
                    self._forget(job)
                raise
            self._jobs[record.id] = job
        if existing is not None:
            # Without the lock: planning what is to be cleaned up may need it on another thread.
            self.remove(existing)
        return job

    def check_free(self, name: str) -> NamedJob | None:
        """ProgrammingError where a job that hasn't ended has the name; the one that has it and has
        ended."""
        existing = self.find(name)
        if existing is not None and not existing.is_done:
            raise ProgrammingError(
                f'job "{existing.name}" exists already',
                detail=f"its status is {existing.status}",
                hint="use IF NOT EXISTS, drop it first, or take another name",
            )
        return existing

    def remove(self, job: NamedJob) -> None:
        """Forgets a job that has ended, and all that is kept for it."""
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
        """The job of that name, the newest if several had it."""
        found = [job for job in self.all() if job.name.lower() == name.lower()]
        # Their order is that of the wall clock, which may have gone back.
        return next((job for job in found if not job.is_done), found[-1] if found else None)

    def get(self, name: str) -> NamedJob:
        """The job of that name; ProgrammingError where there is none, OperationalError where its
        record can't be read."""
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
        """All jobs, those that have ended too, the oldest first."""
        with self._lock:
            return list(self._jobs.values())

    def clean(self, job: StoppedJob) -> None:
        """A job has ended for good: what only an execution of it would have needed goes, once. Not
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
                job.store.close()
                place = self.records.place(job.id)
                if place is not None:
                    shutil.rmtree(place / "snapshots", ignore_errors=True)

    def settle(self, job: StoppedJob) -> None:
        """Commits what the sinks of a job that doesn't run have staged for its last snapshot, and
        removes what else they have."""
        record = job.record
        try:
            if record.runtime != TASKLETS:
                self._settle_foreign(record)
                return
            snapshot_id = job.store.completed
            with undisturbed():  # else a time-out during planning would keep back what is staged
                prepared = self.prepare(record)
            with Patience(monotonic_ns() + SETTLING):
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
                'what job "%s" has staged in its sinks can\'t be committed or removed: %s',
                job.name,
                error,
            )

    def _settle_foreign(self, record: JobRecord) -> None:
        place = self.runtime_folder(record.id)
        if place.exists():
            with undisturbed():
                foreign = self.prepare(record).foreign
            if foreign is not None:
                foreign.settle(str(record.id), place)

    def runtime_folder(self, job_id: int) -> Path:
        """The folder in which another engine keeps how far it is with a job; in memory one that
        goes with the connection."""
        place = self.records.place(job_id)
        if place is not None:
            return place / "runtime"
        with self._lock:
            if self._temporary is None:
                self._temporary = Path(mkdtemp(prefix="runnel-jobs-"))
            return self._temporary / str(job_id)

    def adapt(
        self, record: JobRecord, store: SnapshotStore, run: Run | ForeignRun, prepared: PreparedJob
    ) -> None:
        """Has an execution start with the state of the snapshot as the job's plan has use for it.
        OperationalError where it has none for some of it: its query means something else than when
        the snapshot was taken."""
        snapshot_id = run.restored_from
        if snapshot_id is None or not isinstance(run, Run):
            return
        before = meanings_in(store, snapshot_id) or record.meanings
        empties = record.may_drop_state and record.options.empties_state
        found = fates(
            store.vertices(snapshot_id), before, prepared.meanings, prepared.dag, empties=empties
        )
        dropped = check_fates(record.name, found, may_drop=record.may_drop_state)
        for text, _ in told([item for item in found if item.fate is Fate.EMPTY and item.source]):
            logger.warning('job "%s" leaves out state: %s', record.name, text)
        if dropped:
            names = ", ".join(f'"{name}"' for name in dropped)
            logger.warning(
                'job "%s" leaves out the state of %s, which its query does not have',
                record.name,
                names,
            )
        for text, notes in told([item for item in found if item.fate is Fate.RECOMBINED]):
            logger.warning(
                'job "%s" goes on with state of other windows: %s',
                record.name,
                "; ".join((text, *notes)),
            )
        run.coordinator.read_through(
            AdaptedSnapshots(store, found, (before, prepared.meanings), prepared.dag)
        )

    def close(self) -> None:
        """Has all executions stop with a last snapshot, waits for them, and ends. Closing twice is
        no error."""
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

    def check_open(self) -> None:
        """InterfaceError where the connection is closed."""
        if self.is_closed:
            raise closed_error(self._origin)

    def _purge(self) -> None:
        """Forgets jobs that ended long ago."""
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
        """By time first, so that jobs are in order; the rest by chance, as sinks of several
        directories may be in one place."""
        while True:
            number = ((self.jobs.clock.wall() // 1000) << 20 | randbits(20)) & ((1 << 63) - 1)
            if number and number not in self._jobs:
                return number

    def _store(self, record: JobRecord) -> SnapshotStore:
        place = self.records.place(record.id)
        if place is None:
            return MemorySnapshotStore()
        from runnel.snapshots.disk import Disk
        from runnel.snapshots.file_store import FileSnapshotStore

        about = {"job": record.name, "query": record.query}
        return FileSnapshotStore(place / "snapshots", about, disk=Disk(self._check))
