"""BEGIN, COMMIT and ROLLBACK, and which statements take part in a transaction."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Mapping
from runnel.connectors.duckdb.transactions import (
    DuckDBTransaction,
    TransactionTable,
    aborted_error,
)
from runnel.errors import NotSupportedError, TransactionState
from runnel.planner import plans
from runnel.planner.parse.flink.inspections import RenameView
from runnel.planner.parse.session.comments import CommentOn
from runnel.planner.parse.session.prepared import Deallocate, Execute, Prepare
from runnel.planner.parse.session.schemas import UseSchemas
from runnel.planner.parse.session.transactions import BeginTransaction, EndTransaction
from runnel.planner.parse.settings import SetVariable
from runnel.planner.parse.syntax import DropObject, SetOption
from runnel.planner.parse.tables import DropTable
from runnel.session.session import Session, TransactionSession
from runnel.statements.definitions import kind_of
from runnel.statements.tables.job_users import check_unused

if TYPE_CHECKING:
    from runnel.catalog import Table
    from runnel.statements.call import StatementCall

_READS = (plans.KeyGetPlan, plans.ShowPlan, plans.NothingPlan)
_COMMANDS = (
    UseSchemas,
    SetOption,
    SetVariable,
    Prepare,
    Execute,
    Deallocate,
    BeginTransaction,
    EndTransaction,
)
_OUTSIDE = "do it before BEGIN or after COMMIT; the transaction is open as before"
_DEFINITIONS = (
    plans.CreateTablePlan,
    plans.AlterTablePlan,
    plans.CreateViewPlan,
    DropTable,
    DropObject,
    RenameView,
    CommentOn,
)
"""The statements that define tables and views."""


def begin(session: Session, statement: BeginTransaction, call: StatementCall) -> int:
    """Begins the transaction of the session."""
    if isinstance(session, TransactionSession):
        raise TransactionState(
            "a transaction is open already",
            hint="end it with COMMIT or ROLLBACK",
            position=statement.position,
        )
    if session.prepared is None:
        raise NotSupportedError(
            "BEGIN is not supported through a server",
            detail="each statement of a client is a transaction by itself",
            hint="run the transaction in the process that has opened the database",
            position=statement.position,
        )
    session.check_directory()
    if not statement.is_read_only:
        with session.definitions:
            session.own_tables.prepare(session.table_locations())
    started = DuckDBTransaction(session.own_tables.kernel, is_read_only=statement.is_read_only)
    session.transaction = TransactionSession(session, started, checked, _check_commit)
    _ = session.transaction.catalog  # the tables as they are before the first statement
    return -1


def end(session: Session, statement: EndTransaction, call: StatementCall) -> int:
    """Ends the transaction of the session."""
    if not isinstance(session, TransactionSession):
        raise TransactionState(
            f"{statement.word} without a transaction",
            detail="each statement outside of BEGIN … COMMIT is committed when it returns",
            hint="begin one with BEGIN"
            if session.prepared is not None
            else "leave it out: a client of a server has no BEGIN",
            position=statement.position,
        )
    session.end(is_commit=statement.is_commit)
    return -1


def checked(session: TransactionSession, plan: plans.Plan) -> plans.Plan:
    """The plan of a statement of the transaction; an error if it can't take part."""
    subject = plan.statement if isinstance(plan, plans.CommandPlan) else plan
    if session.duckdb.is_aborted and not isinstance(subject, EndTransaction):
        raise aborted_error()
    if isinstance(plan, plans.PivotPlan):
        planned = plan.planned
        return replace(plan, planned=lambda values: checked(session, planned(values)))
    if isinstance(plan, plans.ExplainPlan):
        if plan.stage == "analyze":
            checked(session, plan.plan)
        return plan
    if isinstance(plan, plans.CopyToPlan):
        checked(session, plan.query)
        return plan
    if isinstance(plan, plans.QueryPlan):
        if plan.is_unbounded:
            raise NotSupportedError("a stream can't be read in a transaction", hint=_OUTSIDE)
        _check_tables(plan.tables)
    elif isinstance(plan, plans.WritePlan | plans.KeyPutPlan | plans.ClearPlan | plans.ChangePlan):
        _check_write(plan)
    elif isinstance(subject, _DEFINITIONS) and not _is_outside(subject):
        _check_definition(session, subject)
    elif not isinstance(subject, (*_READS, *_COMMANDS)):
        words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(subject).__name__.removesuffix("Plan"))
        raise NotSupportedError(f"{words.upper()} is not supported in a transaction", hint=_OUTSIDE)
    return plan


def _is_outside(subject: object) -> bool:
    """Whether the object of a DROP is none of a transaction: a mapping."""
    return isinstance(subject, DropObject) and subject.kind != "view"


def _check_definition(session: TransactionSession, subject: object) -> None:
    if session.duckdb.is_read_only:
        raise NotSupportedError(
            "a definition can't be changed in a transaction that is READ ONLY",
            hint="end it with COMMIT, and begin another one",
        )
    if isinstance(subject, DropTable):
        for name in subject.names:
            found = session.catalog.find(name.text)
            if found is not None and isinstance(found, Mapping) and found.definition is None:
                raise NotSupportedError(
                    f'"{found.name}" can\'t be dropped in a transaction',
                    detail="only the tables of CREATE TABLE take part in transactions",
                    hint=_OUTSIDE,
                    position=name.position,
                )


def _check_commit(session: TransactionSession) -> None:
    """ProgrammingError if a job uses a table that the transaction has changed or dropped."""
    for name, before in session.pending.replaced.items():
        if isinstance(before, Mapping):
            is_dropped = session.pending.changes.objects.get(name) is None
            check_unused(session, before.name, kind_of(before), is_dropped=is_dropped)


def _check_write(
    plan: plans.WritePlan | plans.KeyPutPlan | plans.ClearPlan | plans.ChangePlan,
) -> None:
    table = plan.table
    if not isinstance(table, TransactionTable):
        raise NotSupportedError(
            f'"{table.name}" can\'t be written in a transaction',
            detail="only the tables of CREATE TABLE take part in transactions",
            hint=_OUTSIDE,
        )
    table.transaction.check_write(table.base)
    if isinstance(plan, plans.WritePlan):
        _check_tables(plan.tables)
    elif isinstance(plan, plans.ChangePlan):
        _check_tables(plan.rows.tables)


def _check_tables(tables: tuple[Table, ...]) -> None:
    for table in tables:
        if table.is_unbounded:
            raise NotSupportedError(
                "a stream can't be read in a transaction",
                detail=f'"{table.name}" has no end',
                hint=_OUTSIDE,
            )
        if getattr(table, "malformed_target", None):
            raise NotSupportedError(
                f'"{table.name}", which writes malformed records to another mapping, '
                "can't be read in a transaction",
                hint=_OUTSIDE,
            )
