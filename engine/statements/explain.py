"""EXPLAIN: the plan of a statement as text, JSON or DOT; with ANALYZE, its run."""

from __future__ import annotations

import json
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from runnel.errors import NotSupportedError
from runnel.planner.explain.explain import explain
from runnel.planner.plans import (
    AlterJobPlan,
    CreateJobPlan,
    CreateMaterializedViewPlan,
    ExplainPlan,
    KeyGetPlan,
    Plan,
    QueryPlan,
    StatementSetPlan,
    WritePlan,
)
from runnel.relation.nodes import Field
from runnel.results.rows import Result
from runnel.runtime.light_job import Job
from runnel.runtime.metrics import VertexMetrics
from runnel.sqltypes import VARCHAR
from runnel.statements.call import StatementCall
from runnel.statements.queries import parallelism, with_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from runnel.dag import DAG
    from runnel.session.session import Session
    from runnel.statements.call import Outcome


Run: TypeAlias = "Callable[[Session, Plan, StatementCall], Outcome]"
"""Carries out a plan."""

_HEADINGS = ("vertex", "processors", "rows in", "rows out", "batches out", "bytes out", "time")


def run_explain(session: Session, plan: ExplainPlan, call: StatementCall, run: Run) -> Result:
    """Shows the plan of a statement, which isn't run; with ANALYZE, what it did when it was.

    `run` carries out the plan of a statement.
    """
    if plan.stage == "analyze":
        return Result(
            (Field("plan", VARCHAR),), [(line,) for line in analyze(session, plan, call, run)]
        )
    inner = plan.plan
    if isinstance(inner, StatementSetPlan):
        return Result((Field("plan", VARCHAR),), [(line,) for line in _of_set(session, plan)])
    return Result((Field("plan", VARCHAR),), [(line,) for line in _lines(session, plan, inner)])


def _of_set(session: Session, plan: ExplainPlan) -> list[str]:
    """The plans of the INSERTs of a statement set, each below the name of its table."""
    assert isinstance(plan.plan, StatementSetPlan)
    lines: list[str] = []
    items: list[tuple[WritePlan, Plan]] = [(item, item) for item in plan.plan.writes]
    items += [(item.write, item) for item in plan.plan.jobs]
    for write, inner in items:
        lines += [f"INSERT INTO {write.table.name}", "", *_lines(session, plan, inner), ""]
    return lines[:-1]


def _lines(session: Session, plan: ExplainPlan, inner: Plan) -> list[str]:
    heading: list[str] = []
    if isinstance(inner, CreateMaterializedViewPlan):
        inner = inner.write
    if isinstance(inner, CreateJobPlan | AlterJobPlan):
        from runnel.statements.jobs.jobs import explain_job

        inner, heading, is_all = explain_job(session, inner)
        if is_all and plan.format == "text":
            return heading
    workers = parallelism(session, inner.tables) if isinstance(inner, (QueryPlan, WritePlan)) else 1
    lines = explain(inner, plan.stage, plan.format, workers)
    return heading + lines if plan.format == "text" else lines


def analyze(session: Session, plan: ExplainPlan, call: StatementCall, run: Run) -> list[str]:
    """Runs the statement, discards its rows, and describes the run in lines of text or JSON. The
    rows of a statement that writes are written."""
    inner = plan.plan
    if plan.format == "dot":
        raise NotSupportedError("EXPLAIN ANALYZE has no format DOT", hint="use TEXT or JSON")
    if isinstance(inner, QueryPlan) and inner.is_unbounded and not inner.can_end:
        raise NotSupportedError("EXPLAIN ANALYZE needs a query that ends", hint="add a LIMIT")
    started = monotonic_ns()
    if isinstance(inner, WritePlan) or (isinstance(inner, QueryPlan) and inner.stored is None):
        rows, vertices = _run(session, inner, call)
    else:
        rows, vertices = _without_job(session, inner, call, run), []
    elapsed = monotonic_ns() - started
    verb = "" if isinstance(inner, QueryPlan | KeyGetPlan) else " written"
    total = f"{rows:,} row{'' if rows == 1 else 's'}{verb} in {_time(elapsed)}"
    if plan.format == "json":
        return _json(rows, elapsed, vertices)
    if not vertices:
        return [f"{total}, without a job"]
    return [*_table(vertices), total]


def _run(
    session: Session, plan: QueryPlan | WritePlan, call: StatementCall
) -> tuple[int, list[VertexMetrics]]:
    def run(dag: DAG) -> tuple[int, list[VertexMetrics]]:
        is_unbounded = isinstance(plan, QueryPlan) and plan.is_unbounded
        job = call.start(session, plan, dag, is_unbounded=is_unbounded, is_measured=True)
        return _drained(job, counted=isinstance(plan, WritePlan))

    if isinstance(plan, QueryPlan):
        return with_room(session, plan, run)
    with plan.table.exclusive():
        return with_room(session, plan, run)


def _drained(job: Job, *, counted: bool) -> tuple[int, list[VertexMetrics]]:
    """Number of rows that a job returns, or that it reports as written; metrics of its vertices."""
    rows = 0
    try:
        while (batch := job.results.next_batch()) is not None:
            rows += sum(batch.column(0).to_pylist()) if counted else batch.num_rows
    finally:
        if not job.is_done:
            job.cancel()
            job.wait()
    return rows, list(job.metrics().values())


def _without_job(session: Session, plan: Plan, call: StatementCall, run: Run) -> int:
    outcome = run(session, plan, call)
    if isinstance(outcome, Result):
        return sum(batch.num_rows for batch in outcome.batches())
    return outcome


def _table(vertices: list[VertexMetrics]) -> list[str]:
    """Names to the left, numbers to the right."""
    lines = [_HEADINGS, *map(_cells, vertices)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADINGS))]
    aligned = [
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
            ]
        )
        for line in lines
    ]
    return [aligned[0], "-" * len(aligned[0]), *aligned[1:]]


def _cells(vertex: VertexMetrics) -> tuple[str, ...]:
    return (
        vertex.vertex,
        str(len(vertex.processors)),
        f"{vertex.rows_in:,}" if vertex.queue_capacity else "",
        f"{vertex.rows_out:,}",
        f"{vertex.batches_out:,}",
        _bytes(vertex.bytes_out),
        _time(vertex.busy),
    )


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    size, units = count / 1024, ["GiB", "MiB", "KiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    return f"{size:.1f} {units[-1]}"


def _time(nanoseconds: int) -> str:
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1e3:.0f} µs"
    if nanoseconds < 10_000_000_000:
        return f"{nanoseconds / 1e6:.1f} ms"
    return f"{nanoseconds / 1e9:.1f} s"


def _json(rows: int, elapsed: int, vertices: list[VertexMetrics]) -> list[str]:
    value: dict[str, Any] = {
        "rows": rows,
        "nanoseconds": elapsed,
        "vertices": [
            {
                "vertex": item.vertex,
                "processors": len(item.processors),
                "rows_in": item.rows_in,
                "rows_out": item.rows_out,
                "batches_in": item.batches_in,
                "batches_out": item.batches_out,
                "bytes_out": item.bytes_out,
                "nanoseconds": item.busy,
            }
            for item in vertices
        ],
    }
    return json.dumps(value, indent=2, ensure_ascii=False).split("\n")
