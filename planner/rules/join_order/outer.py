"""LEFT joins among inner joins are made after them, so that all inner joins are ordered together.

`FROM a, b LEFT JOIN u ON b.k = u.k, c WHERE a.x = c.y` is bound as three joins in this order, and
the inner joins that it needs are on both sides of the outer one. A LEFT join has all rows of its
left side, so an inner join whose conditions don't read the right side may be made before it. That
is done where a join has no condition; otherwise the written order stays.
"""

from __future__ import annotations

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.planner.rules.join_order.building import rebuilt
from runnel.planner.rules.join_order.graph import JoinGraph, is_equality
from runnel.planner.rules.join_order.sizes import Sizes
from runnel.relation.nodes import Relation


def with_outer_joins_last(node: Relation) -> Relation | None:
    """The relation with its LEFT joins above its inner joins; None if it stays as it is."""
    graph = JoinGraph(postpones=True)
    numbers, written = graph.collect(node)
    if not graph.outer or not graph.crosses or node.never_ends or graph.reads_outer:
        return None
    fixed = [item for item in graph.expressions if can_fail(item) or is_volatile(item)]
    if any(map(is_equality, fixed)):
        return None
    moving = [item for item in graph.expressions if item not in fixed]
    sizes = Sizes(graph, *graph.divided(moving), [None] * len(graph.relations))
    return rebuilt(node, sizes, written, (numbers, fixed))
