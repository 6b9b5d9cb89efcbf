"""Running the statements of a session: one handler per class of plans or commands.

Every process runs queries; the handlers of all other statements are loaded by the first of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from runnel.deadline import RunningStatement, current, time_limit
from runnel.errors import ProgrammingError, internal
from runnel.planner import plans
from runnel.session.session import statement_check
from runnel.statements import queries
from runnel.statements.arguments import (
    Rows,
    argument_types,
    checked,
    checked_rows,
    column_type,
    converted,
)
from runnel.statements.call import OnStart, Outcome, StatementCall

if TYPE_CHECKING:
    from runnel.planner.parse.syntax import Command
    from runnel.session.session import Session
    from runnel.sqltypes import SqlType


class SessionExecutor:
    """Runs the statements of one session: the engine of the cursors of a local connection."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.origin = session.origin
        self.check_open = session.check_open

    @property
    def is_closed(self) -> bool:
        return self.session.is_closed

    def run(
        self, sql: str, args: Sequence[Any], timeout: float | None, on_start: OnStart
    ) -> Outcome:
        """Runs one statement; returns its rows, or the number of rows it wrote.

        `on_start` receives its job.
        """
        session = self.session
        timeout, deadline = (None, None) if timeout is None else _deadline(timeout)
        values = checked(args)
        types = argument_types(values)
        key, snapshot = session.plan_key(sql, types), session.catalog
        plan = session.plans.get(key, snapshot)
        if type(plan) is plans.KeyGetPlan:  # the plan is cached, and the statement never waits
            arguments = converted(values, types, plan.parameters, key.settings.zone)
            return run(session, plan, StatementCall(sql, arguments, deadline, on_start, timeout))
        with RunningStatement(deadline, on_start, session.statements, timeout):
            if plan is None:
                plan = session.new_plan(key, snapshot, statement_check())
            arguments = converted(values, types, plan.parameters, key.settings.zone)
            return run(session, plan, StatementCall(sql, arguments, deadline, on_start, timeout))

    def run_many(
        self,
        sql: str,
        seq_of_args: Iterable[Sequence[Any]],
        timeout: float | None,
        on_start: OnStart,
    ) -> int:
        """Runs one statement for many argument lists; returns the total number of rows written.

        `on_start` receives each job that is started.
        """
        session = self.session
        timeout, deadline = (None, None) if timeout is None else _deadline(timeout)
        rows = checked_rows(seq_of_args)
        if not rows:
            return 0
        types = tuple(
            column_type(values, number) for number, values in enumerate(zip(*rows, strict=True), 1)
        )
        with RunningStatement(deadline, on_start, session.statements, timeout):
            plan = session.prepare(sql, types, statement_check())
            return run_many(
                session, plan, StatementCall(sql, (), deadline, on_start, timeout), types, rows
            )


def _deadline(timeout: float | None) -> tuple[float | None, int | None]:
    """The timeout of a statement in seconds, and its deadline by `monotonic_ns`."""
    seconds = time_limit(timeout)
    return (None, None) if seconds is None else (seconds, monotonic_ns() + round(seconds * 1e9))


def _run_explain(session: Session, plan: plans.ExplainPlan, call: StatementCall) -> Outcome:
    # Loaded on first use: few processes explain anything.
    from runnel.statements.explain import run_explain

    return run_explain(session, plan, call, run)


Handler = Callable[["Session", Any, StatementCall], Outcome]

_HANDLERS: dict[type[plans.Plan | Command], Handler] = {
    plans.QueryPlan: queries.run_query,
    plans.KeyGetPlan: queries.run_key_get,
    plans.ExplainPlan: _run_explain,
}
"""The handler of each class of plans, and of each class of commands; the ones loaded so far."""


def run(session: Session, plan: plans.Plan, call: StatementCall) -> Outcome:
    """Carries out one plan. The handler of a command receives the command."""
    subject = plan.statement if isinstance(plan, plans.CommandPlan) else plan
    handler = _HANDLERS.get(type(subject))
    if handler is None:
        _load_handlers()
        handler = _HANDLERS.get(type(subject))
        if handler is None:
            raise internal(f"no handler for a {type(subject).__name__}")
    return handler(session, subject, call)


def _load_handlers() -> None:
    from runnel.planner.parse import jobs as job_syntax
    from runnel.planner.parse import syntax
    from runnel.planner.parse.backup import BackupTo
    from runnel.statements import data_connections, definitions, show, writes

    jobs, verify = "runnel.statements.jobs.jobs", "runnel.statements.verify.verify"
    _HANDLERS.update(
        {
            plans.WritePlan: writes.run_write,
            plans.KeyPutPlan: writes.run_key_put,
            plans.ClearPlan: writes.run_clear,
            plans.CreateMappingPlan: definitions.create_mapping,
            plans.CreateViewPlan: definitions.create_view,
            syntax.CreateDataConnection: data_connections.create_data_connection,
            syntax.DropDataConnection: data_connections.drop_data_connection,
            syntax.CreateIndex: definitions.create_index,
            syntax.DropIndex: definitions.drop_index,
            syntax.DropMapping: definitions.drop,
            syntax.DropView: definitions.drop,
            plans.ShowPlan: show.run_show,
            syntax.SetOption: show.run_set,
            plans.CreateJobPlan: _lazily(jobs, "create_job"),
            plans.AlterJobPlan: _lazily(jobs, "alter_job"),
            job_syntax.DropJob: _lazily(jobs, "drop_job"),
            job_syntax.CancelJob: _lazily(jobs, "cancel_job"),
            job_syntax.VerifyJob: _lazily(verify, "verify_job"),
            job_syntax.CreateSnapshot: _lazily(jobs, "create_snapshot"),
            job_syntax.DropSnapshot: _lazily(jobs, "drop_snapshot"),
            BackupTo: _lazily("runnel.statements.backup", "back_up"),
        }
    )


def _lazily(module: str, name: str) -> Handler:
    """A handler whose module is loaded on first use: most connections have no named jobs."""

    def handle(session: Session, subject: Any, call: StatementCall) -> Outcome:
        handler: Handler = getattr(import_module(module), name)
        return handler(session, subject, call)

    return handle


def run_many(
    session: Session, plan: plans.Plan, call: StatementCall, types: tuple[SqlType, ...], rows: Rows
) -> int:
    """Carries out one plan for many argument lists, of which `call` has none yet; returns the total
    number of rows written, −1 for a statement without such a number."""
    has_rows = isinstance(plan, plans.CommandPlan) and plan.statement.has_rows
    if has_rows or isinstance(
        plan, plans.QueryPlan | plans.KeyGetPlan | plans.ExplainPlan | plans.ShowPlan
    ):
        raise ProgrammingError(
            "executemany is not for statements that return rows", hint="use execute"
        )
    from runnel.statements.batches import run_batch, templates

    zone = session.settings.time_zone
    if templates(plan):
        assert isinstance(plan, plans.KeyPutPlan | plans.WritePlan)
        context = replace(call, arguments=(None,) * len(types)).evaluation(session, plan)
        return run_batch(session, plan, types, rows, context)
    total = -1
    deadline = current()
    for args in rows:
        deadline.check()
        deadline.check_time()
        count = run(
            session, plan, replace(call, arguments=converted(args, types, plan.parameters, zone))
        )
        assert isinstance(count, int)
        if count >= 0:
            total = max(total, 0) + count
    return total
