"""Calls of user functions: binding, evaluation, and the errors of a function that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, repeat, starmap
from operator import is_ as is_same
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Mask, indexes, join_arrays, validity
from runnel.errors import DataError, Error, Position, exception_text
from runnel.expressions.context import EvaluationInput
from runnel.expressions.kernels.canonical import canonical
from runnel.expressions.kernels.python_values import python_values
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Expression, PythonCall
from runnel.expressions.python.function import PythonFunction
from runnel.expressions.received import check_received
from runnel.expressions.signature import signature
from runnel.sqltypes import SqlType, common_type, from_arrow, to_arrow


def python_call(
    function: PythonFunction, arguments: Sequence[Expression], position: Position | None
) -> PythonCall:
    """A call with converted arguments; ProgrammingError if they don't fit the parameters."""
    bound, result = signature(*function.parameters, result=function.result, is_own=True)(
        function.name, arguments, position
    )
    return PythonCall(function=function, arguments=bound, type=result, position=position)


def compile_python_call(
    call: PythonCall, compile_expression: Callable[[Expression], Callable[[EvaluationInput], Any]]
) -> Callable[[EvaluationInput], Any]:
    """The evaluator of a call."""
    arguments = [compile_expression(item) for item in call.arguments]

    def run(frame: EvaluationInput) -> Any:
        values = [argument(frame) for argument in arguments]
        is_constant = call.function.is_deterministic and all(
            isinstance(item, pa.Scalar) for item in values
        )
        rows = min(frame.num_rows, 1) if is_constant else frame.num_rows
        columns = [
            pa.repeat(item, rows) if isinstance(item, pa.Scalar) else item for item in values
        ]
        result = called(call, columns, rows, frame.context.check)
        return result[0] if is_constant and rows else result

    return run


def called(
    call: PythonCall, columns: list[pa.Array], rows: int, check: Callable[[], None] = lambda: None
) -> pa.Array:
    """The value of each row. Without rows the function isn't called.

    A scalar function is interrupted between two rows if `check` raises.
    """
    function = call.function
    if not rows:
        return pa.nulls(0, to_arrow(function.result))
    valid = valid_rows(columns) if function.skips_nulls else None
    if valid is None:
        return _values(call, columns, rows, check)
    chosen = np.flatnonzero(valid)
    if not len(chosen):
        return pa.nulls(rows, to_arrow(function.result))
    found = _values(call, [item.take(indexes(chosen)) for item in columns], len(chosen), check)
    positions = np.zeros(rows, np.int64)
    positions[chosen] = np.arange(len(chosen))
    return found.take(indexes(positions, valid))


def valid_rows(columns: Sequence[pa.Array]) -> Mask | None:
    """The rows without a NULL; None if no row has one."""
    found = [item for item in map(validity, columns) if item is not None]
    return np.logical_and.reduce(found) if found else None


def _values(
    call: PythonCall, columns: list[pa.Array], rows: int, check: Callable[[], None]
) -> pa.Array:
    function = call.function
    try:
        if function.is_scalar:
            lists = [
                python_values(item, kind)
                for item, kind in zip(columns, function.parameters, strict=True)
            ]
            result = _one_by_one(
                function, zip(*lists, strict=True) if lists else repeat((), rows), check
            )
        else:
            result = function.function(*columns)
    except _Left as left:
        raise left.error from None
    except Exception as error:
        if function.is_own and isinstance(error, Error):
            error.position = call.position
            raise
        raise failed(function, error, call.position) from error
    return (
        made_values(function, call.type, result, call.position)
        if function.is_scalar
        else _checked(call, result, rows)
    )


def failed(function: PythonFunction, error: Exception, position: Position | None) -> DataError:
    return DataError(
        f"function {function.name} failed",
        detail=exception_text(error),
        hint=_hint(function, isinstance(error, AttributeError | TypeError)),
        position=position,
    )


def _hint(function: PythonFunction, has_wrong_type: bool = True) -> str | None:
    """The remedy for a function that expects values of another form."""
    if function.is_aggregate:
        return (
            None
            if function.is_scalar
            else "the function receives Arrow arrays; create it with scalar=True to receive a list "
            "of values per group"
        )
    if function.is_scalar and not has_wrong_type:
        return None
    if function.is_scalar:
        return "the function receives one row's values; with type='arrow' it receives Arrow arrays"
    return (
        "the function receives Arrow arrays; create it without type='arrow' to receive one row's "
        "values"
    )


class _Left(BaseException):
    """The values are no longer needed; this isn't a failure of the function."""

    def __init__(self, error: Error) -> None:
        super().__init__()
        self.error = error


_SOON = 2_000_000
"""The interval between two calls of `check`, in ns."""


def _one_by_one(
    function: PythonFunction, rows: Iterable[tuple[Any, ...]], check: Callable[[], None]
) -> list[Any]:
    """The value of each row. The number of rows between two checks adapts to how long they take."""
    values: list[Any] = []
    called = _nullable(function.function) if function.returns_null else function.function
    left = starmap(called, rows)
    size = 1
    while True:
        begun = perf_counter_ns()
        before = len(values)
        values += islice(left, size)
        if len(values) - before < size:
            return values
        size = size * 2 if perf_counter_ns() - begun < _SOON else max(1, size // 2)
        try:
            check()
        except Error as error:
            raise _Left(error) from None


def _nullable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose value is None where it raises an exception."""

    def called(*values: Any) -> Any:
        try:
            return function(*values)
        except Exception:
            return None

    return called


def made_values(
    function: PythonFunction, kind: SqlType, values: list[Any], position: Position | None
) -> pa.Array:
    """The single values that a function returned, as an array."""
    try:
        try:
            return array_of(values, kind)
        except (Error, pa.ArrowException, TypeError):
            plain = [plain_value(value) for value in values]
            if all(map(is_same, plain, values)):
                raise
            return array_of(plain, kind)
    except (Error, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"function {function.name} gave a value that isn't {kind}",
            detail=exception_text(error),
            position=position,
        ) from error


def plain_value(value: Any) -> Any:
    """The Python value of a scalar of Arrow or NumPy; another value as it is."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return value.item() if isinstance(value, np.generic) else value


def _checked(call: PythonCall, result: Any, rows: int) -> pa.Array:
    """The array that a function returned, in the canonical type of the result."""
    function = call.function
    try:
        array = _as_array(result, to_arrow(function.result))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"function {function.name} must give an Arrow array, not {type(result).__name__}",
            detail=exception_text(error),
            hint=_hint(function),
            position=call.position,
        ) from error
    if len(array) != rows:
        raise DataError(
            f"function {function.name} returned {len(array)} values for {rows} rows",
            position=call.position,
        )
    try:
        check_received(array, f"the result of function {function.name}")
    except DataError as error:
        error.position = call.position
        raise
    if array.type == to_arrow(function.result):
        return array
    try:
        kind = from_arrow(array.type)
        if kind == function.result or pa.types.is_null(array.type):
            return canonical(array, function.result)
        if common_type(kind, function.result) == function.result:
            return pc.cast(array, to_arrow(function.result))
    except (Error, pa.ArrowException) as error:
        raise DataError(
            f"function {function.name} gave values that aren't {function.result}",
            detail=exception_text(error),
            position=call.position,
        ) from error
    raise DataError(
        f"function {function.name} gave {array.type}, not {function.result}",
        hint=(
            f"let it give an array of {to_arrow(function.result)}, "
            "or create it with another return type"
        ),
        position=call.position,
    )


def _as_array(result: Any, expected: pa.DataType) -> pa.Array:
    if isinstance(result, pa.Array):
        return result
    if isinstance(result, pa.ChunkedArray):
        return join_arrays(result.chunks) if result.num_chunks else pa.nulls(0, result.type)
    if hasattr(result, "__arrow_c_stream__"):
        return _as_array(pa.chunked_array(result), expected)
    if isinstance(result, list | tuple):
        return pa.array(result, expected)
    return pa.array(result)
