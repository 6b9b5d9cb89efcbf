"""The functions that exist only with OVER, and how they are bound. (Aggregates may be used with
OVER too.)

The table WINDOW_FUNCTIONS is used by the binder (`window_function_call`), by the window operator
and by the renderers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from runnel.base.frozen import frozen
from runnel.errors import Position, ProgrammingError
from runnel.expressions.coercion import coerce, convert, takes_type
from runnel.expressions.nodes import AggregateCall, Expression
from runnel.sqltypes import BIGINT, DOUBLE, SqlType

Bind = Callable[[str, Sequence[Expression]], tuple[tuple[Expression, ...], SqlType]]


@frozen
class WindowFunction:
    """One entry of WINDOW_FUNCTIONS.

    name: the key that `AggregateCall.function` carries in a WindowCall.
    least: the smallest number of arguments.
    most: the largest number of arguments.
    bind: converts the arguments, and returns them with the result's type.
    uses_frame: whether the result depends on the frame, and not only on the order.
    takes_ignore_nulls: whether IGNORE NULLS may follow.
    """

    name: str
    least: int
    most: int
    bind: Bind
    uses_frame: bool = False
    takes_ignore_nulls: bool = False


def _whole_number(name: str, argument: Expression, what: str) -> Expression:
    if argument.type.is_integer or takes_type(argument, BIGINT):
        return convert(argument, BIGINT)
    raise ProgrammingError(
        f"{what} of {name.upper()} must be a whole number, not {argument.type}",
        hint="CAST it to BIGINT",
        position=argument.position,
    )


def _numbering(result: SqlType) -> Bind:
    return lambda name, arguments: ((), result)


def _ntile(name: str, arguments: Sequence[Expression]) -> tuple[tuple[Expression, ...], SqlType]:
    return (_whole_number(name, arguments[0], "the argument"),), BIGINT


def _value(name: str, arguments: Sequence[Expression]) -> tuple[tuple[Expression, ...], SqlType]:
    return tuple(arguments), arguments[0].type


def _nth(name: str, arguments: Sequence[Expression]) -> tuple[tuple[Expression, ...], SqlType]:
    return (arguments[0], _whole_number(name, arguments[1], "the second argument")), arguments[
        0
    ].type


def _shifted(name: str, arguments: Sequence[Expression]) -> tuple[tuple[Expression, ...], SqlType]:
    value, *rest = arguments
    bound = [] if not rest else [_whole_number(name, rest[0], "the second argument")]
    if len(rest) == 2:
        value, default = coerce([value, rest[1]], name.upper())
        bound.append(default)
    return (value, *bound), value.type


WINDOW_FUNCTIONS: Mapping[str, WindowFunction] = {
    item.name: item
    for item in (
        *(
            WindowFunction(name, 0, 0, _numbering(BIGINT))
            for name in ("row_number", "rank", "dense_rank")
        ),
        *(WindowFunction(name, 0, 0, _numbering(DOUBLE)) for name in ("percent_rank", "cume_dist")),
        WindowFunction("ntile", 1, 1, _ntile),
        WindowFunction("lag", 1, 3, _shifted, takes_ignore_nulls=True),
        WindowFunction("lead", 1, 3, _shifted, takes_ignore_nulls=True),
        WindowFunction("first_value", 1, 1, _value, uses_frame=True, takes_ignore_nulls=True),
        WindowFunction("last_value", 1, 1, _value, uses_frame=True, takes_ignore_nulls=True),
        WindowFunction("nth_value", 2, 2, _nth, uses_frame=True, takes_ignore_nulls=True),
    )
}
"""All functions that require OVER, by the key that `AggregateCall.function` carries in a
WindowCall."""


def is_window_function(name: str) -> bool:
    """Whether `name`, in any case, is a function that requires OVER."""
    return name.lower() in WINDOW_FUNCTIONS


def window_function_call(
    name: str, arguments: Sequence[Expression], position: Position | None = None
) -> AggregateCall:
    """Binds a window function; ProgrammingError for a wrong number of arguments or an unsuitable
    type.
    """
    function = WINDOW_FUNCTIONS[name.lower()]
    if not function.least <= len(arguments) <= function.most:
        expected = (
            str(function.least)
            if function.least == function.most
            else f"{function.least} to {function.most}"
        )
        raise ProgrammingError(
            f"{name.upper()} expects {expected} argument{'s' * (expected != '1')}, "
            f"not {len(arguments)}",
            position=position,
        )
    bound, result = function.bind(name, arguments)
    return AggregateCall(function=function.name, arguments=bound, type=result, position=position)
