"""Aggregates that depend on the order of rows: ARRAY_AGG and STRING_AGG with ORDER BY, FIRST, LAST,
ARG_MIN, ARG_MAX.

The rows of a group are retained with their keys, and sorted at the end, all groups in one sort. If
a single row decides, only that row is retained.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import indexes
from runnel.errors import ProgrammingError
from runnel.expressions.aggregates.function import (
    AggregateFunction,
    AggregateSyntax,
    BoundAggregate,
    NoRows,
    anything,
    both,
    bound_argument,
    check_arguments,
    directions_of,
    ordered,
    same,
)
from runnel.expressions.aggregates.ordered_groups import (
    Groups,
    key_types,
    no_states,
    null_where_empty,
    rows_states,
)
from runnel.expressions.aggregates.rows import Best
from runnel.expressions.aggregates.states import AggregateState, First, Items
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, is_volatile
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.nodes import AggregateCall, Cast, Expression, Literal, columns_of
from runnel.sqltypes import DOUBLE, VARCHAR, Kind, array, to_arrow


def _bind_list(function: AggregateFunction, syntax: AggregateSyntax) -> BoundAggregate:
    check_arguments(syntax, 1)
    value = bound_argument(function, syntax.arguments[0], syntax.position)
    return BoundAggregate((value,), syntax.order, array(value.type))


def _list_states(call: AggregateCall) -> tuple[AggregateState, ...]:
    if not call.order:
        return (Items(to_arrow(call.arguments[0].type), keeps_nulls=True),)
    return rows_states(_FUNCTIONS[call.function], call)


def _list(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    if not call.order:
        return columns[0]
    groups = Groups(columns[0], call)
    offsets = indexes(np.append(groups.starts, len(groups.group))).cast(pa.int32())
    return null_where_empty(
        pa.ListArray.from_arrays(offsets, groups.columns[0], type=to_arrow(call.type)), groups
    )


def _bind_joined(function: AggregateFunction, syntax: AggregateSyntax) -> BoundAggregate:
    check_arguments(syntax, 1, 2)
    value = bound_argument(function, syntax.arguments[0], syntax.position)
    separator: Expression = Literal(value=",", type=VARCHAR, position=syntax.position)
    if len(syntax.arguments) == 2:
        separator = syntax.arguments[1]
        if separator.type.kind is Kind.NULL:
            separator = Cast(
                operand=separator, type=VARCHAR, implicit=True, position=separator.position
            )
        if separator.type.kind is not Kind.VARCHAR:
            raise ProgrammingError(
                f"the separator of {syntax.name.upper()} must be VARCHAR, not {separator.type}",
                position=separator.position,
            )
    return BoundAggregate((value, separator), syntax.order, VARCHAR)


def _is_row_wise(call: AggregateCall) -> bool:
    """Whether the separator differs from row to row."""
    return bool(columns_of(call.arguments[1])) or is_volatile(call.arguments[1])


def _joined_states(call: AggregateCall) -> tuple[AggregateState, ...]:
    if call.order or _is_row_wise(call):
        return rows_states(_FUNCTIONS[call.function], call)
    return (Items(to_arrow(VARCHAR), keeps_nulls=False),)


def _joined(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    lists = columns[0]
    if _is_row_wise(call):
        return _joined_by_rows(Groups(lists, call))
    if call.order:
        groups = Groups(lists, call)
        offsets = indexes(np.append(groups.starts, len(groups.group))).cast(pa.int32())
        lists = null_where_empty(pa.ListArray.from_arrays(offsets, groups.columns[0]), groups)
    separator = compile_expression(call.arguments[1])(EvaluationInput((), 1, context))
    if not separator.is_valid:
        separator = pack_scalar("", VARCHAR)
    return pc.binary_join(lists, separator)


def _joined_by_rows(groups: Groups) -> pa.Array:
    """Each value after the separator of its own row, except for the first value of a group."""
    values, separators = groups.columns[:2]
    rows = len(values)
    empty = pack_scalar("", VARCHAR)
    is_first = np.zeros(rows, np.bool_)
    is_first[groups.starts[groups.counts > 0]] = True
    separators = pc.fill_null(separators, empty).take(indexes(np.arange(rows), ~is_first))
    texts = pc.binary_join_element_wise(pc.fill_null(separators, empty), values, empty)
    offsets = indexes(np.append(groups.starts, rows)).cast(pa.int32())
    return pc.binary_join(null_where_empty(pa.ListArray.from_arrays(offsets, texts), groups), empty)


def _bind_first(function: AggregateFunction, syntax: AggregateSyntax) -> BoundAggregate:
    check_arguments(syntax, 1)
    value = bound_argument(function, syntax.arguments[0], syntax.position)
    return BoundAggregate((value,), syntax.order, value.type)


def _first_states(call: AggregateCall) -> tuple[AggregateState, ...]:
    keeps_nulls = _FUNCTIONS[call.function].keeps_nulls
    if not call.order and not keeps_nulls:
        return (First(to_arrow(call.type)),)
    is_last = call.function == "last"
    return (
        Best(
            to_arrow(call.type),
            tuple(key_types(call)),
            directions_of(call.order),
            is_last,
            keeps_nulls,
        ),
    )


def _bind_argument_of(function: AggregateFunction, syntax: AggregateSyntax) -> BoundAggregate:
    check_arguments(syntax, 2)
    value = bound_argument(function, syntax.arguments[0], syntax.position)
    key = syntax.arguments[1]
    if not ordered(key.type):
        raise ProgrammingError(
            f"{syntax.name.upper()} can't compare values of type {key.type}",
            position=key.position or syntax.position,
        )
    if key.type.kind is Kind.NULL:
        key = Cast(operand=key, type=DOUBLE, implicit=True, position=key.position)
    return BoundAggregate((value, key), (), value.type)


def _argument_of(is_descending: bool) -> Callable[[AggregateCall], tuple[AggregateState, ...]]:
    def states(call: AggregateCall) -> tuple[AggregateState, ...]:
        keys = (to_arrow(call.arguments[1].type),)
        return (Best(to_arrow(call.type), keys, ((is_descending, False),), needs_keys=True),)

    return states


def _value(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    return columns[0]


_LISTS = [
    AggregateFunction(
        "array_agg",
        anything,
        array,
        no_states,
        _list,
        keeps_nulls=True,
        bind=_bind_list,
        call_states=_list_states,
    ),
    AggregateFunction(
        "string_agg",
        lambda kind: kind.kind is Kind.VARCHAR,
        same,
        no_states,
        _joined,
        VARCHAR,
        bind=_bind_joined,
        call_states=_joined_states,
        evaluated=lambda call: 1 + _is_row_wise(call),
        sql_names=("group_concat", "listagg"),
    ),
]
_FIRSTS = [
    AggregateFunction(
        name,
        anything,
        same,
        no_states,
        _value,
        ignores_distinct=not keeps_nulls,
        keeps_nulls=keeps_nulls,
        bind=_bind_first,
        call_states=_first_states,
        no_rows=no_rows,
    )
    for name, keeps_nulls, no_rows in (
        ("first", True, NoRows.EVALUATED),
        ("last", True, NoRows.EVALUATED),
        ("any_value", False, NoRows.NULL),
    )
]
_ARGUMENTS = [
    AggregateFunction(
        name,
        anything,
        same,
        no_states,
        _value,
        ignores_distinct=True,
        bind=_bind_argument_of,
        call_states=_argument_of(name == "arg_max"),
        evaluated=both,
        sql_names=names,
    )
    for name, names in (("arg_min", ("min_by", "argmin")), ("arg_max", ("max_by", "argmax")))
]
FUNCTIONS = [*_LISTS, *_FIRSTS, *_ARGUMENTS]
_FUNCTIONS = {function.name: function for function in FUNCTIONS}
