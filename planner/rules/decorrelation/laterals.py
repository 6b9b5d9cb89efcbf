"""LATERAL as joins.

A right side that only computes with the left row (a projection, a filter, UNNEST, GENERATE_SERIES)
is placed on top of the left side, without a join. Any other right side is unnested by `correlation`
and joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.expressions.nodes import Column, Expression, Literal, conjuncts
from runnel.planner.operators.passes import GRAFTING
from runnel.planner.rewriting import conjunction, substitute
from runnel.planner.rules.decorrelation.correlation import Unnesting, is_correlated
from runnel.planner.rules.decorrelation.pulled import (
    joined,
    marked,
    outer_indexes,
    where_present,
    with_outer,
)
from runnel.relation.nodes import (
    Filter,
    Generate,
    Join,
    JoinKind,
    Project,
    Relation,
    Values,
    references,
)
from runnel.relation.subqueries import DependentJoin
from runnel.relation.unnest import PerElement
from runnel.sqltypes import BOOLEAN


def dependent_join(node: DependentJoin, right: Relation) -> Relation:
    """The join over plain relations. `right` is its right side, in which the left row's columns
    have depth 0."""
    is_left = node.kind is JoinKind.LEFT
    condition = None if _is_true(node.condition) else node.condition
    if not is_correlated(right):
        kind = node.kind if is_left else JoinKind.CROSS if condition is None else JoinKind.INNER
        if is_left and condition is None:
            condition = node.condition
        return Join(
            kind=kind, left=node.left, right=right, condition=condition, position=node.position
        )
    found = _grafted_outer(node.left, right) if is_left else grafted(node.left, right)
    if found is not None and (not is_left or condition is None):
        return _where(_projected(found[0], node, found[1]), condition)
    if is_left and condition is not None:
        return _left_where(node, right, condition)
    return _where(_paired(node, right, is_left), condition)


def _is_true(condition: Expression | None) -> bool:
    return condition is None or (isinstance(condition, Literal) and condition.value is True)


def _where(relation: Relation, condition: Expression | None) -> Relation:
    return (
        relation
        if condition is None
        else Filter(input=relation, condition=condition, position=condition.position)
    )


def _projected(relation: Relation, node: DependentJoin, right: Sequence[Expression]) -> Relation:
    """The left side's columns, which are the relation's first ones, and the right side's."""
    fields = node.fields
    width = len(node.left.fields)
    expressions = (*references(relation.fields)[:width], *right)
    return Project(
        input=relation,
        expressions=expressions,
        names=tuple(item.name for item in fields),
        position=node.position,
    )


def _paired(node: DependentJoin, right: Relation, is_left: bool) -> Relation:
    """A join whose condition only pairs left rows with their right rows."""
    pulled = Unnesting(node.left).pull(right)
    width = len(node.left.fields)
    conditions = [joined(item, width) for item in pulled.parts]
    if not is_left and pulled.defaults is None:
        kind = JoinKind.INNER if conditions else JoinKind.CROSS
        relation = Join(
            kind=kind,
            left=node.left,
            right=pulled.relation,
            condition=conjunction(conditions),
            position=node.position,
        )
        return _projected(relation, node, [joined(item, width) for item in pulled.columns])
    relation = Join(
        kind=JoinKind.LEFT,
        left=node.left,
        right=marked(pulled.relation),
        condition=conjunction(conditions) if conditions else Literal(value=True, type=BOOLEAN),
        position=node.position,
    )
    mark = references(relation.fields)[-1]
    defaults: Sequence[Expression | None] = pulled.defaults or [None] * len(pulled.columns)
    values = []
    for item, default in zip(pulled.columns, defaults, strict=True):
        value = joined(item, width)
        needs_mark = not isinstance(item, Column) or default is not None
        otherwise = None if default is None else joined(default, width)
        values.append(where_present(mark, value, otherwise) if needs_mark else value)
    return _projected(relation, node, values)


def _left_where(node: DependentJoin, right: Relation, condition: Expression) -> Relation:
    unnesting = Unnesting(node.left)
    pulled = unnesting.settled(unnesting.rows(right))
    width = len(node.left.fields)
    columns = [joined(item, width) for item in pulled.columns]
    own = substitute(condition, (*references(node.left.fields), *columns))
    conditions = [*(joined(item, width) for item in pulled.parts), *conjuncts(own)]
    relation = Join(
        kind=JoinKind.LEFT,
        left=node.left,
        right=pulled.relation,
        condition=conjunction(conditions),
        position=node.position,
    )
    return _projected(relation, node, columns)


Grafted = tuple[Relation, list[Expression]]


def grafted(left: Relation, node: Relation) -> Grafted | None:
    """The left side with the per-row computation of `node` on top, and the columns of `node` over
    it; None if `node` is more than a per-row computation."""
    rule = GRAFTING.find(node)
    return None if rule is None else rule(node, left)


def over_left(expression: Expression, left: Relation, columns: Sequence[Expression]) -> Expression:
    values = references(left.fields)
    return with_outer(substitute(expression, columns), dict(enumerate(values)))


def _grafted_outer(left: Relation, node: Relation) -> Grafted | None:
    """`_grafted` for LEFT JOIN, which retains a row without elements. Only for UNNEST or
    GENERATE_SERIES of the row itself."""
    if isinstance(node, Project):
        if not all(isinstance(item, Column) for item in node.expressions):
            return None
        below = _grafted_outer(left, node.input)
        return (
            None
            if below is None
            else (below[0], [substitute(item, below[1]) for item in node.expressions])
        )
    is_first = isinstance(node, Generate) or (
        isinstance(node, PerElement)
        and isinstance(node.input, Values)
        and len(node.input.rows) == 1
    )
    if not is_first or (isinstance(node, PerElement) and outer_indexes(node.input.own_expressions)):
        return None
    found = grafted(left, node)
    if found is None or not isinstance(found[0], PerElement):
        return None
    return replace(found[0], outer=True), found[1]
