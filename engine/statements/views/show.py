"""SHOW MATERIALIZED VIEWS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.base.schemas import VIEW_TYPE
from runnel.catalog import Mapping
from runnel.processors.live.views.store import ViewStore
from runnel.processors.live.views.table import MaterializedTable
from runnel.relation.nodes import Field
from runnel.results.rows import Result, Row
from runnel.runtime.light_job import Job, JobStatus
from runnel.sqltypes import BIGINT, DOUBLE, INTERVAL, VARCHAR

if TYPE_CHECKING:
    from runnel.named_jobs.named_job import NamedJob
    from runnel.session.session import Session

INITIALIZING = "INITIALIZING"
"""The status of a view whose first epoch is not complete."""

COLUMNS = (
    *(Field("name", VARCHAR), Field("status", VARCHAR), Field("rows", BIGINT)),
    *(Field("key", VARCHAR), Field("epochs", BIGINT), Field("rows_per_second", DOUBLE)),
    *(Field("snapshot_age", INTERVAL), Field("state_bytes", BIGINT)),
    *(Field("last_error", VARCHAR), Field("query", VARCHAR)),
)


def show_views(session: Session) -> Result:
    """A row for each materialized view, by name."""
    views = [item for item in session.catalog if isinstance(item, Mapping)]
    views = [item for item in views if item.connector == VIEW_TYPE]
    return Result(COLUMNS, [_row(session, item) for item in sorted(views, key=lambda i: i.name)])


def _row(session: Session, view: Mapping) -> Row:
    from runnel.statements.jobs.show import snapshot_of

    table = view.table
    assert isinstance(table, MaterializedTable)
    store = table.store
    job = session.named_jobs.find(view.name)
    key = None
    if store.key is not None:
        key = ", ".join(table.columns[i].name for i in store.key)
    found = None if job is None else job.execution
    execution = found if isinstance(found, Job) else None
    return (
        view.name,
        status_of(job, store),
        store.count if store.is_complete else None,
        key,
        store.epochs,
        None if execution is None else execution.rows_per_second,
        None if job is None else snapshot_of(session, job)[1],
        None if execution is None else sum(v.state_bytes for v in execution.metrics().values()),
        None if job is None else job.last_trouble,
        None if job is None else job.query,
    )


def status_of(job: NamedJob | None, store: ViewStore) -> str:
    """The status of the job of a view; INITIALIZING until its content is complete."""
    if job is None:
        return str(JobStatus.NOT_RUNNING)
    if job.status is JobStatus.RUNNING and not store.is_complete:
        return INITIALIZING
    return str(job.status)
