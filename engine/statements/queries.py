"""Plans that give rows: queries as light jobs, key look-ups without one, EXPLAIN."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from runnel.catalog import Table
from runnel.errors import Error, may_succeed_here
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate, evaluate_constant
from runnel.expressions.kernels.values import python_values
from runnel.expressions.nodes import Expression, Literal, Parameter
from runnel.planner.plans import (
    KeyGetPlan,
    Plan,
    QueryPlan,
    WritePlan,
)
from runnel.relation.nodes import Field
from runnel.results.rows import Result, Row, Start, rows_as_batch
from runnel.statements.call import StatementCall

if TYPE_CHECKING:
    from runnel.dag import DAG
    from runnel.runtime.light_job import Job
    from runnel.session.session import Session

logger = logging.getLogger("runnel.job")

_Outcome = TypeVar("_Outcome")

SMALL_ROWS = 200_000
"""Below this many rows in all tables, dividing the work costs more than it gives."""

FREE_PROCESSORS = 8
"""A step is divided into so many processors, if that is asked for, however few rows there are."""
ROWS_PER_PROCESSOR = 1000
"""Beyond these, one more for every so many rows: setting up a processor takes as long as working
through some hundreds."""


def run_query(session: Session, plan: QueryPlan, call: StatementCall) -> Result:
    """Starts a light job and gives its rows as they come. A failure within the first millisecond is
    raised here."""
    if plan.notice:
        logger.warning("%s", plan.notice)
    job = call.start(
        session, plan, plan.dag(parallelism(session, plan.tables)), is_unbounded=plan.is_unbounded
    )
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
    return result


def _other_dag(plan: QueryPlan | WritePlan) -> Callable[[int], DAG] | None:
    """The plan's DAG without fragments, where one that failed may be begun anew: not after a stream
    was read, whose rows don't come again, nor records that can't be read, which were written
    elsewhere already."""
    is_repeatable = not any(
        table.is_unbounded or getattr(table, "divert_to", None) for table in plan.tables
    )
    return plan.own_dag if is_repeatable else None


def _ignore(job: Job) -> None:
    """Needs no word of a job's start."""


def _otherwise(
    session: Session, plan: QueryPlan, call: StatementCall, own_dag: Callable[[int], DAG]
) -> Start:
    """How the query is begun anew without fragments."""

    def start(on_start: Callable[[Job], object]) -> Job:
        def both(job: Any) -> None:
            on_start(job)
            call.on_start(job)

        return replace(call, on_start=both).start(
            session, plan, own_dag(parallelism(session, plan.tables))
        )

    return start


def with_room(
    session: Session, plan: QueryPlan | WritePlan, run: Callable[[DAG], _Outcome]
) -> _Outcome:
    """What `run` makes of the plan's DAG; where a fragment failed as our own operators may not,
    what it makes of the one without fragments. Nothing may be left of the first run then."""
    processors = parallelism(session, plan.tables)
    own_dag = _other_dag(plan)
    try:
        return run(plan.dag(processors))
    except Error as error:
        if own_dag is None or not may_succeed_here(error):
            raise
    return run(own_dag(processors))


def run_key_get(session: Session, plan: KeyGetPlan, call: StatementCall) -> Result:
    """Looks one row up."""
    key = constants(session, plan, plan.key, call)
    row = None if None in key else plan.table.get(key)
    if row is None:
        return Result(plan.fields, [])
    if plan.columns is not None:
        return Result(plan.fields, [tuple([row[i] for i in plan.columns])])
    values = evaluate_over_row(plan.table, row, plan.expressions, call.evaluation(session, plan))
    return Result(plan.fields, [values])


def parallelism(session: Session, tables: tuple[Table, ...]) -> int:
    """Into how many processors each vertex is divided: one for small tables, else one for each
    worker; or as many as the user gave, where the tables have rows for them."""
    given = session.settings.integer("query_parallelism")
    if given:
        return given if given <= FREE_PROCESSORS else _usable(given, tables)
    rows = 0
    for table in tables:
        count = table.row_count()
        if count is None:
            return session.light_jobs.workers
        rows += count
    return 1 if rows < SMALL_ROWS else session.light_jobs.workers


def _usable(given: int, tables: tuple[Table, ...]) -> int:
    """Of so many processors those that the tables have rows for: where rows are exchanged, each has
    a queue to each other."""
    counts = [table.row_count() for table in tables]
    if None in counts:
        return given
    return max(
        FREE_PROCESSORS, min(given, sum(count or 0 for count in counts) // ROWS_PER_PROCESSOR)
    )


def constants(
    session: Session, plan: Plan, expressions: tuple[Expression, ...], call: StatementCall
) -> tuple[Any, ...]:
    """The values of expressions that are free of columns."""
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
    """The values of expressions over all columns of a table, for one row of it."""
    fields = tuple(Field(column.name, column.type) for column in table.columns)
    frame = EvaluationInput(rows_as_batch([row], fields).columns, 1, context)
    arrays = [evaluate(compile_expression(item), frame) for item in expressions]
    return tuple(
        python_values(array, item.type)[0] for array, item in zip(arrays, expressions, strict=True)
    )
