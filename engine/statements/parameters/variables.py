"""SET VARIABLE and RESET VARIABLE: values of a session, which queries read by GETVARIABLE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from runnel.errors import NotSupportedError
from runnel.planner.parse.settings import SetVariable
from runnel.planner.plans import Plan
from runnel.session.session import statement_check
from runnel.statements.arguments import argument_types, converted
from runnel.statements.call import Outcome, StatementCall
from runnel.statements.parameters.by_name import named_types
from runnel.statements.queries import literals

if TYPE_CHECKING:
    from runnel.session.session import Session

Run: TypeAlias = "Callable[[Session, Plan, StatementCall], Outcome]"


def set_variable(session: Session, statement: SetVariable, call: StatementCall, run: Run) -> int:
    """Computes the value, and stores it in the session; `run` carries out a plan."""
    if session.prepared is None:
        raise NotSupportedError(
            "variables are not supported by a server",
            detail="a server runs each statement in a session of its own",
            hint="pass values as arguments: execute(sql, (value, …))",
            position=statement.position,
        )
    name = statement.name.text.lower()
    if not statement.query:
        session.values.pop(name, None)
        return -1
    types = named_types(statement.query, argument_types(call.arguments))
    plan = session.prepare(statement.query, types, statement_check())
    zone = session.settings.time_zone
    arguments = converted(call.arguments, types, plan.parameters, zone)
    found = literals(run(session, plan, call._replace(sql=statement.query, arguments=arguments)))
    session.values[name] = found[0]
    return -1
