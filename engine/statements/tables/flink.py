"""Flink's CREATE TABLE … WITH (…) AS, and its statement sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Mapping, next_version
from runnel.errors import Error
from runnel.planner.plans import FilledMappingPlan, Plan, StatementSetPlan
from runnel.session.session import statement_check
from runnel.statements.call import Outcome, StatementCall
from runnel.statements.definitions import NO_COUNT, create_mapping

if TYPE_CHECKING:
    from runnel.session.session import Session

Run = Callable[["Session", Plan, StatementCall], Outcome]


def create_filled(
    session: Session, plan: FilledMappingPlan, call: StatementCall, run: Run
) -> Outcome:
    """Creates a mapping, and writes the rows of a query to it; returns their number. After an error
    the catalog is as before."""
    name = plan.mapping.name.lower()
    replaced = session.catalog.objects.get(name)
    create_mapping(session, plan.mapping, call)
    created = session.catalog.objects.get(name)
    if created is replaced:  # IF NOT EXISTS
        return NO_COUNT
    try:
        insert = session.prepare(plan.insert, plan.parameters, statement_check())
        return run(session, insert, call)
    except BaseException as error:
        with session.definitions:
            if session.catalog.objects.get(name) is created:
                _undo(session, created, replaced)
        if isinstance(error, Error):
            error.position = None  # it is one in the text of the INSERT
        raise


def _undo(session: Session, created: object, replaced: object) -> None:
    """Restores the mapping that was replaced, or removes the one that was created."""
    if isinstance(replaced, Mapping):
        session.change_catalog(put=replace(replaced, version=next_version()))
    elif isinstance(created, Mapping):
        session.change_catalog(drop=created)


def run_statement_set(
    session: Session, plan: StatementSetPlan, call: StatementCall, run: Run
) -> Outcome:
    """Runs the INSERTs one after another, and then starts the jobs of INSERTs over streams; returns
    the jobs, or the total number of rows. After an error the later ones do not run, and what the
    earlier ones have written remains."""
    total = 0
    for write in plan.writes:
        count = run(session, write, call)
        assert isinstance(count, int)
        total += max(count, 0)
    if plan.jobs:
        # Loaded on first use: most connections have no named jobs.
        from runnel.statements.jobs.submitted import submit_jobs

        return submit_jobs(session, plan.jobs, call)
    return total
