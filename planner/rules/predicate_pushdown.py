"""Filters move towards the scans.

One pass from the top carries the conjuncts that are still to be applied. Each node passes on those
that may move below it and leaves the rest above itself:

- Project, Sort, UNION ALL: every conjunct, with the projection's expressions substituted. Nothing
  moves past a LIMIT.
- Aggregate: conjuncts over the keys alone. Window: conjuncts over columns by which all its calls
  partition. INTERSECT and EXCEPT: conjuncts that can't fail, to both sides.
- Windows over time: conjuncts that read no window bound. SESSION: conjuncts over its keys alone.
- Joins: conjuncts over one side, if the join returns that side's rows unchanged: both sides of
  INNER and CROSS, the left side of LEFT, SINGLE, SEMI, ANTI and the marks, the right side of RIGHT,
  neither side of FULL. For an inner join, conjuncts over both sides become part of its condition.
  Conjuncts of the join's own condition move to a side that the join does not preserve.
- A volatile conjunct never moves. A conjunct that can fail moves only past nodes that drop no rows
  (see `divide`), hence not to a side of an inner join: there it would fail on rows that have no
  match. So a query that runs without this rule also runs with it. (The reverse does not hold: a
  filter that is applied earlier can remove rows on which another conjunct would fail.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.deadline import check_time
from runnel.expressions.nodes import Column, Expression
from runnel.planner.operators.passes import PREDICATES
from runnel.planner.rewriting import conjunction
from runnel.relation.nodes import (
    Filter,
    Relation,
    Single,
)

Conjuncts = list[Expression]


def push_predicates(relation: Relation) -> Relation:
    """The relation with its filters moved down as far as possible."""
    return push(relation, [])


def push(node: Relation, parts: Conjuncts) -> Relation:
    """The rows of `node` for which all conjuncts (over its fields, in order) are true."""
    check_time()
    rule = PREDICATES.find(node)
    if rule is not None:
        pushed: Relation = rule(node, parts)
        return pushed
    return retained(_below(node), parts)


def _below(node: Relation) -> Relation:
    """The node with its inputs rewritten, without any conjunct moving into them."""
    inputs = tuple(push(item, []) for item in node.inputs)
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    return node.with_inputs(inputs)


def retained(node: Relation, parts: Sequence[Expression]) -> Relation:
    condition = conjunction(parts)
    if condition is None:
        return node
    return Filter(input=node, condition=condition, position=condition.position or parts[0].position)


def pushed(node: Single, moving: Conjuncts, staying: Conjuncts) -> Relation:
    """A node with one input, with the moving conjuncts in its input and the staying ones above."""
    below = push(node.input, moving)
    return retained(node if below is node.input else replace(node, input=below), staying)


def plain_columns(keys: Sequence[Expression]) -> set[int]:
    return {
        key.index
        for key in keys
        if isinstance(key, Column) and not key.type.is_approximate and not key.type.is_nested
    }
