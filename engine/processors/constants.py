"""Constants that an operator needs before it starts, such as the row counts of LIMIT and OFFSET."""

from __future__ import annotations

from typing import Any

from runnel.errors import DataError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import evaluate_constant
from runnel.expressions.nodes import Expression, Literal


def constant(expression: Expression, context: EvaluationContext) -> Any:
    """Evaluate an expression that refers to no columns, as a Python value."""
    return (
        expression.value
        if isinstance(expression, Literal)
        else evaluate_constant(expression, context)
    )


def row_count(expression: Expression | None, context: EvaluationContext, clause: str) -> int | None:
    """Evaluate the row count of a LIMIT or OFFSET; None without an expression.

    Raises DataError for NULL and for a negative count.

    clause: "LIMIT" or "OFFSET", for the error.
    """
    if expression is None:
        return None
    value = constant(expression, context)
    if value is None or value < 0:
        raise DataError(
            f"{clause} value cannot be {'null' if value is None else 'negative'}",
            hint=f"set {clause} to a number of rows, 0 or more",
            position=expression.position,
        )
    return int(value)
