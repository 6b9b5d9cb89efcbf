"""The order of joins of streams: as written, except that a join of two streams needs times that
bound each other."""

from __future__ import annotations

from collections.abc import Iterator

from runnel.planner.rules.join_order.building import Builder
from runnel.planner.rules.join_order.graph import INNER, JoinTree, is_inner
from runnel.planner.rules.join_order.sizes import Joined, Sizes
from runnel.relation.nodes import Join, Relation


def all_in_time(node: Relation) -> bool:
    """Whether the times of the two sides bound each other in each join of a tree."""
    return all(map(_is_in_time, _inner_joins(node)))


def _inner_joins(node: Relation) -> Iterator[Join]:
    """The inner joins in a tree of inner joins."""
    if isinstance(node, Join) and node.kind in INNER:
        yield node
    if is_inner(node):
        for item in node.inputs:
            yield from _inner_joins(item)


def _is_in_time(join: Join) -> bool:
    """Whether the times of both sides bound each other, if neither side ends."""
    if not join.left.never_ends or not join.right.never_ends:
        return True
    # Loaded on first use: few statements join streams.
    from runnel.planner.event_time.bounds import side_bounds
    from runnel.planner.event_time.join_bounds import interval_shape

    times = interval_shape(join, side_bounds(join))[0]
    return times.left.watermark is not None and times.right.watermark is not None


def order_in_time(sizes: Sizes) -> JoinTree | None:
    """The order in which the relations are written, except that each is joined when its times and
    the times before it bound each other; None if a stream is left over."""
    left = list(sizes.leaves)
    joined = left.pop(0)
    while left:
        index = next((i for i, item in enumerate(left) if _fits(sizes, joined, item)), None)
        if index is None:
            return None
        joined = sizes.join(joined, left.pop(index))
    return joined.tree


def _fits(sizes: Sizes, first: Joined, second: Joined) -> bool:
    sides = (first.tree, second.tree)
    join = Builder(sizes).relation(JoinTree(first.members | second.members, sides))[1].relation
    assert isinstance(join, Join)
    return _is_in_time(join)
