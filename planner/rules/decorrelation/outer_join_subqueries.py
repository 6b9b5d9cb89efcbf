"""Subqueries in the condition of an outer join.

An uncorrelated subquery is joined to the side whose columns it is compared with, which drops no row
of that side. Any other subquery makes the join LATERAL: a left row is joined with the right rows
for which the condition is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Column, Expression, columns_of, conjuncts, walk
from runnel.planner.rewriting import conjunction, project_columns, renumber
from runnel.planner.rules.constant_folding import fold_constants
from runnel.planner.rules.decorrelation.hoisting import Hoisting, Rewrite
from runnel.planner.rules.decorrelation.laterals import dependent_join
from runnel.relation.nodes import Filter, Join, JoinKind, Relation
from runnel.relation.subqueries import (
    SUBQUERIES,
    DependentJoin,
    OuterColumn,
    deepened,
    map_outer_in,
    outer_columns,
)


def outer_join(node: Join, rewrite: Rewrite) -> Relation:
    """Rewrites a LEFT, RIGHT or FULL join whose condition contains subqueries, without them."""
    if all(_is_one_sided(part, node) for part in conjuncts(node.condition)):
        return _joined_to_sides(node, rewrite)
    if node.kind is JoinKind.RIGHT:
        return _turned(node, rewrite)
    if node.kind is not JoinKind.LEFT:
        found = (
            [item for item in walk(node.condition) if isinstance(item, SUBQUERIES)]
            if node.condition
            else []
        )
        raise NotSupportedError(
            "a subquery in the condition of a FULL JOIN, over both sides, is not supported",
            hint="put it in the select list of a derived table",
            position=found[0].position if found else node.position,
        )
    assert node.condition is not None
    condition = _from_the_right(node.condition, len(node.left.fields))
    right = rewrite(
        Filter(input=deepened(node.right, 1), condition=condition, position=node.position)
    )
    dependent = DependentJoin(
        kind=JoinKind.LEFT, left=node.left, right=right, position=node.position
    )
    return dependent_join(dependent, deepened(fold_constants(right), -1))


def _is_one_sided(conjunct: Expression, node: Join) -> bool:
    """Whether all subqueries of a conjunct use columns of one side, and read nothing of this join
    themselves."""
    width = len(node.left.fields)
    sides: set[bool] = set()
    for item in walk(conjunct):
        if isinstance(item, SUBQUERIES):
            if any(column.depth == 1 for column in outer_columns(item.relation)):
                return False
            sides.update(index >= width for child in item.children for index in columns_of(child))
    return len(sides) < 2


def _joined_to_sides(node: Join, rewrite: Rewrite) -> Relation:
    """Joins each subquery to its side.

    While the sides grow, right columns are numbered from _FAR. `_sides_swapped` changes between
    this numbering and the right side's own.
    """
    width = len(node.left.fields)
    left, right = Hoisting(node.left, rewrite), Hoisting(node.right, rewrite)
    conditions = []
    for conjunct in conjuncts(node.condition):
        apart = _mapped(conjunct, lambda index: index if index < width else _FAR + index - width)
        if any(index >= _FAR for index in _subject(apart)):
            apart = _mapped(right.rewrite(_mapped(apart, _sides_swapped)), _sides_swapped)
        conditions.append(left.rewrite(apart))
    grown = len(left.relation.fields)
    condition = conjunction(
        _mapped(item, lambda i: i if i < _FAR else i - _FAR + grown) for item in conditions
    )
    joined = replace(node, left=left.relation, right=right.relation, condition=condition)
    return project_columns(joined, [*range(width), *range(grown, grown + len(node.right.fields))])


def _subject(conjunct: Expression) -> set[int]:
    """The columns that the subqueries of a conjunct are compared with."""
    found = (item for item in walk(conjunct) if isinstance(item, SUBQUERIES))
    return {index for item in found for child in item.children for index in columns_of(child)}


def _mapped(expression: Expression, locate: Callable[[int], int]) -> Expression:
    return renumber(expression, {index: locate(index) for index in columns_of(expression)})


def _sides_swapped(index: int) -> int:
    return index - _FAR if index >= _FAR else index + _FAR


_FAR = 1 << 30


def _from_the_right(condition: Expression, width: int) -> Expression:
    """A join's condition over the right side's columns, with the left row as the outer row."""

    def change(item: Expression, nesting: int) -> Expression | None:
        if isinstance(item, Column) and not nesting:
            if item.index >= width:
                return replace(item, index=item.index - width)
            return OuterColumn(
                index=item.index, name=item.name, type=item.type, position=item.position
            )
        if not isinstance(item, OuterColumn) or item.depth < nesting:
            return None
        if item.depth == nesting and item.index >= width:
            return replace(item, index=item.index - width)
        return replace(item, depth=item.depth + 1)

    return map_outer_in(condition, change)


def _turned(node: Join, rewrite: Rewrite) -> Relation:
    """A RIGHT join as a LEFT join, with the sides swapped in its condition."""
    left, right = len(node.left.fields), len(node.right.fields)

    def change(item: Expression, nesting: int) -> Expression | None:
        is_own = (isinstance(item, Column) and not nesting) or (
            isinstance(item, OuterColumn) and 0 < nesting == item.depth
        )
        if not is_own or not isinstance(item, Column | OuterColumn):
            return None
        return replace(item, index=item.index + right if item.index < left else item.index - left)

    assert node.condition is not None
    condition = map_outer_in(node.condition, change)
    late = None if node.late is None else node.late.turned
    swapped = replace(
        node, kind=JoinKind.LEFT, left=node.right, right=node.left, condition=condition, late=late
    )
    turned = outer_join(swapped, rewrite)
    return project_columns(turned, [*range(right, right + left), *range(right)])
