"""LIST_TRANSFORM, LIST_FILTER and LIST_REDUCE, which apply a lambda function to the elements of an
ARRAY.

The body of the function is evaluated over frames whose rows are elements: the flat column that the
arrays refer to, the positions, and the columns of the row, repeated for each of its elements.
LIST_REDUCE evaluates it for the first element of all arrays, then for the second, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Numbers, from_flags, from_numbers, indexes, join_arrays
from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import Bound, Datum, Function, spread
from runnel.expressions.kernels.result_size import AT_A_TIME, MOST_BYTES, TooManyRows
from runnel.expressions.kernels.sameness import list_lengths
from runnel.expressions.nested.lists import Lists, filtered, made
from runnel.expressions.nodes import (
    Call,
    Column,
    Expression,
    LambdaCall,
    LambdaVariable,
    columns_of,
    walk,
)
from runnel.sqltypes import to_arrow

Evaluator = Callable[[EvaluationInput], Any]

_AT_A_TIME = 1 << 16
"""The largest number of elements for which the body is evaluated at a time."""


def compile_lambda(
    call: LambdaCall, compile_expression: Callable[[Expression], Evaluator], is_volatile: bool
) -> Evaluator:
    """The evaluator of a call with a lambda function.

    is_volatile: whether the body is.
    """
    body = _Body(call, compile_expression)
    operand = compile_expression(call.operand)
    initial = None if call.initial is None else compile_expression(call.initial)
    is_fixed = not body.columns and not is_volatile

    def run(frame: EvaluationInput) -> Datum:
        lists = operand(frame)
        first = None if initial is None else initial(frame)
        if is_fixed and isinstance(lists, pa.Scalar) and isinstance(first, pa.Scalar | None):
            first = None if first is None else pa.repeat(first, 1)
            one = EvaluationInput((), 1, frame.context)
            return _applied(call, body, one, pa.repeat(lists, 1), first)[0]
        first = None if first is None else spread(first, frame.num_rows)
        return _applied(call, body, frame, spread(lists, frame.num_rows), first)

    return run


def _applied(
    call: LambdaCall,
    body: _Body,
    frame: EvaluationInput,
    column: pa.Array,
    initial: pa.Array | None,
) -> pa.Array:
    if call.function == "list_reduce":
        return _reduced(call, body, frame, column, initial)
    lists = Lists(column)
    positions = from_numbers(lists.positions + 1, pa.int64())
    values = body.evaluate(frame, lists.owners, (lists.items, positions))
    if call.function == "list_transform":
        return made(values, lists.lengths, to_arrow(call.type), lists.valid)
    keep = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return filtered(lists, keep, to_arrow(call.type))


# For [[a], NULL, [b, c, d]] without an initial value:
#     order     [2, 0, 1]     the arrays, longest first
#     result    [b, a]        before step 1; then [f(b, c)], and [f(f(b, c), d)]
#     finished  [[NULL], [a], [f(f(b, c), d)]]   for shorter arrays first
def _reduced(
    call: LambdaCall,
    body: _Body,
    frame: EvaluationInput,
    column: pa.Array,
    initial: pa.Array | None,
) -> pa.Array:
    lists = Lists(column)
    order = np.argsort(-lists.lengths, kind="stable")
    lengths = lists.lengths[order]
    empty = (lists.lengths == 0) if lists.valid is None else (lists.lengths == 0) & lists.valid
    if initial is None and empty.any():
        raise DataError(
            "LIST_REDUCE of an empty ARRAY needs an initial value",
            hint="write it after the lambda function: LIST_REDUCE(list, (r, x) -> r + x, 0)",
            position=call.position,
        )
    begin = 0 if initial is not None else 1
    active = int(np.count_nonzero(lengths > 0))
    if initial is None:
        result = lists.items.take(indexes(lists.starts[order[:active]]))
        finished = [pa.nulls(lists.count - active, to_arrow(call.type))]
    else:
        result = initial.take(indexes(order))
        if lists.valid is not None:
            result = pc.if_else(
                from_flags(lists.valid[order]), result, pa.scalar(None, result.type)
            )
        finished = []
    for step in range(begin, int(lengths[0]) if lists.count else 0):
        count = int(np.searchsorted(-lengths, -step))
        if count < len(result):
            finished.append(result.slice(count))
        rows = order[:count]
        items = lists.items.take(indexes(lists.starts[rows] + step))
        positions = pa.repeat(pa.scalar(step + 1, pa.int64()), count)
        result = body.evaluate(frame, rows, (result.slice(0, count), items, positions))
    ordered = join_arrays([result, *reversed(finished)])
    return ordered.take(indexes(np.argsort(order, kind="stable")))


class _Body:
    """The body of a lambda function, compiled for frames of elements.

    columns: the indexes of the row's columns that it reads.
    """

    def __init__(
        self, call: LambdaCall, compile_expression: Callable[[Expression], Evaluator]
    ) -> None:
        self.columns = sorted(columns_of(call.body))
        depth = call.variables[0].depth
        self._arguments = sorted(
            {
                node.index
                for node in walk(call.body)
                if isinstance(node, LambdaVariable) and node.depth == depth
            }
        )
        self._evaluator = compile_expression(self._over_elements(call.body, depth, True))

    def _over_elements(self, node: Expression, depth: int, is_own: bool) -> Expression:
        """The body with the columns of a frame of elements.

        is_own: whether the variables of this depth belong to this function. An optimized body
            may contain another function of the same depth, with variables of its own.
        """
        if isinstance(node, Column):
            return Column(
                index=self.columns.index(node.index),
                name=node.name,
                type=node.type,
                position=node.position,
            )
        if isinstance(node, LambdaVariable):
            if node.depth != depth or not is_own or node.index not in self._arguments:
                return node
            index = len(self.columns) + self._arguments.index(node.index)
            return Column(index=index, name=node.name, type=node.type, position=node.position)
        children = node.children
        if not children:
            return node
        inside = is_own
        if isinstance(node, LambdaCall):
            inside = is_own and node.variables[0].depth != depth
        return node.with_children(
            tuple(
                self._over_elements(
                    child, depth, inside if isinstance(node, LambdaCall) and i == 1 else is_own
                )
                for i, child in enumerate(children)
            )
        )

    def evaluate(
        self, frame: EvaluationInput, rows: Numbers, arguments: Sequence[pa.Array]
    ) -> pa.Array:
        """The value for each element.

        rows: the index of each element's row in the frame.
        arguments: the function's arguments for each element.
        """
        columns = [frame.columns[index] for index in self.columns]
        items = [arguments[index] for index in self._arguments]
        size = max(1, min(_AT_A_TIME, AT_A_TIME // max([1, *map(_widest, columns)])))
        chunks: list[pa.Array] = []
        start = total = 0
        while start < len(rows) or not chunks:
            frame.context.check()
            count = min(size, len(rows) - start)
            repeated = indexes(rows[start : start + count])
            elements = EvaluationInput(
                [
                    *(column.take(repeated) for column in columns),
                    *(item.slice(start, count) for item in items),
                ],
                count,
                frame.context,
            )
            try:
                chunk = spread(self._evaluator(elements), count)
            except TooManyRows as error:
                size = error.fitting
                continue
            total += chunk.nbytes
            if total > MOST_BYTES:
                raise DataError(
                    f"the values of a lambda function take more than {MOST_BYTES:,} bytes",
                    hint="make them shorter, or use UNNEST in place of the function",
                )
            chunks.append(chunk)
            start += count
        return join_arrays(chunks)


def _widest(column: pa.Array) -> int:
    """An upper bound of the size of a value in bytes, or an estimate for nested values."""
    if not len(column):
        return 1
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return int(pc.max(pc.binary_length(column)).as_py() or 1)
    if pa.types.is_list(column.type):
        items = max(len(column.values), 1)
        return int(list_lengths(column).max()) * (int(column.values.nbytes) // items + 1)
    return max(int(column.nbytes) // len(column), 1)


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Raises the error of a call without a lambda function; calls with one are bound elsewhere."""
    example = "(result, x) -> result + x" if name == "list_reduce" else "x -> x + 1"
    raise ProgrammingError(
        f"the second argument of {name.upper()} must be a lambda function",
        hint=f"write {name.upper()}(list, {example})",
        position=position,
    )


def _never(call: Call) -> Any:
    raise AssertionError(call.function)


def _function(name: str, arguments: str, result: str, *names: str) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result=result,
        bind=_bind,
        compile=_never,
        sql_names=names,
        family="array",
    )


FUNCTIONS = (
    _function(
        "list_transform",
        "x ARRAY, item -> value",
        "ARRAY of the values",
        *("LIST_TRANSFORM", "LIST_APPLY", "ARRAY_TRANSFORM", "ARRAY_APPLY", "APPLY"),
    ),
    _function(
        "list_filter",
        "x ARRAY, item -> BOOLEAN",
        "the type of x",
        *("LIST_FILTER", "ARRAY_FILTER", "FILTER"),
    ),
    _function(
        "list_reduce",
        "x ARRAY, (result, item) -> value, [initial]",
        "the type of the value",
        *("LIST_REDUCE", "ARRAY_REDUCE", "REDUCE"),
    ),
)
