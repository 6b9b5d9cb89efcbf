"""Equalities in a join's condition become its keys, so that it can run as a hash join.

Not for MARK and NULL_ANTI: their keys are the two sides of IN, where NULL counts as unknown, while
a further equality restricts the pairs and stays in the condition. An equality that can fail becomes
a key only if it comes first, because a key is computed for every row of its side. IS NOT DISTINCT
FROM makes a null-safe key. Equalities of nested types, in which NULL is unknown, stay conditions.
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
    """The relation with the equalities of join conditions turned into keys."""
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
    for conjunct in conjuncts(node.condition):
        pair = _pair(conjunct, width)
        if pair is None or (can_fail(conjunct) and (rest or left_keys)):
            rest.append(conjunct)
        else:
            if isinstance(conjunct, Call) and conjunct.function == "is_not_distinct":
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


def _pair(conjunct: Expression, width: int) -> tuple[Expression, Expression] | None:
    """The left and the right expression of an equality between the sides; None for any other
    conjunct."""
    if (
        not isinstance(conjunct, Call)
        or conjunct.function not in _EQUALITIES
        or is_volatile(conjunct)
    ):
        return None
    first, second = conjunct.arguments
    if first.type != second.type or (first.type.is_nested and conjunct.function == "eq"):
        return None
    for left, right in ((first, second), (second, first)):
        left_columns, right_columns = columns_of(left), columns_of(right)
        if left_columns and right_columns and max(left_columns) < width <= min(right_columns):
            return left, right
    return None
