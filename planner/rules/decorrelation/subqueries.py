"""Subqueries and LATERAL become joins. Afterwards no expression contains a relation, and no
relation reads an outer row.

`EXISTS`, `IN` and `NOT IN` as conjuncts of a WHERE, HAVING or inner join condition become SEMI,
ANTI and NULL_ANTI joins. Anywhere else, each subquery becomes a join that adds columns, and is
replaced by an expression over them: MARK for IN, EXISTS_MARK for EXISTS, SINGLE for a scalar
subquery (CROSS if it has exactly one row, LEFT if it has at most one for each outer row).

Conjuncts keep their order, so a conjunct that can fail is evaluated only for rows that passed the
ones before it. A scalar subquery in a branch of CASE is joined to the rows that take the branch.
Correlated subqueries are unnested by `correlation`.
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
    return any(isinstance(leaf, SUBQUERIES) for item in node.own_expressions for leaf in walk(item))
