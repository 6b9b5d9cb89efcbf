"""CASE, COALESCE, AND and OR: what may not be evaluated for every row.

A part that can fail is evaluated only over the rows that take it: they are filtered out of the
frame, worked on, and put back in their places. A part that can't fail is evaluated over all rows,
which is quicker than moving rows about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import numbers
from runnel.expressions.context import Frame
from runnel.expressions.function import Datum, spread
from runnel.expressions.kernels.buffers import FALSE, TRUE, null_scalar
from runnel.expressions.kernels.result_size import check_spread
from runnel.expressions.nodes import Call, Case, Expression, columns_of
from runnel.expressions.properties import can_fail
from runnel.sqltypes import to_arrow

Evaluator = Callable[[Frame], Any]
Compile = Callable[[Expression], Evaluator]


def restricted(frame: Frame, mask: pa.Array, columns: set[int]) -> Frame:
    """The rows of a frame at which `mask` is true, with only the columns that are needed (None for
    the others)."""
    kept = [column.filter(mask) if i in columns else None for i, column in enumerate(frame.columns)]
    return Frame(kept, mask.true_count, frame.context)


def compile_connective(call: Call, compile_expression: Compile) -> Evaluator:
    """AND and OR by three-valued logic, from left to right; an argument that can fail sees only
    undecided rows. In a loop, for a condition may have thousands of arguments."""
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

    def run(frame: Frame) -> Datum:
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
    is_and: bool, first: Datum, right: Evaluator, columns: set[int], frame: Frame
) -> Datum:
    """`first` AND or OR what `right` gives, which is evaluated only for the rows where `first`
    doesn't decide."""
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


def _scattered(
    parts: list[pa.Array], positions: list[np.ndarray[Any, Any]], num_rows: int
) -> pa.Array:
    """Values put back where their rows were; rows of no part are NULL. Works for every type, nested
    ones too."""
    whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
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
    """CASE; the form that COALESCE is bound to has an evaluator of its own, which works every
    argument out once."""
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
    return case.otherwise is not None and all(
        isinstance(condition, Call)
        and condition.function == "is_not_null"
        and condition.arguments[0] == result
        for condition, result in zip(case.conditions, case.results, strict=True)
    )


def _eager_case(case: Case, compile_expression: Compile) -> Evaluator:
    pairs = [
        (compile_expression(condition), compile_expression(result))
        for condition, result in zip(case.conditions, case.results, strict=True)
    ][::-1]
    null = null_scalar(case.type)
    otherwise = (
        (lambda frame: null) if case.otherwise is None else compile_expression(case.otherwise)
    )

    def run(frame: Frame) -> Datum:
        value = otherwise(frame)
        for condition, result in pairs:
            chosen = result(frame)
            for item in (chosen, value):
                if isinstance(item, pa.Scalar):
                    check_spread(item, frame.num_rows)
            value = pc.if_else(pc.coalesce(condition(frame), FALSE), chosen, value)
        return value

    return run


def _lazy_case(case: Case, compile_expression: Compile) -> Evaluator:
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
    collect = _Collector(case)

    def run(frame: Frame) -> Datum:
        parts = collect.start(frame)
        rest, rows = frame, None
        for condition, _, result, columns in branches:
            taken = condition(rest)
            if isinstance(taken, pa.Scalar):
                if not taken.as_py():
                    continue
                parts.add(result(rest), rest.num_rows, rows)
                return parts.finish()
            taken = pc.coalesce(taken, FALSE)
            count = taken.true_count
            if count == rest.num_rows:
                parts.add(result(rest), rest.num_rows, rows)
                return parts.finish()
            if count == 0:
                continue
            parts.add(
                result(restricted(rest, taken, columns)), count, _sub(rows, _positions(taken))
            )
            others = pc.invert(taken)
            rows = _sub(rows, _positions(others))
            rest = restricted(rest, others, needed)
        if last is not None:
            parts.add(last[0](rest), rest.num_rows, rows)
        return parts.finish()

    return run


def _lazy_coalesce(case: Case, arguments: list[tuple[Evaluator, set[int]]]) -> Evaluator:
    needed = {index for _, columns in arguments for index in columns}
    collect = _Collector(case)

    def run(frame: Frame) -> Datum:
        parts = collect.start(frame)
        rest, rows = frame, None
        for evaluator, _ in arguments[:-1]:
            value = evaluator(rest)
            if isinstance(value, pa.Scalar):
                if not value.is_valid:
                    continue
                parts.add(value, rest.num_rows, rows)
                return parts.finish()
            if value.null_count == 0:
                parts.add(value, rest.num_rows, rows)
                return parts.finish()
            valid = value.is_valid()
            parts.add(
                value.filter(valid), len(value) - value.null_count, _sub(rows, _positions(valid))
            )
            missing = value.is_null()
            rows = _sub(rows, _positions(missing))
            rest = restricted(rest, missing, needed)
        parts.add(arguments[-1][0](rest), rest.num_rows, rows)
        return parts.finish()

    return run


def _sub(rows: np.ndarray[Any, Any] | None, chosen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return chosen if rows is None else rows[chosen.astype(np.int64)]


class _Collector:
    """Makes the result of a CASE of the values of its branches."""

    def __init__(self, case: Case) -> None:
        self._null = null_scalar(case.type)
        self._arrow = to_arrow(case.type)

    def start(self, frame: Frame) -> _Parts:
        return _Parts(frame.num_rows, self._null, self._arrow)


class _Parts:
    """Values of some rows each. `rows` of None stands for all rows."""

    def __init__(self, num_rows: int, null: pa.Scalar, arrow: pa.DataType) -> None:
        self._num_rows = num_rows
        self._null = null
        self._arrow = arrow
        self._values: list[pa.Array] = []
        self._rows: list[np.ndarray[Any, Any]] = []
        self._whole: Datum | None = None

    def add(self, value: Datum, count: int, rows: np.ndarray[Any, Any] | None) -> None:
        if rows is None:
            self._whole = value
        elif count:
            self._values.append(spread(value, count))
            self._rows.append(rows)

    def finish(self) -> Datum:
        if self._whole is not None:
            return self._whole
        if not self._values:
            return self._null
        return _scattered(self._values, self._rows, self._num_rows)
