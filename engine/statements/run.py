"""Running the statements of a session: one handler per class of plans or commands.

Every process runs queries; the handlers of all other statements are loaded by the first of these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from runnel.base.schemas import VIEW_TYPE
from runnel.deadline import RunningStatement, current, time_limit
from runnel.errors import ProgrammingError, internal
from runnel.planner import plans
from runnel.session.session import statement_check
from runnel.statements import queries
from runnel.statements.arguments import (
    Arguments,
    Rows,
    argument_types,
    checked,
    checked_rows,
    column_type,
    converted,
)
from runnel.statements.call import OnStart, Outcome, StatementCall

if TYPE_CHECKING:
    from runnel.catalog import Table
    from runnel.planner.parse.session.prepared import Execute
    from runnel.planner.parse.settings import SetVariable
    from runnel.planner.parse.syntax import Command
    from runnel.session.session import Session, TransactionSession
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

    def run(self, sql: str, args: Arguments, timeout: float | None, on_start: OnStart) -> Outcome:
        """Runs one statement; returns its rows, or the number of rows it wrote.

        `on_start` receives its job.
        """
        session = self.session
        if session.transaction is not None:
            return _run_inside(session.transaction, sql, args, timeout, on_start)
        timeout, deadline = (None, None) if timeout is None else _deadline(timeout)
        if type(args) is tuple:
            values, types = args, argument_types(args)
        else:
            values, types = _other_arguments(sql, args)
        key, snapshot = session.plan_key(sql, types), session.catalog
        plan = session.plans.get(key, snapshot)
        if type(plan) is plans.KeyGetPlan and plan.table.connector != VIEW_TYPE:
            # The plan is cached, and the statement never waits.
            arguments = converted(values, types, plan.parameters, key.settings.zone)
            call = StatementCall(sql, arguments, deadline, on_start, timeout)
            return queries.run_key_get(session, plan, call)
        if (
            type(plan) is plans.QueryPlan
            and plan.stored is not None
            and deadline is None
            and not _reads_views(plan)
        ):
            converted(values, types, plan.parameters, key.settings.zone)
            found = queries.stored_rows(session, plan, plan.stored)
            if found is not None:
                return found
        with RunningStatement(deadline, on_start, session.statements, timeout):
            if plan is None:
                _check_order(sql, types)
                plan = session.new_plan(key, snapshot, statement_check(), values)
            arguments = converted(values, types, plan.parameters, key.settings.zone)
            return run(session, plan, StatementCall(sql, arguments, deadline, on_start, timeout))

    def prepare(self, sql: str, args: Arguments) -> None:
        """Plans one statement without running it; raises as `run` does."""
        session = self.session
        if session.transaction is not None:
            session.transaction.enter()
            session = session.transaction
        types = argument_types(args) if type(args) is tuple else _other_arguments(sql, args)[1]
        with RunningStatement(None, lambda started: None, session.statements, None):
            _check_order(sql, types)
            session.prepare(sql, types, statement_check())

    def run_many(
        self,
        sql: str,
        seq_of_args: Iterable[Arguments],
        timeout: float | None,
        on_start: OnStart,
    ) -> int:
        """Runs one statement for many argument lists; returns the total number of rows written.

        `on_start` receives each job that is started.
        """
        session = self.session
        if session.transaction is not None:
            session.transaction.enter()
            session = session.transaction
        timeout, deadline = (None, None) if timeout is None else _deadline(timeout)
        rows, names = checked_rows(seq_of_args)
        if not rows:
            return 0
        if names is not None:
            from runnel.statements.parameters.by_name import rows_in_order

            rows = rows_in_order(sql, rows, names)
        types = tuple(
            column_type(values, number) for number, values in enumerate(zip(*rows, strict=True), 1)
        )
        types = _types_of_names(sql, types, is_named=names is not None)
        with RunningStatement(deadline, on_start, session.statements, timeout):
            plan = session.prepare(sql, types, statement_check())
            return run_many(
                session, plan, StatementCall(sql, (), deadline, on_start, timeout), types, rows
            )


def _run_inside(
    transaction: TransactionSession,
    sql: str,
    args: Arguments,
    timeout: float | None,
    on_start: OnStart,
) -> Outcome:
    """Runs a statement of a transaction. All of its rows are read before the next statement."""
    transaction.enter()
    outcome = SessionExecutor(transaction).run(sql, args, timeout, on_start)
    if not isinstance(outcome, int):
        try:
            outcome.gather(sys.maxsize)
        except BaseException:
            outcome.discard()
            raise
    return outcome


def _other_arguments(sql: str, args: Arguments) -> tuple[tuple[Any, ...], tuple[SqlType, ...]]:
    """Arguments that aren't a tuple, in the order of the parameters, and their types."""
    if isinstance(args, Mapping):
        # Loaded on first use: most programs pass arguments in order.
        from runnel.statements.parameters.by_name import by_name, named_types

        values = by_name(sql, args)
        return values, named_types(sql, argument_types(values))
    values = checked(args)
    return values, argument_types(values)


def _types_of_names(sql: str, types: tuple[SqlType, ...], *, is_named: bool) -> tuple[SqlType, ...]:
    """The types of the arguments of executemany for a plan."""
    if is_named:
        from runnel.statements.parameters.by_name import named_types

        return named_types(sql, types)
    _check_order(sql, types)
    return types


def _check_order(sql: str, types: tuple[SqlType, ...]) -> None:
    """InterfaceError if values were passed in order to a statement with `:name` or `$name`."""
    if types and (":" in sql or "$" in sql):
        from runnel.statements.parameters.by_name import check_order

        check_order(sql, types)


def _deadline(timeout: float | None) -> tuple[float | None, int | None]:
    """The timeout of a statement in seconds, and its deadline by `monotonic_ns`."""
    seconds = time_limit(timeout)
    return (None, None) if seconds is None else (seconds, monotonic_ns() + round(seconds * 1e9))


def _run_explain(session: Session, plan: plans.ExplainPlan, call: StatementCall) -> Outcome:
    # Loaded on first use: few processes explain anything.
    from runnel.statements.explain import run_explain

    return run_explain(session, plan, call, run)


def _run_pivot(session: Session, plan: plans.PivotPlan, call: StatementCall) -> Outcome:
    values = queries.literals(run(session, plan.values, call))
    return run(session, plan.planned(values), call)


def _run_filled(session: Session, plan: plans.FilledMappingPlan, call: StatementCall) -> Outcome:
    # Loaded on first use, as the next one: few tables are Flink's.
    from runnel.statements.tables.flink import create_filled

    return create_filled(session, plan, call, run)


def _run_set(session: Session, plan: plans.StatementSetPlan, call: StatementCall) -> Outcome:
    from runnel.statements.tables.flink import run_statement_set

    return run_statement_set(session, plan, call, run)


def _run_create_job(session: Session, plan: plans.CreateJobPlan, call: StatementCall) -> Outcome:
    # Loaded on first use: most connections have no named jobs.
    from runnel.statements.jobs import jobs, submitted

    return (submitted.submit_job if plan.is_submitted else jobs.create_job)(session, plan, call)


def _run_execute(session: Session, statement: Execute, call: StatementCall) -> Outcome:
    # Loaded on first use: few sessions prepare statements.
    from runnel.statements.parameters.prepared import execute

    return execute(session, statement, call, run)


def _run_set_variable(session: Session, statement: SetVariable, call: StatementCall) -> Outcome:
    # Loaded on first use: few sessions have variables.
    from runnel.statements.parameters.variables import set_variable

    return set_variable(session, statement, call, run)


Handler = Callable[["Session", Any, StatementCall], Outcome]

_HANDLERS: dict[type[plans.Plan | Command], Handler] = {
    plans.QueryPlan: queries.run_query,
    plans.KeyGetPlan: queries.run_key_get,
    plans.ExplainPlan: _run_explain,
}
"""The handler of each class of plans, and of each class of commands; the ones loaded so far."""


def run(session: Session, plan: plans.Plan, call: StatementCall) -> Outcome:
    """Carries out one plan. The handler of a command receives the command."""
    if _reads_views(plan):
        # Loaded on first use: few statements read materialized views.
        from runnel.statements.views.freshness import await_views

        await_views(session, _tables_read(plan))
    subject = plan.statement if isinstance(plan, plans.CommandPlan) else plan
    handler = _HANDLERS.get(type(subject))
    if handler is None:
        _load_handlers()
        handler = _HANDLERS.get(type(subject))
        if handler is None:
            raise internal(f"no handler for a {type(subject).__name__}")
    return handler(session, subject, call)


def _tables_read(plan: plans.Plan) -> tuple[Table, ...]:
    """The tables that a plan reads when it is carried out."""
    match plan:
        case plans.KeyGetPlan():
            return (plan.table,)
        case plans.QueryPlan() | plans.WritePlan():
            return plan.tables
        case plans.CopyToPlan():
            return _tables_read(plan.query)
        case plans.ChangePlan():
            return plan.rows.tables
        case plans.CreateJobPlan():
            return plan.write.tables
    return ()


def _reads_views(plan: plans.Plan) -> bool:
    return any(table.connector == VIEW_TYPE for table in _tables_read(plan))


def _text_handlers() -> dict[type[plans.Plan | Command], Handler]:
    """The handlers of statements about texts in the catalog."""
    from runnel.planner.parse.flink.definitions import CreateFunction
    from runnel.planner.parse.macros import DropMacro
    from runnel.planner.parse.session.comments import CommentOn
    from runnel.planner.parse.session.sequences import CreateSequence, DropSequence

    texts = "runnel.statements.texts"
    return {
        plans.CreateMacroPlan: _lazily(f"{texts}.macros", "create_macro"),
        CreateFunction: _lazily(f"{texts}.python_functions", "create_python_function"),
        DropMacro: _lazily(f"{texts}.macros", "drop_macro"),
        CreateSequence: _lazily(f"{texts}.sequences", "create_sequence"),
        DropSequence: _lazily(f"{texts}.sequences", "drop_sequence"),
        CommentOn: _lazily(f"{texts}.comments", "comment_on"),
    }


def _schema_handlers() -> dict[type[plans.Plan | Command], Handler]:
    """The handlers of statements about schemas and attached databases."""
    from runnel.planner.parse.session import schemas as syntax

    module = "runnel.statements.tables.schemas"
    return {
        syntax.UseSchemas: _lazily(module, "use_schemas"),
        syntax.CreateSchema: _lazily(module, "create_schema"),
        syntax.DropSchema: _lazily(module, "drop_schema"),
        syntax.Attach: _lazily(module, "attach"),
        syntax.Detach: _lazily(module, "detach"),
        **_database_handlers(),
    }


def _database_handlers() -> dict[type[plans.Plan | Command], Handler]:
    """The handlers of statements about all tables of a database, which run other statements."""
    from runnel.planner.parse.session import exports as syntax

    module = "runnel.statements.exports"
    return {
        syntax.ExportDatabase: _lazily(f"{module}.export_database", "export_database", run),
        syntax.ImportDatabase: _lazily(f"{module}.import_database", "import_database", run),
        syntax.CopyFromDatabase: _lazily(f"{module}.copy_database", "copy_database", run),
    }


def _view_handlers() -> dict[type[plans.Plan | Command], Handler]:
    """The handlers of statements about materialized views."""
    from runnel.planner.parse.session import materialized_views as syntax

    module = "runnel.statements.views.definitions"
    return {
        plans.CreateMaterializedViewPlan: _lazily(module, "create_view"),
        syntax.AlterMaterializedView: _lazily(module, "alter_view"),
        syntax.DropMaterializedView: _lazily(module, "drop_view"),
    }


def _load_handlers() -> None:
    from runnel.planner.parse import jobs as job_syntax
    from runnel.planner.parse import syntax
    from runnel.planner.parse.flink.inspections import RenameView
    from runnel.planner.parse.session import prepared
    from runnel.planner.parse.session.backup import BackupTo
    from runnel.planner.parse.session.transactions import BeginTransaction, EndTransaction
    from runnel.planner.parse.settings import SetVariable
    from runnel.planner.parse.tables import DropTable
    from runnel.statements import data_connections, definitions, show, writes

    tables, indexes = "runnel.statements.tables.definitions", "runnel.statements.tables.indexes"
    parameters = "runnel.statements.parameters.prepared"
    jobs, verify = "runnel.statements.jobs.jobs", "runnel.statements.verify.verify"
    _HANDLERS.update(
        {
            plans.PivotPlan: _run_pivot,
            plans.WritePlan: writes.run_write,
            plans.KeyPutPlan: writes.run_key_put,
            plans.ClearPlan: writes.run_clear,
            plans.ChangePlan: _lazily("runnel.statements.tables.changes", "run_change"),
            plans.CreateMappingPlan: definitions.create_mapping,
            plans.FilledMappingPlan: _run_filled,
            plans.StatementSetPlan: _run_set,
            plans.CreateViewPlan: definitions.create_view,
            RenameView: definitions.rename_view,
            **_text_handlers(),
            **_schema_handlers(),
            **_view_handlers(),
            plans.CreateTablePlan: _lazily(tables, "create_table"),
            DropTable: _lazily(tables, "drop_table"),
            plans.AlterTablePlan: _lazily(tables, "alter_table"),
            plans.NothingPlan: _lazily(tables, "do_nothing"),
            syntax.NoEffect: _lazily(tables, "do_nothing"),
            plans.CopyToPlan: _lazily("runnel.statements.tables.copy_to", "copy_to"),
            syntax.CreateDataConnection: data_connections.create_data_connection,
            syntax.DropDataConnection: data_connections.drop_data_connection,
            syntax.CreateIndex: _lazily(indexes, "create_index"),
            syntax.DropIndex: _lazily(indexes, "drop_index"),
            syntax.DropMapping: definitions.drop,
            syntax.DropView: definitions.drop,
            plans.ShowPlan: show.run_show,
            syntax.SetOption: show.run_set,
            SetVariable: _run_set_variable,
            plans.CreateJobPlan: _run_create_job,
            plans.AlterJobPlan: _lazily(jobs, "alter_job"),
            job_syntax.DropJob: _lazily(jobs, "drop_job"),
            job_syntax.CancelJob: _lazily(jobs, "cancel_job"),
            job_syntax.StopJob: _lazily("runnel.statements.jobs.submitted", "stop_job"),
            job_syntax.VerifyJob: _lazily(verify, "verify_job"),
            job_syntax.CreateSnapshot: _lazily(jobs, "create_snapshot"),
            job_syntax.DropSnapshot: _lazily(jobs, "drop_snapshot"),
            BackupTo: _lazily("runnel.statements.backup", "back_up"),
            BeginTransaction: _lazily("runnel.statements.tables.transactions", "begin"),
            EndTransaction: _lazily("runnel.statements.tables.transactions", "end"),
            prepared.Prepare: _lazily(parameters, "prepare"),
            prepared.Execute: _run_execute,
            prepared.Deallocate: _lazily(parameters, "deallocate"),
        }
    )


def _lazily(module: str, name: str, *others: Handler) -> Handler:
    """A handler whose module is loaded on first use: most connections have no named jobs. `others`:
    its further arguments."""

    def handle(session: Session, subject: Any, call: StatementCall) -> Outcome:
        handler: Callable[..., Outcome] = getattr(import_module(module), name)
        return handler(session, subject, call, *others)

    return handle


def run_many(
    session: Session, plan: plans.Plan, call: StatementCall, types: tuple[SqlType, ...], rows: Rows
) -> int:
    """Carries out one plan for many argument lists, of which `call` has none yet; returns the total
    number of rows written, −1 for a statement without such a number."""
    has_rows = (isinstance(plan, plans.CommandPlan) and plan.statement.has_rows) or (
        isinstance(plan, plans.ChangePlan) and plan.returning is not None
    )
    starts_jobs = isinstance(plan, plans.StatementSetPlan) and plan.jobs
    if isinstance(plan, plans.CreateJobPlan) and plan.is_submitted:
        starts_jobs = (plan,)
    if (
        has_rows
        or starts_jobs
        or isinstance(
            plan,
            plans.QueryPlan | plans.KeyGetPlan | plans.ExplainPlan | plans.ShowPlan,
        )
    ):
        raise _returns_rows()
    from runnel.statements.batches import run_batch, templates

    zone = session.settings.time_zone
    if templates(plan):
        assert isinstance(plan, plans.KeyPutPlan | plans.WritePlan)
        context = call._replace(arguments=(None,) * len(types)).evaluation(session, plan)
        return run_batch(session, plan, types, rows, context)
    total = -1
    deadline = current()
    for args in rows:
        deadline.check()
        deadline.check_time()
        count = run(
            session, plan, call._replace(arguments=converted(args, types, plan.parameters, zone))
        )
        if not isinstance(count, int):  # of EXECUTE
            count.discard()
            raise _returns_rows()
        if count >= 0:
            total = max(total, 0) + count
    return total


def _returns_rows() -> ProgrammingError:
    return ProgrammingError(
        "executemany is not for statements that return rows", hint="use execute"
    )
