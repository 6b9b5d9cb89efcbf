"""Comparisons of columns with constants: the part of a predicate that a foreign source can
evaluate."""

from __future__ import annotations

from typing import Any

from runnel.base.frozen import frozen
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Call, Column, Expression, InList, Literal, Parameter, conjuncts

_MIRRORED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@frozen
class Comparison:
    """A condition `column operation value`.

    column: a column of the table, by its index in the table.
    operation: "eq", "lt", "le", "gt" or "ge".
    values: Python values. The condition holds if it holds for one of them; several values occur
        only with "eq" (IN). A comparison with None is never true.

    The values have the SQL type of the column; a comparison that converts the column is no
    `Comparison`. The Python class by SQL type: bool (BOOLEAN), int (integers; months of INTERVAL
    YEAR TO MONTH), float (REAL, DOUBLE), Decimal with the scale of the column, str (VARCHAR, JSON),
    bytes (VARBINARY), date, time, datetime (naive for TIMESTAMP, aware for TIMESTAMP WITH TIME
    ZONE), timedelta (INTERVAL DAY TO SECOND). A UUID is a UUID in a literal, and a str in an
    argument.
    """

    column: Column
    operation: str
    values: tuple[Any, ...]


def comparisons(predicate: Expression | None, context: EvaluationContext) -> list[Comparison]:
    """The conjuncts of a scan's predicate that compare a column with a constant.

    A constant is a literal or an argument of the run. The query filters the rows again, so a source
    may return more rows than those that satisfy all comparisons, but not fewer.
    """
    return [
        found for part in conjuncts(predicate) if (found := comparison(part, context)) is not None
    ]


def comparison(conjunct: Expression, context: EvaluationContext) -> Comparison | None:
    """The conjunct as a comparison; None if it has another form."""
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
    """The value of a literal or parameter, in a tuple because the value may be None."""
    if isinstance(expression, Literal):
        return (expression.value,)
    if isinstance(expression, Parameter) and expression.index < len(context.arguments):
        return (context.arguments[expression.index].as_py(),)
    return None
