"""Rewriting of expressions above GROUP BY. Only the keys are visible there, also in subqueries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.errors import GroupingError, ProgrammingError, as_written
from runnel.expressions.nodes import Column, Expression, transform
from runnel.planner.bind.grouping.grouping_sets import grouping_value
from runnel.planner.bind.select_parts import (
    AggregateValue,
    GroupingValue,
    OuterSelectContext,
    WindowValue,
)
from runnel.relation.nodes import Aggregate, references
from runnel.relation.subqueries import (
    SUBQUERIES,
    Exists,
    InSubquery,
    OuterColumn,
    OuterValue,
    ScalarSubquery,
    map_outer,
    map_outer_in,
)

if TYPE_CHECKING:
    Subquery = Exists | InSubquery | ScalarSubquery


class AboveGroups:
    """Rewrites expressions over the result of an aggregation: keys and aggregates become columns of
    the result."""

    def __init__(
        self, keys: list[Expression], sets: tuple[tuple[int, ...], ...], grouped: Aggregate
    ) -> None:
        self._keys = keys
        self._key_positions = {key: position for position, key in enumerate(keys)}
        self._sets = sets
        self._columns = references(grouped.fields)
        self._first_call = len(grouped.keys)

    def rewritten(self, expression: Expression) -> Expression:
        """The expression over the aggregation's result."""
        key = self._key_positions.get(expression)
        if key is not None:
            return replace(self._columns[key], position=expression.position)
        if isinstance(expression, AggregateValue):
            return replace(
                self._columns[self._first_call + expression.index], position=expression.position
            )
        if isinstance(expression, GroupingValue):
            number = self._columns[len(self._keys)] if self._first_call > len(self._keys) else None
            return grouping_value(expression, self._keys, self._sets, number)
        if isinstance(expression, Column):
            raise ungrouped(expression)
        if isinstance(expression, SUBQUERIES):
            expression = self._subquery(expression)
        children = tuple(self.rewritten(child) for child in expression.children)
        return expression.with_children(children) if children else expression

    def _subquery(self, subquery: Subquery) -> Subquery:
        """The subquery with its references to the outer query replaced by columns of the
        aggregation's result. The keys are its first columns."""
        lifted: dict[int, dict[Expression, Column]] = {}

        def change(item: Expression, nesting: int) -> Expression | None:
            depth = nesting + 1
            if depth not in lifted:
                lifted[depth] = {
                    _from_inside(key, depth): self._columns[at]
                    for key, at in self._key_positions.items()
                }
            key = lifted[depth].get(item)
            if key is not None:
                return OuterColumn(
                    index=key.index,
                    name=key.name,
                    type=item.type,
                    depth=depth,
                    position=item.position,
                )
            if isinstance(item, OuterSelectContext) and item.depth == depth:
                return _from_inside(self.rewritten(item.value), depth)
            if isinstance(item, OuterColumn) and item.depth == depth:
                raise ungrouped(item)
            return None

        return replace(subquery, relation=map_outer(subquery.relation, change))


def is_above_groups(expression: Expression) -> bool:
    """Whether an expression can be evaluated only after the grouping."""
    found: list[Expression] = []

    def note(item: Expression, nesting: int) -> Expression | None:
        if (isinstance(item, AggregateValue | WindowValue | GroupingValue) and not nesting) or (
            isinstance(item, OuterSelectContext) and item.depth == nesting
        ):
            found.append(item)
        return None

    map_outer_in(expression, note)
    return bool(found)


def ungrouped(column: Column | OuterColumn) -> ProgrammingError:
    """The error for a column that has no single value in a group."""
    return GroupingError(
        f'column "{column.name}" must be in GROUP BY or in an aggregate function',
        hint=f'add "{column.name}" to GROUP BY, or use ANY_VALUE({as_written(column.name)})',
        position=column.position,
    )


def _from_inside(key: Expression, depth: int) -> Expression:
    """A value over the groups, as an expression in a subquery `depth` levels inside."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Column):
            return OuterColumn(
                index=node.index,
                name=node.name,
                type=node.type,
                depth=depth,
                position=node.position,
            )
        if isinstance(node, OuterValue):
            return node.at_depth(node.depth + depth)
        return node

    return transform(key, change)
