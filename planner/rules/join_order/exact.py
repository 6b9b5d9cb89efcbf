"""The best order of few relations, by dynamic programming over connected sets.

Algorithm DPccp: Moerkotte and Neumann, "Analysis of Two Existing and One New Dynamic Programming
Algorithm for the Generation of Optimal Bushy Join Trees without Cross Products" (VLDB 2006). It
visits each pair of connected sets that an edge connects exactly once, smaller sets first.
"""

from __future__ import annotations

from collections.abc import Iterator

from runnel.planner.rules.join_order.graph import bits
from runnel.planner.rules.join_order.sizes import EQUALITY, Joined, Link, Sizes

MOST_RELATIONS = 12
"""The number of connected relations up to which the best order is searched for."""

MOST_PAIRS = 12_000
"""The search ends without a result after this many pairs of sets. Twelve relations that are all
joined with one have 11,264; a chain of twelve has 286."""


TOLERANCE = 1 + 1e-9
"""Costs that differ by a smaller factor are equal: sums of the same sizes in another order."""


def best_order(sizes: Sizes, neighbours: list[int], members: int) -> Joined | None:
    """The join of a connected set of relations with the least cost; None if there are too many
    possibilities.

    neighbours: for each relation the set of the relations that an equality connects it with.
    """
    if members.bit_count() > MOST_RELATIONS:
        return None
    best = {1 << i: sizes.leaves[i] for i in bits(members)}
    for count, (first, second) in enumerate(_pairs(neighbours, members)):
        if count >= MOST_PAIRS:
            return None
        left, right = best[first], best[second]
        found = best.get(first | second)
        if found is None:
            best[first | second] = sizes.join(left, right)
        elif _may_be_better(left, right, found):
            # All orders of the same relations have the same size.
            joined = sizes.join(left, right, Link(EQUALITY, found.rows))
            if joined.is_better_than(found):
                best[first | second] = joined
    return best[members]


def _may_be_better(left: Joined, right: Joined, found: Joined) -> bool:
    """Whether the join of two sides may be better than another order of the same relations. Says no
    to most pairs without making a join."""
    cost = left.cost + right.cost + max(found.rows, 1.0)
    if cost > found.cost * TOLERANCE:
        return False
    return cost * TOLERANCE < found.cost or left.weight + right.weight + found.read < found.weight


def _pairs(neighbours: list[int], members: int) -> Iterator[tuple[int, int]]:
    """All pairs of disjoint connected sets with an edge between them.

    Each set is extended only by relations after its first one, so that it is found once.
    """
    for i in reversed(list(bits(members))):
        single = 1 << i
        before = (single << 1) - 1
        for first in _connected(neighbours, single, before):
            excluded = first | ((first & -first) << 1) - 1
            around = _around(neighbours, first) & members & ~excluded
            for j in reversed(list(bits(around))):
                up_to = around & ((1 << j + 1) - 1)
                for second in _connected(neighbours, 1 << j, excluded | up_to):
                    yield first, second


def _connected(neighbours: list[int], start: int, excluded: int) -> Iterator[int]:
    """The connected sets that extend `start` by relations that are not excluded, smaller ones
    before the larger ones that contain them."""
    yield start
    around = _around(neighbours, start) & ~excluded & ~start
    if not around:
        return
    subset = around & -around
    while subset:
        yield start | subset
        subset = (subset - around) & around
    subset = around & -around
    while subset:
        below = _connected(neighbours, start | subset, excluded | around)
        next(below)
        yield from below
        subset = (subset - around) & around


def _around(neighbours: list[int], members: int) -> int:
    """The relations that an edge connects with a set."""
    found = 0
    for i in bits(members):
        found |= neighbours[i]
    return found & ~members
