"""Calls whose results depend on the catalog or on the session: GET_DDL, GETVARIABLE, NEXTVAL and
CURRVAL. Loaded on first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from runnel.errors import ErrorCode, NotSupportedError, Position, ProgrammingError, suggest
from runnel.expressions.nodes import Expression, Literal
from runnel.expressions.python.calls import python_call
from runnel.expressions.python.function import PythonFunction
from runnel.planner.bind.binders import QueryBinder
from runnel.planner.explain.ddl import get_ddl
from runnel.planner.parse.session.sequences import SEQUENCE
from runnel.sqltypes import BIGINT, NULL, VARCHAR


def session_call(
    query: QueryBinder, name: str, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    """The value of a call of one of the functions of the module."""
    if name == "GETVARIABLE":
        return _variable(query, arguments, position)
    if name in ("NEXTVAL", "CURRVAL"):
        return _number(query, name, arguments, position)
    query.note("catalog", "", query.snapshot.version)
    hides = query.environment.is_confined
    return get_ddl(query.snapshot, list(arguments), position, hides_secrets=hides)


def _number(
    query: QueryBinder, name: str, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    """A call that draws a number of a sequence for each row, or repeats the last one."""
    text = arguments[0] if len(arguments) == 1 else None
    if not isinstance(text, Literal) or text.type != VARCHAR:
        raise ProgrammingError(
            f"{name} expects the name of a sequence as a text literal",
            hint=f"write {name.lower()}('s')",
            position=position,
        )
    known = query.snapshot.definitions
    sequence = known.get((SEQUENCE, str(text.value).lower().removeprefix("public.")))
    if sequence is None:
        raise ProgrammingError(
            f'sequence "{text.value}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(
                str(text.value),
                [item.name for item in known.values() if item.kind == SEQUENCE],
                f"create it with CREATE SEQUENCE {text.value}",
            ),
            position=position,
        )
    query.note(SEQUENCE, sequence.name, sequence.version)
    sequences = query.environment.sequences
    if sequences is None or query.environment.in_job:
        raise NotSupportedError(
            f"{name} is not supported in a job, which computes rows again after a failure",
            hint="use uuid(), or number the rows when they are read: row_number() OVER (…)",
            position=position,
        )
    own = sequence.name

    def numbers(rows: pa.Array) -> pa.Array:
        found = sequences()
        draw = found.current_numbers if name == "CURRVAL" else found.next_numbers
        return draw(own, len(rows))

    function = PythonFunction(name, numbers, (VARCHAR,), BIGINT, is_deterministic=False)
    return python_call(function, [text], position)


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
