"""CREATE, ALTER and DROP MATERIALIZED VIEW: an object of the catalog, and the named job of its name
that publishes its rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runnel.base.schemas import VIEW_KIND, VIEW_TYPE
from runnel.catalog import Mapping
from runnel.connectors.views.connector import KEY, TEXT
from runnel.errors import ErrorCode, Position, ProgrammingError, suggest
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.record.options import changed_options, read_options
from runnel.named_jobs.record.record import JobRecord
from runnel.planner.parse.session.materialized_views import (
    AlterMaterializedView,
    DropMaterializedView,
)
from runnel.planner.parse.syntax import option_values
from runnel.planner.plans import CreateMaterializedViewPlan
from runnel.processors.live.views.table import MaterializedTable
from runnel.statements.call import StatementCall
from runnel.statements.definitions import (
    NO_COUNT,
    check_own,
    how_to_drop,
    is_free,
    kind_of,
)
from runnel.statements.jobs.jobs import blamed, remaining
from runnel.statements.tables.job_users import check_unused, suspend_users

if TYPE_CHECKING:
    from runnel.named_jobs.named_job import NamedJob
    from runnel.planner.parse.syntax import Name
    from runnel.session.session import Session


def create_view(session: Session, plan: CreateMaterializedViewPlan, call: StatementCall) -> int:
    """Creates the view and starts its job; doesn't wait for its first rows."""
    options = read_options(plan.options)
    existing = session.catalog.objects.get(plan.name.lower())
    if plan.or_replace and existing is not None and kind_of(existing) == VIEW_KIND:
        check_unused(session, existing.name, VIEW_KIND, is_dropped=True, is_replaced=True)
        _remove(session, existing.name, call)
    table = plan.write.table
    assert isinstance(table, MaterializedTable)
    mapping = Mapping(
        plan.name,
        VIEW_TYPE,
        table,
        {KEY: json.dumps(plan.key), TEXT: plan.text},
        None,
        is_confined=session.caller.is_confined,
        schema=plan.schema,
    )
    with session.definitions:
        if not is_free(session, plan, VIEW_KIND):
            return NO_COUNT
        with blamed(plan.position):
            session.named_jobs.check_free(plan.name)
        session.change_catalog(put=mapping)
    record = JobRecord(
        is_confined=session.caller.is_confined,
        runtime=TASKLETS,
        id=0,
        name=plan.name,
        query=plan.text,
        text=call.sql,
        options=options,
        created=session.light_jobs.clock.wall(),
        zone=session.settings.time_zone,
        is_unbounded=True,
        path=session.search_path,
    )
    try:
        session.named_jobs.create(record)
    except BaseException:
        with session.definitions:
            session.change_catalog(drop=mapping)
        raise
    session.warn_if_lost(VIEW_KIND, mapping.name)
    return NO_COUNT


def view_of(session: Session, name: Name) -> Mapping:
    """The view of that name, if the caller may change it."""
    found = session.catalog.find(name.text)
    if found is None:
        raise _missing(session, name)
    if not isinstance(found, Mapping) or kind_of(found) != VIEW_KIND:
        raise ProgrammingError(
            f'"{found.name}" is a {kind_of(found)}, not a {VIEW_KIND}',
            hint=how_to_drop(found),
            position=name.position,
        )
    check_own(session, found)
    return found


def _missing(session: Session, name: Name) -> ProgrammingError:
    known = [item.name for item in session.catalog if kind_of(item) == VIEW_KIND]
    return ProgrammingError(
        f'{VIEW_KIND} "{name}" not found',
        code=ErrorCode.OBJECT_NOT_FOUND,
        hint=suggest(name.text, known),
        position=name.position,
    )


def job_of_view(session: Session, name: str, position: Position | None = None) -> NamedJob:
    """The job that publishes the rows of a view."""
    with blamed(position):
        return session.named_jobs.get(name)


def alter_view(session: Session, statement: AlterMaterializedView, call: StatementCall) -> int:
    """Suspends, resumes or restarts the job of a view, or changes its options."""
    view = view_of(session, statement.name)
    job = job_of_view(session, view.name, statement.name.position)
    match statement.action:
        case "suspend":
            job.suspend(remaining(call))
        case "resume":
            job.resume()
        case "restart":
            job.restart(remaining(call))
        case _:
            with job.altered_alone():
                options = option_values(statement.options)
                job.change(options=changed_options(job.record.options, options))
    return NO_COUNT


def drop_view(session: Session, statement: DropMaterializedView, call: StatementCall) -> int:
    """Ends the job of a view, and removes the view with its rows."""
    if session.catalog.find(statement.name.text) is None and statement.if_exists:
        return NO_COUNT
    view = view_of(session, statement.name)
    if statement.is_cascading:
        suspend_users(session, view.name, VIEW_KIND)
    else:
        check_unused(session, view.name, VIEW_KIND, is_dropped=True)
    _remove(session, view.name, call)
    return NO_COUNT


def _remove(session: Session, name: str, call: StatementCall) -> None:
    job = session.named_jobs.find(name)
    if job is not None:
        if not job.is_done:
            job.cancel(remaining(call))
        session.named_jobs.remove(job)
    with session.definitions:
        found = session.catalog.objects.get(name.lower())
        if found is not None and kind_of(found) == VIEW_KIND:
            session.change_catalog(drop=found)
            assert isinstance(found, Mapping) and isinstance(found.table, MaterializedTable)
            found.table.store.drop()
