"""CASE, COALESCE, AND and OR: the expressions that don't evaluate every operand for every row.

An operand that can fail is evaluated only for the rows that need it: these rows are filtered out of
the frame, and the results are scattered back to the rows' positions. An operand that can't fail is
evaluated for all rows, which is faster than moving rows.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import numbers
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import Datum, spread
from runnel.expressions.kernels.buffers import FALSE, TRUE, null_scalar
from runnel.expressions.kernels.result_size import check_spread
from runnel.expressions.nodes import Call, Case, Expression, columns_of
from runnel.expressions.properties import can_fail
from runnel.sqltypes import to_arrow

Evaluator = Callable[[EvaluationInput], Any]
Compile = Callable[[Expression], Evaluator]


def restricted(
    frame: EvaluationInput, mask: pa.Array, columns: AbstractSet[int]
) -> EvaluationInput:
    """The rows of a frame at which `mask` is true, with the needed columns only (None for any other
    column).
    """
    filtered = [
        column.filter(mask) if i in columns else None for i, column in enumerate(frame.columns)
    ]
    return EvaluationInput(filtered, mask.true_count, frame.context)


def compile_connective(call: Call, compile_expression: Compile) -> Evaluator:
    """AND and OR by three-valued logic, from left to right; an argument that can fail is evaluated
    only for undecided rows.

    The arguments are evaluated in a loop, without recursion, as a condition may have thousands of
    them.
    """
    first = compile_expression(call.arguments[0])
    others = [
        (compile_expression(argument), columns_of(argument) if can_fail(argument) else None)
        for argument in call.arguments[1:]
    ]
    kernel = pc.and_kleene if call.function == "and" else pc.or_kleene
    if not others:
        return first
    if len(others) == 1 and others[0][1] is None:
        second = others[0][0]
        return lambda frame: kernel(first(frame), second(frame))
    is_and = call.function == "and"

    def run(frame: EvaluationInput) -> Datum:
        value = first(frame)
        for other, columns in others:
            value = (
                kernel(value, other(frame))
                if columns is None
                else _where_undecided(is_and, value, other, columns, frame)
            )
        return value

    return run


def _where_undecided(
    is_and: bool, first: Datum, right: Evaluator, columns: frozenset[int], frame: EvaluationInput
) -> Datum:
    """`first` AND (or OR) the value of `right`, which is evaluated only for the rows that `first`
    doesn't decide.
    """
    kernel = pc.and_kleene if is_and else pc.or_kleene
    if isinstance(first, pa.Scalar):
        return first if first.as_py() is (not is_and) else kernel(first, right(frame))
    undecided = pc.coalesce(first, TRUE) if is_and else pc.invert(pc.coalesce(first, FALSE))
    count = undecided.true_count
    if count == 0:
        return first
    if count == len(first):
        return kernel(first, right(frame))
    second = right(restricted(frame, undecided, columns))
    if not isinstance(second, pa.Scalar):
        second = _scattered([second], [_positions(undecided)], frame.num_rows)
    return kernel(first, second)


def _positions(mask: pa.Array) -> np.ndarray[Any, Any]:
    """The row numbers at which a mask is true."""
    indices = pc.indices_nonzero(mask)
    return numbers(indices, np.uint64)


# For the chunks ['a', 'b'] of rows [3, 0] and ['c'] of row [1], with 5 rows:
#     whole  ['a', 'b', 'c', NULL]  all values, and a NULL at index total = 3 for other rows
#     order  [1, 2, 3, 0, 3]        for each row, the index of its value in `whole`
#     result ['b', 'c', NULL, 'a', NULL]
def _scattered(
    chunks: list[pa.Array], positions: list[np.ndarray[Any, Any]], num_rows: int
) -> pa.Array:
    """Values at the positions of their rows; rows that no chunk has are NULL. Works for every type,
    nested ones too.
    """
    whole = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    total = len(whole)
    if total < num_rows:
        whole = pa.concat_arrays([whole, pa.nulls(1, whole.type)])
    order = np.full(num_rows, total, dtype=np.int64)
    start = 0
    for rows in positions:
        order[rows.astype(np.int64)] = np.arange(start, start + len(rows))
        start += len(rows)
    return whole.take(pa.Array.from_buffers(pa.int64(), num_rows, [None, pa.py_buffer(order)]))


def compile_case(case: Case, compile_expression: Compile) -> Evaluator:
    """CASE. The form that COALESCE is bound to has its own evaluator, which evaluates every
    argument once.
    """
    branches = [*case.results, *([] if case.otherwise is None else [case.otherwise])]
    if _is_coalesce(case):
        if not any(can_fail(item) for item in branches[1:]):
            arguments = [compile_expression(item) for item in branches]
            return lambda frame: pc.coalesce(*(argument(frame) for argument in arguments))
        return _lazy_coalesce(
            case, [(compile_expression(item), columns_of(item)) for item in branches]
        )
    if any(can_fail(item) for item in [*case.conditions[1:], *branches]):
        return _lazy_case(case, compile_expression)
    return _eager_case(case, compile_expression)


def _is_coalesce(case: Case) -> bool:
    """Whether each condition is that its result isn't NULL, as in a COALESCE."""
    return case.otherwise is not None and all(
        isinstance(condition, Call)
        and condition.function == "is_not_null"
        and condition.arguments[0] == result
        for condition, result in zip(case.conditions, case.results, strict=True)
    )


def _eager_case(case: Case, compile_expression: Compile) -> Evaluator:
    """A CASE none of whose expressions can fail, apart from the first condition: every branch is
    evaluated for all rows.
    """
    pairs = [
        (compile_expression(condition), compile_expression(result))
        for condition, result in zip(case.conditions, case.results, strict=True)
    ][::-1]
    null = null_scalar(case.type)
    otherwise = (
        (lambda frame: null) if case.otherwise is None else compile_expression(case.otherwise)
    )

    def run(frame: EvaluationInput) -> Datum:
        value = otherwise(frame)
        for condition, result in pairs:
            chosen = result(frame)
            for item in (chosen, value):
                if isinstance(item, pa.Scalar):
                    check_spread(item, frame.num_rows)
            value = pc.if_else(pc.coalesce(condition(frame), FALSE), chosen, value)
        return value

    return run


# CASE WHEN x = 0 THEN 'none' WHEN 8 / x > 3 THEN 'few' ELSE 'many' END for x = [0, 2, 8, 0]:
#     1st branch: selected [T, F, F, T], 'none' is added for rows [0, 3];
#                 then rest has x = [2, 8], and its rows = [1, 2] in the frame
#     2nd branch: selected [T, F],       'few' is added for rows [1]; then rows = [2]
#     ELSE:                              'many' is added for rows [2]
def _lazy_case(case: Case, compile_expression: Compile) -> Evaluator:
    """A CASE with expressions that can fail: each is evaluated only for the rows that reach it.

    In `run`, `rest` has the rows that no branch has selected so far, and `rows` their row numbers
    in the frame (None for all rows).
    """
    branches = [
        (
            compile_expression(condition),
            columns_of(condition),
            compile_expression(result),
            columns_of(result),
        )
        for condition, result in zip(case.conditions, case.results, strict=True)
    ]
    last = (
        None
        if case.otherwise is None
        else (compile_expression(case.otherwise), columns_of(case.otherwise))
    )
    needed = {index for _, first, _, second in branches for index in first | second} | (
        last[1] if last else set()
    )
    collect = _CaseResult(case)

    def run(frame: EvaluationInput) -> Datum:
        values = collect.start(frame)
        rest, rows = frame, None
        for condition, _, result, columns in branches:
            selected = condition(rest)
            if isinstance(selected, pa.Scalar):
                if not selected.as_py():
                    continue
                values.add(result(rest), rest.num_rows, rows)
                return values.finish()
            selected = pc.coalesce(selected, FALSE)
            count = selected.true_count
            if count == rest.num_rows:
                values.add(result(rest), rest.num_rows, rows)
                return values.finish()
            if count == 0:
                continue
            values.add(
                result(restricted(rest, selected, columns)), count, _sub(rows, _positions(selected))
            )
            others = pc.invert(selected)
            rows = _sub(rows, _positions(others))
            rest = restricted(rest, others, needed)
        if last is not None:
            values.add(last[0](rest), rest.num_rows, rows)
        return values.finish()

    return run


def _lazy_coalesce(case: Case, arguments: list[tuple[Evaluator, frozenset[int]]]) -> Evaluator:
    """A COALESCE with arguments that can fail: each is evaluated only for the rows where those
    before it are NULL.

    `rest` and `rows` are as in `_lazy_case`.
    """
    needed = {index for _, columns in arguments for index in columns}
    collect = _CaseResult(case)

    def run(frame: EvaluationInput) -> Datum:
        values = collect.start(frame)
        rest, rows = frame, None
        for evaluator, _ in arguments[:-1]:
            value = evaluator(rest)
            if isinstance(value, pa.Scalar):
                if not value.is_valid:
                    continue
                values.add(value, rest.num_rows, rows)
                return values.finish()
            if value.null_count == 0:
                values.add(value, rest.num_rows, rows)
                return values.finish()
            valid = value.is_valid()
            values.add(
                value.filter(valid), len(value) - value.null_count, _sub(rows, _positions(valid))
            )
            missing = value.is_null()
            rows = _sub(rows, _positions(missing))
            rest = restricted(rest, missing, needed)
        values.add(arguments[-1][0](rest), rest.num_rows, rows)
        return values.finish()

    return run


def _sub(rows: np.ndarray[Any, Any] | None, chosen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The row numbers in the frame of rows that were chosen out of `rows` (None for all rows)."""
    return chosen if rows is None else rows[chosen.astype(np.int64)]


class _CaseResult:
    """Creates the collection of branch values for one evaluation of a CASE."""

    def __init__(self, case: Case) -> None:
        self._null = null_scalar(case.type)
        self._arrow = to_arrow(case.type)

    def start(self, frame: EvaluationInput) -> _BranchValues:
        return _BranchValues(frame.num_rows, self._null, self._arrow)


class _BranchValues:
    """The values of the branches that were selected so far, with the rows that each is for."""

    def __init__(self, num_rows: int, null: pa.Scalar, arrow: pa.DataType) -> None:
        self._num_rows = num_rows
        self._null = null
        self._arrow = arrow
        self._values: list[pa.Array] = []
        self._rows: list[np.ndarray[Any, Any]] = []
        self._whole: Datum | None = None

    def add(self, value: Datum, count: int, rows: np.ndarray[Any, Any] | None) -> None:
        """Adds the values of `count` rows; `rows` are their row numbers, or None for all rows."""
        if rows is None:
            self._whole = value
        elif count:
            self._values.append(spread(value, count))
            self._rows.append(rows)

    def finish(self) -> Datum:
        """The result of the CASE."""
        if self._whole is not None:
            return self._whole
        if not self._values:
            return self._null
        return _scattered(self._values, self._rows, self._num_rows)
