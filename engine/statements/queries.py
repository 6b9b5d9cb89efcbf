"""Plans that return rows: queries as light jobs, key look-ups without a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from runnel.catalog import Table
from runnel.errors import Error, may_succeed_here
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate, evaluate_constant
from runnel.expressions.kernels.python_values import Interval, fetched_row
from runnel.expressions.kernels.values import python_values
from runnel.expressions.nodes import Expression, Literal, Parameter
from runnel.planner.plans import (
    KeyGetPlan,
    Plan,
    QueryPlan,
    StoredScan,
    WritePlan,
)
from runnel.relation.nodes import Field
from runnel.results.rows import Result, Row, Start, rows_as_batch
from runnel.runtime.template import Template
from runnel.sqltypes import INTERVAL_MONTH
from runnel.statements.call import Outcome, StatementCall

if TYPE_CHECKING:
    from runnel.dag import DAG, Vertex
    from runnel.runtime.light_job import Job
    from runnel.session.session import Session

logger = logging.getLogger("runnel.job")

_Outcome = TypeVar("_Outcome")

SMALL_ROWS = 200_000
"""Number of rows in all tables below which dividing the work costs more time than it saves."""

FEW_ROWS = 4096
"""Largest table over which a chain of operators runs without a job: one batch, for which each
operator takes less than a millisecond."""
FREE_PROCESSORS = 8
"""Up to this number of processors, query_parallelism applies however few rows there are."""
ROWS_PER_PROCESSOR = 1000
"""Number of rows per processor beyond FREE_PROCESSORS: starting a processor takes as long as
processing some hundreds of rows."""


def stored_rows(session: Session, plan: QueryPlan, stored: StoredScan) -> Result | None:
    """The rows of a table in memory, as they are now, without a job; None if they are read by a job
    after all."""
    batches = stored.source.stored()
    if batches is None:
        return None
    if stored.columns is not None:
        columns = list(stored.columns)
        batches = (batch.select(columns) for batch in batches)
    result = Result.of_stored(plan.fields, batches)
    result.zone = session.settings.time_zone
    return result


def run_query(session: Session, plan: QueryPlan, call: StatementCall) -> Result:
    """Starts a light job and returns its rows as they arrive. A failure within the first two
    milliseconds is raised here. Rows that are stored as they are returned need no job."""
    if plan.notice:
        logger.warning("%s", plan.notice)
    if plan.stored is not None and call.deadline is None:
        found = stored_rows(session, plan, plan.stored)
        if found is not None:
            return found
    processors = parallelism(session, plan.tables)
    dag = plan.dag(processors)
    if plan.is_direct and processors == 1 and call.deadline is None:
        chain, rows = Template.of(dag).chain, plan.tables[0].row_count()
        if chain is not None and rows is not None and rows <= FEW_ROWS:
            return _direct_rows(session, plan, call, chain)
    job = call.start(session, plan, dag, is_unbounded=plan.is_unbounded)
    own_dag = _other_dag(plan)
    otherwise = None if own_dag is None else _otherwise(session, plan, call, own_dag)
    if not plan.is_unbounded:
        try:
            job.run_here()
        except Error as error:
            if otherwise is None or not may_succeed_here(error):
                raise
            job, otherwise = otherwise(_ignore), None
    result = Result.of_job(plan.fields, job, is_unbounded=plan.is_unbounded, can_end=plan.can_end)
    result.otherwise = otherwise
    result.zone = session.settings.time_zone
    return result


def _direct_rows(
    session: Session, plan: QueryPlan, call: StatementCall, chain: Sequence[Vertex]
) -> Result:
    """The rows of a chain of operators over few rows in memory, without a job."""
    # Loaded on first use, since `SELECT 1` needs no scan.
    from runnel.runtime.direct import run_directly

    limit = session.settings.integer("max_processor_accumulated_records")
    evaluation = call.evaluation(session, plan)
    rows = run_directly(chain, session.light_jobs, evaluation, limit)
    result = Result(plan.fields, [])
    result.add_received(*rows)
    result.total = sum([batch.num_rows for batch in rows])
    result.zone = session.settings.time_zone
    return result


def _other_dag(plan: QueryPlan | WritePlan) -> Callable[[int], DAG] | None:
    """The plan's DAG without fragments, if the query may be run again with it: not if it reads a
    stream, whose rows can't be read again, nor if it writes malformed records elsewhere."""
    own_dag = plan.own_dag
    if own_dag is not None:
        for table in plan.tables:
            if table.is_unbounded or getattr(table, "malformed_target", None):
                return None
    return own_dag


def _ignore(job: Job) -> None:
    """Ignores the start of a job."""


def _otherwise(
    session: Session, plan: QueryPlan, call: StatementCall, own_dag: Callable[[int], DAG]
) -> Start:
    """The function that starts the query again without fragments."""

    def start(on_start: Callable[[Job], object]) -> Job:
        def both(job: Any) -> None:
            on_start(job)
            call.on_start(job)

        return call._replace(on_start=both).start(
            session, plan, own_dag(parallelism(session, plan.tables))
        )

    return start


def with_room(
    session: Session, plan: QueryPlan | WritePlan, run: Callable[[DAG], _Outcome]
) -> _Outcome:
    """The result of `run` with the plan's DAG. If a fragment fails and Runnel's own operators may
    succeed, the result with the DAG without fragments; the first run must leave nothing."""
    processors = parallelism(session, plan.tables)
    own_dag = _other_dag(plan)
    try:
        return run(plan.dag(processors))
    except Error as error:
        if own_dag is None or not may_succeed_here(error):
            raise
    return run(own_dag(processors))


def run_key_get(session: Session, plan: KeyGetPlan, call: StatementCall) -> Result:
    """Looks up one row."""
    key = constants(session, plan, plan.key, call)
    row = None if None in key else plan.table.get(key)
    if row is None:
        return Result(plan.fields, [])
    if plan.columns is not None:
        values = tuple(map(row.__getitem__, plan.columns))
    else:
        values = evaluate_over_row(
            plan.table, row, plan.expressions, call.evaluation(session, plan)
        )
    if plan.may_convert:
        values = fetched_row(
            values, (item.type for item in plan.fields), session.settings.time_zone
        )
    return Result(plan.fields, [values])


def literals(outcome: Outcome) -> list[Literal]:
    """The rows of a query with one column, as literals."""
    assert isinstance(outcome, Result)
    kind = outcome.fields[0].type
    is_months = kind == INTERVAL_MONTH
    return [
        Literal(
            value=value.months if isinstance(value, Interval) and is_months else value, type=kind
        )
        for (value,) in outcome.rest()
    ]


def parallelism(session: Session, tables: tuple[Table, ...]) -> int:
    """Number of processors of each vertex: 1 for small tables, else the number of workers; or
    query_parallelism, if the tables have enough rows."""
    requested = session.settings.integer("query_parallelism")
    if requested:
        return requested if requested <= FREE_PROCESSORS else _usable(requested, tables)
    rows = 0
    for table in tables:
        count = table.row_count()
        if count is None:
            return session.light_jobs.workers
        rows += count
    return 1 if rows < SMALL_ROWS else session.light_jobs.workers


def _usable(requested: int, tables: tuple[Table, ...]) -> int:
    """The requested number of processors, reduced if the tables have few rows: when rows are
    exchanged, there is a queue between each pair of processors."""
    counts = [table.row_count() for table in tables]
    if None in counts:
        return requested
    return max(
        FREE_PROCESSORS, min(requested, sum(count or 0 for count in counts) // ROWS_PER_PROCESSOR)
    )


def constants(
    session: Session, plan: Plan, expressions: tuple[Expression, ...], call: StatementCall
) -> tuple[Any, ...]:
    """The values of expressions without columns."""
    values = []
    context = None
    for expression in expressions:
        if type(expression) is Parameter:
            values.append(call.arguments[expression.index])
        elif type(expression) is Literal:
            values.append(expression.value)
        else:
            context = context or call.evaluation(session, plan)
            values.append(evaluate_constant(expression, context))
    return tuple(values)


def evaluate_over_row(
    table: Table, row: Row, expressions: tuple[Expression, ...], context: EvaluationContext
) -> Row:
    """The values of expressions over all columns of a table, for one row."""
    fields = tuple(Field(column.name, column.type) for column in table.columns)
    frame = EvaluationInput(rows_as_batch([row], fields).columns, 1, context)
    arrays = [evaluate(compile_expression(item), frame) for item in expressions]
    return tuple(
        python_values(array, item.type)[0] for array, item in zip(arrays, expressions, strict=True)
    )
