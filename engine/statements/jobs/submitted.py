"""INSERT of Flink over a stream, which starts a named job and returns its id and name; STOP JOB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count
from typing import TYPE_CHECKING

from runnel.deadline import LOOK, current
from runnel.errors import Error, ProgrammingError
from runnel.relation.nodes import Field
from runnel.results.rows import Result
from runnel.sqltypes import BIGINT, VARCHAR
from runnel.statements.jobs.changing_results import job_options
from runnel.statements.jobs.jobs import (
    check_not_of_view,
    check_owned,
    job_of,
    job_record,
    remaining,
)

if TYPE_CHECKING:
    from runnel.named_jobs.named_job import NamedJob
    from runnel.named_jobs.record.record import JobRecord
    from runnel.planner.parse.jobs import StopJob
    from runnel.planner.plans import CreateJobPlan
    from runnel.session.session import Session
    from runnel.statements.call import StatementCall

_SUBMITTED = (Field("job_id", BIGINT), Field("job_name", VARCHAR))


def submit_job(session: Session, plan: CreateJobPlan, call: StatementCall) -> Result:
    """Starts a job, and returns its id and name."""
    return submit_jobs(session, (plan,), call)


def submit_jobs(session: Session, plans: tuple[CreateJobPlan, ...], call: StatementCall) -> Result:
    """Starts a job for each plan, all or none of them, and returns their ids and names. By the
    setting dml_sync it waits for their ends first."""
    records = [_record(session, plan, call) for plan in plans]
    started: list[NamedJob] = []
    try:
        for plan, record in zip(plans, records, strict=True):
            started.append(_started(session, plan, record))
    except Error:
        for job in started:
            job.cancel()
            session.named_jobs.remove(job)
        raise
    if session.settings.get("dml_sync"):
        for job in started:
            _wait(job)
    return Result(_SUBMITTED, [(job.id, job.name) for job in started])


def _record(session: Session, plan: CreateJobPlan, call: StatementCall) -> JobRecord:
    savepoint = str(session.settings.get("savepoint_path"))
    assert plan.position is not None
    interval = str(session.settings.integer("snapshot_interval"))
    options = [("snapshotIntervalMillis", interval, plan.position)]
    if savepoint:
        options.append(("initialSnapshotName", savepoint, plan.position))
    plan = replace(plan, options=tuple(options))
    return job_record(session, plan, call, job_options(plan))


def _started(session: Session, plan: CreateJobPlan, record: JobRecord) -> NamedJob:
    """Starts a job by the first name that is free."""
    jobs = session.named_jobs
    for name in _names(session, plan):
        if jobs.find(name) is None:
            try:
                return jobs.create(replace(record, name=name))
            except ProgrammingError:
                if jobs.find(name) is None:  # else another session has created that job
                    raise
    raise AssertionError("there are names without end")


def _names(session: Session, plan: CreateJobPlan) -> Iterator[str]:
    chosen = str(session.settings.get("pipeline_name"))
    if chosen:
        return chain((chosen,), (f"{chosen}_{number}" for number in count(2)))
    return (f"{plan.name}_{number}" for number in count(1))


def _wait(job: NamedJob) -> None:
    """Waits for the end of a job, and raises its error. The end of the statement does not end the
    job."""
    hint = f"the job continues: STOP JOB {job.id} ends it"
    statement = current()
    statement.announce()
    while not job.wait(LOOK):
        statement.check(hint)
        statement.check_time()
    job.join()


def stop_job(session: Session, statement: StopJob, call: StatementCall) -> Result:
    """Ends a job, which remains in the list of jobs. WITH SAVEPOINT stores its last snapshot, and
    returns the name."""
    named = statement.name
    by_id = session.named_jobs.by_id(int(named.text)) if statement.is_id else None
    if by_id is None:
        job = job_of(session, named.text, named.position)
    else:
        check_owned(session, by_id)
        job = by_id
    check_not_of_view(session, job.name, named.position)
    if not statement.has_savepoint:
        job.cancel(remaining(call))
        return Result((Field("result", VARCHAR),), [("OK",)])
    snapshots = session.named_jobs.snapshots
    names = (f"savepoint_{job.name}_{number}" for number in count(1))
    snapshot = next(name for name in names if snapshots.find(name) is None)
    job.cancel_and_export_snapshot(snapshot, remaining(call))
    return Result((Field("savepoint_path", VARCHAR),), [(snapshot,)])
