"""The newest durable snapshot of a job, and when its number is written to the job's record.

The jobs of a connection share one thread that writes records, and each write is synced to the disk.
With a write per snapshot, many jobs with short snapshot intervals would wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runnel.named_jobs.home import JobHome
    from runnel.named_jobs.record.record import JobRecord

SAVES_APART = 1_000_000_000
"""Minimum time in nanoseconds between two writes of the record that only store the number of a
later snapshot."""


class NewestSnapshot:
    """The number of a job's newest durable snapshot. `save` writes the record. It is called by the
    serial executor: at once for the first snapshot, and then at most once per interval."""

    __slots__ = ("_home", "_is_pending", "_named", "_newest", "_next_save", "_save")

    def __init__(self, snapshot_id: int | None, home: JobHome, save: Callable[[], None]) -> None:
        self._newest = snapshot_id
        self._named = snapshot_id
        self._home = home
        self._save = save
        self._is_pending = False
        self._next_save = 0

    def report(self, snapshot_id: int) -> None:
        """A snapshot is durable. Called on any thread, without the job's lock."""
        self._newest = snapshot_id
        if self._is_pending:
            return
        self._is_pending = True
        if self._home.jobs.clock.monotonic() >= self._next_save:
            self._due()
        else:
            self._home.jobs.pool.call_at(self._next_save, self._due)

    def named_in(self, record: JobRecord) -> JobRecord:
        """The record with the number of the snapshot; called right before the record is written."""
        self._named = self._newest
        return replace(record, snapshot=self._named)

    def _due(self) -> None:
        self._home.executor.post(self._run)

    def _run(self) -> None:
        self._next_save = self._home.jobs.clock.monotonic() + SAVES_APART
        self._is_pending = (
            False  # before `save` reads the number: a later snapshot is saved by a later call
        )
        if self._named != self._newest:
            self._save()
