"""Makes joins of a graph in a given order."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from runnel.expressions.nodes import Call, Column, Expression
from runnel.planner.rewriting import conjunction, renumber
from runnel.planner.rules.join_order.graph import JoinTree, bits
from runnel.planner.rules.join_order.sizes import Joined, Sizes
from runnel.relation.nodes import Filter, Join, JoinKind, Project, Relation, references
from runnel.sqltypes import BOOLEAN


class Built(NamedTuple):
    """A relation that joins some of the relations of a graph.

    relation: the joins.
    columns: for each column of `relation`, its number among the columns of the whole graph.
    """

    relation: Relation
    columns: list[int]


class Builder:
    """Makes the joins of one graph; each condition becomes part of the first join that has all its
    columns.

    _equal: for each column of a class a column of the same class that it was made equal to before,
        or itself: the forest of a union-find structure.
    _left: the set of the conditions that are in no join yet.
    """

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._graph = sizes.graph
        self._equal: dict[int, int] = {}
        self._left = (1 << len(sizes.conditions)) - 1

    def relation(self, tree: JoinTree) -> tuple[Joined, Built]:
        """The joins in the order of a tree."""
        if tree.sides is None:
            number = tree.members.bit_length() - 1
            built = Built(self._graph.relations[number], self._graph.columns(number))
            return self._sizes.leaves[number], built
        (first, left), (second, right) = map(self.relation, tree.sides)
        return self._sizes.join(first, second), self.joined(first, left, second, right)

    def with_outer(self, built: Built) -> Built:
        """The outer joins of the graph, over its inner joins."""
        for join, left, right in self._graph.outer:
            where = {old: new for new, old in enumerate(built.columns)}
            # The columns of the right side come after all columns of the left side.
            where |= {old: len(where) + new for new, old in enumerate(right)}
            old_numbers = {i: where[number] for i, number in enumerate([*left, *right])}
            relation = replace(
                join,
                left=built.relation,
                left_keys=tuple(renumber(item, old_numbers) for item in join.left_keys),
                condition=None if join.condition is None else renumber(join.condition, old_numbers),
            )
            built = Built(relation, [*built.columns, *right])
        return built

    def joined(self, first: Joined, left: Built, second: Joined, right: Built) -> Built:
        """The join of two sides."""
        columns = left.columns + right.columns
        where = {old: new for new, old in enumerate(columns)}
        condition = conjunction(
            renumber(item, where) for item in self._conditions_of(first, second)
        )
        relation = Join(
            kind=JoinKind.CROSS if condition is None else JoinKind.INNER,
            left=left.relation,
            right=right.relation,
            condition=condition,
            position=left.relation.position,
        )
        return Built(relation, columns)

    def _conditions_of(self, first: Joined, second: Joined) -> list[Expression]:
        """The conditions of a join that don't follow from the joins below it."""
        found: list[Expression] = []
        both = first.members | second.members
        for number in bits(first.classes & second.classes):
            found += self._equalities(number, first, second)
        for number in bits(self._left):
            condition = self._sizes.conditions[number]
            if not condition.owners & ~both:
                found.append(condition.expression)
                self._left &= ~(1 << number)
        return found

    def _equalities(self, number: int, first: Joined, second: Joined) -> list[Expression]:
        """The equalities that make all columns of a class equal that the two sides have."""
        left, right = self._sizes.pair(number, first.members, second.members)
        found = [self._equality(number, left, right)]
        equal = self._sizes.classes[number]
        members = bits(first.members | second.members)
        columns = [column for i in members for column in equal.columns.get(i, ())]
        for column in columns:
            if self._root(column) != self._root(left):
                found += [self._equality(number, left, column)]
        return found

    def _equality(self, number: int, left: int, right: int) -> Expression:
        self._equal[self._root(right)] = self._root(left)
        written = self._sizes.classes[number].written
        known = written.get((min(left, right), max(left, right)))
        if known is not None:
            return known
        arguments = (self._column(left), self._column(right))
        return Call(function="eq", arguments=arguments, type=BOOLEAN)

    def _column(self, number: int) -> Column:
        owner = self._graph.owners[number]
        field = self._graph.relations[owner].fields[number - self._graph.offsets[owner]]
        return Column(index=number, name=field.name, type=field.type)

    def _root(self, column: int) -> int:
        while self._equal.get(column, column) != column:
            column = self._equal[column]
        return column


def rebuilt(
    node: Relation, sizes: Sizes, tree: JoinTree, rest: tuple[list[int], list[Expression]]
) -> Relation:
    """The inner joins in the order of a tree, then the outer joins, with the columns of `node`.

    rest: the number of each column of `node`, and the conditions to put above the inner joins.
    """
    numbers, above = rest
    builder = Builder(sizes)
    inner, columns = builder.relation(tree)[1]
    condition = conjunction(
        renumber(item, {old: new for new, old in enumerate(columns)}) for item in above
    )
    if condition is not None:
        inner = Filter(input=inner, condition=condition)
    relation, columns = builder.with_outer(Built(inner, columns))
    where = {old: new for new, old in enumerate(columns)}
    found = references(relation.fields)
    return Project(
        input=relation,
        expressions=tuple(found[where[number]] for number in numbers),
        names=tuple(item.name for item in node.fields),
        position=node.position,
    )
