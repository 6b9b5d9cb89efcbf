"""Evaluates at plan time the expressions that depend on no row, argument or time.

A constant whose evaluation fails is left alone: it may be in a CASE branch that no row reaches. AND
and OR drop operands that decide nothing, and are replaced by an operand that decides everything.
Equalities of one column joined by OR become IN. CASE drops the branches that are never reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runnel.errors import Error
from runnel.expressions.evaluate import evaluate_constant, is_constant
from runnel.expressions.nodes import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    InList,
    Literal,
    Parameter,
    transform,
)
from runnel.relation.nodes import Filter, Join, Relation
from runnel.relation.nodes import transform as transform_relation


def fold_constants(relation: Relation) -> Relation:
    """The relation with every constant subexpression evaluated."""
    return transform_relation(relation, _fold_node)


def _fold_node(node: Relation) -> Relation:
    node = node.map_expressions(fold)
    if isinstance(node, Filter):
        condition = _without_unknown(node.condition)
        if _is_literal(condition, True):
            return node.input
        return node if condition is node.condition else replace(node, condition=condition)
    if isinstance(node, Join) and node.condition is not None and _is_literal(node.condition, True):
        return replace(node, condition=None)
    return node


def fold(expression: Expression) -> Expression:
    """The expression with its constant subexpressions evaluated."""
    return transform(expression, _fold)


def _fold(node: Expression) -> Expression:
    if isinstance(node, Call) and node.function in ("and", "or"):
        return _fold_connective(node)
    if isinstance(node, Case):
        return _fold_case(node)
    if isinstance(node, Call) and node.function == "not":
        node = _fold_not(node)
    is_foldable = isinstance(node, Call | Cast | InList) and all(
        isinstance(item, Literal) for item in node.children
    )
    if not is_foldable or not is_constant(node):
        return node
    try:
        value = evaluate_constant(node)
    except Error:
        return node
    return Literal(value=value, type=node.type, position=node.position)


def _fold_connective(node: Call) -> Expression:
    """AND and OR by three-valued logic: an operand equal to `deciding` determines the result, and
    an operand of the opposite value has no effect."""
    deciding = node.function == "or"
    parts: list[Expression] = []
    for argument in node.arguments:
        inner = (
            argument.arguments
            if isinstance(argument, Call) and argument.function == node.function
            else (argument,)
        )
        for part in inner:
            if _is_literal(part, deciding):
                return replace(part, position=node.position)
            if not _is_literal(part, not deciding) and not (
                _is_null(part) and any(map(_is_null, parts))
            ):
                parts.append(part)
    if not parts:
        return Literal(value=not deciding, type=node.type, position=node.position)
    if node.function == "or":
        parts = _with_lists(parts)
    if len(parts) == 1:
        return parts[0]
    return node if tuple(parts) == node.arguments else replace(node, arguments=tuple(parts))


def _with_lists(parts: list[Expression]) -> list[Expression]:
    """The alternatives with `x = 1 OR x = 2` as `x IN (1, 2)`, at the position of the first."""
    values: dict[Column, list[Expression]] = {}
    found: list[Expression] = []
    for part in parts:
        pair = _column_and_values(part)
        if pair is None:
            found.append(part)
        elif pair[0] in values:
            values[pair[0]].extend(pair[1])
        else:
            values[pair[0]] = list(pair[1])
            found.append(part)
    if len(found) == len(parts):
        return parts
    return [_as_list(part, values) for part in found]


def _as_list(part: Expression, values: Mapping[Column, Sequence[Expression]]) -> Expression:
    pair = _column_and_values(part)
    if pair is None or len(values[pair[0]]) == len(pair[1]):
        return part
    return InList(
        operand=pair[0], values=tuple(values[pair[0]]), type=part.type, position=part.position
    )


def _column_and_values(part: Expression) -> tuple[Column, tuple[Expression, ...]] | None:
    """(x, (1,)) for `x = 1`, and (x, (1, 2)) for `x IN (1, 2)`; None for any other expression."""
    if isinstance(part, InList) and isinstance(part.operand, Column):
        return part.operand, part.values
    if isinstance(part, Call) and part.function == "eq":
        left, right = part.arguments
        for column, value in ((left, right), (right, left)):
            if (
                isinstance(column, Column)
                and isinstance(value, Literal | Parameter)
                and value.type == column.type
            ):
                return column, (value,)
    return None


_OPPOSITES = {
    "not": "",
    "is_null": "is_not_null",
    "is_not_null": "is_null",
    "is_true": "is_not_true",
    "is_not_true": "is_true",
    "is_false": "is_not_false",
    "is_not_false": "is_false",
    "is_distinct": "is_not_distinct",
    "is_not_distinct": "is_distinct",
}
"""The test with the opposite result for every value. Comparisons are not listed: `NOT a < b` stays
as written in the plan that a reader sees."""


def _fold_not(node: Call) -> Expression:
    inner = node.arguments[0]
    if not isinstance(inner, Call) or inner.function not in _OPPOSITES:
        return node
    opposite = _OPPOSITES[inner.function]
    return (
        replace(inner, function=opposite, position=node.position)
        if opposite
        else inner.arguments[0]
    )


def _fold_case(node: Case) -> Expression:
    conditions: list[Expression] = []
    results: list[Expression] = []
    otherwise = node.otherwise
    for condition, result in zip(node.conditions, node.results, strict=True):
        if _is_literal(condition, True):
            otherwise = result
            break
        if not _is_literal(condition, False) and not _is_null(condition):
            conditions.append(condition)
            results.append(result)
    if not conditions:
        return (
            Literal(value=None, type=node.type, position=node.position)
            if otherwise is None
            else otherwise
        )
    if len(conditions) == len(node.conditions):
        return node
    return replace(node, conditions=tuple(conditions), results=tuple(results), otherwise=otherwise)


def _without_unknown(condition: Expression) -> Expression:
    """False for a filter's condition that is never true: NULL, or a conjunction with a NULL."""
    parts = (
        condition.arguments
        if isinstance(condition, Call) and condition.function == "and"
        else (condition,)
    )
    if any(_is_null(part) for part in parts):
        return Literal(value=False, type=condition.type, position=condition.position)
    return condition


def _is_literal(expression: Expression, value: bool) -> bool:
    return isinstance(expression, Literal) and expression.value is value


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None
