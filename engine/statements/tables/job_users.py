"""The named jobs that use a table or a mapping: it is not dropped or changed under them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from runnel.base.schemas import VIEW_KIND
from runnel.errors import DependencyException, Error
from runnel.named_jobs.record.states import SUSPENDED

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.named_jobs.named_job import NamedJob
    from runnel.named_jobs.record.record import JobRecord
    from runnel.session.session import Session
    from runnel.sqltypes import SqlType


MACROS = ("macro", "table macro")
"""The kinds of definitions that a job may call."""


def suspend_users(session: Session, name: str, kind: str = "object") -> None:
    """Suspends the jobs that use an object of the catalog, as CASCADE says. Not called under the
    lock of the catalog, which a job may need to stop."""
    for job in _users(session, name, kind):
        session.caller.require_own(f'job "{job.name}"', is_confined=job.record.is_confined)
        if job.status is not SUSPENDED:
            job.suspend()


def check_unused(
    session: Session, name: str, kind: str, *, is_dropped: bool, is_replaced: bool = False
) -> None:
    """ProgrammingError if jobs use an object of the catalog. A suspended job only counts if the
    object is dropped.

    kind: the kind of the object in words.
    is_replaced: whether the statement is CREATE OR REPLACE, which has no CASCADE.
    """
    jobs = [job for job in _users(session, name, kind) if is_dropped or job.status is not SUSPENDED]
    if not jobs:
        return
    from runnel.statements.jobs.jobs import is_job_of_view

    names = ", ".join(f'"{job.name}"' for job in jobs[:10]) + (" …" if len(jobs) > 10 else "")
    is_view = is_job_of_view(session, jobs[0].name)
    word = VIEW_KIND if is_view else "job"
    word = word if len(jobs) == 1 else f"{word}s"
    remedy = "add CASCADE, which suspends them; or "
    if kind in MACROS and is_dropped:
        remedy = "change them: ALTER JOB … AS; or "
    elif is_replaced:
        remedy = "" if is_dropped else "suspend them: ALTER JOB … SUSPEND; or "
    raise DependencyException(
        f'{kind} "{name}" is used by the {word} {names}',
        hint=f"{remedy}end them: DROP {'JOB' if not is_view else VIEW_KIND.upper()} {jobs[0].name}",
    )


def _users(session: Session, name: str, kind: str = "object") -> list[NamedJob]:
    if not session.has_named_jobs:
        return []
    return [
        job
        for job in session.named_jobs.all()
        if not job.is_done
        and job.name.lower() != (name.lower() if kind == VIEW_KIND else None)
        and name.lower() in _used(session, job.record, kind)
    ]


def _used(session: Session, record: JobRecord, kind: str) -> set[str]:
    """The names of the catalog's objects that a job reads and writes, or of the macros of a kind
    that it calls, in lower case."""
    from runnel.statements.jobs.jobs import planned_job

    if record.dag is not None:
        return set() if kind in MACROS else _used_by_dag(session, record)
    try:
        plan, _ = planned_job(session, record)
    except Error:
        # A job that cannot be planned now uses what its text names.
        from runnel.planner.parse.tokens import tokenize

        return {token.text.lower() for token in tokenize(record.query)}
    kind = kind if kind in MACROS else "object"
    return {item.name.lower() for item in plan.dependencies if item.kind == kind and item.version}


def _used_by_dag(session: Session, record: JobRecord) -> set[str]:
    from runnel.named_jobs.hand_built.preparation import prepared_dag
    from runnel.processors.library.mappings import MappingStep
    from runnel.session.job_code.isolated import JobCode
    from runnel.statements.mapping_steps import resolve_mappings
    from runnel.storage.value_codec import imported

    names: set[str] = set()

    def resolve(dag: DAG) -> tuple[DAG, SqlType | None]:
        names.update(
            vertex.supplier.mapping_name.lower()
            for vertex in dag.vertices.values()
            if isinstance(vertex.supplier, MappingStep)
        )
        return resolve_mappings(session, dag, record.zone, in_job=True)

    with suppress(Error):
        prepared_dag(
            record,
            importer=JobCode(record.modules).import_name if record.modules else imported,
            resolve=resolve,
            linger=0,
            accumulation_limit=0,
        )
    return names
