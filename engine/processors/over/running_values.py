"""Running values of OVER: values over all rows up to the current one, continued from batch to
batch by a state for each partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import Mask, from_flags, from_numbers
from runnel.errors import OutOfRangeException
from runnel.expressions.aggregates.registry import (
    AGGREGATES,
    aggregate_call,
    function_of,
    states_of,
)
from runnel.expressions.aggregates.states import Merge, filled
from runnel.expressions.coercion import cast
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import AggregateCall, Call, Column
from runnel.processors.over.aggregates import state_rows
from runnel.relation.over import WindowCall
from runnel.sqltypes import BIGINT, Kind, SqlType, decimal, from_arrow

Values = Sequence[pa.Array]


@frozen
class RunningValue:
    """How the value of a call is continued in the next batch.

    calls: the calls to compute over the rows of the batch alone.
    combine: computes the values of the call, and the columns of the new state. Its arguments: the
        state of each row's partition (NULL if there is none), the values of `calls`, a mask of the
        rows whose partition has a state, and the evaluation context. If it returns fewer state
        columns than `calls`, the values of the remaining calls are the state.
    has_states: whether the values of `calls` are rows of the columns of their states.
    """

    calls: tuple[WindowCall, ...]
    combine: Callable[[Values, Values, Mask, EvaluationContext], tuple[pa.Array, Values]]
    has_states: bool = False


_EXTREMES = {
    **dict.fromkeys(("max", "bool_or"), "greatest"),
    **dict.fromkeys(("min", "bool_and", "every"), "least"),
}
"""The function that combines the value so far with the next one: false < true."""


def running_value(call: WindowCall) -> RunningValue:
    """How to continue a call whose frame is all rows up to the current one."""
    function = call.call.function
    if function in ("row_number", "dense_rank", "count", "count_star"):
        return RunningValue((call,), _counted)
    if function == "rank":
        return RunningValue((call, _row_number(call)), _ranked)
    if function == "sum":
        return RunningValue((call,), _summed(call.call))
    if function == "avg":
        return _average(call)
    if function == "first_value":
        return RunningValue((call,), _first_known if call.ignore_nulls else _first)
    if function == "last_value":
        return RunningValue((call,), _last_known if call.ignore_nulls else _last)
    if function in _EXTREMES:
        return RunningValue((call,), _extreme(_EXTREMES[function], call.call.type))
    return RunningValue((call,), _merged(call.call), has_states=True)


def _row_number(call: WindowCall) -> WindowCall:
    return replace(call, call=AggregateCall(function="row_number", arguments=(), type=BIGINT))


def _plus(state: pa.Array, value: pa.Array) -> pa.Array:
    return from_numbers(filled(state, np.int64) + filled(value, np.int64), pa.int64())


def _counted(
    state: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    result = _plus(state[0], values[0])
    return result, (result,)


def _ranked(
    state: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    return _plus(state[0], values[0]), (_plus(state[0], values[1]),)


def _added(state: pa.Array, value: pa.Array, call: AggregateCall) -> pa.Array:
    """The sum of two values; if one is NULL, the other value."""
    try:
        if pa.types.is_decimal(value.type):
            # Two digits more than the type has, so that the sum of two fits; it has at most 76.
            wide = pa.decimal256(min(value.type.precision + 2, 75), value.type.scale)
            total = pc.cast(pc.add(pc.cast(state, wide), pc.cast(value, wide)), value.type)
        else:
            total = pc.add_checked(state, value)
    except pa.ArrowInvalid:
        hint = (
            "cast the argument to DECIMAL"
            if call.type.is_integer
            else "cast the argument to DOUBLE"
        )
        raise OutOfRangeException(
            f"{call.type} overflow in {call.function.upper()}", hint=hint, position=call.position
        ) from None
    return pc.coalesce(total, value, state)


def _summed(
    call: AggregateCall,
) -> Callable[[Values, Values, Mask, EvaluationContext], tuple[pa.Array, Values]]:
    def combine(
        state: Values, values: Values, known: Mask, context: EvaluationContext
    ) -> tuple[pa.Array, Values]:
        result = _added(state[0], values[0], call)
        return result, (result,)

    return combine


def _average(call: WindowCall) -> RunningValue:
    """AVG from a sum and a count; integers are summed as DECIMALs, which cannot overflow."""
    average = call.call
    argument = average.arguments[0]
    summed = cast(argument, decimal(19, 0)) if argument.type.is_integer else argument
    total = aggregate_call("sum", [summed], False, average.predicate, average.position)
    count = aggregate_call("count", [argument], False, average.predicate, average.position)
    finish = AGGREGATES["avg"].finish

    def combine(
        state: Values, values: Values, known: Mask, context: EvaluationContext
    ) -> tuple[pa.Array, Values]:
        new_state = [_added(state[0], values[0], total), _plus(state[1], values[1])]
        return finish(new_state, average, context), new_state

    return RunningValue((replace(call, call=total), replace(call, call=count)), combine)


def _first(
    state: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    result = pc.if_else(from_flags(known), state[0], values[0])
    return result, (result,)


def _first_known(
    state: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    result = pc.coalesce(state[0], values[0])
    return result, (result,)


def _last(
    state: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    return values[0], ()


def _last_known(
    state: Values, values: Values, known: Mask, context: EvaluationContext
) -> tuple[pa.Array, Values]:
    result = pc.coalesce(values[0], state[0])
    return result, (result,)


def _extreme(
    function: str, kind: SqlType
) -> Callable[[Values, Values, Mask, EvaluationContext], tuple[pa.Array, Values]]:
    if kind.kind is Kind.BOOLEAN:
        function = "or" if function == "greatest" else "and"
    columns = tuple(
        Column(index=index, name=name, type=kind) for index, name in enumerate(("state", "value"))
    )
    better = compile_expression(Call(function=function, arguments=columns, type=kind))

    def combine(
        state: Values, values: Values, known: Mask, context: EvaluationContext
    ) -> tuple[pa.Array, Values]:
        found = evaluate(better, EvaluationInput([state[0], values[0]], len(values[0]), context))
        result = pc.coalesce(found, state[0], values[0])
        return result, (result,)

    return combine


def _merged(
    call: AggregateCall,
) -> Callable[[Values, Values, Mask, EvaluationContext], tuple[pa.Array, Values]]:
    """The combination of an aggregate whose states each have a `merge`; its only state column is a
    row of their columns.
    """
    states, finish = states_of(call), function_of(call).finish
    extremes = {
        state: _extreme(_GREATEST_OR_LEAST[state.merge], from_arrow(state.types[0]))
        for state in states
        if state.merge in _GREATEST_OR_LEAST
    }

    def combine(
        before: Values, values: Values, known: Mask, context: EvaluationContext
    ) -> tuple[pa.Array, Values]:
        columns: list[pa.Array] = []
        for state, old, new in zip(states, before[0].flatten(), values[0].flatten(), strict=True):
            extreme = extremes.get(state)
            columns.append(
                _added(old, new, call)
                if extreme is None
                else extreme([old], [new], known, context)[0]
            )
        return finish(columns, call, context), (state_rows(columns),)

    return combine


_GREATEST_OR_LEAST = {Merge.MAX: "greatest", Merge.MIN: "least"}
