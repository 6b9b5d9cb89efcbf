"""An outer join becomes an inner one if a filter above it drops the rows that only an outer join
adds.

Such a row has NULL in every column of one side. A conjunct drops it if the conjunct can't be true
for it ("rejects NULLs"), whether it is in a filter above the join or in the condition of an inner
join around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.expressions.nodes import Call, Cast, Column, Expression, InList, conjuncts
from runnel.relation.nodes import Filter, Join, JoinKind, Relation, transform

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "like")
_OPERATORS = ("add", "subtract", "multiply", "divide", "remainder", "negate", "concat", "not")
_STRICT = frozenset((*_COMPARISONS, *_OPERATORS))
"""Functions that return NULL if any argument is NULL."""

_REJECTING = frozenset({"is_not_null", "is_true", "is_false"})
"""Tests that are false for NULL."""


def strengthen_outer_joins(relation: Relation) -> Relation:
    """The relation with outer joins made INNER, LEFT or RIGHT where the result is the same."""
    return transform(relation, _strengthen)


def _strengthen(node: Relation) -> Relation:
    if isinstance(node, Filter) and isinstance(node.input, Join):
        joined = _stronger(node.input, conjuncts(node.condition))
        return node if joined is node.input else replace(node, input=joined)
    return node


def _stronger(join: Join, predicates: Sequence[Expression]) -> Join:
    width, total = len(join.left.fields), len(join.fields)
    if join.kind in (JoinKind.LEFT, JoinKind.FULL) and _any_rejects(
        predicates, range(width, total)
    ):
        join = replace(join, kind=JoinKind.INNER if join.kind is JoinKind.LEFT else JoinKind.RIGHT)
    if join.kind in (JoinKind.RIGHT, JoinKind.FULL) and _any_rejects(predicates, range(width)):
        join = replace(join, kind=JoinKind.INNER if join.kind is JoinKind.RIGHT else JoinKind.LEFT)
    return join


def _any_rejects(predicates: Sequence[Expression], columns: range) -> bool:
    return any(rejects_nulls(item, columns) for item in predicates)


def rejects_nulls(condition: Expression, columns: range) -> bool:
    """Whether a condition can't be true if all these columns are NULL."""
    if isinstance(condition, Call):
        if condition.function == "and":
            return any(rejects_nulls(item, columns) for item in condition.arguments)
        if condition.function == "or":
            return all(rejects_nulls(item, columns) for item in condition.arguments)
        if condition.function in _REJECTING:
            return _is_null_with(condition.arguments[0], columns)
    return _is_null_with(condition, columns)


def _is_null_with(expression: Expression, columns: range) -> bool:
    """Whether an expression is certainly NULL if all these columns are NULL."""
    match expression:
        case Column(index=index):
            return index in columns
        case Cast(operand=operand) | InList(operand=operand):
            return _is_null_with(operand, columns)
        case Call(function=function, arguments=arguments) if function in _STRICT:
            return any(_is_null_with(item, columns) for item in arguments)
    return False
