"""A good order of any number of relations: the pair with the smallest join is joined next.

Greedy operator ordering: Fegaras, "A New Heuristic for Optimizing Large Queries" (DEXA 1998). Pairs
without an equality come last. A join of two sides is estimated once, when both exist, so the number
of estimates is at most the square of the number of relations.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import combinations

from runnel.planner.rules.join_order.graph import bits
from runnel.planner.rules.join_order.sizes import Joined, Link, Sizes


def greedy_order(sizes: Sizes, neighbours: list[int], operands: list[Joined]) -> Joined:
    """The join of all operands.

    neighbours: for each relation the set of the relations that an equality connects it with.
    """
    return _Greedy(sizes, neighbours, operands).joined()


class _Greedy:
    """Joins one pair of operands after another.

    _operands: the operands that are left, by number.
    _around: for each part the relations that an equality connects it with.
    _heap: the possible joins, the best one first: sort key, two operands, estimate.
    """

    def __init__(self, sizes: Sizes, neighbours: list[int], operands: list[Joined]) -> None:
        self._sizes = sizes
        self._operands = dict(enumerate(operands))
        self._around: dict[int, int] = {}
        self._heap: list[tuple[tuple[int, float, float, int], int, int, Link]] = []
        for number, part in self._operands.items():
            around = 0
            for i in bits(part.members):
                around |= neighbours[i]
            self._around[number] = around

    def joined(self) -> Joined:
        number = len(self._operands)
        for first, second in combinations(self._operands, 2):
            if self._around[first] & self._operands[second].members:
                self._consider(first, second)
        is_connected = True
        while len(self._operands) > 1:
            pair = self._next()
            if pair is None:
                # The operands that are left are not connected by equalities of two relations.
                is_connected = False
                for first, second in combinations(self._operands, 2):
                    self._consider(first, second)
                continue
            first, second, link = pair
            self._around[number] = self._around[first] | self._around[second]
            part = self._sizes.join(self._operands.pop(first), self._operands.pop(second), link)
            self._operands[number] = part
            for other in list(self._operands):
                is_near = self._around[other] & part.members
                if other != number and (is_near or not is_connected):
                    self._consider(other, number)
            number += 1
        return next(iter(self._operands.values()))

    def _consider(self, first: int, second: int) -> None:
        left, right = self._operands[first], self._operands[second]
        link = self._sizes.link(left, right)
        key = (link.kind, link.rows, left.rows + right.rows, left.members | right.members)
        heappush(self._heap, (key, first, second, link))

    def _next(self) -> tuple[int, int, Link] | None:
        """The best pair of operands that are both left; None if there is none."""
        while self._heap:
            _, first, second, link = heappop(self._heap)
            if first in self._operands and second in self._operands:
                return first, second, link
        return None


def components(neighbours: list[int]) -> list[int]:
    """The sets of relations that equalities connect."""
    found: list[int] = []
    left = (1 << len(neighbours)) - 1
    while left:
        members, waiting = 0, left & -left
        while waiting:
            members |= waiting
            around = 0
            for i in bits(waiting):
                around |= neighbours[i]
            waiting = around & ~members
        found.append(members)
        left &= ~members
    return found
