"""Estimated sizes of joins of some of the relations.

For a class of equal columns, a join divides the number of pairs by the number of values of the
class, and a class counts once per join, however many conditions it has between the sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from typing import NamedTuple

from runnel.deadline import check_time
from runnel.expressions.nodes import columns_of
from runnel.planner.estimates import domain_size
from runnel.planner.rules.join_order.graph import (
    Condition,
    EqualColumns,
    JoinGraph,
    JoinTree,
    bits,
)

OTHER_SELECTIVITY = 0.3
"""The estimated fraction of pairs for which a condition other than an equality is true."""

MOST_ROWS = 1e150
"""A larger estimate counts as this number, so that a product of two estimates is finite."""

UNKNOWN_ROWS = 1000.0
"""The number of rows that stands for an unknown one."""

EQUALITY, COMPARISON, CROSS = range(3)
"""How a join is connected: by an equality, by another condition only, by no condition."""


@dataclass(slots=True, eq=False)
class Joined:
    """A join of some of the relations.

    tree: how the relations are nested.
    classes: the set of the classes with columns of the relations.
    conditions: the set of the conditions that read columns of the relations.
    rows: the estimated number of rows, which may be below 1.
    loose: the number of joins in it without an equality.
    cost: the sum of the estimated sizes of all joins in it.
    read: the number of rows of the relations.
    weight: the sum of `read` over all joins in it: smaller if small relations are joined first.
    """

    tree: JoinTree
    classes: int
    conditions: int
    rows: float
    loose: int = 0
    cost: float = 0.0
    read: float = 0.0
    weight: float = 0.0

    @property
    def members(self) -> int:
        return self.tree.members

    def is_better_than(self, other: Joined) -> bool:
        """Whether this order of the same relations has fewer joins without an equality, else less
        cost, else smaller relations first."""
        if self.loose != other.loose:
            return self.loose < other.loose
        if not isclose(self.cost, other.cost):
            return self.cost < other.cost
        return self.weight < other.weight and not isclose(self.weight, other.weight)


class Link(NamedTuple):
    """The estimate of a join of two sides.

    kind: EQUALITY, COMPARISON or CROSS.
    rows: the number of rows.
    """

    kind: int
    rows: float


class Sizes:
    """Estimates the joins of a graph.

    graph: the relations.
    classes: the classes of equal columns.
    conditions: the other conditions.
    leaves: each relation, by its number.
    """

    def __init__(
        self,
        graph: JoinGraph,
        classes: list[EqualColumns],
        conditions: list[Condition],
        rows: list[int | None],
    ) -> None:
        self.graph = graph
        self.classes = classes
        self.conditions = conditions
        self._domains: dict[int, float] = {}
        self._base_rows: dict[int, float] = {}
        class_sets, condition_sets = [0] * len(rows), [0] * len(rows)
        for number, equal in enumerate(classes):
            for relation in equal.columns:
                class_sets[relation] |= 1 << number
        for number, condition in enumerate(conditions):
            for relation in bits(condition.owners):
                condition_sets[relation] |= 1 << number
        known = [UNKNOWN_ROWS if count is None else float(count) for count in rows]
        self.leaves = [
            Joined(JoinTree(1 << i), class_sets[i], condition_sets[i], count, read=count)
            for i, count in enumerate(known)
        ]

    def neighbours(self) -> list[int]:
        """For each relation the set of the relations that an equality connects it with."""
        found = [0] * len(self.leaves)
        groups = [sum(1 << i for i in equal.columns) for equal in self.classes]
        groups += [
            item.owners
            for item in self.conditions
            if item.is_equality and item.owners.bit_count() == 2
        ]
        for group in groups:
            for i in bits(group):
                found[i] |= group & ~(1 << i)
        return found

    def link(self, first: Joined, second: Joined) -> Link:
        """Estimates the join of two sides."""
        check_time()
        equal: dict[int, float] = {}
        kind, factor = CROSS, 1.0
        for number in bits(first.classes & second.classes):
            left, right = self.pair(number, first.members, second.members)
            owners = 1 << self.graph.owners[left] | 1 << self.graph.owners[right]
            equal[owners] = equal.get(owners, 1.0) * self._class_values(number)
        for number in bits(self.between(first, second)):
            condition = self.conditions[number]
            if condition.is_equality:
                values = self._condition_values(number)
                equal[condition.owners] = equal.get(condition.owners, 1.0) * values
            elif condition.owners:
                kind, factor = COMPARISON, factor * OTHER_SELECTIVITY
        for owners, values in equal.items():
            kind = EQUALITY
            # Several equalities are rarely independent: together they have at most as many
            # distinct values as the smaller table has rows.
            factor /= max(min(values, *(self._base(i) for i in bits(owners))), 1.0)
        return Link(kind, min(first.rows * second.rows * factor, MOST_ROWS))

    def join(self, first: Joined, second: Joined, link: Link | None = None) -> Joined:
        """The join of two sides; `link`: its estimate, if it is known already."""
        link = self.link(first, second) if link is None else link
        read = first.read + second.read
        return Joined(
            JoinTree(first.members | second.members, (first.tree, second.tree)),
            first.classes | second.classes,
            first.conditions | second.conditions,
            link.rows,
            first.loose + second.loose + (link.kind != EQUALITY),
            first.cost + second.cost + max(link.rows, 1.0),
            read,
            first.weight + second.weight + read,
        )

    def of(self, tree: JoinTree) -> Joined:
        """The join as a tree says."""
        if tree.sides is None:
            return self.leaves[tree.members.bit_length() - 1]
        first, second = tree.sides
        return self.join(self.of(first), self.of(second))

    def between(self, first: Joined, second: Joined) -> int:
        """The set of the conditions that can be evaluated when the two are joined, and not
        before."""
        both = first.members | second.members
        found = 0
        for number in bits(first.conditions & second.conditions):
            if not self.conditions[number].owners & ~both:
                found |= 1 << number
        return found

    def pair(self, number: int, first: int, second: int) -> tuple[int, int]:
        """The columns of a class, one of each side, by which two sets of relations are joined.

        Preferred are two relations with many classes in common, so that several equalities between
        two tables are estimated together; then a pair that the statement equates.
        """
        equal = self.classes[number]
        best: tuple[tuple[int, bool, int, int], int, int] | None = None
        rights = [i for i in equal.columns if second >> i & 1]
        for i in (i for i in equal.columns if first >> i & 1):
            for j in rights:
                common = (self.leaves[i].classes & self.leaves[j].classes).bit_count()
                for left in equal.columns[i]:
                    for right in equal.columns[j]:
                        written = (min(left, right), max(left, right)) in equal.written
                        key = (-common, not written, left, right)
                        if best is None or key < best[0]:
                            best = key, left, right
        assert best is not None
        return best[1:]

    def _class_values(self, number: int) -> float:
        if number not in self._domains:
            columns = [item for side in self.classes[number].columns.values() for item in side]
            self._domains[number] = min(map(self._values, columns))
        return self._domains[number]

    def _condition_values(self, number: int) -> float:
        key = ~number
        if key not in self._domains:
            columns = columns_of(self.conditions[number].expression)
            self._domains[key] = min(map(self._values, columns))
        return self._domains[key]

    def _values(self, column: int) -> float:
        """The estimated number of distinct values of a column, by its table."""
        owner = self.graph.owners[column]
        relation = self.graph.relations[owner]
        size = domain_size(relation, column - self.graph.offsets[owner])
        return UNKNOWN_ROWS if size is None else max(float(size), 1.0)

    def _base(self, number: int) -> float:
        """The estimated number of rows of a relation without its filters."""
        if number not in self._base_rows:
            rows = domain_size(self.graph.relations[number], None)
            self._base_rows[number] = UNKNOWN_ROWS if rows is None else float(rows)
        return self._base_rows[number]
