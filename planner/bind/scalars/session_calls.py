"""Calls whose results depend on the catalog or on the session: GET_DDL and GETVARIABLE. Loaded on
first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions.nodes import Expression, Literal
from runnel.planner.bind.binders import QueryBinder
from runnel.planner.explain.ddl import get_ddl
from runnel.sqltypes import NULL, VARCHAR


def session_call(
    query: QueryBinder, name: str, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    """The value of a call of one of the functions of the module."""
    if name == "GETVARIABLE":
        return _variable(query, arguments, position)
    query.note("catalog", "", query.snapshot.version)
    hides = query.environment.is_confined
    return get_ddl(query.snapshot, list(arguments), position, hides_secrets=hides)


def _variable(
    query: QueryBinder, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    """The value of a variable of SET VARIABLE, as a literal of the plan, which is not cached."""
    name = arguments[0] if len(arguments) == 1 else None
    if not isinstance(name, Literal) or name.type not in (VARCHAR, NULL):
        raise ProgrammingError(
            "GETVARIABLE expects the name of a variable as a text literal",
            hint="write getvariable('x')",
            position=position,
        )
    if query.environment.in_job:
        raise NotSupportedError(
            "GETVARIABLE is not supported in a job, which outlives the session",
            hint="write the value, or pass it as an argument of CREATE JOB",
            position=position,
        )
    variables = query.environment.variables
    found = None if variables is None or name.value is None else variables.value(name.value)
    found = found or Literal(value=None, type=NULL)
    return replace(found, position=position)
