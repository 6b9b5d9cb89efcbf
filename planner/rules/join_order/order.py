"""The rule: joins in the order that the search finds, if it is better than the written one.

A tree of inner and cross joins is divided into its relations and the conditions between them.
The best order of up to twelve connected relations is found exactly, of more relations greedily. The
columns of the result keep their order.

Not reordered are joins of two relations, and joins with an equality that can fail, because the
order determines the rows for which it is computed. Where the size of a relation is unknown, another
order must have fewer joins without an equality. Joins of streams are reordered only if the times of
the two sides of each join would otherwise not bound each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.planner.estimates import Estimates
from runnel.planner.rules.join_order.building import rebuilt
from runnel.planner.rules.join_order.exact import best_order
from runnel.planner.rules.join_order.graph import JoinGraph, JoinTree, is_equality, is_inner
from runnel.planner.rules.join_order.greedy import components, greedy_order
from runnel.planner.rules.join_order.outer import with_outer_joins_last
from runnel.planner.rules.join_order.sizes import Joined, Sizes
from runnel.planner.rules.join_order.streams import all_in_time, order_in_time
from runnel.relation.nodes import Relation


def order_joins(relation: Relation) -> Relation:
    """The relation with its inner joins in a good order."""
    return _with_order(relation, Estimates())


def _with_order(relation: Relation, estimates: Estimates) -> Relation:
    if is_inner(relation):
        postponed = with_outer_joins_last(relation)
        if postponed is None:
            return _ordered(relation, estimates)
        relation = postponed
    inputs = tuple(_with_order(item, estimates) for item in relation.inputs)
    if all(new is old for new, old in zip(inputs, relation.inputs, strict=True)):
        return relation
    return relation.with_inputs(inputs)


def _ordered(node: Relation, estimates: Estimates) -> Relation:
    graph = JoinGraph()
    numbers, written = graph.collect(node)
    leaves = [_with_order(item, estimates) for item in graph.relations]
    if any(new is not old for new, old in zip(leaves, graph.relations, strict=True)):
        node = _with_leaves(node, iter(leaves))
        graph.relations = leaves
    if len(leaves) < 3:
        return node
    fixed = [item for item in graph.expressions if can_fail(item) or is_volatile(item)]
    has_streams = any(item.never_ends for item in leaves)
    if has_streams:
        # Bounds of times can fail by overflow, but streams must be joined by them.
        fixed = [item for item in fixed if is_volatile(item)]
    if any(map(is_equality, fixed)):
        return node
    moving = graph.expressions if not fixed else [i for i in graph.expressions if i not in fixed]
    rows = [estimates.of(item) for item in leaves]
    sizes = Sizes(graph, *graph.divided(moving), rows)
    tree = _in_time(sizes, node) if has_streams else _order(sizes, written, None in rows)
    if tree is None and (has_streams or not fixed):
        return node
    return rebuilt(node, sizes, written if tree is None else tree, (numbers, fixed))


def _order(sizes: Sizes, written: JoinTree, is_guess: bool) -> JoinTree | None:
    """The order of the relations; None if the written one is as good.

    is_guess: whether the size of a relation is unknown.
    """
    neighbours = sizes.neighbours()
    operands: list[Joined] = []
    for members in components(neighbours):
        best = best_order(sizes, neighbours, members)
        operands += (
            [leaf for leaf in sizes.leaves if leaf.members & members] if best is None else [best]
        )
    found = greedy_order(sizes, neighbours, operands)
    before = sizes.of(written)
    if sizes.graph.crosses and (not found.loose or sizes.graph.crosses > before.loose):
        # A join as written has no condition, but one follows from others: `before` has it.
        return found.tree
    is_better = found.loose < before.loose if is_guess else found.is_better_than(before)
    return found.tree if is_better else None


def _in_time(sizes: Sizes, node: Relation) -> JoinTree | None:
    return None if all_in_time(node) else order_in_time(sizes)


def _with_leaves(node: Relation, leaves: Iterator[Relation] | Iterable[Relation]) -> Relation:
    """The same joins over other relations, which are taken from `leaves` in order."""
    if is_inner(node):
        return node.with_inputs(tuple(_with_leaves(item, leaves) for item in node.inputs))
    return next(iter(leaves))
