"""User-defined aggregates, written in Python.

The rows of each group are retained, as for ARRAY_AGG. So these aggregates work wherever an
aggregate does: in two stages, over overlapping windows, in sessions, and with DISTINCT, FILTER and
ORDER BY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import indexes
from runnel.errors import Position, ProgrammingError
from runnel.expressions.aggregates.function import (
    AggregateFunction,
    AggregateSyntax,
    anything,
    same,
)
from runnel.expressions.aggregates.ordered_groups import Groups, no_states, rows_states
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.python_values import python_values
from runnel.expressions.nodes import AggregateCall, Expression
from runnel.expressions.python.calls import failed, made_values, plain_value, valid_rows
from runnel.expressions.python.function import PythonFunction
from runnel.expressions.signature import signature


def python_aggregate(
    function: PythonFunction, syntax: AggregateSyntax, distinct: bool, predicate: Expression | None
) -> AggregateCall:
    """A call with converted arguments; ProgrammingError if they don't fit the parameters."""
    name, position = function.name, syntax.position
    if syntax.within_group:
        raise ProgrammingError(
            f"{name} can't have WITHIN GROUP",
            hint="write ORDER BY after its arguments",
            position=position,
        )
    bound, result = signature(*function.parameters, result=function.result, is_own=True)(
        name, syntax.arguments, position
    )
    if distinct and any(key.expression not in bound for key in syntax.order):
        raise ProgrammingError(
            f"with DISTINCT, ORDER BY within {name} can only use its arguments",
            position=syntax.order[0].expression.position,
        )
    return AggregateCall(
        function=name.lower(),
        arguments=bound,
        type=result,
        distinct=distinct,
        order=syntax.order,
        predicate=predicate,
        position=position,
        python=function,
    )


def _finish(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    """The function's value for each group; NULL for a group without rows."""
    assert call.python is not None
    groups = Groups(columns[0], call)
    arguments, starts, counts = groups.columns[: len(call.arguments)], groups.starts, groups.counts
    valid = valid_rows(arguments) if call.python.skips_nulls else None
    if valid is not None:
        chosen = np.flatnonzero(valid)
        counts = np.bincount(groups.group[chosen], minlength=len(starts))
        starts = np.cumsum(counts) - counts
        arguments = [item.take(indexes(chosen)) for item in arguments]
    values: list[Any] = []
    for rows in _groups(call.python, arguments, zip(starts.tolist(), counts.tolist(), strict=True)):
        context.check()
        values.append(None if rows is None else _value(call.python, rows, call.position))
    return made_values(call.python, call.type, values, call.position)


def _groups(
    function: PythonFunction, columns: Sequence[pa.Array], positions: Iterator[tuple[int, int]]
) -> Iterator[list[Any] | None]:
    """The arguments of the function for each group: arrays, or lists with `is_scalar`; None for a
    group without rows.
    """
    values: Sequence[Any] = columns
    if function.is_scalar:
        values = [
            python_values(item, kind)
            for item, kind in zip(columns, function.parameters, strict=True)
        ]
    for start, count in positions:
        if not count:
            yield None
        elif function.is_scalar:
            yield [item[start : start + count] for item in values]
        else:
            yield [item.slice(start, count) for item in values]


def _value(function: PythonFunction, rows: list[Any], position: Position | None) -> Any:
    try:
        return plain_value(function.function(*rows))
    except Exception as error:
        raise failed(function, error, position) from error


PYTHON_AGGREGATE: AggregateFunction = AggregateFunction(
    "python",
    anything,
    same,
    no_states,
    _finish,
    keeps_nulls=True,
    call_states=lambda call: rows_states(PYTHON_AGGREGATE, call),
    evaluated=lambda call: len(call.arguments),
)
"""The description that all user-defined aggregates share."""
