"""The snapshots of one named job: its store, the reports of the newest ones, and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.foreign_run import no_snapshots
from runnel.named_jobs.record.current import CurrentRecord
from runnel.processor import Guarantee

if TYPE_CHECKING:
    from runnel.named_jobs.foreign_run import ForeignRun
    from runnel.named_jobs.home import JobHome
    from runnel.named_jobs.run import JobRun
    from runnel.runtime.snapshots import SnapshotReport
    from runnel.snapshots.store import SnapshotStore


class JobSnapshots:
    """The state of a job in its store.

    Locks: none, and no method needs the job's lock. The thread that completes a snapshot calls
    `report`; any thread may read the attributes. `export` may wait for a snapshot, and is called
    without the job's lock, which the barriers of that snapshot may need.

    store: store of the snapshots.
    last_snapshot: the report of the last durable snapshot.
    last_report: the report of the last snapshot, also if it failed.
    """

    def __init__(self, record: CurrentRecord, store: SnapshotStore, home: JobHome) -> None:
        self.store = store
        self.last_snapshot: SnapshotReport | None = None
        self.last_report: SnapshotReport | None = None
        self._record = record
        self._home = home

    @property
    def are_taken(self) -> bool:
        """Whether the job takes snapshots while it runs."""
        return self._record.value.options.guarantee is not Guarantee.NONE

    @property
    def last_number(self) -> int | None:
        """The number of the snapshot from which the job would start."""
        has_snapshot = self.are_taken or self._record.value.is_resumable
        return self.store.completed if has_snapshot else None

    def report(self, report: SnapshotReport) -> None:
        """A snapshot is durable, or was discarded."""
        self.last_report = report
        if report.is_safe:
            self.last_snapshot = report
            self._record.report_snapshot(report.snapshot_id)

    def check_supported(self) -> None:
        """NotSupportedError if another engine runs the job, whose state is not in the store."""
        record = self._record.value
        if record.runtime != TASKLETS:
            raise no_snapshots(record.name, record.runtime)

    def export(self, name: str, run: JobRun | ForeignRun | None, timeout: float | None) -> None:
        """Stores a snapshot under a name: a new one of the execution `run`, or else the last
        one."""
        exports = self._home.snapshots
        if run is None:
            exports.export(name, self._record.value, self.store, self.last_number)
            return
        with self.store.pin():
            exports.export(name, self._record.value, self.store, run.take_snapshot(timeout))
