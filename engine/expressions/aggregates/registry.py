"""The aggregate functions: how they are bound, which states they have, and how their values are
computed from the states.

The table AGGREGATES is used by the binder (`aggregate_call`) and by every operator that aggregates,
over groups or over windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, validity
from runnel.errors import (
    DataError,
    OutOfRangeException,
    Position,
    ProgrammingError,
    UndefinedFunction,
    suggest,
)
from runnel.expressions.aggregates import ordered as ordered_aggregates
from runnel.expressions.aggregates import quantiles as quantile_aggregates
from runnel.expressions.aggregates import statistics as statistical_aggregates
from runnel.expressions.aggregates import times as time_aggregates
from runnel.expressions.aggregates.function import (
    AggregateFunction,
    AggregateSyntax,
    BoundAggregate,
    Finish,
    NoRows,
    anything,
    as_doubles,
    bigint,
    boolean,
    bound_argument,
    check_arguments,
    double,
    numeric,
    ordered,
    refused_type,
    same,
    summable,
)
from runnel.expressions.aggregates.states import (
    AggregateState,
    Count,
    Extreme,
    SumDecimal,
    SumDouble,
    SumInteger,
    VarianceState,
    filled,
)
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall, Call, Case, Cast, Expression, Literal, SortKey
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL_MIXED,
    MAX_PRECISION,
    NULL,
    Kind,
    SqlType,
    decimal,
    to_arrow,
)


def _first_column(
    columns: list[pa.Array], call: AggregateCall, context: EvaluationContext
) -> pa.Array:
    return columns[0]


def _count(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    return (
        from_numbers(filled(columns[0], np.int64), pa.int64())
        if columns[0].null_count
        else columns[0]
    )


def _sum_states(kind: SqlType) -> tuple[AggregateState, ...]:
    if kind.is_integer:
        return (SumInteger(),)
    if kind.kind is Kind.DECIMAL:
        return (SumDecimal(kind.precision, kind.scale),)
    return (SumDouble(),)


def _sum_type(kind: SqlType) -> SqlType:
    if kind.is_interval:
        return kind
    if kind.is_integer:
        return BIGINT
    return decimal(MAX_PRECISION, kind.scale) if kind.kind is Kind.DECIMAL else DOUBLE


def _sum(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    target = to_arrow(call.type)
    if columns[0].type == target:
        return columns[0]
    try:
        return pc.cast(columns[0], target)
    except pa.ArrowInvalid:
        raise _overflow(call) from None


def _overflow(call: AggregateCall) -> DataError:
    hint = "cast the argument to DECIMAL" if call.type.is_integer else "cast the argument to DOUBLE"
    return OutOfRangeException(
        f"{call.type} overflow in {call.function.upper()}", hint=hint, position=call.position
    )


def _average_type(kind: SqlType) -> SqlType:
    """A DECIMAL average has as many digits before the point as its arguments, and at least 16 after
    it if 38 digits are enough for that.
    """
    if kind.is_interval:
        return INTERVAL_MIXED if kind.kind is Kind.INTERVAL_MONTH else kind
    if kind.kind is not Kind.DECIMAL:
        return DOUBLE
    whole = kind.precision - kind.scale
    scale = min(max(16, kind.scale), MAX_PRECISION - whole)
    return decimal(whole + scale, scale)


def _average(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    total, counts = columns
    if call.type.kind is Kind.DECIMAL:
        return _divided_decimal(total, counts, call.type)
    if not pa.types.is_floating(total.type):
        total = pc.cast(total, pa.float64(), safe=False)
    # The count of a group without arguments is 0, but then its sum is NULL.
    values = filled(total, np.float64) / np.maximum(filled(counts, np.int64), 1)
    return from_numbers(values, pa.float64(), validity(total))


def _divided_decimal(total: pa.Array, counts: pa.Array, result: SqlType) -> pa.Array:
    """The totals divided by the counts, rounded half up."""
    from runnel.expressions.numbers.decimal_division import quotients

    dividend = pc.cast(total, pa.decimal256(76, result.scale))
    divisor = pc.cast(
        from_numbers(np.maximum(filled(counts, np.int64), 1), pa.int64()), pa.decimal128(19, 0)
    )
    return pc.cast(quotients(dividend, divisor).view(dividend.type), to_arrow(result))


def _spread(is_sample: bool, is_deviation: bool) -> Finish:
    """The finish of VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP: NULL for too few arguments."""
    least = 2 if is_sample else 1

    def finish(
        columns: list[pa.Array], call: AggregateCall, context: EvaluationContext
    ) -> pa.Array:
        counts = filled(columns[0], np.int64)
        squares = filled(columns[2], np.float64)
        values = squares / np.maximum(counts - is_sample, 1)
        return from_numbers(
            np.sqrt(values) if is_deviation else values, pa.float64(), counts >= least
        )

    return finish


def _extreme(function: str) -> Callable[[SqlType], tuple[AggregateState, ...]]:
    return lambda kind: (Extreme(function, to_arrow(kind)),)


SPREADS = {
    "var_pop": (False, False),
    "var_samp": (True, False),
    "variance": (True, False),
    "stddev_pop": (False, True),
    "stddev_samp": (True, True),
    "stddev": (True, True),
}
"""For each function of spread, whether it is for a sample, and whether it is a deviation."""


_SMALLEST, _LARGEST = _extreme("min"), _extreme("max")
_TOTALS = [
    AggregateFunction(
        "count_star",
        anything,
        bigint,
        lambda _: (Count(of_rows=True),),
        _count,
        arguments=0,
        no_rows=NoRows.ZERO,
    ),
    AggregateFunction(
        "count",
        anything,
        bigint,
        lambda _: (Count(),),
        _count,
        null_type=NULL,
        no_rows=NoRows.ZERO,
    ),
    AggregateFunction("sum", summable, _sum_type, _sum_states, _sum, no_rows=NoRows.NULL),
    AggregateFunction(
        "avg",
        summable,
        _average_type,
        lambda kind: (*_sum_states(kind), Count()),
        _average,
        DOUBLE,
        no_rows=NoRows.NULL,
    ),
]
_EXTREMES = [
    AggregateFunction(
        name,
        ordered,
        same,
        states,
        _first_column,
        ignores_distinct=True,
        no_rows=NoRows.NULL,
    )
    for name, states in (("min", _SMALLEST), ("max", _LARGEST))
]
# false < true: AND is the smallest, OR the largest.
_LOGICAL = [
    AggregateFunction(name, boolean, same, states, _first_column, BOOLEAN, ignores_distinct=True)
    for name, states in (("bool_and", _SMALLEST), ("every", _SMALLEST), ("bool_or", _LARGEST))
]
_OF_SPREAD = [
    AggregateFunction(
        name,
        numeric,
        double,
        lambda _: (VarianceState(),),
        _spread(is_sample, is_deviation),
        DOUBLE,
        bind=as_doubles,
    )
    for name, (is_sample, is_deviation) in SPREADS.items()
]
AGGREGATES: Mapping[str, AggregateFunction] = {
    item.name: item
    for item in (
        *_TOTALS,
        *_EXTREMES,
        *_LOGICAL,
        *_OF_SPREAD,
        *ordered_aggregates.FUNCTIONS,
        *quantile_aggregates.FUNCTIONS,
        *statistical_aggregates.FUNCTIONS,
        *time_aggregates.FUNCTIONS,
    )
}
"""All aggregate functions by the key that `AggregateCall.function` carries."""

_SQL_NAMES = {
    name: item.name for item in AGGREGATES.values() for name in (item.name, *item.sql_names)
}
_REWRITTEN = frozenset({"median", "count_if", "countif"})
"""Names that stand for a call of another function."""


def is_aggregate(name: str) -> bool:
    """Whether `name`, in any case, is an aggregate function."""
    return name.lower() in _SQL_NAMES or name.lower() in _REWRITTEN


def aggregate_names() -> list[str]:
    """All names, in lower case, by which SQL calls aggregate functions."""
    return sorted({*_SQL_NAMES, *_REWRITTEN} - {"count_star"})


def aggregate_call(
    name: str,
    arguments: Sequence[Expression],
    distinct: bool = False,
    predicate: Expression | None = None,
    position: Position | None = None,
    *,
    order: Sequence[SortKey] = (),
    within_group: bool = False,
) -> AggregateCall:
    """Binds an aggregate; COUNT without arguments is COUNT(*).

    `order` is the ORDER BY in the brackets or of WITHIN GROUP. Raises ProgrammingError for an
    unknown name, a wrong number of arguments or an unsuitable type.
    """
    syntax = AggregateSyntax(name, tuple(arguments), tuple(order), within_group, position)
    key = name.lower()
    if key in ("count_if", "countif"):
        return _count_if(syntax, distinct, predicate)
    if key in ("avg", "mean") and arguments and arguments[0].type.is_temporal:
        key = time_aggregates.TIMES_AVERAGE
    if key == "median":
        check_arguments(syntax, 1)
        half = Literal(value=0.5, type=DOUBLE, position=position)
        kind = syntax.arguments[0].type
        is_measured = kind.kind not in (Kind.VARCHAR, Kind.BOOLEAN)
        syntax, key = (
            syntax._replace(arguments=(*syntax.arguments, half), order=()),
            "percentile_cont" if is_measured else "percentile_disc",
        )
    elif key == "count" and distinct and len(arguments) > 1:
        syntax = syntax._replace(arguments=(_row_without_nulls(arguments, position),))
    elif key == "count" and not arguments:
        key = "count_star"
    function = AGGREGATES.get(_SQL_NAMES.get(key, ""))
    if function is None:
        raise UndefinedFunction(
            f'aggregate function "{name}" does not exist',
            hint=suggest(name, aggregate_names()),
            position=position,
        )
    if within_group and function.name not in WITHIN_GROUP:
        raise ProgrammingError(f"{name.upper()} can't have WITHIN GROUP", position=position)
    bound = (function.bind or _bind)(function, syntax)
    distinct = distinct and not function.ignores_distinct and bool(bound.arguments)
    if distinct and any(item.expression not in bound.arguments for item in bound.order):
        raise ProgrammingError(
            f"with DISTINCT, ORDER BY within {name.upper()} can only use its arguments",
            position=bound.order[0].expression.position,
        )
    return AggregateCall(
        function=function.name,
        arguments=bound.arguments,
        type=bound.type,
        distinct=distinct,
        order=bound.order,
        predicate=predicate,
        position=position,
    )


WITHIN_GROUP = frozenset({"percentile_cont", "percentile_disc", "mode", "array_agg", "string_agg"})
"""The functions that may take their order in WITHIN GROUP."""


def _bind(function: AggregateFunction, syntax: AggregateSyntax) -> BoundAggregate:
    """Of a function of one argument, or of none, to which order means nothing."""
    check_arguments(syntax, function.arguments)
    if not syntax.arguments:
        return BoundAggregate((), (), BIGINT)
    first = bound_argument(function, syntax.arguments[0], syntax.position)
    return BoundAggregate((first,), (), function.result(first.type))


def _row_without_nulls(arguments: Sequence[Expression], position: Position | None) -> Expression:
    """A row of the arguments; NULL where one of them is NULL."""
    from runnel.expressions import build

    present = [build.call("is_not_null", [item], position) for item in arguments]
    row = build.call("row", arguments, position)
    return Case(
        conditions=(build.call("and", present, position),),
        results=(row,),
        otherwise=None,
        type=row.type,
        position=position,
    )


def _count_if(
    syntax: AggregateSyntax, distinct: bool, predicate: Expression | None
) -> AggregateCall:
    check_arguments(syntax, 1)
    condition = syntax.arguments[0]
    if condition.type.kind not in (Kind.BOOLEAN, Kind.NULL):
        raise refused_type(syntax.name, condition, syntax.position)
    if distinct:
        raise ProgrammingError(
            f"{syntax.name.upper()} can't have DISTINCT", position=syntax.position
        )
    if condition.type.kind is Kind.NULL:
        condition = Cast(
            operand=condition, type=BOOLEAN, implicit=True, position=condition.position
        )
    both = (
        condition
        if predicate is None
        else Call(function="and", arguments=(predicate, condition), type=BOOLEAN)
    )
    return AggregateCall(
        function="count_star", arguments=(), type=BIGINT, predicate=both, position=syntax.position
    )


def function_of(call: AggregateCall) -> AggregateFunction:
    """The function of a call."""
    if call.python is None:
        return AGGREGATES[call.function]
    from runnel.expressions.python.aggregate import PYTHON_AGGREGATE

    return PYTHON_AGGREGATE


def states_of(call: AggregateCall) -> tuple[AggregateState, ...]:
    """The states of a call."""
    function = function_of(call)
    if call.function == "count_star" and call.predicate is not None:
        function = AGGREGATES["count"]
    if function.call_states is not None:
        return function.call_states(call)
    states = function.states(call.arguments[0].type if call.arguments else call.type)
    return tuple(item.placed(call.position) for item in states)


class RowArguments(NamedTuple):
    """The expressions that are evaluated for each row and passed to the states.

    expressions: the arguments and keys.
    has_flag: whether the last expression is a flag that says which rows count.
    """

    expressions: tuple[Expression, ...]
    has_flag: bool


def row_arguments(call: AggregateCall) -> RowArguments:
    """The arguments and sort keys of a call.

    In a row that the FILTER clause excludes, they are NULL and aren't evaluated. If NULLs count,
    the condition follows as a flag.
    """
    function = function_of(call)
    arguments = [
        *call.arguments[: function.evaluated(call)],
        *(key.expression for key in call.order),
    ]
    predicate = call.predicate
    if predicate is None:
        return RowArguments(tuple(arguments), False)
    if not arguments:
        arguments = [Literal(value=True, type=BOOLEAN)]
    kept = [
        Case(
            conditions=(predicate,),
            results=(item,),
            otherwise=None,
            type=item.type,
            position=item.position,
        )
        for item in arguments
    ]
    return RowArguments(
        (*kept, predicate) if function.keeps_nulls else tuple(kept), function.keeps_nulls
    )
