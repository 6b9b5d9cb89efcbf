"""Signatures of functions that are called by name: the number and the types of the arguments, and
the result's type.

A parameter is a SQL type or a group of types (`NUMERIC`, `TEXT`, …). An argument is converted
implicitly if no information is lost by the change of kind: an integer to a wider integer or to a
number, a DATE to a TIMESTAMP, a text literal to a temporal value. `TEXT` accepts VARCHAR and JSON
only; `ANY_TEXT` converts every type to VARCHAR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runnel.base.frozen import frozen
from runnel.errors import Position, ProgrammingError
from runnel.expressions.coercion import convert, takes_type
from runnel.expressions.function import Bind, Bound, Function, Kernel, never_fails
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.sqltypes import (
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Kind,
    SqlType,
    can_cast,
    common_type,
)


@frozen
class Group:
    """A parameter that accepts several types.

    name: the name in error messages.
    accepts: whether an argument of a type is accepted.
    default: the type that NULL and an untyped parameter get.
    """

    name: str
    accepts: Callable[[SqlType], bool]
    default: SqlType


NUMERIC = Group("NUMERIC", lambda item: item.is_numeric, DOUBLE)
DATE_OR_TIMESTAMP = Group(
    "DATE or TIMESTAMP", lambda item: item.is_temporal and item.kind is not Kind.TIME, TIMESTAMP
)
ARRAY = Group(
    "an ARRAY", lambda item: item.kind is Kind.ARRAY, SqlType(Kind.ARRAY, element=VARCHAR)
)
ANY_TEXT = Group("ANY", lambda item: can_cast(item, VARCHAR), VARCHAR)
ANY = Group("ANY", lambda item: True, VARCHAR)
TEXT = VARCHAR

Parameter = SqlType | Group


def signature(
    *parameters: Parameter,
    result: SqlType | Callable[[Sequence[Expression]], SqlType],
    optional: int = 0,
    repeats: bool = False,
    is_own: bool = False,
) -> Bind:
    """Returns the `bind` of a function with these parameters.

    parameters: the types or groups of types, in order.
    result: the result's type, or a function that returns it for the converted arguments.
    optional: how many of the last parameters may be left out.
    repeats: whether the last parameter may occur any number of times.
    is_own: whether it is a user function, whose name errors show as the user wrote it.
    """
    least, most = len(parameters) - optional, len(parameters)

    def bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
        count = len(arguments)
        shown = name if is_own else name.upper()
        if count < least or (count > most and not repeats):
            raise ProgrammingError(
                f"{shown} expects {_counted(least, most, repeats)}, not {count}", position=position
            )
        expected = [*parameters, *([parameters[-1]] * (count - most) if repeats else [])]
        converted = tuple(
            _converted(shown, index, argument, parameter, position)
            for index, (argument, parameter) in enumerate(zip(arguments, expected, strict=False), 1)
        )
        return converted, result if isinstance(result, SqlType) else result(converted)

    return bind


def _counted(least: int, most: int, repeats: bool) -> str:
    """The permitted number of arguments, in words."""
    if repeats:
        number = f"at least {least}"
    elif least == most:
        number = str(least)
    else:
        number = f"{least} to {most}"
    return f"{number} argument{'s' if (most if least != most else least) != 1 else ''}"


def _converted(
    name: str, index: int, argument: Expression, parameter: Parameter, position: Position | None
) -> Expression:
    """The argument in the parameter's type; ProgrammingError if the parameter doesn't accept its
    type.
    """
    source = argument.type
    if isinstance(parameter, Group):
        if source.kind is Kind.NULL or (
            takes_type(argument, parameter.default) and not parameter.accepts(source)
        ):
            return convert(argument, parameter.default)
        if parameter.accepts(source):
            return _roomy(convert(argument, VARCHAR) if parameter is ANY_TEXT else argument)
    elif source == parameter or takes_type(argument, parameter) or _widens(source, parameter):
        return convert(argument, parameter)
    raise ProgrammingError(
        f"argument {index} of {name} must be "
        f"{parameter.name if isinstance(parameter, Group) else parameter}, not {source}",
        hint=_cast_hint(argument, parameter),
        position=argument.position or position,
    )


def _cast_hint(argument: Expression, parameter: Parameter) -> str | None:
    """The CAST that makes an argument fit, if it is no literal and there is one; without a hint the
    caller shows the parameters of the function."""
    if isinstance(parameter, SqlType) and not isinstance(argument, Literal):
        is_simple = not argument.type.is_nested and not parameter.is_nested
        if is_simple and can_cast(argument.type, parameter):
            return f"add an explicit CAST to {parameter}"
    return None


def _roomy(argument: Expression) -> Expression:
    """A small integer literal as INTEGER: ABS(-128) is 128, though −128 on its own is a TINYINT."""
    is_small = isinstance(argument, Literal) and argument.type.kind in (Kind.TINYINT, Kind.SMALLINT)
    return convert(argument, INTEGER) if is_small else argument


def _widens(source: SqlType, target: SqlType) -> bool:
    """Whether an argument of type `source` is converted implicitly to `target`."""
    if source.is_interval:
        return target.kind is Kind.INTERVAL_MIXED
    if source.is_numeric and target.kind is Kind.DOUBLE:
        return True
    if source.kind is Kind.DATE and target.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        return True
    if source.kind is Kind.TIMESTAMP and target.kind is Kind.TIMESTAMP_TZ:
        return True
    return common_type(source, target) == target


def named(
    name: str,
    arguments: str,
    result: str,
    bind: Bind,
    compile_call: Callable[[Call], Kernel] | None = None,
    *,
    kernel: Kernel | None = None,
    sql_names: tuple[str, ...] = (),
    can_fail: Callable[[Call], bool] = never_fails,
    family: str = "",
) -> Function:
    """A function that SQL calls by its name, and by `sql_names`.

    It has either a `compile_call` or a `kernel`; the `kernel` is the same for every call.
    """
    if compile_call is None:
        assert kernel is not None
        fixed = kernel

        def compile_call(call: Call) -> Kernel:
            return fixed

    return Function(
        name=name,
        arguments=arguments,
        result=result,
        bind=bind,
        compile=compile_call,
        sql_names=(name.upper(), *sql_names),
        can_fail=can_fail,
        family=family,
    )


def by_value(
    name: str,
    arguments: str,
    types: Sequence[Any],
    result: SqlType,
    function: Callable[..., Any],
    *,
    family: str,
    optional: int = 0,
    sql_names: tuple[str, ...] = (),
    can_fail: Callable[[Call], bool] = never_fails,
) -> Function:
    """A function that SQL calls by name, and that calls `function` with Python values."""
    return named(
        name,
        arguments,
        str(result),
        signature(*types, result=result, optional=optional),
        per_value(function),
        sql_names=sql_names,
        can_fail=can_fail,
        family=family,
    )


__all__ = [
    "ANY",
    "ANY_TEXT",
    "ARRAY",
    "DATE",
    "DATE_OR_TIMESTAMP",
    "NUMERIC",
    "Group",
    "by_value",
    "named",
    "signature",
]
