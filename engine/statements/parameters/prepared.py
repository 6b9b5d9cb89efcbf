"""PREPARE, EXECUTE and DEALLOCATE: the prepared statements of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from runnel.errors import (
    ArgumentsError,
    Error,
    ErrorCode,
    InterfaceError,
    NotSupportedError,
    ProgrammingError,
    suggest,
)
from runnel.expressions.nodes import walk
from runnel.planner.parse.parameters import count_error, parameters_of
from runnel.planner.parse.session.prepared import Deallocate, Execute, Prepare
from runnel.planner.parse.syntax import Name
from runnel.planner.plans import Plan, QueryPlan
from runnel.relation.nodes import Values
from runnel.relation.subqueries import Exists, InSubquery, ScalarSubquery
from runnel.session.session import PreparedStatement, statement_check
from runnel.sqltypes import SqlType
from runnel.statements.arguments import argument_types, converted
from runnel.statements.call import Outcome, StatementCall
from runnel.statements.parameters.by_name import by_name, named_types
from runnel.statements.queries import constants

if TYPE_CHECKING:
    from runnel.session.session import Session

Arguments = tuple[tuple[Any, ...], tuple[SqlType, ...]]
"""Values and their types."""
Run: TypeAlias = "Callable[[Session, Plan, StatementCall], Outcome]"


def prepare(session: Session, statement: Prepare, call: StatementCall) -> int:
    """Adds a prepared statement, which replaces an earlier one of the name. It is planned now if
    the types of its parameters are known."""
    known = _known(session, "PREPARE", statement)
    sql, types = statement.text, statement.types
    count = parameters_of(sql).count
    if types and len(types) != count:
        raise ProgrammingError(
            f'"{statement.name}" has {len(types)} types for {count} parameters',
            hint="list one type for each parameter, or no types",
            position=statement.name.position,
        )
    if len(types) == count:
        try:
            session.prepare(sql, named_types(sql, types), statement_check())
        except Error as error:
            error.sql = error.sql or sql
            raise
    known[statement.name.text.lower()] = PreparedStatement(sql, types)
    return -1


def execute(session: Session, statement: Execute, call: StatementCall, run: Run) -> Outcome:
    """Runs a prepared statement; `run` carries out a plan."""
    prepared = _find(session, statement.name, statement)
    values, types = _arguments(session, statement, call)
    sql = prepared.sql
    try:
        order = _order(statement, prepared, len(values))
        values, types = tuple([values[i] for i in order]), tuple([types[i] for i in order])
        if prepared.types:
            if len(types) != len(prepared.types):
                raise count_error(sql, len(prepared.types), len(types))
            zone = session.settings.time_zone
            values, types = converted(values, types, prepared.types, zone), prepared.types
        plan = session.prepare(sql, named_types(sql, types), statement_check())
        arguments = converted(values, types, plan.parameters, session.settings.time_zone)
        return run(session, plan, call._replace(sql=sql, arguments=arguments))
    except Error as error:
        # Its position is one in the prepared statement.
        error.sql = error.sql or sql
        raise


def _order(statement: Execute, prepared: PreparedStatement, count: int) -> tuple[int, ...]:
    """The indexes of the arguments in the order of the parameters."""
    parameters = parameters_of(prepared.sql)
    if not statement.keys and not (count and parameters.is_named):
        return tuple(range(count))
    try:
        if statement.keys:
            return by_name(prepared.sql, {key: i for i, key in enumerate(statement.keys)})
        raise ArgumentsError(
            f"the value of {parameters.shown(0)} is given by its name",
            position=parameters.position(prepared.sql, 0),
        )
    except InterfaceError as error:
        named = ", ".join(f"{name} := …" for name in parameters.names)
        error.hint = f"write EXECUTE {statement.name}({named or '1, 2'})"
        raise


def deallocate(session: Session, statement: Deallocate, call: StatementCall) -> int:
    """Removes one prepared statement, or all."""
    if statement.name is None:
        _known(session, "DEALLOCATE", statement).clear()
    else:
        _find(session, statement.name, statement)
        _known(session, "DEALLOCATE", statement).pop(statement.name.text.lower(), None)
    return -1


def _known(
    session: Session, verb: str, statement: Prepare | Execute | Deallocate
) -> dict[str, PreparedStatement]:
    """The prepared statements of the session; NotSupportedError if it has none because it lasts
    for one statement only."""
    if session.prepared is None:
        raise NotSupportedError(
            f"{verb} is not supported by a server",
            detail="a server runs each statement in a session of its own",
            hint="pass the values as arguments: execute(sql, (value, …)); "
            "the plan is cached all the same",
            position=statement.position,
        )
    return session.prepared


def _find(session: Session, name: Name, statement: Execute | Deallocate) -> PreparedStatement:
    verb = "EXECUTE" if isinstance(statement, Execute) else "DEALLOCATE"
    known = _known(session, verb, statement)
    found = known.get(name.text.lower())
    if found is None:
        raise ProgrammingError(
            f'prepared statement "{name}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(name.text, known) or f"create it with PREPARE {name} AS SELECT …",
            position=name.position,
        )
    return found


def _arguments(session: Session, statement: Execute, call: StatementCall) -> Arguments:
    """The values of EXECUTE."""
    if not statement.values:
        return (), ()
    own = named_types(statement.values, argument_types(call.arguments))
    plan = session.prepare(statement.values, own, statement_check())
    assert isinstance(plan, QueryPlan)
    rows = plan.logical.rows if isinstance(plan.logical, Values) else ()
    if not rows or any(
        isinstance(part, Exists | InSubquery | ScalarSubquery)
        for item in rows[0]
        for part in walk(item)
    ):
        raise NotSupportedError(
            "an argument of EXECUTE can't contain a query",
            hint="run the query first, and pass its result",
            position=statement.name.position,
        )
    converted_call = call._replace(
        sql=statement.values,
        arguments=converted(call.arguments, own, plan.parameters, session.settings.time_zone),
    )
    values = constants(session, plan, rows[0], converted_call)
    return values, tuple(item.type for item in rows[0])
