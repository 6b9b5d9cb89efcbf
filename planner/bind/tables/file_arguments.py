"""The arguments of table functions that read files, as Python values.

They are constants, because a plan depends on the columns of the files: texts, numbers, TRUE, FALSE,
NULL, lists `['a', 'b']` and structs `{'a': 'INTEGER'}`. A name is written `name = x`, `name => x`
or `name := x`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import Error, Position, ProgrammingError
from runnel.expressions.nodes import Literal, Parameter
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import Scope
from runnel.planner.parse.query.allow_list import position_of, unwrapped
from runnel.planner.parse.types import parse_type
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

_TYPED = frozenset({"columns", "types", "dtypes", "column_types", "hive_types"})
"""The arguments whose texts are names of types."""


def constant_arguments(
    binder: StatementBinder, function: str, arguments: list[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The values by position, and the values by lower-case name. ProgrammingError for an argument
    that is not constant."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for argument in arguments:
        name, tree = _named(argument)
        position = position_of(argument, binder.sql)
        if name is None:
            if named:
                raise ProgrammingError(
                    "a named argument can't be followed by one without a name", position=position
                )
            positional.append(_value(binder, function, tree))
            continue
        if name in named:
            raise ProgrammingError(f'argument "{name}" is given twice', position=position)
        value = _value(binder, function, _with_type_names(tree) if name in _TYPED else tree)
        named[name] = _typed(function, name, value, position) if name in _TYPED else value
    return positional, named


def _named(argument: Any) -> tuple[str | None, Any]:
    """The name of an argument, None if it has none, and its tree."""
    if isinstance(argument, exp.Kwarg | exp.PropertyEQ):
        return argument.this.name.lower(), argument.expression
    if (
        isinstance(argument, exp.EQ)
        and isinstance(argument.this, exp.Column)
        and not argument.this.table
    ):
        return argument.this.name.lower(), argument.expression
    return None, argument


def _with_type_names(tree: Any) -> Any:
    """The tree of `{'id': INTEGER}` with texts in place of the names of types."""
    return tree.transform(
        lambda node: (
            exp.Literal.string(node.name)
            if isinstance(node, exp.Column) and not node.table
            else node
        )
    )


def _value(binder: StatementBinder, function: str, tree: Any) -> Any:
    tree = unwrapped(tree)
    if isinstance(tree, exp.Array):
        return [_value(binder, function, item) for item in tree.expressions]
    if isinstance(tree, exp.Struct):
        return {
            item.this.name: _value(binder, function, item.expression) for item in tree.expressions
        }
    position = position_of(tree, binder.sql)
    if isinstance(tree, exp.Column):
        raise ProgrammingError(
            f"the arguments of {function} are constants",
            hint=f"write texts in single quotes: '{tree.name}'",
            position=position,
        )
    bound = ExpressionBinder(binder, Scope(), "a table function").bind(tree)
    if isinstance(bound, Parameter):
        return _argument(binder, function, bound)
    if not isinstance(bound, Literal):
        # Loaded on first use: most arguments are literals.
        from runnel.planner.rules.constant_folding import fold

        bound = fold(bound)
    if not isinstance(bound, Literal):
        raise ProgrammingError(f"the arguments of {function} are constants", position=position)
    value = bound.value
    return int(value) if isinstance(value, Decimal) and value == value.to_integral() else value


def _argument(binder: StatementBinder, function: str, parameter: Parameter) -> Any:
    environment = binder.environment
    if environment.in_job or environment.arguments is None:
        raise ProgrammingError(
            f"a parameter can't be an argument of {function} here",
            hint="write the value into the statement",
            position=parameter.position,
        )
    return environment.arguments[parameter.index]


def _typed(function: str, name: str, value: Any, position: Position | None) -> Any:
    """The value with types in place of their names."""
    if isinstance(value, dict):
        return {key: _type(function, name, item, position) for key, item in value.items()}
    if isinstance(value, list):
        return [_type(function, name, item, position) for item in value]
    return value


def _type(function: str, name: str, text: Any, position: Position | None) -> SqlType:
    if not isinstance(text, str):
        raise ProgrammingError(
            f'argument "{name}" of {function} has {text!r} in place of a type',
            hint="write types in single quotes: 'INTEGER'",
            position=position,
        )
    try:
        return parse_type(text)
    except Error as error:
        error.position = position
        raise
