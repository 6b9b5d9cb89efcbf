"""Compiling expressions to evaluators, and running evaluators over rows.

An evaluator is a closure: every decision that doesn't depend on the rows is made when it is
compiled. It returns an array of `frame.num_rows` values, or a scalar that stands for as many equal
values. A scalar is expanded only where a caller needs an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import join_arrays
from runnel.errors import DataError, internal
from runnel.expressions.casts.cast import compile_cast
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.function import FAULTS, Datum, Kernel, spread
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.kernels.failure import call_failure
from runnel.expressions.kernels.python_values import python_values
from runnel.expressions.kernels.result_size import MOST_BYTES, SIZES, TooManyRows, check_call
from runnel.expressions.logic import conditional
from runnel.expressions.logic.in_list import compile_in_list
from runnel.expressions.nodes import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    InList,
    LambdaCall,
    Literal,
    Parameter,
    PythonCall,
    conjuncts,
)
from runnel.expressions.properties import can_fail, is_constant, is_volatile

# The method of a batch would make the options at each call: 19 µs instead of 17.
_WITHOUT_NULLS = pc.FilterOptions("drop")

Evaluator = Callable[[EvaluationInput], Any]
"""The datum of an expression for the rows of a frame."""

__all__ = [
    "Evaluator",
    "can_fail",
    "compile_expression",
    "compile_filter",
    "compile_selection",
    "evaluate",
    "evaluate_constant",
    "is_constant",
    "is_volatile",
]


def compile_expression(expression: Expression) -> Evaluator:
    """The evaluator of an expression over frames that have its columns.

    Evaluation raises DataError with the position of the subexpression that failed.
    """
    compiler = _COMPILERS.get(type(expression))
    if compiler is None:
        raise internal(f"cannot evaluate {type(expression).__name__}")
    return compiler(expression)


def evaluate(evaluator: Evaluator, frame: EvaluationInput) -> pa.Array:
    """The value of every row, as an array."""
    try:
        datum = evaluator(frame)
        return spread(datum, frame.num_rows) if isinstance(datum, pa.Scalar) else datum
    except TooManyRows as error:
        return _in_chunks(evaluator, frame, error.fitting)


def _in_chunks(evaluator: Evaluator, frame: EvaluationInput, size: int) -> pa.Array:
    """The value of every row, computed for `size` rows at a time; DataError if all values together
    are too large.
    """
    chunks: list[pa.Array] = []
    total = 0
    for start in range(0, frame.num_rows, size):
        frame.context.check()
        count = min(size, frame.num_rows - start)
        chunk = evaluate(evaluator, _slice(frame, start, count))
        total += chunk.nbytes
        if total > MOST_BYTES:
            raise DataError(
                f"the values of {frame.num_rows:,} rows take more than {MOST_BYTES:,} bytes",
                hint=(
                    "make them shorter, or select them only, without a join, "
                    "a sort or a grouping by them"
                ),
            )
        chunks.append(chunk)
    return join_arrays(chunks)


def _slice(frame: EvaluationInput, start: int, count: int) -> EvaluationInput:
    return EvaluationInput(
        [None if item is None else item.slice(start, count) for item in frame.columns],
        count,
        frame.context,
    )


def evaluate_constant(expression: Expression, context: EvaluationContext | None = None) -> Any:
    """The Python value of an expression without columns.

    The expression may have parameters if the context has their arguments.
    """
    frame = EvaluationInput((), 1, context or EvaluationContext())
    return python_values(spread(compile_expression(expression)(frame), 1), expression.type)[0]


def compile_filter(condition: Expression) -> Callable[[EvaluationInput], pa.Array | None]:
    """Returns a function that computes the mask of a condition (NULL counts as false), or None if
    all rows pass.
    """
    evaluator = compile_expression(condition)

    def mask(frame: EvaluationInput) -> pa.Array | None:
        try:
            datum = evaluator(frame)
        except TooManyRows as error:
            datum = _in_chunks(evaluator, frame, error.fitting)
        if isinstance(datum, pa.Scalar):
            return (
                None
                if datum.as_py()
                else pa.repeat(pack_scalar(False, condition.type), frame.num_rows)
            )
        return None if datum.null_count == 0 and datum.true_count == len(datum) else datum

    return mask


def compile_selection(
    condition: Expression,
) -> Callable[[pa.RecordBatch, EvaluationContext], pa.RecordBatch]:
    """Returns a function that filters a batch by a condition.

    A conjunct that can fail is evaluated only for rows that passed the conjuncts before it. A
    conjunct that can't fail is evaluated together with the one before it.
    """
    steps = [compile_filter(step) for step in _steps(condition)]

    def select(batch: pa.RecordBatch, context: EvaluationContext) -> pa.RecordBatch:
        for step in steps:
            if batch.num_rows == 0:
                return batch
            mask = step(EvaluationInput(batch.columns, batch.num_rows, context))
            if mask is not None:
                batch = pc.call_function("filter", [batch, mask], _WITHOUT_NULLS)
        return batch

    return select


def _steps(condition: Expression) -> list[Expression]:
    """The conditions to apply one after another: each begins with a conjunct that can fail, or is
    the first.
    """
    groups: list[list[Expression]] = []
    for conjunct in conjuncts(condition):
        if groups and not can_fail(conjunct):
            groups[-1].append(conjunct)
        else:
            groups.append([conjunct])
    return [
        group[0]
        if len(group) == 1
        else Call(function="and", arguments=tuple(group), type=condition.type)
        for group in groups
    ]


def _column(expression: Column) -> Evaluator:
    index = expression.index
    return lambda frame: frame.columns[index]


def _literal(expression: Literal) -> Evaluator:
    scalar = pack_scalar(expression.value, expression.type)
    return lambda frame: scalar


def _parameter(expression: Parameter) -> Evaluator:
    index = expression.index
    return lambda frame: frame.context.arguments[index]


def _cast(expression: Cast) -> Evaluator:
    operand = compile_expression(expression.operand)
    conversion = compile_cast(expression.operand.type, expression.type, expression.position)
    return lambda frame: conversion(operand(frame), frame.context)


def _call(expression: Call) -> Evaluator:
    """The evaluator of a call: a closure for the number of arguments, to keep the path of a small
    query short.
    """
    if expression.function in ("and", "or"):
        return conditional.compile_connective(expression, compile_expression)
    function = FUNCTIONS[expression.function]
    kernel = function.compile(expression)
    arguments = [compile_expression(item) for item in expression.arguments]
    if expression.function in SIZES:
        return _growing(expression, kernel, arguments)
    if function.needs_frame:
        return _framed(expression, kernel, arguments)
    if len(arguments) == 1:
        return _unary(expression, kernel, arguments[0])
    if len(arguments) == 2:
        return _binary(expression, kernel, arguments[0], arguments[1])

    def run(frame: EvaluationInput) -> Datum:
        values = [argument(frame) for argument in arguments]
        try:
            return kernel(*values)
        except FAULTS as error:
            raise call_failure(error, expression, kernel, values) from None

    return run


def _unary(expression: Call, kernel: Kernel, argument: Evaluator) -> Evaluator:
    def run(frame: EvaluationInput) -> Datum:
        value = argument(frame)
        try:
            return kernel(value)
        except FAULTS as error:
            raise call_failure(error, expression, kernel, (value,)) from None

    return run


def _binary(expression: Call, kernel: Kernel, left: Evaluator, right: Evaluator) -> Evaluator:
    def run(frame: EvaluationInput) -> Datum:
        first, second = left(frame), right(frame)
        try:
            return kernel(first, second)
        except FAULTS as error:
            raise call_failure(error, expression, kernel, (first, second)) from None

    return run


def _framed(expression: Call, kernel: Kernel, arguments: Sequence[Evaluator]) -> Evaluator:
    def run(frame: EvaluationInput) -> Datum:
        values = [argument(frame) for argument in arguments]
        try:
            return kernel(frame, *values)
        except FAULTS as error:
            over_items = lambda *items: kernel(frame, *items)  # noqa: E731
            raise call_failure(error, expression, over_items, values) from None

    return run


def _growing(expression: Call, kernel: Kernel, arguments: Sequence[Evaluator]) -> Evaluator:
    """The evaluator of a function whose result may be much larger than its arguments: checks the
    size first.
    """
    name = expression.function

    def run(frame: EvaluationInput) -> Datum:
        values = [argument(frame) for argument in arguments]
        check_call(name, values, expression.position)
        try:
            return kernel(*values)
        except FAULTS as error:
            raise call_failure(error, expression, kernel, values) from None

    return run


def _python(expression: PythonCall) -> Evaluator:
    # Imported on first use, as few statements call a user function.
    from runnel.expressions.python.calls import compile_python_call

    return compile_python_call(expression, compile_expression)


def _lambda(expression: LambdaCall) -> Evaluator:
    # Imported on first use, as few statements have a lambda function.
    from runnel.expressions.nested.lambdas import compile_lambda

    return compile_lambda(expression, compile_expression, is_volatile(expression.body))


_COMPILERS: dict[type[Expression], Callable[[Any], Evaluator]] = {
    Column: _column,
    Literal: _literal,
    Parameter: _parameter,
    Cast: _cast,
    Call: _call,
    PythonCall: _python,
    LambdaCall: _lambda,
    Case: lambda expression: conditional.compile_case(expression, compile_expression),
    InList: lambda expression: compile_in_list(expression, compile_expression),
}
