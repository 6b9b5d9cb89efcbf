"""Unnesting of correlated subqueries, after Neumann and Kemper, "Unnesting Arbitrary Queries" (BTW
2015).

`Unnesting.pull` turns a relation that reads columns of an outer row into one that doesn't, and the
conditions under which a row of it belongs to an outer row. In WHERE, these conditions are conjuncts
that move up to the top, where they become the condition of a join.

A node that groups, numbers or compares rows (GROUP BY, LIMIT, OVER, UNION, …) must not mix rows of
different outer rows. There the conditions must be equalities of outer with inner expressions, and
the inner expressions join the keys. Often they already are. Otherwise the relation is joined with
the *domain*, the distinct values of the outer columns, so that each row carries the outer values
that it belongs to. For that the outer relation is computed twice.

Select lists also move up, as expressions that are computed after the join, so that they fail only
for rows that an outer row reaches. If an expression that can fail must be computed below, the
domain is joined first.

For example, `(SELECT MAX(u.b) FROM u WHERE u.a = t.a)` is pulled to the relation
`SELECT u.a, MAX(u.b) FROM u GROUP BY u.a`, the column MAX(u.b), the condition t.a = u.a, and the
default NULL for outer rows without a group.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.deadline import check_time
from runnel.errors import NotSupportedError
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import (
    Column,
    walk,
)
from runnel.planner.operators.passes import CORRELATION
from runnel.planner.rewriting import is_trivial, substitute
from runnel.planner.rules.decorrelation.anchoring import Anchoring
from runnel.planner.rules.decorrelation.pulled import (
    Pulled,
    as_it_is,
    is_outer,
)
from runnel.relation.nodes import (
    Limit,
    Project,
    Relation,
    Values,
)
from runnel.relation.nodes import walk as relations_of

ONE_ROW = Values(rows=((),), columns=())


def is_correlated(relation: Relation) -> bool:
    """Whether a relation (without subqueries) refers to the outer row."""
    return any(
        is_outer(leaf)
        for node in relations_of(relation)
        for item in node.own_expressions
        for leaf in walk(item)
    )


class Unnesting(Anchoring):
    """Removes the correlation with the rows of `outer` from relations."""

    def pull(self, node: Relation) -> Pulled:
        """The relation without its correlation. Subqueries and LATERAL in it must already be
        unnested."""
        check_time()
        if not is_correlated(node):
            return as_it_is(node)
        rule = CORRELATION.find(node)
        if rule is None:
            raise _refused(node)
        pulled: Pulled = rule(self, node)
        return pulled


def _refused(node: Relation) -> NotSupportedError:
    below = [
        leaf
        for r in relations_of(node)
        for e in r.own_expressions
        for leaf in walk(e)
        if is_outer(leaf)
    ]
    name = getattr(below[0], "name", "?")
    return NotSupportedError(
        f'the reference to the outer column "{name}" is not supported here',
        hint="join with a derived table instead",
        position=below[0].position or node.position,
    )


def project_pulled(to: Anchoring, below: Pulled, node: Project) -> Pulled:
    uses = [
        leaf.index for item in node.expressions for leaf in walk(item) if isinstance(leaf, Column)
    ]
    if any(
        uses.count(i) > 1 and not is_trivial(item) and not is_outer(item)
        for i, item in enumerate(below.columns)
    ):
        below = to.settled(to.complete(below))
    columns = tuple(substitute(item, below.columns) for item in node.expressions)
    defaults = below.defaults
    if defaults is not None:
        defaults = tuple(substitute(item, defaults) for item in node.expressions)
    return replace(below, columns=columns, defaults=defaults)


def keeps_a_row(limit: Limit) -> bool:
    """Whether a LIMIT certainly retains a single row."""
    value = getattr(limit.count, "value", 1 if limit.count is None else 0)
    return isinstance(value, int) and value > 0 and limit.offset is None
