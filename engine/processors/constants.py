"""Constants that an operator needs before it starts: LIMIT and OFFSET, arguments of table
functions."""

from __future__ import annotations

from typing import Any

from runnel.errors import DataError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import evaluate_constant
from runnel.expressions.nodes import Expression, Literal


def constant(expression: Expression, context: EvaluationContext) -> Any:
    """The value of an expression that is free of columns, as a Python value."""
    return (
        expression.value
        if isinstance(expression, Literal)
        else evaluate_constant(expression, context)
    )


def row_count(expression: Expression | None, context: EvaluationContext, clause: str) -> int | None:
    """The number that a LIMIT or OFFSET (`clause`) says; None where there is none. DataError for
    NULL and below zero."""
    if expression is None:
        return None
    value = constant(expression, context)
    if value is None or value < 0:
        raise DataError(
            f"{clause} value cannot be {'null' if value is None else 'negative'}",
            hint=f"give {clause} a number of rows, 0 or more",
            position=expression.position,
        )
    return int(value)
