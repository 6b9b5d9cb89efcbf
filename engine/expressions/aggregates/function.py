"""The description of an aggregate function: how a call is bound, which states it has, and how its
value is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.errors import Position, ProgrammingError
from runnel.expressions.aggregates.states import AggregateState
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall, Cast, Expression, SortKey
from runnel.sqltypes import BIGINT, DOUBLE, Kind, SqlType, contains

Finish = Callable[[list[pa.Array], AggregateCall, EvaluationContext], pa.Array]


class AggregateSyntax(NamedTuple):
    """A call of an aggregate as it is written in SQL.

    name: the name as written.
    arguments: the arguments.
    order: the items of ORDER BY.
    within_group: whether ORDER BY is in WITHIN GROUP (…), not in the brackets of the arguments.
    position: the position of the call.
    """

    name: str
    arguments: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    within_group: bool
    position: Position | None


class BoundAggregate(NamedTuple):
    """A bound call.

    arguments: the arguments, converted to the types of the parameters.
    order: the ORDER BY that affects the value; () if the value is the same in any order.
    type: the type of the value.
    """

    arguments: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    type: SqlType


def one(call: AggregateCall) -> int:
    return 1


def both(call: AggregateCall) -> int:
    return 2


class NoRows(Enum):
    """The value of an aggregate over no rows, where it is known without an evaluation."""

    NULL = "NULL"
    ZERO = "0"
    EVALUATED = "the result of an evaluation"


@frozen
class AggregateFunction:
    """One entry of AGGREGATES.

    name: the key that `AggregateCall.function` carries.
    accepts: whether the first argument may have a type.
    result: returns the type of the value for the type of the first argument.
    states: returns the states over the first argument.
    finish: computes the value from the columns of the states, as `collect` made them: a sum of
      integers is BIGINT or DECIMAL(38, 0), so cast it; NULL where no argument counted (`filled`).
    null_type: the type that a bare NULL gets as the argument.
    arguments: the number of arguments.
    ignores_distinct: whether repeated arguments don't change the value.
    keeps_nulls: whether NULL arguments count.
    bind: binds a call whose arguments are converted (`as_doubles`), or whose number isn't one.
    call_states: returns the states of a call, if they depend on more than the first argument's
      type.
    evaluated: returns how many of the first arguments are passed to the states, row by row,
      together with the keys of the order. The remaining arguments are constants that `finish`
      evaluates.
    no_rows: the value over no rows. EVALUATED is always right: a plan that needs the value then
      aggregates no rows.
    sql_names: further names.
    """

    name: str
    accepts: Callable[[SqlType], bool]
    result: Callable[[SqlType], SqlType]
    states: Callable[[SqlType], tuple[AggregateState, ...]]
    finish: Finish
    null_type: SqlType = BIGINT
    arguments: int = 1
    ignores_distinct: bool = False
    keeps_nulls: bool = False
    bind: Callable[[AggregateFunction, AggregateSyntax], BoundAggregate] | None = None
    call_states: Callable[[AggregateCall], tuple[AggregateState, ...]] | None = None
    evaluated: Callable[[AggregateCall], int] = one
    no_rows: NoRows = NoRows.EVALUATED
    sql_names: tuple[str, ...] = ()


def bound_argument(
    function: AggregateFunction, argument: Expression, position: Position | None, name: str = ""
) -> Expression:
    """The first argument, if the function (called by `name`) accepts its type."""
    if argument.type.kind is Kind.NULL and function.null_type.kind is not Kind.NULL:
        return Cast(
            operand=argument, type=function.null_type, implicit=True, position=argument.position
        )
    if not function.accepts(argument.type):
        raise refused_type(name or function.name, argument, position)
    return argument


def refused_type(name: str, argument: Expression, position: Position | None) -> ProgrammingError:
    return ProgrammingError(
        f"cannot apply aggregate function {name.upper()} to {argument.type}",
        hint="consider adding an explicit CAST",
        position=argument.position or position,
    )


def as_double(name: str, argument: Expression, position: Position | None) -> Expression:
    """A numeric argument as DOUBLE."""
    if argument.type.kind is Kind.DOUBLE:
        return argument
    if not (argument.type.is_numeric or argument.type.kind is Kind.NULL):
        raise refused_type(name, argument, position)
    return Cast(operand=argument, type=DOUBLE, implicit=True, position=argument.position)


def as_doubles(function: AggregateFunction, syntax: AggregateSyntax) -> BoundAggregate:
    """Binds a call that converts its numeric arguments to DOUBLE."""
    check_arguments(syntax, function.arguments)
    arguments = tuple(as_double(syntax.name, item, syntax.position) for item in syntax.arguments)
    return BoundAggregate(arguments, (), function.result(DOUBLE))


def check_arguments(syntax: AggregateSyntax, least: int, most: int | None = None) -> None:
    """Raises ProgrammingError for a wrong number of arguments."""
    most = least if most is None else most
    count = len(syntax.arguments)
    if not least <= count <= most:
        number = str(least) if least == most else f"{least} to {most}"
        raise ProgrammingError(
            f"aggregate function {syntax.name.upper()} expects {number} "
            f"argument{'s' * (most != 1)}, not {count}",
            position=syntax.position,
        )


def anything(kind: SqlType) -> bool:
    return True


def comparable(kind: SqlType) -> bool:
    return not kind.is_nested and kind.kind is not Kind.JSON


def ordered(kind: SqlType) -> bool:
    """Like `comparable`, and arrays and rows, which ORDER BY accepts too."""
    if kind.is_nested and contains(kind, Kind.INTERVAL_MIXED):
        return False
    return not contains(kind, Kind.JSON) and not contains(kind, Kind.MAP)


def numeric(kind: SqlType) -> bool:
    return kind.is_numeric


def summable(kind: SqlType) -> bool:
    return kind.is_numeric or kind.is_interval


def integral(kind: SqlType) -> bool:
    return kind.is_integer


def boolean(kind: SqlType) -> bool:
    return kind.kind is Kind.BOOLEAN


def same(kind: SqlType) -> SqlType:
    return kind


def bigint(kind: SqlType) -> SqlType:
    return BIGINT


def double(kind: SqlType) -> SqlType:
    return DOUBLE


def directions_of(order: Sequence[SortKey]) -> tuple[tuple[bool, bool], ...]:
    """For each key whether it is descending, and whether NULLs come first."""
    return tuple((key.descending, key.nulls_first) for key in order)
