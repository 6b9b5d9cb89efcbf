"""Joins inside a correlated subquery: which conditions move up, and which stay in the join."""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.nodes import Call, Column, Expression, conjuncts
from runnel.planner.rewriting import conjunction, project_columns, shift, substitute
from runnel.planner.rules.decorrelation.anchoring import Anchoring
from runnel.planner.rules.decorrelation.pulled import (
    Pulled,
    fails,
    outer_indexes,
    outer_sides,
    provided,
    same_as,
    where_present,
    with_outer,
)
from runnel.relation.nodes import Join, JoinKind, Relation, references
from runnel.sqltypes import BOOLEAN


def pull_join(to: Anchoring, node: Join) -> Pulled:
    if node.kind in (JoinKind.INNER, JoinKind.CROSS):
        return _inner_join(to, node)
    if node.kind is JoinKind.FULL:
        return _full_join(to, node)
    if node.kind is JoinKind.RIGHT:
        return to.pull(_turned(node))
    return _left_join(to, node)


def _conditions(node: Join) -> list[Expression]:
    """The conditions of a join over both sides: its keys, then its own condition."""
    width = len(node.left.fields)
    keys: list[Expression] = []
    for i, (left, right) in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
        function = "is_not_distinct" if i in node.null_safe else "eq"
        keys.append(Call(function=function, arguments=(left, shift(right, width)), type=BOOLEAN))
    return keys + conjuncts(node.condition)


def _both(left: Pulled, right: Pulled) -> tuple[Expression, ...]:
    width = len(left.relation.fields)
    return (*left.columns, *(shift(item, width) for item in right.columns))


def _inner_join(to: Anchoring, node: Join) -> Pulled:
    left, right = to.rows(node.left), to.rows(node.right)
    columns = _both(left, right)
    width = len(left.relation.fields)
    parts = [*left.parts, *(shift(part, width) for part in right.parts)]
    inherited, staying = len(parts), []
    is_reached = left.is_reached and right.is_reached and not (left.parts and right.parts)
    for condition in _conditions(node):
        moved = substitute(condition, columns)
        if outer_indexes([moved]) or (parts and not is_reached and fails(moved)):
            parts.append(moved)
        else:
            staying.append(moved)
    together = conjunction(staying)
    kind = JoinKind.CROSS if together is None else JoinKind.INNER
    relation = Join(
        kind=kind,
        left=left.relation,
        right=right.relation,
        condition=together,
        position=node.position,
    )
    return Pulled(relation, columns, tuple(parts), None, is_reached and len(parts) == inherited)


def _turned(node: Join) -> Relation:
    """A RIGHT join as a LEFT join, with its columns in their old order."""
    left, right = len(node.left.fields), len(node.right.fields)
    columns = [
        Column(index=i + right if i < left else i - left, name="", type=f.type)
        for i, f in enumerate(node.fields)
    ]
    turned = replace(
        node,
        kind=JoinKind.LEFT,
        left=node.right,
        right=node.left,
        left_keys=node.right_keys,
        right_keys=node.left_keys,
        condition=None if node.condition is None else substitute(node.condition, columns),
    )
    return project_columns(turned, [*range(right, right + left), *range(right)])


_WITH_RIGHT_COLUMNS = (JoinKind.LEFT, JoinKind.SINGLE)


def _left_join(to: Anchoring, node: Join) -> Pulled:
    """LEFT, SINGLE, SEMI, ANTI and the marks.

    The conditions of the left side move up. The conditions of the right side become conditions of
    the join, so the left rows get the outer values that they need.
    """
    left, right = to.rows(node.left), to.rows(node.right)
    if node.kind in _WITH_RIGHT_COLUMNS:
        right = to.settled(right)
    right = to.ready(right, [substitute(key, right.columns) for key in node.right_keys])
    inner_values = provided(right.parts)
    right_keys = tuple(
        with_outer(substitute(key, right.columns), inner_values) for key in node.right_keys
    )
    left_keys = tuple(substitute(key, left.columns) for key in node.left_keys)

    def over_both(width: int) -> list[Expression]:
        columns = (*left.columns, *(shift(item, width) for item in right.columns))
        own = [substitute(part, columns) for part in conjuncts(node.condition)]
        return [*(shift(part, width) for part in right.parts), *own]

    conditions = over_both(len(left.relation.fields))
    reached = node.kind is JoinKind.SINGLE or any(map(fails, (*conditions, *left_keys)))
    left = to.anchor(left, outer_indexes((*conditions, *left_keys)), reached=reached)
    values = provided(left.parts)
    width = len(left.relation.fields)
    relation = replace(
        node,
        left=left.relation,
        right=right.relation,
        left_keys=tuple(with_outer(key, values) for key in left_keys),
        right_keys=right_keys,
        condition=conjunction(with_outer(part, values) for part in over_both(width)),
    )
    added = references(relation.fields)[width:]
    if node.kind in _WITH_RIGHT_COLUMNS:
        added = tuple(added[item.index] for item in right.columns if isinstance(item, Column))
    return Pulled(relation, (*left.columns, *added), left.parts, None, left.is_reached)


def _full_join(to: Anchoring, node: Join) -> Pulled:
    """Both sides get the outer values; a row without a match has them from its own side."""
    left, right = to.settled(to.rows(node.left)), to.settled(to.rows(node.right))
    conditions = _conditions(node)
    indexes = outer_indexes((*left.parts, *right.parts, *conditions))
    left, right = (to.anchor(side, indexes, reached=True, plain=True) for side in (left, right))
    width = len(left.relation.fields)
    mine = provided(left.parts)
    other = {index: shift(item, width) for index, item in provided(right.parts).items()}
    columns = _both(left, right)
    own = [with_outer(substitute(part, columns), mine) for part in conditions]
    same = [
        Call(function="is_not_distinct", arguments=(mine[i], other[i]), type=BOOLEAN)
        for i in sorted(indexes)
    ]
    relation = Join(
        kind=JoinKind.FULL,
        left=left.relation,
        right=right.relation,
        condition=conjunction([*same, *own]),
        position=node.position,
    )
    outer = {column.index: column for part in left.parts for column in outer_sides(part)}
    parts = tuple(
        same_as(outer[i], where_present(mine[i], mine[i], other[i])) for i in sorted(indexes)
    )
    return Pulled(relation, columns, parts, None, True)
