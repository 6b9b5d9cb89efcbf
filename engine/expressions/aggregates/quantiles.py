"""Aggregates over a group's rows in order: PERCENTILE_CONT, PERCENTILE_DISC (and QUANTILE, MEDIAN),
MODE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, indexes, numbers
from runnel.errors import DataError, NotSupportedError, ProgrammingError
from runnel.expressions.aggregates.function import (
    AggregateFunction,
    AggregateSyntax,
    BoundAggregate,
    as_double,
    bound_argument,
    check_arguments,
    comparable,
    same,
)
from runnel.expressions.aggregates.ordered_groups import (
    Groups,
    no_states,
    null_where_empty,
    rows_states,
)
from runnel.expressions.aggregates.states import AggregateState, filled
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import evaluate_constant, is_volatile
from runnel.expressions.kernels.sorting import sortable
from runnel.expressions.nodes import AggregateCall, Cast, Expression, SortKey, columns_of
from runnel.sqltypes import DOUBLE, TIMESTAMP, Kind, SqlType, array, to_arrow


def _bind_quantile(function: AggregateFunction, syntax: AggregateSyntax) -> BoundAggregate:
    """PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x), and PERCENTILE_CONT(x, p)."""
    if syntax.within_group:
        check_arguments(syntax, 1)
        if len(syntax.order) != 1:
            raise ProgrammingError(
                f"{syntax.name.upper()} sorts by one expression", position=syntax.position
            )
        (key,), fraction = syntax.order, syntax.arguments[0]
    else:
        if len(syntax.arguments) == 1 and not syntax.order:
            raise ProgrammingError(
                f"{syntax.name.upper()} needs a value and a fraction, not 1 argument",
                hint=f"write {syntax.name.upper()}(p) WITHIN GROUP (ORDER BY x)",
                position=syntax.position,
            )
        check_arguments(syntax, 2)
        if syntax.order:
            raise ProgrammingError(
                f"{syntax.name.upper()} needs its ORDER BY in WITHIN GROUP",
                hint=f"write {syntax.name.upper()}(p) WITHIN GROUP (ORDER BY x)",
                position=syntax.position,
            )
        key, fraction = SortKey(syntax.arguments[0]), syntax.arguments[1]
    value = bound_argument(function, key.expression, syntax.position, syntax.name)
    if function.name == "percentile_cont":
        value = _continued(value, syntax)
    fraction, is_list = _bound_fraction(fraction, syntax)
    kind = function.result(value.type)
    return BoundAggregate(
        (value, fraction), (key._replace(expression=value),), array(kind) if is_list else kind
    )


def _measurable(kind: SqlType) -> bool:
    return kind.is_numeric or kind.is_temporal


def _continued(value: Expression, syntax: AggregateSyntax) -> Expression:
    """An argument as its values are interpolated: a number as DOUBLE, a date as TIMESTAMP."""
    if not value.type.is_temporal:
        return as_double(syntax.name, value, syntax.position)
    if value.type.kind is not Kind.DATE:
        return value
    return Cast(operand=value, type=TIMESTAMP, implicit=True, position=value.position)


def _bound_fraction(fraction: Expression, syntax: AggregateSyntax) -> tuple[Expression, bool]:
    check_constant(fraction, "the fraction", syntax)
    is_list = fraction.type.kind is Kind.ARRAY
    inner = fraction.type.element if is_list else fraction.type
    if inner is None or not (inner.is_numeric or inner.kind is Kind.NULL):
        raise ProgrammingError(
            f"the fraction of {syntax.name.upper()} must be a number from 0 to 1, "
            f"not {fraction.type}",
            position=fraction.position or syntax.position,
        )
    target = array(DOUBLE) if is_list else DOUBLE
    if fraction.type == target:
        return fraction, is_list
    return Cast(operand=fraction, type=target, implicit=True, position=fraction.position), is_list


def check_constant(expression: Expression, what: str, syntax: AggregateSyntax) -> None:
    if columns_of(expression) or is_volatile(expression):
        raise NotSupportedError(
            f"{what} of {syntax.name.upper()} must be the same for all rows",
            hint="give a literal or a parameter",
            position=expression.position or syntax.position,
        )


def _fractions(call: AggregateCall, context: EvaluationContext) -> list[float | None]:
    value = evaluate_constant(call.arguments[1], context)
    fractions = value if isinstance(value, list) else [value]
    for item in fractions:
        if item is not None and not 0 <= item <= 1:
            raise DataError(
                f"the fraction of {call.function.upper()} must be from 0 to 1, not {item}",
                position=call.arguments[1].position,
            )
    return fractions


def _quantile(at: Callable[[Groups, float], pa.Array]) -> Callable[..., pa.Array]:
    def finish(
        columns: list[pa.Array], call: AggregateCall, context: EvaluationContext
    ) -> pa.Array:
        groups = Groups(columns[0], call)
        fractions = _fractions(call, context)
        kind = groups.columns[0].type
        count = len(groups.counts)
        found = [pa.nulls(count, kind) if item is None else at(groups, item) for item in fractions]
        if call.type.kind is not Kind.ARRAY:
            return found[0]
        width = len(found)
        order = np.arange(count * width).reshape(width, count).T.reshape(-1)
        items = pa.concat_arrays(found).take(indexes(order)) if found else pa.nulls(0, kind)
        sizes = np.where(groups.counts > 0, width, 0)
        if (groups.counts == 0).any():
            items = items.take(indexes(np.flatnonzero(np.repeat(groups.counts > 0, width))))
        offsets = indexes(np.concatenate(([0], np.cumsum(sizes)))).cast(pa.int32())
        lists = pa.ListArray.from_arrays(offsets, items, type=to_arrow(call.type))
        return null_where_empty(lists, groups)

    return finish


# For the sorted values [1, 2, 4, 10] of one group and the fraction 0.5:
#     position  1.5   of 0 to 3
#     below     1     low 2, high 4
#     share     0.5   between = 2 + (4 − 2) * 0.5 = 3
def _continuous(groups: Groups, fraction: float) -> pa.Array:
    """The value at the fraction, interpolated between the two rows around that position; of times
    to the nearest microsecond."""
    column = groups.columns[0]
    is_time = pa.types.is_temporal(column.type)
    values = numbers(
        column.view(pa.int64()) if is_time else column, np.int64 if is_time else np.float64
    )
    some = groups.counts > 0
    if not some.any():
        return pa.nulls(len(some), column.type)
    position = fraction * np.maximum(groups.counts - 1, 0)
    below = np.floor(position).astype(np.int64)
    last = len(values) - 1
    low = values[np.minimum(groups.starts + below, last)]
    high = values[np.minimum(groups.starts + np.ceil(position).astype(np.int64), last)]
    share = position - below
    with np.errstate(invalid="ignore"):
        distance = (high - low) * share
        between = low + (np.floor(distance + 0.5).astype(np.int64) if is_time else distance)
    found = np.where((share == 0) | (low == high), low, between)
    return from_numbers(found, pa.int64() if is_time else pa.float64(), some).view(column.type)


def _discrete(groups: Groups, fraction: float) -> pa.Array:
    """The first row at or after the fraction."""
    position = np.maximum(np.ceil(fraction * groups.counts).astype(np.int64) - 1, 0)
    return groups.columns[0].take(indexes(groups.starts + position, groups.counts > 0))


# For the sorted values [1, 2, 4, 10] of one group and the fraction 0.5:
#     position  1.5   4 · 0.5 − 0.5, of 0 to 3
#     between   3     as _continuous
def _midway(groups: Groups, fraction: float) -> pa.Array:
    """The value at the fraction, where each row stands for its share of the group and has its value
    in the middle of it, as in DuckDB; of the type of the argument, rounded half even."""
    column = groups.columns[0]
    is_time, some = pa.types.is_temporal(column.type), groups.counts > 0
    if not some.any():
        return pa.nulls(len(some), column.type)
    if is_time:
        whole = pa.int32() if column.type.bit_width == 32 else pa.int64()
        values = numbers(column.view(whole).cast(pa.int64()), np.int64)
    else:
        values = numbers(column.cast(pa.float64()), np.float64)
    position = np.clip(fraction * groups.counts - 0.5, 0, np.maximum(groups.counts - 1, 0))
    below, last = np.floor(position).astype(np.int64), len(values) - 1
    low = values[np.minimum(groups.starts + below, last)]
    high = values[np.minimum(groups.starts + np.ceil(position).astype(np.int64), last)]
    with np.errstate(invalid="ignore"):
        found = np.where(low == high, low, low + (high - low) * (position - below))
    if is_time:
        found = np.rint(found).astype(np.int64)
        return from_numbers(found, pa.int64(), some).cast(whole).view(column.type)
    if pa.types.is_integer(column.type):
        found = np.rint(found)
    elif pa.types.is_decimal(column.type):
        found = np.round(found, column.type.scale)
    options = pc.CastOptions(target_type=column.type, allow_decimal_truncate=True)
    return pc.cast(from_numbers(found, pa.float64(), some), options=options)


def _bind_mode(function: AggregateFunction, syntax: AggregateSyntax) -> BoundAggregate:
    """MODE() WITHIN GROUP (ORDER BY x), and MODE(x)."""
    check_arguments(syntax, 0 if syntax.within_group else 1)
    if syntax.within_group and len(syntax.order) != 1:
        raise ProgrammingError("MODE sorts by one expression", position=syntax.position)
    key = syntax.order[0] if syntax.within_group else SortKey(syntax.arguments[0])
    value = bound_argument(function, key.expression, syntax.position)
    return BoundAggregate((value,), (key._replace(expression=value),), value.type)


# For one group with the sorted values [a, b, b, c]:
#     begins   [T, T, F, T]  whether a value begins a run of equal values
#     runs     [0, 1, 3]     the first row of each run
#     lengths  [1, 2, 1]
#     best     [1, 0, 2]     the runs by group, longest first, then in order
#     first    [T, F, F]     whether a run in `best` is the first of its group
#     chosen   [1]           the row of the longest run: b
def _mode(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    """The most frequent value; of several the first one in the order."""
    groups = Groups(columns[0], call)
    value = groups.columns[0]
    rows = len(value)
    begins = np.ones(rows, np.bool_)
    if rows > 1:
        comparable_value = sortable(value)
        equal = pc.equal(comparable_value.slice(1), comparable_value.slice(0, rows - 1))
        begins[1:] = ~filled(equal.cast(pa.int8()), np.int8).astype(np.bool_) | (
            groups.group[1:] != groups.group[:-1]
        )
    runs = np.flatnonzero(begins)
    lengths = np.diff(np.concatenate((runs, [rows])))
    best = np.lexsort((runs, -lengths, groups.group[runs]))
    owners = groups.group[runs][best]
    first = np.ones(len(best), np.bool_)
    first[1:] = owners[1:] != owners[:-1]
    chosen = np.zeros(len(groups.counts), np.int64)
    chosen[owners[first]] = runs[best[first]]
    return value.take(indexes(chosen, groups.counts > 0))


def _states(call: AggregateCall) -> tuple[AggregateState, ...]:
    return rows_states(_FUNCTIONS[call.function], call)


_QUANTILE: dict[str, Any] = {"null_type": DOUBLE, "bind": _bind_quantile, "call_states": _states}

FUNCTIONS = [
    AggregateFunction(
        "percentile_cont",
        _measurable,
        same,
        no_states,
        _quantile(_continuous),
        sql_names=("percentile", "quantile_cont"),
        **_QUANTILE,
    ),
    AggregateFunction(
        "percentile_disc",
        comparable,
        same,
        no_states,
        _quantile(_discrete),
        sql_names=("quantile", "quantile_disc", "approx_percentile"),
        **_QUANTILE,
    ),
    AggregateFunction(
        "approx_quantile",
        _measurable,
        same,
        no_states,
        _quantile(_midway),
        sql_names=(),
        **_QUANTILE,
    ),
    AggregateFunction(
        "mode", comparable, same, no_states, _mode, bind=_bind_mode, call_states=_states
    ),
]
_FUNCTIONS = {function.name: function for function in FUNCTIONS}
