"""The current record of a job, and when it is written to the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runnel.errors import Error, OperationalError
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.record.newest_snapshot import NewestSnapshot
from runnel.named_jobs.record.record import JobRecord, RecordedError
from runnel.named_jobs.record.states import ENDED

if TYPE_CHECKING:
    from runnel.named_jobs.home import JobHome
    from runnel.named_jobs.job_locks import JobLocks
    from runnel.runtime.light_job import JobStatus

logger = logging.getLogger("runnel.job")

SAVE_AGAIN = 1_000_000_000
"""Nanoseconds after which a record that could not be written is written again."""


class CurrentRecord:
    """The record of a job as it is now, and its copy on the disk.

    Locks: any thread may read the attributes without a lock, because a record is immutable and
    replaced by one assignment. `change`, `change_or_raise` and `save` are called under the job's
    lock; the other methods acquire it, except `report_snapshot`, which needs none.

    value: the record.
    unsaved: why the record on the disk is not the current one; None: it is.
    is_forgotten: the job was removed, and its record is no longer written.
    """

    def __init__(
        self,
        record: JobRecord,
        locks: JobLocks,
        home: JobHome,
        on_end: Callable[[], object],
    ) -> None:
        """`on_end` is called by the serial executor when the end of the job was written."""
        self.value = record
        self.unsaved: RecordedError | None = None
        self.is_forgotten = False
        self._locks = locks
        self._home = home
        self._on_end = on_end
        self._newest = NewestSnapshot(record.snapshot, home, self.keep)

    @property
    def status(self) -> JobStatus:
        return self.value.status

    @property
    def is_done(self) -> bool:
        """Whether the job has ended, successfully or not."""
        return self.value.status in ENDED

    @property
    def error(self) -> Error | None:
        """The last error, also of a job that was restarted after it."""
        failure = self.value.last_error
        return None if failure is None else failure.error()

    def change(self, **changes: Any) -> None:
        """Changes the record in memory."""
        self.value = replace(self.value, **changes)

    def keep(self, **changes: Any) -> None:
        """Changes the record, and writes it."""
        with self._locks.mutex:
            self.change(**changes)
            self.save()

    def save(self) -> None:
        """Writes the record. If that fails, the job continues, the previous record remains on the
        disk, and the write is repeated every second. The data of a job that has ended is deleted
        only after its end was recorded: until then the next connection would start it."""
        try:
            self._write()
        except OperationalError as error:
            if self.unsaved is None:
                logger.error("%s", error)
            self.unsaved = RecordedError.of(error)
            pool, clock = self._home.jobs.pool, self._home.jobs.clock
            pool.forget((), self._save_due)
            pool.call_at(clock.monotonic() + SAVE_AGAIN, self._save_due)
            return
        if self.is_done:
            self._home.executor.post(self._on_end)

    def change_or_raise(self, **changes: Any) -> None:
        """Changes and writes the record; on an error both copies are unchanged."""
        before = self.value
        self.change(**changes)
        try:
            self._write()
        except Error:
            self.value = before
            raise

    def report_snapshot(self, snapshot_id: int) -> None:
        """A snapshot is durable: its number is soon written to the record on the disk, if there is
        one. The snapshots of another engine have no numbers."""
        if self.value.runtime == TASKLETS and self._home.records.folder is not None:
            self._newest.report(snapshot_id)

    def forget(self) -> None:
        """From now on the record is not written. Waits for a write in progress."""
        with self._locks.changed:
            self.is_forgotten = True

    def close(self) -> None:
        """Tries for the last time to write a record that could not be written."""
        with self._locks.changed:
            self._home.jobs.pool.forget((), self._save_due)
            if self.unsaved is not None:
                with suppress(OperationalError):
                    self._write()

    def _write(self) -> None:
        self.value = self._newest.named_in(self.value)
        if not self.is_forgotten:
            self._home.records.save(self.value)
        self.unsaved = None

    def _save_due(self) -> None:
        self._home.executor.post(self._save_again)

    def _save_again(self) -> None:
        with self._locks.mutex:
            if self.unsaved is not None:
                self.save()
