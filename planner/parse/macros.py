"""CREATE MACRO and DROP MACRO, and the text of a macro that the catalog stores.

CREATE FUNCTION name(…) AS expression is the same statement; Flink's CREATE FUNCTION f AS 'class'
and PostgreSQL's, which has RETURNS, are refused by `ddl`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, Name, Statement
from runnel.planner.parse.tokens import tokenize
from runnel.planner.parse.types import parse_type

SCALAR, TABLE = "macro", "table macro"
"""The kinds of macros in the catalog."""


@frozen
class MacroParameter:
    """A parameter of a macro.

    name: as written.
    default: the sqlglot tree of its default; None: a call must have an argument.
    type: the type to which an argument is converted, as text; None: it keeps its type.
    """

    name: Name
    default: Any = None
    type: str | None = None


@frozen
class MacroForm:
    """A list of parameters with its body. A macro has several if they differ in number.

    parameters: in order; those with a default are last.
    body: the sqlglot tree of an expression, or of a query.
    """

    parameters: tuple[MacroParameter, ...]
    body: Any


@frozen(kw_only=True)
class CreateMacro(Statement):
    """CREATE MACRO.

    name: the macro.
    kind: SCALAR or TABLE.
    forms: the lists of parameters with their bodies.
    text: the section of `sql` after the name.
    or_replace: whether a macro with this name is replaced.
    if_not_exists: whether an existing macro is left as it is.
    is_temporary: whether it is not stored with the connection.
    """

    name: Name
    kind: str
    forms: tuple[MacroForm, ...]
    text: str
    or_replace: bool
    if_not_exists: bool
    is_temporary: bool


@frozen(kw_only=True)
class DropMacro(Command):
    """DROP MACRO.

    name: the macro.
    kind: SCALAR or TABLE; None: DROP FUNCTION, which drops either.
    if_exists: whether it is no error if the macro does not exist.
    """

    name: Name
    kind: str | None
    if_exists: bool


def parse_create_macro(
    reader: StatementReader, position: Position, or_replace: bool, is_temporary: bool
) -> CreateMacro:
    """[IF NOT EXISTS] name (a, b := 5) AS {expression | TABLE query}, after MACRO"""
    if_not_exists = reader.accept_if_not_exists(or_replace)
    name = reader.public_name("the macro")
    start = reader.position.offset
    kind, forms = _read_forms(reader)
    if reader.parameters:
        raise ProgrammingError(
            "a macro can't have parameters of the statement",
            hint="write the value as a literal, or make it a parameter of the macro",
            position=Position.at(reader.sql, min(reader.parameters)),
        )
    return CreateMacro(
        sql=reader.sql,
        position=position,
        name=name,
        kind=kind,
        forms=forms,
        text=reader.sql[start : reader.tokens[-1].end + 1],
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        is_temporary=is_temporary,
    )


def parse_drop_macro(reader: StatementReader, position: Position, word: str) -> DropMacro:
    """[TABLE] [IF EXISTS] name, after MACRO or FUNCTION"""
    kind = None if word == "FUNCTION" else SCALAR
    if word == "MACRO" and reader.accept("TABLE"):
        kind = TABLE
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.public_name("the macro")
    if not reader.accept("CASCADE"):
        reader.accept("RESTRICT")
    return DropMacro(sql=reader.sql, position=position, name=name, kind=kind, if_exists=if_exists)


@lru_cache(maxsize=256)
def forms_of(text: str) -> tuple[MacroForm, ...]:
    """The forms of a macro of the catalog. Their trees are shared, and are copied before they are
    changed."""
    return _read_forms(StatementReader(tokenize(text), text, {}))[1]


def _read_forms(reader: StatementReader) -> tuple[str, tuple[MacroForm, ...]]:
    """Reads (parameters) AS body [, …] up to the end of the statement."""
    forms: list[MacroForm] = []
    while True:
        parameters = _parameters(reader)
        reader.expect("AS")
        if reader.peek() == "TABLE" and not forms:
            reader.next()
            return TABLE, (MacroForm(parameters, _query(reader)),)
        forms.append(MacroForm(parameters, reader.expression(",")))
        count = len(parameters)
        if any(len(form.parameters) == count for form in forms[:-1]):
            raise ProgrammingError(
                f"the macro has two lists of {count} parameters", position=reader.position
            )
        if not reader.accept(","):
            break
    if not reader.at_end:
        raise reader.error("the end of the statement")
    if len(forms) > 1 and any(item.default for form in forms for item in form.parameters):
        raise NotSupportedError(
            "a macro with several lists of parameters can't have defaults",
            hint="write the list without the parameter as well",
            position=reader.position,
        )
    return SCALAR, tuple(forms)


def _query(reader: StatementReader) -> Any:
    parsed = reader.query()
    if parsed.emission is not None or parsed.changes is not None or parsed.unbounded_state:
        raise NotSupportedError(
            "EMIT and OPTIONS in a macro are not supported",
            hint="write them into the query that calls the macro",
            position=parsed.position,
        )
    return parsed.expression


def _parameters(reader: StatementReader) -> tuple[MacroParameter, ...]:
    reader.expect("(")
    found: list[MacroParameter] = []
    while reader.peek() != ")":
        name = reader.unique(reader.name("a parameter"), [item.name for item in found], "parameter")
        kind = None
        if reader.peek() not in (",", ")", ":=", "DEFAULT"):
            start = reader.position.offset
            parse_type(reader)
            kind = reader.sql[start : reader.tokens[reader.index - 1].end + 1]
        default = None
        if reader.accept(":=") or reader.accept("DEFAULT"):
            default = reader.expression(",", ")")
            _check_constant(name, default)
        elif found and found[-1].default is not None:
            raise ProgrammingError(
                f'parameter "{name}" has no default, but follows one that has',
                hint="parameters with a default are last",
                position=name.position,
            )
        found.append(MacroParameter(name, default, kind))
        if not reader.accept(","):
            break
    reader.expect(")")
    return tuple(found)


def _check_constant(name: Name, default: Any) -> None:
    if default.find(exp.Column, exp.Query) is not None:
        raise ProgrammingError(
            f'the default of parameter "{name}" can\'t contain columns or queries',
            hint="write a constant",
            position=name.position,
        )
