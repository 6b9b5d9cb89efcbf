"""The state of a job that VERIFY JOB compares: the positions of its sources, and its sink at the
same instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from time import monotonic_ns
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.connector import ReadableTable
from runnel.errors import ErrorCode, OperationalError, as_written
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.named_job import NamedJob
from runnel.planner.physical.nodes import Physical
from runnel.planner.plans import WritePlan
from runnel.planner.verify.replay import PositionVertices, position_vertices
from runnel.processor import JobContext
from runnel.processors.sinks.sink_watermarks import watermarks_in
from runnel.processors.sources.scan_state import SavedPartition, decode
from runnel.snapshots.store import ENDED, SnapshotStore
from runnel.statements.call import StatementCall
from runnel.statements.verify.replay import WrittenTable

if TYPE_CHECKING:
    from runnel.session.session import Session

ATTEMPTS = 5
"""Number of attempts to read the sink between two snapshots."""


def _nothing() -> None:
    """Closes nothing."""


@frozen(kw_only=True)
class VerifiedSnapshot:
    """The positions of a job's sources at one instant.

    name: the instant, as in "snapshot 7"; None: the job has ended.
    saved: the partitions of sources by vertex, without vertices that have read all rows.
    counted: the number of rows of each GENERATE_STREAM.
    watermarks: the watermarks of the sink, by number.
    inputs: of a job that another engine runs: the rows that it has read, by the index of the Scan
        in the query.
    only_watermark: the one watermark of such a job.
    close: releases the tables of `inputs`.
    """

    name: str | None = None
    saved: Mapping[str, Mapping[str, SavedPartition]] = field(default_factory=dict)
    counted: tuple[int, ...] = ()
    watermarks: Mapping[int, int] = field(default_factory=dict)
    inputs: Mapping[int, ReadableTable] = field(default_factory=dict)
    only_watermark: int | None = None
    close: Callable[[], object] = _nothing

    def watermark(self, number: int) -> int | None:
        """The watermark with a number; None: none has arrived."""
        return self.watermarks.get(number, self.only_watermark)


def snapshot_of(
    session: Session, job: NamedJob, write: WritePlan, context: JobContext, call: StatementCall
) -> tuple[VerifiedSnapshot, WrittenTable]:
    """The positions of the job's sources, and its sink at the same instant."""
    if job.record.runtime != TASKLETS and not job.is_done:
        return _between_batches(session, job, write, context)
    return _at_snapshot(job, write, context, call)


def _at_snapshot(
    job: NamedJob, write: WritePlan, context: JobContext, call: StatementCall
) -> tuple[VerifiedSnapshot, WrittenTable]:
    with job.store.pin():
        for _ in range(ATTEMPTS):
            number = job.last_point(_left(call))
            if number is None and not job.is_done:
                raise OperationalError(
                    f'job "{job.name}" can\'t be verified: it has no snapshot yet',
                    code=ErrorCode.GENERIC,
                    hint=f"ALTER JOB {as_written(job.name)} RESUME, and VERIFY it when it runs",
                )
            written = WrittenTable(write.table, write.columns, context)
            # A later snapshot may have been committed meanwhile: then the sink has more rows than
            # the sources up to these positions.
            if number is None or job.store.completed == number:
                break
            written.close()
        else:
            raise OperationalError(
                f'the sink of job "{job.name}" can\'t be read between two snapshots',
                code=ErrorCode.GENERIC,
                hint=(
                    f"ALTER JOB {as_written(job.name)} SUSPEND first, or make "
                    "'snapshotIntervalMillis' longer"
                ),
            )
        try:
            assert isinstance(write.physical, Physical)
            return VerifiedSnapshot() if number is None else _read(
                job.store, number, position_vertices(write.physical)
            ), written
        except BaseException:
            written.close()
            raise


def _read(store: SnapshotStore, number: int, vertices: PositionVertices) -> VerifiedSnapshot:
    ended = {
        vertex for batch in store.read(number, ENDED) for vertex in batch.column(0).to_pylist()
    }
    saved: dict[str, dict[str, SavedPartition]] = {}
    for vertex in vertices.scans:
        batches = store.read(number, vertex)
        if vertex not in ended and batches:
            saved[vertex] = {item.partition: item for batch in batches for item in decode(batch)}
    counted = [
        max(n for batch in store.read(number, item) for n in batch.column(0).to_pylist())
        for item in vertices.generators
    ]
    watermarks = watermarks_in(
        batch for item in vertices.sinks for batch in store.read(number, item)
    )
    return VerifiedSnapshot(
        name=f"snapshot {number}", saved=saved, counted=tuple(counted), watermarks=watermarks
    )


def _between_batches(
    session: Session, job: NamedJob, write: WritePlan, context: JobContext
) -> tuple[VerifiedSnapshot, WrittenTable]:
    """The state of a job that another engine runs, after its last batch."""
    plan = session.named_jobs.prepare(job.record).foreign
    assert plan is not None
    with job.between_batches():
        found = plan.read_input(session.named_jobs.runtime_folder(job.id))
        if found is None:
            raise OperationalError(
                f'job "{job.name}" can\'t be verified: it has written no batch yet',
                code=ErrorCode.GENERIC,
                hint="VERIFY it when SHOW JOBS shows a last_snapshot",
            )
        try:
            written = WrittenTable(write.table, write.columns, context)
        except BaseException:
            found.close()
            raise
    state = VerifiedSnapshot(
        name=f"batch {found.batch}",
        inputs=found.inputs,
        only_watermark=found.watermark,
        close=found.close,
    )
    return state, written


def _left(call: StatementCall) -> float | None:
    """Seconds until the deadline of the statement."""
    return None if call.deadline is None else max(0.0, (call.deadline - monotonic_ns()) / 1e9)
