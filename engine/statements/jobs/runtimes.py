"""The choice of the runtime of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.errors import Error, NotSupportedError
from runnel.foreign.fragment import Unrenderable, engine_of
from runnel.foreign.job_runtime import (
    TASKLETS,
    JobRuntime,
    JobRuntimeConnector,
    JobWrite,
    RuntimePlan,
)
from runnel.named_jobs.record.options import AUTO, NamedJobOptions
from runnel.planner.plans import WritePlan

if TYPE_CHECKING:
    from runnel.session.session import Session


@frozen
class Choice:
    """The runtime of a job.

    runtime: the name of the runtime, as SHOW JOBS has it: "tasklets", or the name of another
        engine.
    reason: in words; "" if there was no choice.
    plan: the other engine's plan; None: the job runs as tasklets.
    """

    runtime: str
    reason: str
    plan: RuntimePlan | None = None


def choose_runtime(
    session: Session, options: NamedJobOptions, write: WritePlan, *, may_start: bool
) -> Choice:
    """The runtime of a new job. `may_start`: another engine may be started, to ask it for the size
    of its tables."""
    asked = options.runtime
    if asked == TASKLETS:
        return Choice(TASKLETS, "the option 'runtime' says so")
    runtime = _runtime_of((*write.tables, write.table))
    if asked != AUTO:
        return Choice(asked, "the option 'runtime' says so", foreign_plan(session, write, asked))
    if runtime is None:
        return Choice(TASKLETS, "")
    if options.initial_snapshot is not None:
        return Choice(TASKLETS, "it begins with a snapshot")
    reason = _choice(session, runtime, write, may_start=may_start)
    if isinstance(reason, Choice):
        return reason
    try:
        return Choice(runtime.name, reason, runtime.plan(_job_write(write)))
    except Unrenderable as refused:
        return Choice(TASKLETS, f"{runtime.name} can't run {refused.what} with the same result")
    except Error as refused:
        return Choice(TASKLETS, f"{runtime.name} can't run it: {refused.message}")


def foreign_plan(session: Session, write: WritePlan, name: str) -> RuntimePlan:
    """The plan of a job that is to run on the runtime `name`; NotSupportedError with the first
    construct that it can't run."""
    runtime = _runtime_of((*write.tables, write.table))
    if runtime is None or runtime.name != name:
        connector = session.connectors.get(name)
        runtime = connector.job_runtime if isinstance(connector, JobRuntimeConnector) else None
        if runtime is None or not any(map(runtime.takes, write.tables)):
            raise NotSupportedError(
                f"the job can't run on {name}: none of its tables belongs to it",
                hint="map them with CREATE MAPPING … TYPE Spark, or leave the option 'runtime' out",
            )
    try:
        return runtime.plan(_job_write(write))
    except Unrenderable as refused:
        raise NotSupportedError(
            f"the job can't run on {name}: {refused.what} is not supported there",
            hint=(
                "write the query without it, or let the job run here: "
                "OPTIONS ('runtime' = 'tasklets')"
            ),
            position=refused.position,
        ) from None


def _choice(
    session: Session, runtime: JobRuntime, write: WritePlan, *, may_start: bool
) -> Choice | str:
    """The choice of tasklets; or the reason in words for which `runtime` is chosen."""
    strangers = [table for table in write.tables if not runtime.has(table)]
    if write.is_unbounded:
        if any(table.is_unbounded for table in strangers):
            return Choice(TASKLETS, f"its source is not on {runtime.name}")
        if not runtime.has(write.table):
            return Choice(TASKLETS, f"its sink is not on {runtime.name}")
        return f"its source and its sink are on {runtime.name}"
    if strangers or not write.tables:
        return Choice(TASKLETS, f"not all that it reads is on {runtime.name}")
    least = session.settings.integer("spark_job_rows")
    counts = [table.row_count() for table in write.tables]
    rows = (
        sum(item or 0 for item in counts)
        if None not in counts
        else runtime.rows(write.tables)
        if may_start
        else None
    )
    if rows is None:
        when = "" if may_start else f" before {runtime.name} runs; CREATE JOB asks for it"
        return f"the number of rows that it reads is unknown{when}"
    if rows < least:
        return Choice(TASKLETS, f"it reads about {rows} rows, and spark_job_rows is {least}")
    return f"it reads about {rows} rows, and spark_job_rows is {least}"


def _job_write(write: WritePlan) -> JobWrite:
    return JobWrite(
        relation=write.logical, table=write.table, mode=write.mode, columns=write.columns
    )


def _runtime_of(tables: tuple[Table, ...]) -> JobRuntime | None:
    found = (engine.job_runtime for table in tables if (engine := engine_of(table)) is not None)
    return next((item for item in found if item is not None), None)
