"""Columns above GROUP BY: only the keys are left, in subqueries too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.errors import ProgrammingError
from runnel.expressions.nodes import Column, Expression, transform
from runnel.subqueries import Exists, InSubquery, OuterColumn, ScalarSubquery, map_outer

if TYPE_CHECKING:
    Subquery = Exists | InSubquery | ScalarSubquery


def ungrouped(column: Column | OuterColumn) -> ProgrammingError:
    """The error for a column that has no one value in a group."""
    return ProgrammingError(
        f'column "{column.name}" must be in GROUP BY or in an aggregate function',
        hint=f'add "{column.name}" to GROUP BY, or take ANY_VALUE({column.name})',
        position=column.position,
    )


def subquery_above(subquery: Subquery, keys: Sequence[Expression], names: Sequence[str]) -> Subquery:
    """The subquery with what it reads of the query around made columns of the groups, whose first ones are the keys."""
    lifted: dict[int, list[Expression]] = {}

    def change(item: Expression, nesting: int) -> Expression | None:
        depth = nesting + 1
        inside = lifted.setdefault(depth, [_from_inside(key, depth) for key in keys])
        if item in inside:
            index = inside.index(item)
            return OuterColumn(index=index, name=names[index], type=item.type, depth=depth, position=item.position)
        if isinstance(item, OuterColumn) and item.depth == depth:
            raise ungrouped(item)
        return None

    return replace(subquery, relation=map_outer(subquery.relation, change))


def _from_inside(key: Expression, depth: int) -> Expression:
    """A key as a subquery `depth` levels inside would write it."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Column):
            return OuterColumn(index=node.index, name=node.name, type=node.type, depth=depth)
        if isinstance(node, OuterColumn):
            return replace(node, depth=node.depth + depth)
        return node

    return transform(key, change)
