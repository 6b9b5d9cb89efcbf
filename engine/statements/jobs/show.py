"""The rows of information_schema.jobs, which SHOW JOBS reads; SHOW SNAPSHOTS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from runnel.planner.bind.tables.information_schema import JOBS
from runnel.relation.nodes import Field
from runnel.results.rows import Result, Row
from runnel.sqltypes import BIGINT, TIMESTAMP_TZ, VARCHAR

if TYPE_CHECKING:
    from runnel.named_jobs.foreign_run import ForeignExecution
    from runnel.named_jobs.named_job import NamedJob
    from runnel.named_jobs.record.store import UnreadableRecord
    from runnel.runtime.light_job import Job
    from runnel.session.session import Session
    from runnel.snapshots.manifest import SnapshotManifest


def job_rows(session: Session) -> list[Row]:
    """A row for each named job, ended ones too, and for each light job that runs. Only the owner
    sees the texts of the owner's light jobs: literals in them may be secrets."""
    rows: list[Row] = []
    if session.has_named_jobs:
        rows += [_named_row(session, job) for job in session.named_jobs.all()]
        rows += [_unreadable_row(item) for item in session.named_jobs.records.unreadable]
    rows += [_light_row(session, job) for job in session.light_jobs.running() if job.kind != "job"]
    return rows


def _light_row(session: Session, job: Job) -> Row:
    query = job.query if session.caller.is_owner or job.options.is_confined else None
    return (
        *(job.id, job.name, str(job.status), job.kind, query),
        *(_timestamp(job.started), timedelta(seconds=job.uptime)),
        *(job.rows_in, job.rows_out, job.rows_per_second),
        *_event_time(session, job),
        *(job.late_rows, job.malformed_records),
        *_state(job),
        *_latency(job),
        "tasklets",
        *(None,) * 7,
    )


def _named_row(session: Session, job: NamedJob) -> Row:
    record, execution = job.record, job.execution
    uptime = job.uptime
    running: Row = (None,) * 3 if execution is None else _event_time(session, execution)
    return (
        *(record.id, record.name, str(record.status), job.kind, record.query),
        None if record.started is None else _timestamp(record.started),
        None if uptime is None else timedelta(seconds=uptime),
        *(job.rows_in, job.rows_out),
        None if execution is None else execution.rows_per_second,
        *running,
        job.late_rows,
        None if execution is None else execution.malformed_records,
        *((None,) * 5 if execution is None else (*_state(execution), *_latency(execution))),
        *(record.runtime, record.guarantee or str(record.options.guarantee), record.restarts),
        *snapshot_of(session, job),
        job.last_trouble,
    )


def _unreadable_row(record: UnreadableRecord) -> Row:
    """A job on the disk that can't be run."""
    given = {"id": record.job_id, "name": record.name, "status": "UNREADABLE", "kind": "job"}
    given["last_error"] = (
        f"its record {record.path} can't be read, so it doesn't run: {record.reason}"
    )
    return tuple(given.get(name) for name in JOBS)


def snapshot_of(session: Session, job: NamedJob) -> Row:
    """Number, age, bytes and duration of the last snapshot. A snapshot of an earlier process is
    described by its manifest, a batch of another engine by the job's record."""
    report = job.last_snapshot
    if report is None:
        found: list[SnapshotManifest] = getattr(job.store, "infos", list)()
        wall = session.light_jobs.clock.wall()
        if not found and job.record.last_batch:
            number, committed = job.record.last_batch
            return number, timedelta(microseconds=max(0, wall - committed)), None, None
        if not found:
            return (None,) * 4
        age = timedelta(
            microseconds=max(0, wall - found[-1].created)
        )  # the clock may have gone back
        return found[-1].snapshot_id, age, found[-1].bytes, None
    assert report.size is not None
    passed = session.light_jobs.clock.monotonic() - report.started - report.duration
    return (
        report.snapshot_id,
        timedelta(microseconds=passed / 1000),
        report.size.bytes,
        timedelta(microseconds=report.duration / 1000),
    )


def _timestamp(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1e6, UTC)


def _state(job: Job | ForeignExecution) -> Row:
    """Approximate rows and bytes of the state of its operators, and the bytes that are in files."""
    found = job.metrics().values()
    rows, size = sum(item.state_rows for item in found), sum(item.state_bytes for item in found)
    return rows, size, sum(item.spilled_bytes for item in found)


def _latency(job: Job | ForeignExecution) -> Row:
    return tuple(
        None if item is None else timedelta(microseconds=item / 1000)
        for item in job.latency(0.5, 0.99)
    )


def _event_time(session: Session, job: Job | ForeignExecution) -> Row:
    """A job's watermark as text, its lag from the wall clock, and the input that holds it back."""
    time, held_by = job.watermark()
    kind = job.options.event_time
    if time is None or kind is None:
        return None, None, held_by
    if not kind.is_temporal:
        return str(time), None, held_by
    try:
        shown = str(datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time)).removesuffix(
            "+00:00"
        )
        return shown, timedelta(microseconds=session.light_jobs.clock.wall() - time), held_by
    except OverflowError:
        return str(time), None, held_by


def show_snapshots(session: Session) -> Result:
    """The named snapshots."""
    fields = (
        *(Field("name", VARCHAR), Field("job", VARCHAR), Field("created", TIMESTAMP_TZ)),
        *(Field("rows", BIGINT), Field("bytes", BIGINT), Field("query", VARCHAR)),
    )
    rows: list[Row] = [
        (item.name, item.job, _timestamp(item.created), item.rows, item.bytes, item.query)
        for item in session.named_jobs.snapshots.all()
    ]
    return Result(fields, rows)
