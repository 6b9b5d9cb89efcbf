"""Statements that another statement runs, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from runnel.errors import Error
from runnel.planner.plans import Plan
from runnel.session.session import statement_check
from runnel.statements.call import Outcome, StatementCall

if TYPE_CHECKING:
    from runnel.session.session import Session

Run: TypeAlias = "Callable[[Session, Plan, StatementCall], Outcome]"
"""Carries out a plan."""


def run_nested(session: Session, sql: str, call: StatementCall, run: Run) -> None:
    """Runs a statement without arguments to its end, within the time limit of `call`. The position
    of an error is one in `sql`."""
    try:
        plan = session.prepare(sql, (), statement_check())
        outcome = run(session, plan, call._replace(sql=sql, arguments=()))
    except Error as error:
        error.sql = error.sql or sql
        raise
    if not isinstance(outcome, int):
        outcome.discard()
