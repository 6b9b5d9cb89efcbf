"""The services that a named job needs from its connection: threads, records and snapshots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Protocol

from runnel.named_jobs.foreign_run import ForeignRun
from runnel.named_jobs.named_snapshots import NamedSnapshots
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.record.store import JobRecords
from runnel.named_jobs.run import JobRun, PreparedJob
from runnel.named_jobs.serial_executor import SerialExecutor
from runnel.runtime.light_job import Jobs, JobStatus
from runnel.snapshots.store import SnapshotStore

Prepare = Callable[[JobRecord], PreparedJob]
"""Plans a job's query with the current catalog; raises its errors."""


class StoppedJob(Protocol):
    """A job without a running execution.

    is_exported: whether another job may start from a snapshot of its state.
    is_clean: whether the data that only an execution would need was deleted.
    cleaning: lock that is taken while that data is deleted.
    """

    store: SnapshotStore
    is_exported: bool
    is_clean: bool
    cleaning: Lock

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def record(self) -> JobRecord: ...
    @property
    def status(self) -> JobStatus: ...
    @property
    def is_done(self) -> bool: ...


class JobHome(Protocol):
    """The named jobs of one connection; see `NamedJobs`."""

    jobs: Jobs
    prepare: Prepare
    executor: SerialExecutor
    listening: SerialExecutor
    records: JobRecords
    snapshots: NamedSnapshots
    is_closing: bool
    is_closed: bool

    def check_open(self) -> None: ...
    def clean(self, job: StoppedJob) -> None: ...
    def settle(self, job: StoppedJob) -> None: ...
    def runtime_folder(self, job_id: int) -> Path: ...
    def adapt(
        self,
        record: JobRecord,
        store: SnapshotStore,
        run: JobRun | ForeignRun,
        prepared: PreparedJob,
    ) -> None: ...
