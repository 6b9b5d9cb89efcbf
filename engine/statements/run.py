"""Running the statements of a session: one handler per plan class.

Every process runs queries; the handlers of all other plans are loaded by the first of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from runnel.deadline import RunningStatement, current
from runnel.errors import InterfaceError, ProgrammingError, internal
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
    from runnel.session.session import Session
    from runnel.sqltypes import SqlType

_LONGEST_TIMEOUT = 1_000_000_000
"""In seconds (31 years): practically no limit, and within the range of nanoseconds."""


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


def _deadline(timeout: float) -> tuple[float, int]:
    """The timeout of a statement in seconds, and its deadline by `monotonic_ns`."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise InterfaceError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    timeout = min(timeout, _LONGEST_TIMEOUT)
    return timeout, monotonic_ns() + round(timeout * 1e9)


def _run_explain(session: Session, plan: plans.ExplainPlan, call: StatementCall) -> Outcome:
    # Loaded on first use: few processes explain anything.
    from runnel.statements.explain import run_explain

    return run_explain(session, plan, call, run)


_HANDLERS: dict[type[plans.Plan], Callable[[Session, Any, StatementCall], Outcome]] = {
    plans.QueryPlan: queries.run_query,
    plans.KeyGetPlan: queries.run_key_get,
    plans.ExplainPlan: _run_explain,
}
"""Those loaded so far."""


def run(session: Session, plan: plans.Plan, call: StatementCall) -> Outcome:
    """Carries out one plan."""
    handler = _HANDLERS.get(type(plan))
    if handler is None:
        _load_handlers()
        handler = _HANDLERS.get(type(plan))
        if handler is None:
            raise internal(f"no handler for a {type(plan).__name__}")
    return handler(session, plan, call)


def _load_handlers() -> None:
    from runnel.statements import data_connections, definitions, show, writes

    def lazily(name: str) -> Callable[[Session, Any, StatementCall], Outcome]:
        def handle(session: Session, plan: Any, call: StatementCall) -> Outcome:
            # Loaded on first use: most connections have no named jobs.
            if name == "verify_job":
                from runnel.statements.verify.verify import verify_job

                return verify_job(session, plan, call)
            from runnel.statements.jobs import jobs

            outcome: Outcome = getattr(jobs, name)(session, plan, call)
            return outcome

        return handle

    _HANDLERS.update(
        {
            plans.WritePlan: writes.run_write,
            plans.KeyPutPlan: writes.run_key_put,
            plans.ClearPlan: writes.run_clear,
            plans.CreateMappingPlan: definitions.create_mapping,
            plans.CreateDataConnectionPlan: data_connections.create_data_connection,
            plans.CreateViewPlan: definitions.create_view,
            plans.CreateIndexPlan: definitions.create_index,
            plans.DropPlan: definitions.drop,
            plans.ShowPlan: show.run_show,
            plans.SetPlan: show.run_set,
            plans.CreateJobPlan: lazily("create_job"),
            plans.AlterJobPlan: lazily("alter_job"),
            plans.DropJobPlan: lazily("drop_job"),
            plans.VerifyJobPlan: lazily("verify_job"),
            plans.CreateSnapshotPlan: lazily("create_snapshot"),
            plans.DropSnapshotPlan: lazily("drop_snapshot"),
        }
    )


def run_many(
    session: Session, plan: plans.Plan, call: StatementCall, types: tuple[SqlType, ...], rows: Rows
) -> int:
    """Carries out one plan for many argument lists, of which `call` has none yet; gives the number
    of rows written in all, −1 where there is none."""
    if isinstance(
        plan,
        plans.QueryPlan
        | plans.KeyGetPlan
        | plans.ExplainPlan
        | plans.ShowPlan
        | plans.VerifyJobPlan,
    ):
        raise ProgrammingError(
            "executemany is not for statements that give rows", hint="use execute"
        )
    from runnel.statements.batches import run_batch, templates

    zone = session.settings.time_zone
    if templates(plan):
        assert isinstance(plan, plans.KeyPutPlan | plans.WritePlan)
        context = replace(call, arguments=(None,) * len(types)).evaluation(session, plan)
        return run_batch(session, plan, types, rows, context)
    total = -1
    patience = current()
    for args in rows:
        patience.check()
        patience.check_time()
        count = run(
            session, plan, replace(call, arguments=converted(args, types, plan.parameters, zone))
        )
        assert isinstance(count, int)
        if count >= 0:
            total = max(total, 0) + count
    return total
