"""Values of OVER over all earlier rows, which go on from batch to batch: what is kept of each
partition in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import Mask, from_flags, from_numbers
from runnel.errors import DataError
from runnel.expressions.aggregates.registry import AGGREGATES, aggregate_call
from runnel.expressions.aggregates.states import filled
from runnel.expressions.coercion import cast
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import AggregateCall, Call, Column
from runnel.relation.over import WindowCall
from runnel.sqltypes import BIGINT, Kind, SqlType, decimal

Values = Sequence[pa.Array]


@frozen
class Going:
    """How the value of a call goes on: `calls` are computed over the new rows alone; `combine`
    makes of what was kept of each row's partition (NULL where nothing was, as the mask says) and of
    these values those of the call, and what is to be kept."""

    calls: tuple[WindowCall, ...]
    combine: Callable[[Values, Values, Mask, EvaluationContext], tuple[pa.Array, Values]]


_EXTREMES = {
    **dict.fromkeys(("max", "bool_or"), "greatest"),
    **dict.fromkeys(("min", "bool_and", "every"), "least"),
}
"""The function that combines the value so far with the next one: false < true."""


def going(call: WindowCall) -> Going:
    """How a call goes on whose frame is all rows up to the current one."""
    function = call.call.function
    if function in ("row_number", "dense_rank", "count", "count_star"):
        return Going((call,), _counted)
    if function == "rank":
        return Going((call, _row_number(call)), _ranked)
    if function == "sum":
        return Going((call,), _summed(call.call))
    if function == "avg":
        return _average(call)
    if function == "first_value":
        return Going((call,), _first_known if call.ignore_nulls else _first)
    if function == "last_value":
        return Going((call,), _last_known if call.ignore_nulls else _last)
    return Going((call,), _extreme(_EXTREMES[function], call.call.type))


def _row_number(call: WindowCall) -> WindowCall:
    return replace(call, call=AggregateCall(function="row_number", arguments=(), type=BIGINT))


def _plus(kept: pa.Array, value: pa.Array) -> pa.Array:
    return from_numbers(filled(kept, np.int64) + filled(value, np.int64), pa.int64())


def _counted(
    kept: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    result = _plus(kept[0], values[0])
    return result, (result,)


def _ranked(
    kept: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    return _plus(kept[0], values[0]), (_plus(kept[0], values[1]),)


def _added(kept: pa.Array, value: pa.Array, call: AggregateCall) -> pa.Array:
    """The sum of both; of one where the other is NULL."""
    try:
        if pa.types.is_decimal(value.type):
            # Two digits more than the type has, so that the sum of two fits.
            wide = pa.decimal256(value.type.precision + 2, value.type.scale)
            total = pc.cast(pc.add(pc.cast(kept, wide), pc.cast(value, wide)), value.type)
        else:
            total = pc.add_checked(kept, value)
    except pa.ArrowInvalid:
        hint = (
            "cast the argument to DECIMAL"
            if call.type.is_integer
            else "cast the argument to DOUBLE"
        )
        raise DataError(
            f"{call.type} overflow in {call.function.upper()}", hint=hint, position=call.position
        ) from None
    return pc.coalesce(total, value, kept)


def _summed(
    call: AggregateCall,
) -> Callable[[Values, Values, Mask, EvaluationContext], tuple[pa.Array, Values]]:
    def combine(
        kept: Values, values: Values, known: Mask, context: EvaluationContext
    ) -> tuple[pa.Array, Values]:
        result = _added(kept[0], values[0], call)
        return result, (result,)

    return combine


def _average(call: WindowCall) -> Going:
    """From the sum, of integers in as many digits as it may take, and the count."""
    given = call.call
    argument = given.arguments[0]
    summed = cast(argument, decimal(19, 0)) if argument.type.is_integer else argument
    total = aggregate_call("sum", [summed], False, given.predicate, given.position)
    count = aggregate_call("count", [argument], False, given.predicate, given.position)
    finish = AGGREGATES["avg"].finish

    def combine(
        kept: Values, values: Values, known: Mask, context: EvaluationContext
    ) -> tuple[pa.Array, Values]:
        state = [_added(kept[0], values[0], total), _plus(kept[1], values[1])]
        return finish(state, given, context), state

    return Going((replace(call, call=total), replace(call, call=count)), combine)


def _first(
    kept: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    result = pc.if_else(from_flags(known), kept[0], values[0])
    return result, (result,)


def _first_known(
    kept: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    result = pc.coalesce(kept[0], values[0])
    return result, (result,)


def _last(
    kept: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    return values[0], ()


def _last_known(
    kept: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    result = pc.coalesce(values[0], kept[0])
    return result, (result,)


def _extreme(
    function: str, kind: SqlType
) -> Callable[[Values, Values, Mask, EvaluationContext], tuple[pa.Array, Values]]:
    if kind.kind is Kind.BOOLEAN:
        function = "or" if function == "greatest" else "and"
    columns = tuple(
        Column(index=place, name=name, type=kind) for place, name in enumerate(("kept", "value"))
    )
    better = compile_expression(Call(function=function, arguments=columns, type=kind))

    def combine(
        kept: Values, values: Values, known: Mask, context: EvaluationContext
    ) -> tuple[pa.Array, Values]:
        found = evaluate(better, EvaluationInput([kept[0], values[0]], len(values[0]), context))
        result = pc.coalesce(found, kept[0], values[0])
        return result, (result,)

    return combine
