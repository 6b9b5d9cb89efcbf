"""Reads of own writes: a statement that reads a materialized view waits until the view has
everything that this process wrote to its inputs before the statement began."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from threading import Event
from typing import TYPE_CHECKING

from runnel.deadline import LOOK, current
from runnel.errors import ErrorCode, OperationalError, as_written
from runnel.processors.live.views.changes import ViewChanges, ViewChangesSource
from runnel.processors.live.views.store import ViewStore
from runnel.processors.live.views.table import MaterializedTable
from runnel.processors.sources.scan import ScanMetaSupplier
from runnel.runtime.light_job import Job, JobStatus

if TYPE_CHECKING:
    from runnel.catalog import Table
    from runnel.named_jobs.named_job import NamedJob
    from runnel.runtime.epochs import EpochTicker
    from runnel.session.session import Session

LATEST = "latest"
_RUNS = (JobStatus.STARTING, JobStatus.RUNNING)


def await_views(session: Session, tables: Iterable[Table]) -> None:
    """Waits for the views among the tables, by the setting view_freshness. OperationalError if one
    of them does not run, or if the statement is cancelled or times out meanwhile."""
    is_latest = session.settings.get("view_freshness") == LATEST
    for table in tables:
        if isinstance(table, MaterializedTable | ViewChanges):
            if not is_latest:
                await_writes(session, table.store)
            elif not table.store.is_complete:
                _wait(session, table.store, lambda job: True)


def await_writes(session: Session, store: ViewStore) -> None:
    """Waits until a view has all rows that were written to its inputs before this call: first the
    views that it reads, then the view itself."""
    job = _running(session, store)
    for source in _views_of(job):
        await_writes(session, source)
    ticker = job.execution.epochs
    if ticker is None:  # it reads tables that end
        _wait(session, store, lambda running: True)
        return
    ends = ticker.ends()

    def has_passed(running: Job) -> bool:
        nonlocal job, ends
        epochs = running.execution.epochs
        assert epochs is not None
        if running is not job:  # it was started again: what waits for it is in other sources
            job, ends = running, epochs.ends()
        return store.is_final or epochs.has_passed(ends)

    _wait(session, store, has_passed)


def _wait(session: Session, store: ViewStore, is_fresh: Callable[[Job], bool]) -> None:
    """Waits until the view is complete and `is_fresh`; epochs end at once meanwhile."""
    if store.is_complete and is_fresh(_running(session, store)):
        return
    event, deadline = Event(), current()
    with ExitStack() as stack:
        stack.enter_context(store.listening(event.set))
        stack.enter_context(deadline.on_cancel(event.set))
        ticker: EpochTicker | None = None
        while True:
            job = _running(session, store)
            if job.execution.epochs is not ticker:
                ticker = job.execution.epochs
                if ticker is not None:
                    stack.enter_context(ticker.listening(event.set))
            if store.is_complete and is_fresh(job):
                return
            deadline.check("SET view_freshness = 'latest' reads the view as it is")
            deadline.check_time()
            if ticker is not None:
                ticker.hasten()
            event.wait(deadline.left(LOOK))
            event.clear()


def _running(session: Session, store: ViewStore) -> Job:
    """The execution of the job that publishes a view."""
    while True:
        named = session.named_jobs.find(store.name)
        if named is None or named.status not in _RUNS:
            raise not_running(named, store)
        execution = named.execution
        if isinstance(execution, Job):
            return execution
        deadline = current()
        deadline.check()
        deadline.check_time()
        named.await_status(JobStatus.RUNNING, deadline.left(LOOK))


def not_running(named: NamedJob | None, store: ViewStore) -> OperationalError:
    """The error for a read of a view whose job does not run."""
    status = "without its job" if named is None else str(named.status)
    name = as_written(store.name)
    error = None if named is None else named.error
    remedy = f"{error.hint}; then " if error is not None and error.hint else ""
    hint = f"{remedy}ALTER MATERIALIZED VIEW {name} RESUME"
    if named is None or named.is_done:
        hint = f"create it again: DROP MATERIALIZED VIEW {name}"
    elif named.status is JobStatus.NOT_RUNNING:
        hint = "it will be started again by itself"
    if store.is_complete:
        hint += "; or read its last content: SET view_freshness = 'latest'"
    return OperationalError(
        f'materialized view "{store.name}" is {status}',
        code=ErrorCode.GENERIC,
        detail=None if named is None else named.last_trouble,
        hint=hint,
    )


def _views_of(job: Job) -> list[ViewStore]:
    """The views that the job of a view reads."""
    suppliers = [vertex.supplier for vertex in job.execution.template.order]
    sources = [item.source for item in suppliers if isinstance(item, ScanMetaSupplier)]
    return [item.store for item in sources if isinstance(item, ViewChangesSource)]
