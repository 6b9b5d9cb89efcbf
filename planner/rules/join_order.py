"""The order of inner joins: the join with the fewest rows first, and no avoidable cross product.

A tree of inner and cross joins is flattened into its relations and the conditions between them. It
is rebuilt greedily: of the pairs that a condition connects, the pair with the smallest estimated
join is joined next. The columns of the result keep their order.

Not reordered are joins of two relations, and joins with an equality that can fail, because the
order determines the rows for which it is computed. Joins of streams are reordered only if the times
of the two sides of each join would otherwise not bound each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from math import inf
from typing import TypeGuard

from runnel.deadline import check_time
from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Call, Column, Expression, columns_of, conjuncts
from runnel.planner.estimates import domain_size, estimate
from runnel.planner.rewriting import conjunction, renumber, shift
from runnel.relation.nodes import Filter, Join, JoinKind, Project, Relation, references
from runnel.sqltypes import BOOLEAN

_INNER = (JoinKind.INNER, JoinKind.CROSS)
MOST_RELATIONS = 40
"""Larger joins are left as written: the time grows with the cube of the number of relations."""

OTHER_SELECTIVITY = 0.3
"""The estimated fraction of pairs for which a condition other than an equality is true."""


def order_joins(relation: Relation) -> Relation:
    """The relation with its inner joins in a good order."""
    if _is_inner(relation):
        return _ordered(relation)
    inputs = tuple(order_joins(item) for item in relation.inputs)
    if all(new is old for new, old in zip(inputs, relation.inputs, strict=True)):
        return relation
    return relation.with_inputs(inputs)


def _is_inner(node: Relation) -> bool:
    """Whether the node is an inner join, or selects columns of one."""
    while isinstance(node, Project) and all(isinstance(item, Column) for item in node.expressions):
        node = node.input
    return _may_move(node)


def _may_move(node: Relation) -> TypeGuard[Join]:
    """Whether a node is an inner join that may be reordered; one with a late output may not."""
    return isinstance(node, Join) and node.kind in _INNER and node.late is None


@dataclass(slots=True)
class _JoinGraph:
    """The relations and conditions of a join tree.

    relations: the leaves, in the order in which they are written.
    offsets: for each relation, the number of the first of its columns.
    conditions: over the columns of all relations, numbered consecutively.
    width: the number of columns.
    """

    relations: list[Relation] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)
    width: int = 0

    def collect(self, node: Relation) -> tuple[list[int], object]:
        """Flattens a join tree. Returns the number of each of its columns, and how its relations
        are nested: the number of a relation, or a set of two such shapes."""
        if isinstance(node, Project) and _is_inner(node):
            numbers, shape = self.collect(node.input)
            return [
                numbers[item.index] for item in node.expressions if isinstance(item, Column)
            ], shape
        if _may_move(node):
            left, first = self.collect(node.left)
            right, second = self.collect(node.right)
            numbers = left + right
            for condition in _conditions(node):
                self.conditions.append(renumber(condition, dict(enumerate(numbers))))
            return numbers, frozenset((first, second))
        self.relations.append(node)
        self.offsets.append(self.width)
        self.width += len(node.fields)
        return list(range(self.offsets[-1], self.width)), len(self.relations) - 1

    def owner(self, column: int) -> int:
        """The number of the relation that a column belongs to."""
        return max(
            i
            for i, offset in enumerate(self.offsets)
            if offset <= column and self.relations[i].fields
        )

    def owners(self, condition: Expression) -> frozenset[int]:
        return frozenset(map(self.owner, columns_of(condition)))


def _conditions(node: Join) -> Iterable[Expression]:
    width = len(node.left.fields)
    for i, (left, right) in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
        function = "is_not_distinct" if i in node.null_safe else "eq"
        yield Call(function=function, arguments=(left, shift(right, width)), type=BOOLEAN)
    yield from conjuncts(node.condition)


def _ordered(node: Relation) -> Relation:
    graph = _JoinGraph()
    numbers, shape = graph.collect(node)
    relations = [order_joins(item) for item in graph.relations]
    changed = any(new is not old for new, old in zip(relations, graph.relations, strict=True))
    graph.relations = relations
    fixed = [item for item in graph.conditions if can_fail(item) or is_volatile(item)]
    has_streams = any(item.never_ends for item in relations)
    if has_streams:
        # Bounds of times can fail by overflow, but streams must be joined by them.
        fixed = [item for item in fixed if is_volatile(item)]
    stays = len(relations) < 3 or len(relations) > MOST_RELATIONS or any(map(_is_equality, fixed))
    if stays or (has_streams and all(map(_is_in_time, _inner_joins(node)))):
        return _with_leaves(node, iter(relations)) if changed else node
    greedy = _Greedy(graph, [item for item in graph.conditions if item not in fixed])
    found = greedy.joined_in_time() if has_streams else greedy.joined()
    if found is None or (found.shape == shape and not fixed):
        return _with_leaves(node, iter(relations)) if changed else node
    where = {old: new for new, old in enumerate(found.columns)}
    relation = found.relation
    above = conjunction(renumber(item, where) for item in fixed)
    if above is not None:
        relation = Filter(input=relation, condition=above)
    columns = references(relation.fields)
    expressions = tuple(columns[where[number]] for number in numbers)
    names = tuple(item.name for item in node.fields)
    return Project(input=relation, expressions=expressions, names=names, position=node.position)


def _inner_joins(node: Relation) -> Iterator[Join]:
    """The inner joins in a tree of inner joins."""
    if isinstance(node, Join) and node.kind in _INNER:
        yield node
    if _is_inner(node):
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


def _with_leaves(node: Relation, leaves: Iterable[Relation]) -> Relation:
    """The same joins over other relations, which are taken from `leaves` in order."""
    if _is_inner(node):
        return node.with_inputs(tuple(_with_leaves(item, leaves) for item in node.inputs))
    return next(iter(leaves))


def _is_equality(condition: Expression) -> bool:
    return (
        isinstance(condition, Call)
        and condition.function in ("eq", "is_not_distinct")
        and len(columns_of(condition)) > 1
    )


@dataclass(slots=True)
class _JoinedRelations:
    """A join of some of the relations.

    members: the numbers of the relations.
    shape: how they are nested, as in `_JoinGraph.collect`.
    relation: the join itself.
    columns: for each column of `relation`, its number in the whole join.
    rows: estimated number of rows.
    """

    members: frozenset[int]
    shape: object
    relation: Relation
    columns: list[int]
    rows: float


class _Greedy:
    """Joins one pair of relations after another."""

    def __init__(self, graph: _JoinGraph, conditions: list[Expression]) -> None:
        self._graph = graph
        self._conditions = [(item, graph.owners(item)) for item in conditions]
        self._classes = _classes(conditions)
        self._domains: dict[int, float] = {}

    def joined(self) -> _JoinedRelations | None:
        """The join of all relations; None if a size is unknown."""
        left: list[_JoinedRelations] = []
        for number, relation in enumerate(self._graph.relations):
            rows = estimate(relation)
            if rows is None:
                return None
            offset = self._graph.offsets[number]
            columns = list(range(offset, offset + len(relation.fields)))
            left.append(
                _JoinedRelations(frozenset((number,)), number, relation, columns, float(rows))
            )
        while len(left) > 1:
            first, second = min(combinations(left, 2), key=lambda pair: self._cost(*pair))
            left = [item for item in left if item is not first and item is not second]
            left.append(self._join(first, second))
        return left[0]

    def joined_in_time(self) -> _JoinedRelations | None:
        """The join of streams in the order in which they are written, except that each is joined
        when its times and the times before it bound each other; None if a stream is left over."""
        left: list[_JoinedRelations] = []
        for number, relation in enumerate(self._graph.relations):
            offset = self._graph.offsets[number]
            columns = list(range(offset, offset + len(relation.fields)))
            left.append(_JoinedRelations(frozenset((number,)), number, relation, columns, 1.0))
        joined = left.pop(0)
        while left:
            index = next(
                (at for at, item in enumerate(left) if self._fits_in_time(joined, item)), None
            )
            if index is None:
                return None
            joined = self._join(joined, left.pop(index))
        return joined

    def _fits_in_time(self, first: _JoinedRelations, second: _JoinedRelations) -> bool:
        where = {old: new for new, old in enumerate(first.columns + second.columns)}
        condition = conjunction(renumber(item, where) for item, _ in self._between(first, second))
        join = Join(
            kind=JoinKind.INNER, left=first.relation, right=second.relation, condition=condition
        )
        return _is_in_time(join)

    def _between(
        self, first: _JoinedRelations, second: _JoinedRelations
    ) -> list[tuple[Expression, frozenset[int]]]:
        """The conditions that can be evaluated when the two are joined, and not before."""
        both = first.members | second.members
        return [
            (item, owners)
            for item, owners in self._conditions
            if owners <= both
            and not (owners and (owners <= first.members or owners <= second.members))
        ]

    def _cost(
        self, first: _JoinedRelations, second: _JoinedRelations
    ) -> tuple[int, float, float, tuple[int, ...]]:
        """The sort key of a pair: with an equality first, then with another condition, then without
        one; then by the number of rows."""
        check_time()
        found = [item for item, owners in self._between(first, second) if owners]
        kind = 0 if any(map(_is_equality, found)) else 1 if found else 2
        order = tuple(sorted(first.members | second.members))
        return kind, self._rows(first, second), first.rows + second.rows, order

    def _rows(self, first: _JoinedRelations, second: _JoinedRelations) -> float:
        rows = first.rows * second.rows
        equal: dict[frozenset[int], float] = {}
        for condition, owners in self._between(first, second):
            if not _is_equality(condition):
                rows *= OTHER_SELECTIVITY if owners else 1
                continue
            size = min((self._domain(column) for column in columns_of(condition)), default=inf)
            equal[owners] = equal.get(owners, 1.0) * max(size, 1.0)
        for owners, values in equal.items():
            # Several equalities are rarely independent: together they have at most as many
            # distinct values as the smaller table has rows.
            rows /= min(values, *(max(_base_rows(self._graph.relations[i]), 1.0) for i in owners))
        return rows

    def _domain(self, column: int) -> float:
        """The number of distinct values of a column: the smallest one among the columns that are
        equated with it."""
        if column not in self._domains:
            members = next((item for item in self._classes if column in item), frozenset((column,)))
            sizes = []
            for member in members:
                owner = self._graph.owner(member)
                size = domain_size(
                    self._graph.relations[owner], member - self._graph.offsets[owner]
                )
                sizes.append(inf if size is None else float(size))
            self._domains |= dict.fromkeys(members, min(sizes))
        return self._domains[column]

    def _join(self, first: _JoinedRelations, second: _JoinedRelations) -> _JoinedRelations:
        conditions = [item for item, _ in self._between(first, second)]
        self._conditions = [item for item in self._conditions if item[0] not in conditions]
        rows = self._rows(first, second)
        columns = first.columns + second.columns
        where = {old: new for new, old in enumerate(columns)}
        condition = conjunction(renumber(item, where) for item in conditions)
        relation = Join(
            kind=JoinKind.CROSS if condition is None else JoinKind.INNER,
            left=first.relation,
            right=second.relation,
            condition=condition,
            position=first.relation.position,
        )
        shape = frozenset((first.shape, second.shape))
        return _JoinedRelations(
            first.members | second.members, shape, relation, columns, max(rows, 1.0)
        )


def _base_rows(relation: Relation) -> float:
    """The estimated number of rows of a relation without its filters."""
    rows = domain_size(relation, None)
    return inf if rows is None else float(rows)


def _classes(conditions: Iterable[Expression]) -> list[frozenset[int]]:
    """The classes of columns that the conditions equate."""
    classes: list[frozenset[int]] = []
    for condition in conditions:
        if not isinstance(condition, Call) or condition.function not in ("eq", "is_not_distinct"):
            continue
        if not all(isinstance(item, Column) for item in condition.arguments):
            continue
        together = frozenset(columns_of(condition))
        touched = [item for item in classes if item & together]
        classes = [item for item in classes if not item & together]
        classes.append(together.union(*touched))
    return classes
