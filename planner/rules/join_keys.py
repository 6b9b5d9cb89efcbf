"""Equalities of a join's condition become its keys, so that it can be run by hashing.

Not for MARK and NULL_ANTI: there the keys are the two sides of IN, whose NULLs count as unknown; a
further equality restricts the pairs and stays in the condition. An equality that can fail becomes a
key only if it comes first: as a key it is computed for every row of its side. IS NOT DISTINCT FROM
makes a null-safe key. Equalities of nested types, in which NULL is unknown, stay conditions.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Call, Expression, columns_of, conjuncts
from runnel.planner.rewriting import conjunction, shift
from runnel.relation.nodes import Join, JoinKind, Relation, transform

_EQUALITIES = ("eq", "is_not_distinct")
_KEEPS_CONDITION = (JoinKind.MARK, JoinKind.NULL_ANTI)


def find_join_keys(relation: Relation) -> Relation:
    """The relation with the equalities of join conditions made keys."""
    return transform(relation, _split)


def _split(node: Relation) -> Relation:
    if not isinstance(node, Join) or node.condition is None or node.kind in _KEEPS_CONDITION:
        return node
    width = len(node.left.fields)
    left_keys, right_keys, null_safe = (
        list(node.left_keys),
        list(node.right_keys),
        list(node.null_safe),
    )
    rest: list[Expression] = []
    for part in conjuncts(node.condition):
        pair = _pair(part, width)
        if pair is None or (can_fail(part) and (rest or left_keys)):
            rest.append(part)
        else:
            if isinstance(part, Call) and part.function == "is_not_distinct":
                null_safe.append(len(left_keys))
            left_keys.append(pair[0])
            right_keys.append(shift(pair[1], -width))
    if len(left_keys) == len(node.left_keys):
        return node
    return replace(
        node,
        kind=JoinKind.INNER if node.kind is JoinKind.CROSS else node.kind,
        left_keys=tuple(left_keys),
        right_keys=tuple(right_keys),
        null_safe=tuple(null_safe),
        condition=conjunction(rest),
    )


def _pair(part: Expression, width: int) -> tuple[Expression, Expression] | None:
    """The left and the right side's expression of an equality between the sides."""
    if not isinstance(part, Call) or part.function not in _EQUALITIES or is_volatile(part):
        return None
    first, second = part.arguments
    if first.type != second.type or (first.type.is_nested and part.function == "eq"):
        return None
    for left, right in ((first, second), (second, first)):
        left_columns, right_columns = columns_of(left), columns_of(right)
        if left_columns and right_columns and max(left_columns) < width <= min(right_columns):
            return left, right
    return None
