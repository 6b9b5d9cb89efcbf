"""The aggregate functions: how they are bound, which states they keep, and how their value comes from the states.

The table AGGREGATES is read by the binder (`aggregate_call`) and by every operator that aggregates: over groups, over windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import from_numbers, validity
from runnel.errors import DataError, NotSupportedError, Position, ProgrammingError, suggest
from runnel.expressions.aggregate_states import (
    Count,
    Extreme,
    First,
    Items,
    Moments,
    State,
    SumDecimal,
    SumDouble,
    SumInteger,
    filled,
)
from runnel.expressions.buffers import pack_scalar
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Aggregate, Cast, Expression, Literal, Parameter
from runnel.frozen import frozen
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_PRECISION,
    NULL,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    to_arrow,
)

Finish = Callable[[list[pa.Array], Aggregate, EvaluationContext], pa.Array]


@frozen
class AggregateFunction:
    """One entry of AGGREGATES.

    `accepts` says which types the first argument may have; a bare NULL is taken as `null_type`. `result` gives the type of
    the value. `states(type)` are the states over the first argument, `finish` makes the value of their columns.
    `ignores_distinct`: repeated arguments change nothing. `keeps_nulls`: NULL arguments count.
    """

    name: str
    accepts: Callable[[SqlType], bool]
    result: Callable[[SqlType], SqlType]
    states: Callable[[SqlType], tuple[State, ...]]
    finish: Finish
    null_type: SqlType = BIGINT
    arguments: int = 1
    ignores_distinct: bool = False
    keeps_nulls: bool = False


def _first_column(columns: list[pa.Array], call: Aggregate, context: EvaluationContext) -> pa.Array:
    return columns[0]


def _count(columns: list[pa.Array], call: Aggregate, context: EvaluationContext) -> pa.Array:
    return from_numbers(filled(columns[0], np.int64), pa.int64()) if columns[0].null_count else columns[0]


def _sum_states(kind: SqlType) -> tuple[State, ...]:
    if kind.is_integer:
        return (SumInteger(),)
    if kind.kind is Kind.DECIMAL:
        return (SumDecimal(kind.precision, kind.scale),)
    return (SumDouble(),)


def _sum_type(kind: SqlType) -> SqlType:
    if kind.is_integer:
        return BIGINT
    return decimal(MAX_PRECISION, kind.scale) if kind.kind is Kind.DECIMAL else DOUBLE


def _sum(columns: list[pa.Array], call: Aggregate, context: EvaluationContext) -> pa.Array:
    target = to_arrow(call.type)
    if columns[0].type == target:
        return columns[0]
    try:
        return pc.cast(columns[0], target)
    except pa.ArrowInvalid:
        raise _overflow(call) from None


def _overflow(call: Aggregate) -> DataError:
    hint = "cast the argument to DECIMAL" if call.type.is_integer else "cast the argument to DOUBLE"
    return DataError(f"{call.type} overflow in {call.function.upper()}", hint=hint, position=call.position)


def _average_type(kind: SqlType) -> SqlType:
    """A DECIMAL average has the whole digits of its arguments and at least 16 after the point, where 38 hold them."""
    if kind.kind is not Kind.DECIMAL:
        return DOUBLE
    whole = kind.precision - kind.scale
    scale = min(max(16, kind.scale), MAX_PRECISION - whole)
    return decimal(whole + scale, scale)


def _average(columns: list[pa.Array], call: Aggregate, context: EvaluationContext) -> pa.Array:
    total, counts = columns
    if call.type.kind is Kind.DECIMAL:
        return _divided_decimal(total, counts, call.type)
    if not pa.types.is_floating(total.type):
        total = pc.cast(total, pa.float64(), safe=False)
    # The count of a group without arguments is 0, but then its sum is NULL.
    values = filled(total, np.float64) / np.maximum(filled(counts, np.int64), 1)
    return from_numbers(values, pa.float64(), validity(total))


def _divided_decimal(total: pa.Array, counts: pa.Array, result: SqlType) -> pa.Array:
    """Half up. Arrow's division declares p2 + 1 further digits after the point; with the divisor declared to have one
    digit these are two, cut and not rounded, which is enough to decide."""
    dividend = pc.cast(total, pa.decimal256(74, result.scale)).view(pa.decimal256(40, 4))
    positive = from_numbers(np.maximum(filled(counts, np.int64), 1), pa.int64())
    divisor = pc.cast(positive, pa.decimal256(19, 0)).view(pa.decimal256(1, 0))
    quotient = pc.divide(dividend, divisor).view(pa.decimal256(76, result.scale + 2))
    return pc.cast(pc.round(quotient, result.scale, round_mode="half_towards_infinity"), to_arrow(result))


def _spread(is_sample: bool, is_deviation: bool) -> Finish:
    """The finish of VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP: NULL for too few arguments."""
    least = 2 if is_sample else 1

    def finish(columns: list[pa.Array], call: Aggregate, context: EvaluationContext) -> pa.Array:
        counts = filled(columns[0], np.int64)
        squares = filled(columns[2], np.float64)
        values = squares / np.maximum(counts - is_sample, 1)
        return from_numbers(np.sqrt(values) if is_deviation else values, pa.float64(), counts >= least)

    return finish


def _joined(columns: list[pa.Array], call: Aggregate, context: EvaluationContext) -> pa.Array:
    separator = call.arguments[1]
    if isinstance(separator, Parameter):
        return pc.binary_join(columns[0], context.arguments[separator.index])
    assert isinstance(separator, Literal)
    return pc.binary_join(columns[0], pack_scalar(separator.value, VARCHAR))


def _anything(kind: SqlType) -> bool:
    return True


def _comparable(kind: SqlType) -> bool:
    return not kind.is_nested and kind.kind is not Kind.JSON


def _numeric(kind: SqlType) -> bool:
    return kind.is_numeric


def _boolean(kind: SqlType) -> bool:
    return kind.kind is Kind.BOOLEAN


def _same(kind: SqlType) -> SqlType:
    return kind


def _bigint(kind: SqlType) -> SqlType:
    return BIGINT


def _double(kind: SqlType) -> SqlType:
    return DOUBLE


def _extreme(function: str) -> Callable[[SqlType], tuple[State, ...]]:
    return lambda kind: (Extreme(function, to_arrow(kind)),)


def _definitions() -> list[AggregateFunction]:
    smallest, largest = _extreme("min"), _extreme("max")
    functions = [
        AggregateFunction("count_star", _anything, _bigint, lambda _: (Count(of_rows=True),), _count, arguments=0),
        AggregateFunction("count", _anything, _bigint, lambda _: (Count(),), _count, null_type=NULL),
        AggregateFunction("sum", _numeric, _sum_type, _sum_states, _sum),
        AggregateFunction("avg", _numeric, _average_type, lambda kind: (*_sum_states(kind), Count()), _average, DOUBLE),
        AggregateFunction("min", _comparable, _same, smallest, _first_column, ignores_distinct=True),
        AggregateFunction("max", _comparable, _same, largest, _first_column, ignores_distinct=True),
        AggregateFunction(
            "any_value", _anything, _same, lambda kind: (First(to_arrow(kind)),), _first_column, ignores_distinct=True
        ),
        AggregateFunction(
            "array_agg",
            _anything,
            array,
            lambda kind: (Items(to_arrow(kind), keeps_nulls=True),),
            _first_column,
            keeps_nulls=True,
        ),
        AggregateFunction(
            "string_agg",
            lambda kind: kind.kind is Kind.VARCHAR,
            _same,
            lambda kind: (Items(to_arrow(kind), keeps_nulls=False),),
            _joined,
            VARCHAR,
            arguments=2,
        ),
    ]
    # false < true: AND is the smallest, OR the largest.
    for name, states in (("bool_and", smallest), ("every", smallest), ("bool_or", largest)):
        functions.append(AggregateFunction(name, _boolean, _same, states, _first_column, BOOLEAN, ignores_distinct=True))
    for name, is_sample, is_deviation in (
        ("var_pop", False, False),
        ("var_samp", True, False),
        ("variance", True, False),
        ("stddev_pop", False, True),
        ("stddev_samp", True, True),
        ("stddev", True, True),
    ):
        functions.append(
            AggregateFunction(name, _numeric, _double, lambda _: (Moments(),), _spread(is_sample, is_deviation), DOUBLE)
        )
    return functions


AGGREGATES: Mapping[str, AggregateFunction] = {item.name: item for item in _definitions()}
"""All aggregate functions by the key that `Aggregate.function` carries."""


def is_aggregate(name: str) -> bool:
    """Whether `name`, in any case, is an aggregate function."""
    return name.lower() in AGGREGATES


def aggregate_call(
    name: str,
    arguments: Sequence[Expression],
    distinct: bool = False,
    predicate: Expression | None = None,
    position: Position | None = None,
) -> Aggregate:
    """Binds an aggregate; COUNT without arguments is COUNT(*). ProgrammingError for an unknown name, a wrong number of
    arguments or a type that doesn't fit."""
    key = name.lower()
    if key == "count" and not arguments:
        key = "count_star"
    function = AGGREGATES.get(key)
    if function is None:
        raise ProgrammingError(f'aggregate function "{name}" does not exist', hint=suggest(name, AGGREGATES), position=position)
    if len(arguments) != function.arguments:
        count = function.arguments
        raise ProgrammingError(
            f"aggregate function {name.upper()} takes {count} argument{'s' * (count != 1)}, not {len(arguments)}",
            position=position,
        )
    if not arguments:
        return Aggregate(function=key, arguments=(), type=BIGINT, predicate=predicate, position=position)
    first = _bound_argument(function, arguments[0], position)
    rest = tuple(arguments[1:])
    if any(not isinstance(item, (Literal, Parameter)) or item.type.kind is not Kind.VARCHAR for item in rest):
        raise NotSupportedError(
            f"the separator of {name.upper()} must be a text literal or parameter", position=rest[0].position
        )
    return Aggregate(
        function=key,
        arguments=(first, *rest),
        type=function.result(first.type),
        distinct=distinct and not function.ignores_distinct,
        predicate=predicate,
        position=position,
    )


def _bound_argument(function: AggregateFunction, argument: Expression, position: Position | None) -> Expression:
    if argument.type.kind is Kind.NULL and function.null_type.kind is not Kind.NULL:
        return Cast(operand=argument, type=function.null_type, implicit=True, position=argument.position)
    if not function.accepts(argument.type):
        raise ProgrammingError(
            f"cannot apply aggregate function {function.name.upper()} to {argument.type}",
            hint="consider adding an explicit CAST",
            position=argument.position or position,
        )
    if function.finish in _SPREADS and argument.type.kind is not Kind.DOUBLE:
        return Cast(operand=argument, type=DOUBLE, implicit=True, position=argument.position)
    return argument


_SPREADS = frozenset(item.finish for item in AGGREGATES.values() if item.states(DOUBLE) == (Moments(),))
