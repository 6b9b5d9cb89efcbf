"""The relations and conditions of a tree of inner and cross joins.

A set of relations is an integer in which bit i stands for relation i, and a set of classes or of
conditions likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Call, Column, Expression, columns_of, conjuncts
from runnel.planner.rewriting import renumber, shift
from runnel.relation.nodes import Join, JoinKind, Project, Relation
from runnel.sqltypes import BOOLEAN

INNER = (JoinKind.INNER, JoinKind.CROSS)


class JoinTree(NamedTuple):
    """How relations are nested.

    members: the set of the relations.
    sides: the two trees that are joined; None for a single relation.
    """

    members: int
    sides: tuple[JoinTree, JoinTree] | None = None


def bits(members: int) -> Iterator[int]:
    """The numbers in a set, in ascending order."""
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest


def may_move(node: Relation) -> TypeGuard[Join]:
    """Whether a node is an inner join that may be reordered; one with a late output may not."""
    return isinstance(node, Join) and node.kind in INNER and node.late is None


def may_wait(node: Relation) -> TypeGuard[Join]:
    """Whether a node is a LEFT join that may be made after inner joins above it."""
    return (
        isinstance(node, Join)
        and node.kind is JoinKind.LEFT
        and node.late is None
        and not any(map(is_volatile, node.own_expressions))
    )


def below_columns(node: Relation) -> Relation:
    """The relation of which the node selects columns."""
    while isinstance(node, Project) and all(isinstance(item, Column) for item in node.expressions):
        node = node.input
    return node


def is_inner(node: Relation) -> bool:
    """Whether the node is an inner join, or selects columns of one."""
    return may_move(below_columns(node))


def is_equality(condition: Expression) -> bool:
    return (
        isinstance(condition, Call)
        and condition.function in ("eq", "is_not_distinct")
        and len(columns_of(condition)) > 1
    )


class Condition(NamedTuple):
    """A condition, except an equality of two columns.

    expression: over the columns of all relations, numbered consecutively.
    owners: the set of the relations that it reads.
    is_equality: whether it equates two expressions.
    """

    expression: Expression
    owners: int
    is_equality: bool


@dataclass(slots=True)
class EqualColumns:
    """A class of columns that `=` makes equal.

    columns: for each relation with such columns, these columns.
    written: the pairs of columns, the smaller one first, that a condition equates.
    """

    columns: dict[int, list[int]] = field(default_factory=dict)
    written: dict[tuple[int, int], Expression] = field(default_factory=dict)


class OuterJoin(NamedTuple):
    """A LEFT join that is made after the inner joins.

    join: the join as written; its right side stays as it is.
    left: for each column of its left side, its number.
    right: for each column of its right side, its number.
    """

    join: Join
    left: list[int]
    right: list[int]


@dataclass(slots=True)
class JoinGraph:
    """The relations and conditions of a tree of joins.

    postpones: whether LEFT joins in the tree are made after the inner joins, which then form one
        tree. `A LEFT JOIN u, B` and `(A, B) LEFT JOIN u` have the same rows.
    relations: the leaves, in the order in which they are written.
    owners: for each column of all relations, numbered consecutively, the number of its relation; -1
        for a column of the right side of an outer join.
    offsets: for each relation, the number of the first of its columns.
    expressions: the conditions over these columns.
    outer: the outer joins, in the order in which they are made.
    crosses: the number of joins as written that have no condition.
    """

    postpones: bool = False
    relations: list[Relation] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    expressions: list[Expression] = field(default_factory=list)
    outer: list[OuterJoin] = field(default_factory=list)
    crosses: int = 0

    def collect(self, node: Relation) -> tuple[list[int], JoinTree]:
        """Divides a join tree into its leaves. Returns the number of each of its columns, and how
        its relations are nested."""
        if isinstance(node, Project) and self._continues(node):
            numbers, tree = self.collect(node.input)
            return [
                numbers[item.index] for item in node.expressions if isinstance(item, Column)
            ], tree
        if may_move(node):
            left, first = self.collect(node.left)
            right, second = self.collect(node.right)
            numbers = left + right
            where = dict(enumerate(numbers))
            conditions = [renumber(item, where) for item in _conditions(node)]
            self.expressions += conditions
            self.crosses += not conditions
            return numbers, JoinTree(first.members | second.members, (first, second))
        if self.postpones and may_wait(node):
            left, tree = self.collect(node.left)
            right = list(range(len(self.owners), len(self.owners) + len(node.right.fields)))
            self.owners += [-1] * len(right)
            self.outer.append(OuterJoin(node, left, right))
            return left + right, tree
        number, start = len(self.relations), len(self.owners)
        self.relations.append(node)
        self.offsets.append(start)
        self.owners += [number] * len(node.fields)
        return list(range(start, len(self.owners))), JoinTree(1 << number)

    def _continues(self, node: Relation) -> bool:
        return is_inner(node) or (self.postpones and may_wait(below_columns(node)))

    @property
    def reads_outer(self) -> bool:
        """Whether a condition reads a column of the right side of an outer join."""
        return any(
            self.owners[column] < 0 for item in self.expressions for column in columns_of(item)
        )

    def columns(self, number: int) -> list[int]:
        """The numbers of the columns of a relation."""
        start = self.offsets[number]
        return list(range(start, start + len(self.relations[number].fields)))

    def readers(self, expression: Expression) -> int:
        """The set of the relations that a condition reads."""
        members = 0
        for column in columns_of(expression):
            members |= 1 << self.owners[column]
        return members

    def divided(
        self, expressions: Iterable[Expression]
    ) -> tuple[list[EqualColumns], list[Condition]]:
        """The classes of equal columns, and the conditions that define none."""
        classes: dict[int, EqualColumns] = {}
        others: list[Condition] = []
        for item in expressions:
            pair = _equal_columns(item)
            if pair is None:
                others.append(Condition(item, self.readers(item), is_equality(item)))
                continue
            found = classes.get(pair[0]) or self._single(pair[0])
            second = classes.get(pair[1]) or self._single(pair[1])
            classes[pair[0]] = found
            if second is not found:
                for relation, columns in second.columns.items():
                    found.columns.setdefault(relation, []).extend(columns)
                    classes |= dict.fromkeys(columns, found)
                found.written.update(second.written)
            found.written.setdefault((min(pair), max(pair)), item)
        return list({id(item): item for item in classes.values()}.values()), others

    def _single(self, column: int) -> EqualColumns:
        return EqualColumns({self.owners[column]: [column]})


def _conditions(node: Join) -> Iterator[Expression]:
    width = len(node.left.fields)
    for i, (left, right) in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
        function = "is_not_distinct" if i in node.null_safe else "eq"
        yield Call(function=function, arguments=(left, shift(right, width)), type=BOOLEAN)
    yield from conjuncts(node.condition)


def _equal_columns(condition: Expression) -> tuple[int, int] | None:
    """The two columns that a condition equates; None if it is another condition."""
    if not isinstance(condition, Call) or condition.function != "eq":
        return None
    left, right = condition.arguments
    if not isinstance(left, Column) or not isinstance(right, Column) or left.type != right.type:
        return None
    return None if left.index == right.index or left.type.is_nested else (left.index, right.index)
