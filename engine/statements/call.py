"""One run of one statement: its text, its arguments, its time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from runnel.base.schemas import INFORMATION_SCHEMA
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import scalar_of
from runnel.planner.plans import QueryPlan
from runnel.results.rows import Result
from runnel.runtime.light_job import Job, JobOptions

if TYPE_CHECKING:
    from runnel.base.forks import ProcessOrigin
    from runnel.dag import DAG
    from runnel.deadline import Deadline
    from runnel.planner.plans import Plan
    from runnel.session.session import Session
    from runnel.sqltypes import SqlType
    from runnel.statements.arguments import Arguments


Outcome = Result | int
"""Rows, or the number of rows written; −1 for a statement that has no such number."""
OnStart: TypeAlias = "Callable[[Job | Deadline], object]"


class StartedStatement(Protocol):
    """The work that a statement has started: a job, here or on a server."""

    def cancel(self) -> None:
        """Ends it soon, from any thread."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended."""


class Engine(Protocol):
    """The engine that runs a cursor's statements: the database of this process, or a server."""

    @property
    def is_closed(self) -> bool:
        """Whether it is closed."""

    @property
    def origin(self) -> ProcessOrigin:
        """The process that opened it."""

    def check_open(self) -> None:
        """InterfaceError if it is closed."""

    def run(
        self,
        sql: str,
        args: Arguments,
        timeout: float | None,
        on_start: Callable[[StartedStatement], object],
    ) -> Outcome:
        """Runs one statement; returns its rows, or the number of rows it wrote."""

    def run_many(
        self,
        sql: str,
        seq_of_args: Iterable[Arguments],
        timeout: float | None,
        on_start: Callable[[StartedStatement], object],
    ) -> int:
        """Runs one statement for many argument lists; returns the number of rows written."""


class StatementCall(NamedTuple):
    """One run of a statement.

    sql: its text.
    arguments: Python values, already of the types that the plan requires.
    deadline: time of `time.monotonic_ns`; None: no limit.
    on_start: receives each job that is started, and the statement if it waits, so that it can be
        cancelled.
    timeout: the user's time limit in seconds; None: none.
    """

    sql: str
    arguments: tuple[Any, ...]
    deadline: int | None
    on_start: OnStart
    timeout: float | None = None

    def evaluation(self, session: Session, plan: Plan) -> EvaluationContext:
        """The context of expressions; the statement's time is now."""
        arguments = [
            scalar_of(value, item)
            for value, item in zip(self.arguments, plan.parameters, strict=True)
        ]
        now = session.light_jobs.clock.wall()
        return EvaluationContext(arguments, now, session.settings.time_zone)

    def start(
        self,
        session: Session,
        plan: Plan,
        dag: DAG,
        *,
        is_unbounded: bool = False,
        is_measured: bool = False,
        evaluation: EvaluationContext | None = None,
    ) -> Job:
        """Starts the light job of a plan. `evaluation`: the context of expressions; None: the one
        of this run."""
        limit = session.settings.integer("max_processor_accumulated_records")
        timeout = None if self.deadline is None else max(0, self.deadline - monotonic_ns())
        stated = None if self.timeout is None else round(min(self.timeout, 1e9) * 1e9)
        event_time = _event_time_type(plan) if is_unbounded else None
        options = JobOptions(
            timeout=timeout,
            accumulation_limit=limit,
            state_limit=plan.state_limit if isinstance(plan, QueryPlan) else 0,
            stated_timeout=stated,
            is_measured=is_measured,
            event_time=event_time,
            linger=session.linger if is_unbounded else 0,
            is_confined=session.caller.is_confined,
            session_rows=_session_rows(session, plan),
        )
        return session.light_jobs.start(
            dag,
            evaluation=evaluation or self.evaluation(session, plan),
            query=self.sql,
            is_unbounded=is_unbounded,
            options=options,
            on_start=self.on_start,
        )


def _event_time_type(plan: Plan) -> SqlType | None:
    """The type of the first event time of a query over streams; None if it has none."""
    from runnel.relation.streams import event_time_type

    return event_time_type(plan.logical) if isinstance(plan, QueryPlan) else None


def _session_rows(
    session: Session, plan: Plan
) -> Callable[[str], Sequence[tuple[Any, ...]]] | None:
    """The function for `JobContext.session_rows`, if the plan may need it. A job that has it refers
    to the session."""
    for table in getattr(plan, "tables", ()):
        if table.connector == INFORMATION_SCHEMA:
            from runnel.statements.session_tables import session_rows

            return lambda name: session_rows(session, name)
    return None
