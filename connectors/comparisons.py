"""The part of a predicate that a source of other software understands: comparisons of columns with
constants."""

from __future__ import annotations

from typing import Any

from runnel.base.frozen import frozen
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Call, Column, Expression, InList, Literal, Parameter, conjuncts

_MIRRORED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@frozen
class Comparison:
    """`column operation value`: a column by its index in the table; "eq", "lt", "le", "gt" or "ge";
    and Python values, of which one must fulfil it (several only with "eq": IN). With None it is
    never true."""

    column: Column
    operation: str
    values: tuple[Any, ...]


def comparisons(predicate: Expression | None, context: EvaluationContext) -> list[Comparison]:
    """The conjuncts of a scan's predicate that are comparisons, the constants being literals or the
    arguments of the run. A source that reads only the rows for which all of these hold gives all
    that the query needs: the rest is filtered again."""
    return [
        found for part in conjuncts(predicate) if (found := comparison(part, context)) is not None
    ]


def comparison(conjunct: Expression, context: EvaluationContext) -> Comparison | None:
    """The conjunct as a comparison; None where it has another form."""
    if isinstance(conjunct, InList) and isinstance(conjunct.operand, Column):
        known = [_constant(item, context) for item in conjunct.values]
        values = tuple(item[0] for item in known if item is not None)
        return Comparison(conjunct.operand, "eq", values) if len(values) == len(known) else None
    if not isinstance(conjunct, Call) or conjunct.function not in _MIRRORED:
        return None
    left, right = conjunct.arguments
    operation = conjunct.function
    if isinstance(right, Column):
        left, right, operation = right, left, _MIRRORED[operation]
    constant = _constant(right, context)
    return (
        Comparison(left, operation, constant)
        if isinstance(left, Column) and constant is not None
        else None
    )


def _constant(expression: Expression, context: EvaluationContext) -> tuple[Any] | None:
    """The value of a literal or parameter, in a tuple since it may be None."""
    if isinstance(expression, Literal):
        return (expression.value,)
    if isinstance(expression, Parameter) and expression.index < len(context.arguments):
        return (context.arguments[expression.index].as_py(),)
    return None
