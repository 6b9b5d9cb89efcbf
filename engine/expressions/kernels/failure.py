"""Finding the row that made a kernel fail. Only used after a kernel has raised, so it may be
slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from runnel.errors import DataError, DivisionByZero, OutOfRangeException
from runnel.expressions.function import FAULTS, Datum, Kernel
from runnel.expressions.kernels.python_values import Interval
from runnel.expressions.kernels.result_size import TooManyRows
from runnel.expressions.nodes import INFIX, Call
from runnel.sqltypes import Kind


def first_failure(kernel: Kernel, arguments: Sequence[Datum]) -> list[Any] | None:
    """The argument values of the first row on which the kernel raises, found by bisection; None if
    no single row makes it raise.
    """
    arrays = [datum for datum in arguments if not isinstance(datum, pa.Scalar)]
    low, high = 0, len(arrays[0]) if arrays else 1
    while high - low > 1:
        middle = (low + high) // 2
        if _fails(kernel, arguments, low, middle):
            high = middle
        else:
            low = middle
    if not _fails(kernel, arguments, low, high):
        return None
    return [_value(datum if isinstance(datum, pa.Scalar) else datum[low]) for datum in arguments]


def call_failure(
    error: Exception, call: Call, kernel: Kernel, arguments: Sequence[Datum]
) -> DataError:
    """The exception of a kernel as a DataError with the values of the first failing row and the
    call's position.
    """
    if isinstance(error, TooManyRows):
        return error
    found = first_failure(kernel, arguments)
    detail = None if found is None else f"in {described(call, found)}"
    if isinstance(error, DataError) and error.message not in ("overflow", "out of range"):
        return type(error)(
            error.message,
            detail=error.detail or detail,
            hint=error.hint,
            position=error.position or call.position,
        )
    text = str(error)
    lower = text.lower()
    if "divide by zero" in lower or "division by zero" in lower:
        return DivisionByZero("division by zero", detail=detail, position=call.position)
    if any(word in lower for word in _OVERFLOWS):
        return OutOfRangeException(
            overflow_text(call), detail=detail, hint=_hint(call), position=call.position
        )
    return DataError(f"{_where(call)} failed: {text}", detail=detail, position=call.position)


def _hint(call: Call) -> str | None:
    if call.type.is_integer:
        return "consider adding an explicit CAST to DECIMAL"
    if call.function == "multiply" and call.type.kind is Kind.DECIMAL:
        return "the product needs more digits: ROUND or CAST a factor to fewer digits, or to DOUBLE"
    return None


def overflow_text(call: Call) -> str:
    """The error message for a value that is too large for the type of its call."""
    return f"{call.type} overflow in {_where(call)}"


def _where(call: Call) -> str:
    """The operator or the function, as errors name it."""
    operator = {"negate": "-"}.get(call.function) or INFIX.get(call.function)
    return f"{operator!r} operator" if operator else f"{call.function.upper()} function"


_OVERFLOWS = (
    *(
        "overflow",
        "out of range",
        "out of bounds",
        "does not fit",
        "precision",
        "not in range",
        "too large",
        "too big",
    ),
    "was truncated converting",
    "rescaling decimal value would cause data loss",
)
"""Fragments of Arrow's messages for values that are too large for a type."""


def described(call: Call, values: Sequence[Any]) -> str:
    """The call with values in place of its arguments, as text."""
    texts = [shown(value) for value in values]
    infix = INFIX.get(call.function)
    if infix is not None and len(texts) == 2:
        return f"{texts[0]} {infix} {texts[1]}"
    return (
        f"-({texts[0]})"
        if call.function == "negate"
        else f"{call.function.upper()}({', '.join(texts)})"
    )


def _fails(kernel: Kernel, arguments: Sequence[Datum], low: int, high: int) -> bool:
    """Whether the kernel raises on the rows from `low` up to `high`."""
    try:
        kernel(
            *(
                datum if isinstance(datum, pa.Scalar) else datum.slice(low, high - low)
                for datum in arguments
            )
        )
    except FAULTS:
        return True
    return False


def _value(scalar: pa.Scalar) -> Any:
    """The scalar as a Python value; its underlying number if Python has no such value (a year above
    9999).
    """
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return getattr(scalar, "value", None)


def shown(value: Any) -> str:
    """A value as an error shows it: text in quotes, and cut to 60 characters."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + (value if len(value) <= 60 else value[:57] + "…") + "'"
    if isinstance(value, pa.MonthDayNano):
        return str(Interval(value.months, value.days, value.nanoseconds // 1000))
    return str(value)
