"""EXPLAIN: the plan of a statement as text, JSON or DOT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.planner.explain.explain import explain
from runnel.planner.plans import AlterJobPlan, CreateJobPlan, ExplainPlan, QueryPlan, WritePlan
from runnel.relation.nodes import Field
from runnel.results.rows import Result
from runnel.sqltypes import VARCHAR
from runnel.statements.analyze import Run, analyze
from runnel.statements.call import StatementCall
from runnel.statements.queries import parallelism

if TYPE_CHECKING:
    from runnel.session.session import Session


def run_explain(session: Session, plan: ExplainPlan, call: StatementCall, run: Run) -> Result:
    """Shows the plan of a statement, which isn't run; with ANALYZE, what it did when it was.

    `run` carries out the plan of a statement.
    """
    if plan.stage == "analyze":
        return Result(
            (Field("plan", VARCHAR),), [(line,) for line in analyze(session, plan, call, run)]
        )
    inner = plan.plan
    heading: list[str] = []
    if isinstance(inner, CreateJobPlan | AlterJobPlan):
        from runnel.statements.jobs.jobs import explain_job

        inner, heading, is_all = explain_job(session, inner)
        if is_all and plan.format == "text":
            return Result((Field("plan", VARCHAR),), [(line,) for line in heading])
    workers = parallelism(session, inner.tables) if isinstance(inner, (QueryPlan, WritePlan)) else 1
    lines = explain(inner, plan.stage, plan.format, workers)
    if plan.format == "text":
        lines = heading + lines
    return Result((Field("plan", VARCHAR),), [(line,) for line in lines])
