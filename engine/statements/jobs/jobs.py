"""CREATE, ALTER and DROP JOB, CREATE and DROP SNAPSHOT, and the preparation of a job's
execution."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from typing import TYPE_CHECKING

from runnel.base.schemas import VIEW_TYPE
from runnel.catalog import Mapping
from runnel.dag import DAG
from runnel.errors import (
    Error,
    ErrorCode,
    NotSupportedError,
    OperationalError,
    Position,
    ProgrammingError,
    as_written,
)
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import scalar_of
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.guarantees import guarantees_of, weaker
from runnel.named_jobs.hand_built.dag_record import is_description
from runnel.named_jobs.hand_built.preparation import prepared_dag
from runnel.named_jobs.named_job import NamedJob
from runnel.named_jobs.named_snapshots import NamedSnapshot
from runnel.named_jobs.record.options import AUTO, NamedJobOptions, changed_options
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.record.states import ENDED, SUSPENDED, check_allowed
from runnel.named_jobs.replacement import replace_work
from runnel.named_jobs.run import PreparedJob
from runnel.named_jobs.state_evolution.adapted_store import signatures_in
from runnel.named_jobs.state_evolution.compatibility import (
    VertexOutcome,
    check_outcomes,
    explained,
    keeping,
    state_outcomes,
)
from runnel.planner.parse.jobs import CancelJob, CreateSnapshot, DropJob, DropSnapshot
from runnel.planner.physical.nodes import Physical
from runnel.planner.plans import (
    AlterJobPlan,
    CreateJobPlan,
    WritePlan,
)
from runnel.planner.statement_time import window_zone_notice
from runnel.processor import Guarantee
from runnel.processors.sinks.write import WriteMetaSupplier
from runnel.relation.streams import event_time_type
from runnel.session.job_code.isolated import JobCode
from runnel.session.job_code.sources import read_sources
from runnel.statements.arguments import argument_types, converted
from runnel.statements.call import StatementCall
from runnel.statements.jobs.changing_results import job_options
from runnel.statements.jobs.runtimes import choose_runtime, foreign_plan
from runnel.statements.mapping_steps import resolve_mappings
from runnel.statements.queries import logger, parallelism
from runnel.storage.value_codec import encode, imported

if TYPE_CHECKING:
    from runnel.session.session import Session

NO_COUNT = -1


def planned_job(session: Session, record: JobRecord) -> tuple[WritePlan, EvaluationContext]:
    """The plan of a job's query with the current catalog, for the arguments and the time zone with
    which it was created, and the context of its expressions."""
    _check_query(record)
    functions = JobCode(record.modules).functions() if record.modules else {}
    types = argument_types(record.arguments)
    try:
        plan = session.plan_job(
            record.query,
            types,
            record.zone,
            is_confined=record.is_confined,
            path=tuple(record.path),
            functions=functions,
        )
    except Error as error:
        # Its position is in the job's query, not in the statement that starts the job.
        error.sql = record.query
        raise
    values = converted(record.arguments, types, plan.parameters, record.zone)
    arguments = [
        scalar_of(value, item) for value, item in zip(values, plan.parameters, strict=True)
    ]
    return plan, EvaluationContext(arguments, record.created, record.zone)


def _check_query(record: JobRecord) -> None:
    if record.dag is not None:
        raise NotSupportedError(
            f'job "{record.name}" has no query: it runs a hand-built DAG',
            hint="Python changes it: connection.job(name).update(dag)",
        )


def prepare_job(session: Session, record: JobRecord) -> PreparedJob:
    """A job's query, planned with the current catalog, or its DAG."""
    if record.dag is not None:
        return prepared_dag(
            record,
            importer=JobCode(record.modules).import_name if record.modules else imported,
            resolve=lambda dag: resolve_mappings(session, dag, record.zone, in_job=True),
            linger=session.linger,
            accumulation_limit=_accumulation_limit(session, record),
        )
    plan, evaluation = planned_job(session, record)
    if record.runtime != TASKLETS:
        return _prepare_foreign(session, record, plan, evaluation)
    processors = parallelism(session, plan.tables)
    # State is stored by vertex, so the names may not depend on the number of processors.
    dag = plan.dag(max(2, processors))
    if processors == 1:
        dag = dag.narrowed()
    return PreparedJob(
        dag=dag,
        guarantee=guarantees_of(dag, record.options.guarantee)[0],
        signatures=_signatures(plan),
        evaluation=evaluation,
        is_unbounded=plan.is_unbounded,
        written=frozenset(
            v.name for v in dag.vertices.values() if isinstance(v.supplier, WriteMetaSupplier)
        ),
        event_time=event_time_type(plan.logical) if plan.is_unbounded else None,
        linger=session.linger if plan.is_unbounded else 0,
        accumulation_limit=_accumulation_limit(session, record),
    )


def _accumulation_limit(session: Session, record: JobRecord) -> int:
    limit = record.options.accumulation_limit
    if limit is not None:
        return limit
    return session.settings.integer("max_processor_accumulated_records")


def _prepare_foreign(
    session: Session, record: JobRecord, plan: WritePlan, evaluation: EvaluationContext
) -> PreparedJob:
    try:
        foreign = foreign_plan(session, plan, record.runtime)
    except Error as error:
        error.sql = record.query
        raise
    return PreparedJob(
        dag=DAG(),
        evaluation=evaluation,
        is_unbounded=plan.is_unbounded,
        written=frozenset(),
        event_time=event_time_type(plan.logical) if plan.is_unbounded else None,
        guarantee=weaker(record.options.guarantee, foreign.guarantee).value,
        foreign=foreign,
    )


def _signatures(plan: WritePlan) -> dict[str, str]:
    from runnel.planner.identity.vertices import state_signatures

    assert isinstance(plan.physical, Physical)
    return {
        vertex: meaning.encode() for vertex, meaning in state_signatures(plan.physical, 2).items()
    }


@contextmanager
def blamed(position: Position | None) -> Iterator[None]:
    """Inside it, an error is given the position of the name that caused it."""
    try:
        yield
    except Error as error:
        error.position = error.position or position
        raise


def job_of(session: Session, name: str, position: Position | None) -> NamedJob:
    """The job that a statement names, if its caller may change it or look into it."""
    with blamed(position):
        job = session.named_jobs.get(name)
        check_owned(session, job)
        return job


def check_owned(session: Session, item: NamedJob | NamedSnapshot) -> None:
    """ProgrammingError if the caller may neither change nor read it."""
    if isinstance(item, NamedJob):
        session.caller.require_own(f'job "{item.name}"', is_confined=item.record.is_confined)
    else:
        session.caller.require_own(f'snapshot "{item.name}"', is_confined=item.is_confined)


def check_replaced(session: Session, snapshot: str) -> None:
    """ProgrammingError if the caller may not replace the snapshot of that name."""
    found = session.named_jobs.snapshots.find(snapshot)
    if found is not None:
        check_owned(session, found)


def is_job_of_view(session: Session, name: str) -> bool:
    """Whether the job of that name publishes the rows of a materialized view."""
    found = session.catalog.objects.get(name.lower())
    return isinstance(found, Mapping) and found.connector == VIEW_TYPE


def check_not_of_view(session: Session, name: str, position: Position | None) -> None:
    """ProgrammingError if the job of that name belongs to a materialized view, with which it is
    created and ends."""
    if is_job_of_view(session, name):
        raise ProgrammingError(
            f'job "{name}" belongs to the materialized view of this name',
            hint=f"DROP MATERIALIZED VIEW {as_written(name)} ends it; ALTER MATERIALIZED VIEW "
            "suspends and resumes it",
            position=position,
        )


def create_job(session: Session, plan: CreateJobPlan, call: StatementCall) -> int:
    """Creates a job and starts it; doesn't wait for its end."""
    jobs = session.named_jobs
    options = job_options(plan)
    existing = jobs.find(plan.name)
    if plan.if_not_exists and existing is not None and not existing.is_done:
        return NO_COUNT
    check_not_of_view(session, plan.name, plan.position)
    with blamed(plan.position):
        ended = jobs.check_free(plan.name)
        if ended is not None:
            check_owned(session, ended)
    jobs.create(job_record(session, plan, call, options))
    return NO_COUNT


def job_record(
    session: Session, plan: CreateJobPlan, call: StatementCall, options: NamedJobOptions
) -> JobRecord:
    """The record of a new job; an error if it can't begin with the snapshot that it names."""
    if options.initial_snapshot is not None:
        places = (place for name, _, place in plan.options if name.lower() == "initialsnapshotname")
        with blamed(next(places, None)):
            snapshot = session.named_jobs.snapshots.get(options.initial_snapshot)
            check_owned(session, snapshot)
            _check_is_of_query(snapshot)
    found = window_zone_notice(plan.write.logical, session.settings.time_zone)
    if found:
        logger.warning("%s", found)
    modules = {}
    if options.modules:
        modules = read_sources(options.modules, session.caller.access)
    return JobRecord(
        modules=modules,
        is_confined=session.caller.is_confined,
        runtime=_runtime(session, options, plan.write),
        id=0,
        name=plan.name,
        query=plan.text,
        text=call.sql,
        options=options,
        created=session.light_jobs.clock.wall(),
        zone=session.settings.time_zone,
        arguments=_storable_arguments(call),
        is_unbounded=plan.write.is_unbounded,
        path=session.search_path,
    )


def _check_is_of_query(snapshot: NamedSnapshot) -> None:
    """ProgrammingError if the snapshot has the state of a hand-built DAG."""
    if is_description(snapshot.query):
        raise ProgrammingError(
            f'snapshot "{snapshot.name}" has the state of a DAG, which a query can\'t continue',
            detail=f'job "{snapshot.job}" had the vertices of {snapshot.query}',
            hint="submit the DAG with this option, or leave the option out",
        )


def _runtime(session: Session, options: NamedJobOptions, write: WritePlan) -> str:
    """The name of the runtime of a new job."""
    has_choice = any(table.engine is not None for table in (*write.tables, write.table))
    if options.runtime == TASKLETS or (options.runtime == AUTO and not has_choice):
        return TASKLETS
    if options.initial_snapshot is not None and options.runtime != AUTO:
        raise NotSupportedError(
            f"a job on {options.runtime} can't begin with a snapshot",
            hint="leave one of the two options out",
        )
    return choose_runtime(session, options, write, may_start=True).runtime


def _storable_arguments(call: StatementCall) -> tuple[object, ...]:
    """The arguments; ProgrammingError if one of them can't be stored."""
    for number, value in enumerate(call.arguments, 1):
        try:
            encode(value)
        except TypeError as error:
            raise ProgrammingError(
                f"argument {number} can't be stored with a job", detail=f"it is {error}"
            ) from None
    return call.arguments


def alter_job(session: Session, plan: AlterJobPlan, call: StatementCall) -> int:
    """Suspends, resumes or restarts a job, or changes its options or query; waits until the change
    is complete."""
    job = job_of(session, plan.name, plan.position)
    timeout = remaining(call)
    match plan.action:
        case "suspend":
            job.suspend(timeout)
        case "resume":
            job.resume()
        case "restart":
            job.restart(timeout)
        case "query":
            check_not_of_view(session, job.name, plan.position)
            with job.altered_alone():
                _change_query(job, plan, call, session.search_path)
        case _:
            with job.altered_alone():
                job.change(options=changed_options(job.record.options, plan.options))
                if plan.action == "options and resume":
                    job.resume()
    return NO_COUNT


def _change_query(
    job: NamedJob, plan: AlterJobPlan, call: StatementCall, path: tuple[str, ...]
) -> None:
    """Replaces the query of a job and keeps its state: a running job is suspended, and resumed. If
    that fails, the job continues with its old query."""
    assert plan.write is not None
    _check_own(job)
    options = changed_options(job.record.options, plan.options)
    arguments = _storable_arguments(call)
    check_allowed("suspended" if job.status in ENDED else "resumed", job.name, job.status)
    check_outcomes(job.name, _outcomes(job, plan.write, options), may_drop=True)
    changes = {
        "query": plan.text,
        "text": call.sql,
        "arguments": arguments,
        "options": options,
        "path": path,
    }
    replace_work(job, changes, remaining(call))


def _check_own(job: NamedJob) -> None:
    _check_query(job.record)
    if job.record.runtime != TASKLETS:
        raise NotSupportedError(
            f'job "{job.name}" can\'t get another query: it runs on {job.record.runtime}, '
            "whose checkpoint belongs to this query",
            hint="DROP JOB and create it again, which begins without state",
        )


def drop_job(session: Session, statement: DropJob, call: StatementCall) -> int:
    """Cancels a job if it has not ended, and deletes it with all its data."""
    jobs, name, snapshot = session.named_jobs, statement.name, statement.snapshot
    job = jobs.find(name.text)
    if job is None:
        if statement.if_exists:
            jobs.records.check_readable(name.text)
            return NO_COUNT
        job = job_of(session, name.text, name.position)
    check_owned(session, job)
    check_not_of_view(session, job.name, name.position)
    if snapshot is not None:
        check_replaced(session, snapshot.text)
        job.cancel_and_export_snapshot(snapshot.text, remaining(call))
    elif not job.is_done:
        job.cancel(remaining(call))
    jobs.remove(job)
    return NO_COUNT


def cancel_job(session: Session, statement: CancelJob, call: StatementCall) -> int:
    """Ends a light job of any cursor; waits until the job has ended. Its reader gets the error
    CANCELLED."""
    with blamed(statement.position):
        named = session.named_jobs.by_id(statement.id) if session.has_named_jobs else None
        if named is not None:
            raise ProgrammingError(
                f"job {statement.id} is a named job",
                hint=f'DROP JOB "{named.name}" ends it',
            )
        job = session.light_jobs.get(statement.id)
        if job.kind == "job":
            raise session.light_jobs.unknown(statement.id)
        session.caller.require_own(f"job {job.id}", is_confined=job.options.is_confined)
    job.cancel()
    if not job.wait(remaining(call)):
        raise OperationalError(
            f"job {job.id} has not ended yet",
            code=ErrorCode.TIMEOUT,
            hint="it is cancelled, and ends when a call of its connector returns",
        )
    return NO_COUNT


def create_snapshot(session: Session, statement: CreateSnapshot, call: StatementCall) -> int:
    """Takes a snapshot of a job and stores it under a name."""
    name = statement.name
    job = job_of(session, statement.job.text, statement.job.position)
    check_replaced(session, name.text)
    if not statement.or_replace:
        with blamed(name.position):
            session.named_jobs.snapshots.check_free(name.text)
    job.export_snapshot(name.text, remaining(call))
    return NO_COUNT


def drop_snapshot(session: Session, statement: DropSnapshot, call: StatementCall) -> int:
    """Deletes a named snapshot."""
    name = statement.name
    check_replaced(session, name.text)
    with blamed(name.position):
        session.named_jobs.snapshots.drop(name.text, statement.if_exists)
    return NO_COUNT


def explain_job(
    session: Session, plan: CreateJobPlan | AlterJobPlan
) -> tuple[WritePlan, list[str], bool]:
    """The plan of a job's query, and lines that describe how it would run; for a new query, also
    the outcome of each state. True if the lines are complete, because another engine plans the
    job."""
    assert plan.write is not None
    if isinstance(plan, CreateJobPlan):
        options = job_options(plan)
        choice = choose_runtime(session, options, plan.write, may_start=False)
        if choice.plan is None:
            lines = _explained(plan.name, options, plan.write)
            why = [f"  runtime: {choice.runtime}, as {choice.reason}"] if choice.reason else []
            return (
                plan.write,
                [*lines, *why, *_explained_start(session, options, plan.write), ""],
                False,
            )
        guarantee = weaker(options.guarantee, choice.plan.guarantee)
        lines = [f"Job {plan.name}: {guarantee}, on {choice.runtime}, as {choice.reason}"]
        return (
            plan.write,
            [*lines, *(f"  {note}" for note in choice.plan.notes), f"  SQL: {choice.plan.text}"],
            True,
        )
    with blamed(plan.position):
        job = session.named_jobs.get(plan.name)
    check_not_of_view(session, job.name, plan.position)
    _check_own(job)
    options = changed_options(job.record.options, plan.options)
    lines = _explained(plan.name, options, plan.write)
    shown = explained(_outcomes(job, plan.write, options))
    return plan.write, [*lines, "State", *(shown or ["  there is no snapshot yet"]), ""], False


def _explained_start(session: Session, options: NamedJobOptions, write: WritePlan) -> list[str]:
    """The outcome of each state of the snapshot with which a new job begins, if any."""
    if options.initial_snapshot is None:
        return []
    snapshot = session.named_jobs.snapshots.get(options.initial_snapshot)
    snapshot_id = snapshot.store.completed
    assert snapshot_id is not None
    before = signatures_in(snapshot.store, snapshot_id) or snapshot.signatures
    found = state_outcomes(
        snapshot.store.vertices(snapshot_id),
        before,
        _signatures(write),
        write.dag(2),
        empties=options.empties_state,
    )
    return ["State", *explained(found)]


def _outcomes(job: NamedJob, write: WritePlan, options: NamedJobOptions) -> list[VertexOutcome]:
    """The outcome of each state of the job: of the state in its last snapshot or, if that snapshot
    is of an earlier query, of the state that the job will have when it is suspended."""
    snapshot_id, now = job.store.completed, job.record.signatures
    before = now if snapshot_id is None else signatures_in(job.store, snapshot_id) or now
    if snapshot_id is None or (before != now and job.status is not SUSPENDED):
        return state_outcomes(
            keeping(now), now, _signatures(write), write.dag(2), empties=options.empties_state
        )
    return state_outcomes(
        job.store.vertices(snapshot_id),
        before,
        _signatures(write),
        write.dag(2),
        empties=options.empties_state,
    )


def _explained(name: str, options: NamedJobOptions, write: WritePlan) -> list[str]:
    guarantee, ends = guarantees_of(write.dag(2), options.guarantee)
    every = f"a snapshot every {options.snapshot_interval} ms"
    lines = [
        (
            f"Job {name}: {options.guarantee}, "
            f"{every if options.guarantee is not Guarantee.NONE else 'no snapshots'}"
        )
    ]
    lines += [f"  {item.vertex}: {item.text}" for item in ends]
    if guarantee != str(options.guarantee):
        lines.append(f"  from end to end: {guarantee}")
    return lines


def remaining(call: StatementCall) -> float | None:
    """Seconds that the statement has left."""
    return None if call.deadline is None else max(0.0, (call.deadline - monotonic_ns()) / 1e9)
