"""Calls whose results depend on the catalog or on the session: GET_DDL, GETVARIABLE, NEXTVAL,
CURRVAL, SETVAL and CURRENT_SETTING. Loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from runnel.errors import ErrorCode, NotSupportedError, Position, ProgrammingError, suggest
from runnel.expressions import build
from runnel.expressions.nodes import Cast, Expression, Literal
from runnel.expressions.python.calls import python_call
from runnel.expressions.python.function import PythonFunction
from runnel.planner.bind.binders import QueryBinder
from runnel.planner.environment import Sequences
from runnel.planner.explain.ddl import get_ddl
from runnel.planner.parse.session.sequences import SEQUENCE
from runnel.sqltypes import BIGINT, BOOLEAN, NULL, VARCHAR

_NAMES = ("GET_DDL", "GETVARIABLE", "NEXTVAL", "CURRVAL", "SETVAL", "SETTING_FOUND")
_OF_CATALOG = frozenset(
    (
        "CURRENT_SCHEMAS PG_BACKEND_PID PG_GET_SERIAL_SEQUENCE PG_GET_CONSTRAINTDEF PG_GET_VIEWDEF "
        "PG_GET_USERBYID PG_TABLE_IS_VISIBLE PG_RELATION_SIZE PG_TOTAL_RELATION_SIZE PG_TABLE_SIZE "
        "PG_INDEXES_SIZE FORMAT_TYPE PG_GET_INDEXDEF OBJ_DESCRIPTION COL_DESCRIPTION TO_REGCLASS "
        "TO_REGTYPE"
    ).split()
)
"""Functions of PostgreSQL over the numbers of objects."""


def session_call(
    query: QueryBinder,
    name: str,
    bind: Callable[[Any], Expression],
    trees: Sequence[Any],
    position: Position | None,
) -> Expression | None:
    """The value of a call of a function of the module, or of one over the catalog of PostgreSQL;
    None for other functions. `trees`: the arguments, which `bind` binds."""
    if name not in _NAMES and name not in _OF_CATALOG:
        return None
    arguments = [bind(tree) for tree in trees]
    if name in _OF_CATALOG:
        from runnel.planner.bind.pg_catalog.lookups import catalog_call  # few queries have one

        return catalog_call(query, name, arguments, position)
    if name == "GETVARIABLE":
        return _variable(query, arguments, position)
    if name == "SETTING_FOUND":
        return _found_setting(arguments, position)
    if name == "SETVAL":
        return _restarted(query, arguments, position)
    if name in ("NEXTVAL", "CURRVAL"):
        if len(arguments) != 1:
            raise _no_name(name, "'s'", position)
        own, sequences = _sequence(query, name, arguments[0], position)

        def numbers(rows: pa.Array) -> pa.Array:
            found = sequences()
            draw = found.current_numbers if name == "CURRVAL" else found.next_numbers
            return draw(own, len(rows))

        function = PythonFunction(
            name, numbers, (VARCHAR,), BIGINT, is_deterministic=False, is_own=True
        )
        return python_call(function, [arguments[0]], position)
    query.note("catalog", "", query.snapshot.version)
    hides = query.environment.is_confined
    return get_ddl(query.snapshot, list(arguments), position, hides_secrets=hides)


def _found_setting(arguments: Sequence[Expression], position: Position | None) -> Expression:
    """The value of a setting, of which `arguments` are the name and the value; an error if it is
    NULL."""

    def found(names: pa.Array, values: pa.Array) -> pa.Array:
        if values.null_count:
            for name, value in zip(names.to_pylist(), values.to_pylist(), strict=True):
                if value is None and name is not None:
                    raise ProgrammingError(
                        f'setting "{name}" not found',
                        code=ErrorCode.OBJECT_NOT_FOUND,
                        hint="SHOW ALL lists the settings; current_setting(name, true) is NULL",
                        position=position,
                    )
        return values

    function = PythonFunction(
        "CURRENT_SETTING", found, (VARCHAR, VARCHAR), VARCHAR, is_deterministic=False, is_own=True
    )
    return python_call(function, list(arguments), position)


def _no_name(name: str, example: str, position: Position | None) -> ProgrammingError:
    return ProgrammingError(
        f"{name} expects the name of a sequence as a text literal"
        + (", and a whole number" if name == "SETVAL" else ""),
        hint=f"write {name.lower()}({example})",
        position=position,
    )


def _restarted(
    query: QueryBinder, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    """setval('s', n [, is_called]): sets the last number of a sequence, or the next one if
    is_called is FALSE; returns n."""
    if len(arguments) not in (2, 3) or not arguments[1].type.is_integer:
        raise _no_name("SETVAL", "'s', 10", position)
    own, sequences = _sequence(query, "SETVAL", arguments[0], position)
    called = arguments[2] if len(arguments) == 3 else Literal(value=True, type=BOOLEAN)
    if called.type != BOOLEAN:
        raise _no_name("SETVAL", "'s', 10, false", position)

    def restart(numbers: pa.Array, are_called: pa.Array) -> pa.Array:
        found = sequences()
        for number, is_called in zip(numbers.to_pylist(), are_called.to_pylist(), strict=True):
            if number is not None and is_called is not None:
                found.restart(own, number + found.increment(own) if is_called else number)
        return numbers

    function = PythonFunction(
        "SETVAL", restart, (BIGINT, BOOLEAN), BIGINT, is_deterministic=False, is_own=True
    )
    return python_call(function, [build.assign(arguments[1], BIGINT, "n"), called], position)


def _sequence(
    query: QueryBinder, name: str, text: Expression, position: Position | None
) -> tuple[str, Callable[[], Sequences]]:
    """The sequence that an argument names, and the sequences of the connection."""
    if isinstance(text, Cast):
        text = text.operand
    if not isinstance(text, Literal) or text.type != VARCHAR:
        raise _no_name(name, "'s'", position)
    known = query.snapshot.definitions
    sequence = known.get((SEQUENCE, _written(str(text.value))))
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
    return sequence.name, sequences


def _written(name: str) -> str:
    """The name of a sequence in lower case, without its schema and quotes."""
    return name.lower().replace('"', "").removeprefix("public.").removeprefix("main.")


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
