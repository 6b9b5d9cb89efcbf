"""Calls of table macros in FROM, and the check of a new macro. Loaded on first use."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from runnel.catalog import NamedText
from runnel.errors import DatabaseError, NotSupportedError, Position, ProgrammingError
from runnel.planner.bind.binders import StatementBinder
from runnel.planner.bind.macros.user_macros import body_of, within
from runnel.planner.bind.scope import Scope
from runnel.planner.parse.macros import SCALAR, CreateMacro, MacroForm
from runnel.planner.parse.query.allow_list import function_call
from runnel.relation.nodes import Relation

_MISSING = ("does not exist", "not found", "is not in the FROM clause")
"""The ends of the messages about a name that does not exist."""


def rows_of_macro(
    binder: StatementBinder,
    outer: Scope | None,
    macro: NamedText,
    call: Any,
    position: Position | None,
) -> Relation:
    """The relation of the query of a macro. `outer`: the scope that the arguments may refer to."""
    caller = (0, 0) if outer is None else (outer.level, len(outer.variables))
    with within(macro, position, is_in_text=True):
        body = body_of(macro, call, caller, position, is_in_text=True)
        return binder.of_macro(macro).query(body.this, outer)


def check_macro(binder: StatementBinder, statement: CreateMacro) -> None:
    """Raises ProgrammingError for a body that no call could bind: with a column that is no
    parameter, or with a table or a function that does not exist. Types depend on the arguments, so
    they are checked by each call."""
    for form in statement.forms:
        _check_calls(statement, form)
        root = exp.Paren(this=form.body.copy())
        names = {item.name.text.lower() for item in form.parameters}
        for column in list(root.find_all(exp.Column)):
            if (column.name.lower() in names and not column.table) or column.table.lower() in names:
                column.replace(exp.Null())
        body = root.this
        if statement.kind == SCALAR:
            body = exp.Select(expressions=[root])
            if binder.environment.is_confined and form.body.find(exp.Query) is not None:
                raise NotSupportedError(
                    "a macro with a subquery is not supported here",
                    hint="create a table macro: AS TABLE SELECT …",
                    position=statement.name.position,
                )
        try:
            binder.query(body, None)
        except DatabaseError as error:
            if any(word in error.message for word in _MISSING):
                raise


def _check_calls(statement: CreateMacro, form: MacroForm) -> None:
    """Raises ProgrammingError if the body calls the macro itself."""
    name = statement.name.text.upper()
    for node in form.body.find_all(exp.Anonymous):
        is_table = isinstance(node.parent, exp.Table)
        call = function_call(node)
        if call is not None and call[0] == name and is_table == (statement.kind != SCALAR):
            raise ProgrammingError(
                f'macro "{statement.name}" refers to itself',
                hint="a query can be recursive: WITH RECURSIVE",
                position=statement.name.position,
            )
