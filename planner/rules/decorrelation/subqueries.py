"""Subqueries and LATERAL become joins; afterwards no expression holds a relation, and no relation
reads an outer row.

`EXISTS`, `IN` and `NOT IN` as conjuncts of a WHERE, HAVING or inner join condition become SEMI,
ANTI and NULL_ANTI joins. Anywhere else each subquery becomes a join that adds columns, and an
expression over these takes its place: MARK for IN, EXISTS_MARK for EXISTS, SINGLE for a scalar
subquery (CROSS where it has exactly one row, LEFT where it has at most one for each outer row).
Conjuncts keep their order, so one that can fail still sees only the rows that passed those before
it; a scalar subquery in a branch of CASE is joined to the rows that take the branch. What is
correlated is taken apart by `correlation`.
"""

from __future__ import annotations

from runnel.expressions.nodes import walk
from runnel.relation.nodes import Relation
from runnel.relation.nodes import walk as relations_of
from runnel.relation.subqueries import SUBQUERIES, DependentJoin


def subqueries_to_joins(relation: Relation) -> Relation:
    """The relation without subquery expressions and LATERAL."""
    if not any(_has_any(node) for node in relations_of(relation)):
        return relation
    # Loaded on first use, so that a process without subqueries starts sooner.
    from runnel.planner.rules.decorrelation.subquery_nodes import without_subqueries

    return without_subqueries(relation, subqueries_to_joins)


def _has_any(node: Relation) -> bool:
    if isinstance(node, DependentJoin):
        return True
    return any(isinstance(part, SUBQUERIES) for item in node.own_expressions for part in walk(item))
