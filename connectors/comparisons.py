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
    found = constant_comparison(conjunct)
    if found is None:
        return None
    column, operation, constants = found
    known = [_constant(item, context) for item in constants]
    values = tuple(item[0] for item in known if item is not None)
    return Comparison(column, operation, values) if len(values) == len(known) else None


def constant_comparison(
    conjunct: Expression,
) -> tuple[Column, str, tuple[Literal | Parameter, ...]] | None:
    """Column, operation and constants of a conjunct that compares a column with literals or
    parameters, before the arguments of the run are known; None if it has another form."""
    if isinstance(conjunct, InList):
        column, operation, constants = conjunct.operand, "eq", tuple(conjunct.values)
    elif isinstance(conjunct, Call) and conjunct.function in _MIRRORED:
        operation = conjunct.function
        column, other = conjunct.arguments
        if isinstance(other, Column):
            column, other, operation = other, column, _MIRRORED[operation]
        constants = (other,)
    else:
        return None
    known = tuple(item for item in constants if isinstance(item, Literal | Parameter))
    if not isinstance(column, Column) or len(known) < len(constants):
        return None
    return column, operation, known


def _constant(expression: Literal | Parameter, context: EvaluationContext) -> tuple[Any] | None:
    """The value of a literal or parameter, in a tuple because the value may be None."""
    if isinstance(expression, Literal):
        return (expression.value,)
    if expression.index < len(context.arguments):
        return (context.arguments[expression.index].as_py(),)
    return None
