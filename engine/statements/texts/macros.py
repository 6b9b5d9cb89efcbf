"""CREATE MACRO and DROP MACRO. Both run under the lock of the catalog; if the database is durable,
the change is on disk before they return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.catalog import NamedText
from runnel.errors import (
    DuplicateObject,
    ErrorCode,
    NotSupportedError,
    ProgrammingError,
    UndefinedFunction,
    suggest,
)
from runnel.planner.parse.macros import SCALAR, TABLE, DropMacro
from runnel.planner.plans import CreateMacroPlan
from runnel.statements.call import StatementCall
from runnel.statements.functions import function_rows
from runnel.statements.tables.job_users import check_unused

if TYPE_CHECKING:
    from runnel.session.session import Session

NO_COUNT = -1


def create_macro(session: Session, plan: CreateMacroPlan, call: StatementCall) -> int:
    """Stores the text of a macro. Statements that call it expand it when they are planned."""
    statement = plan.statement
    macro = NamedText(
        statement.kind,
        statement.name.text,
        statement.text,
        is_temporary=statement.is_temporary,
        is_confined=session.caller.is_confined,
    )
    with session.definitions:
        definitions = session.catalog.definitions
        found = definitions.get(macro.key)
        if found is not None and statement.if_not_exists:
            return NO_COUNT
        if found is not None and not statement.or_replace:
            raise DuplicateObject(
                f'{found.kind} "{found.name}" exists already',
                hint="use CREATE OR REPLACE MACRO, IF NOT EXISTS, or another name",
                position=statement.name.position,
            )
        _check_hidden(session, macro)
        if found is not None:
            _check_change(session, found, is_dropped=False)
        session.change_catalog(definitions={**definitions, macro.key: macro})
    if not macro.is_temporary:
        session.warn_if_lost(macro.kind, macro.name)
    return NO_COUNT


def drop_macro(session: Session, statement: DropMacro, call: StatementCall) -> int:
    """Removes a macro; DROP FUNCTION also a Python function."""
    kinds = (SCALAR, TABLE) if statement.kind is None else (statement.kind,)
    with session.definitions:
        definitions = session.catalog.definitions
        name = statement.name.text.lower()
        found = next(
            (definitions[kind, name] for kind in kinds if (kind, name) in definitions), None
        )
        if found is None and statement.kind is None and name in session.catalog.functions:
            session.caller.require_owner("Python functions")
            session.caller.require_no_bounds("Python functions")
            session.remove_function(name)
            return NO_COUNT
        if found is None:
            if statement.if_exists:
                return NO_COUNT
            raise _missing(session, statement)
        _check_change(session, found, is_dropped=True)
        session.change_catalog(
            definitions={key: item for key, item in definitions.items() if item is not found}
        )
    return NO_COUNT


def _check_hidden(session: Session, macro: NamedText) -> None:
    """Refuses a macro that would hide a function that a program has registered, and one of a caller
    with bounds that would hide a built-in function from other callers."""
    if macro.kind != SCALAR:
        return
    if macro.name.lower() in session.catalog.functions:
        raise DuplicateObject(
            f'function "{macro.name}" exists already',
            hint="take another name, or remove it first: connection.drop_function",
        )
    if macro.is_confined and macro.name.upper() in {row[0] for row in function_rows(())}:
        raise NotSupportedError(
            f'"{macro.name}" is a built-in function, which a macro would hide from all users',
            hint="take another name",
        )


def _check_change(session: Session, found: NamedText, *, is_dropped: bool) -> None:
    session.caller.require_own(f'{found.kind} "{found.name}"', is_confined=found.is_confined)
    check_unused(
        session,
        found.name,
        found.kind,
        is_dropped=is_dropped,
        is_replaced=not is_dropped,
    )


def _missing(session: Session, statement: DropMacro) -> ProgrammingError:
    name, kind = statement.name.text, statement.kind or "function"
    known = [item.name for item in session.catalog.definitions.values() if item.kind == kind]
    hint = suggest(name, known)
    if name.lower() in session.catalog.functions:
        hint = f"it is a Python function: use DROP FUNCTION {name}"
    elif kind == SCALAR and (TABLE, name.lower()) in session.catalog.definitions:
        hint = f"it is a table macro: use DROP MACRO TABLE {name}"
    return UndefinedFunction(
        f'{kind} "{name}" not found',
        code=ErrorCode.OBJECT_NOT_FOUND,
        hint=hint,
        position=statement.name.position,
    )
