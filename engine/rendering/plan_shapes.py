"""Properties of a plan that rendering needs: nodes that occur twice, nodes that an engine may
evaluate before a condition, unique joins."""

from __future__ import annotations

from runnel.expressions.evaluate import can_fail
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.relation import nodes
from runnel.relation.nodes import Relation, Scan
from runnel.relation.subqueries import Recursion


def repeated(relation: Relation) -> list[Relation]:
    """The nodes with `is_computed_once` that occur more than once in a plan, without nodes that
    occur only below another one of these."""
    if sum(node.is_computed_once for node in nodes.walk(relation)) < 2:
        return []
    visited: set[Relation] = set()
    found: list[Relation] = []

    def visit(node: Relation) -> None:
        if isinstance(node, Recursion):
            return
        if node.is_computed_once:
            if node in visited:
                found.append(node)
                return
            visited.add(node)
        for item in node.inputs:
            visit(item)

    try:
        visit(relation)
    except TypeError:  # a literal that has no hash: a list, say
        return []
    return found


def is_chain(relation: Relation) -> bool:
    """Whether the relation only filters and projects the rows of one table, so that no node can
    come before a condition."""
    while isinstance(relation, (nodes.Filter, nodes.Project)):
        relation = relation.input
    return (
        isinstance(relation, (Scan, nodes.Values, nodes.Generate))
        and getattr(relation, "limit", None) is None
    )


def computes_what_can_fail(relation: Relation) -> bool:
    """Whether a column of the relation is computed by an expression that can fail: the engine puts
    it into a condition over the column, and that where it likes."""
    while isinstance(relation, (nodes.Filter, nodes.Project, nodes.Sort)):
        if isinstance(relation, nodes.Project) and any(
            can_fail(item) for item in relation.expressions
        ):
            return True
        relation = relation.input
    return False


def is_unique(node: nodes.Join) -> bool:
    """Whether no left row can have two matches: the right side is grouped by nothing but the join's
    keys."""
    right = node.right
    keys = [_column_index(item) for item in node.right_keys]
    while isinstance(right, (nodes.Project, nodes.Filter)):
        if isinstance(right, nodes.Project):
            keys = [None if i is None else _column_index(right.expressions[i]) for i in keys]
        right = right.input
    if isinstance(right, nodes.Limit):
        return isinstance(right.count, Literal) and right.count.value in (0, 1)
    if isinstance(right, nodes.Aggregate):
        return {i for i in keys if i is not None} >= set(range(len(right.keys)))
    return isinstance(right, nodes.Values) and len(right.rows) <= 1


def _column_index(expression: Expression) -> int | None:
    return expression.index if isinstance(expression, Column) else None
