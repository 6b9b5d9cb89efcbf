"""The order of inner joins: the sides that together make the fewest rows first, and no cross
product that can be avoided.

A tree of inner and cross joins is taken apart into the relations joined and the conditions between
them, and put together anew, always by the pair of parts whose join is the smallest (by estimate) of
those that a condition connects. The columns of the result keep their order. Left as they are: joins
of two relations, and those in which an equality can fail: there it matters on which rows it is
computed. With streams the order is changed only where it takes another one for the times of each
two sides to bound each other.
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
MOST_PARTS = 40
"""Larger joins stay as they are written: the work grows with the cube of their number."""

OTHER_SELECTIVITY = 0.3
"""The fraction of pairs that a condition keeps that is no equality."""


def order_joins(relation: Relation) -> Relation:
    """The relation with its inner joins in a good order."""
    if _is_inner(relation):
        return _ordered(relation)
    inputs = tuple(order_joins(item) for item in relation.inputs)
    if all(new is old for new, old in zip(inputs, relation.inputs, strict=True)):
        return relation
    return relation.with_inputs(inputs)


def _is_inner(node: Relation) -> bool:
    """Whether the node is an inner join, or picks columns of one."""
    while isinstance(node, Project) and all(isinstance(item, Column) for item in node.expressions):
        node = node.input
    return _may_move(node)


def _may_move(node: Relation) -> TypeGuard[Join]:
    """Whether a node is an inner join. One that says where its late rows go stays as it is."""
    return isinstance(node, Join) and node.kind in _INNER and node.late is None


@dataclass(slots=True)
class _Parts:
    """The relations joined and their conditions, over the columns of all relations one after the
    other."""

    relations: list[Relation] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)
    width: int = 0
    shape: object = None

    def collect(self, node: Relation) -> tuple[list[int], object]:
        """Takes a tree of joins apart; gives the place of each of its columns, and how its
        relations are nested."""
        if isinstance(node, Project) and _is_inner(node):
            places, shape = self.collect(node.input)
            return [
                places[item.index] for item in node.expressions if isinstance(item, Column)
            ], shape
        if _may_move(node):
            left, first = self.collect(node.left)
            right, second = self.collect(node.right)
            places = left + right
            for condition in _conditions(node):
                self.conditions.append(renumber(condition, dict(enumerate(places))))
            return places, frozenset((first, second))
        self.relations.append(node)
        self.offsets.append(self.width)
        self.width += len(node.fields)
        return list(range(self.offsets[-1], self.width)), len(self.relations) - 1

    def owner(self, column: int) -> int:
        """The relation that a column belongs to."""
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
    parts = _Parts()
    places, shape = parts.collect(node)
    relations = [order_joins(item) for item in parts.relations]
    changed = any(new is not old for new, old in zip(relations, parts.relations, strict=True))
    parts.relations = relations
    fixed = [item for item in parts.conditions if can_fail(item) or is_volatile(item)]
    has_streams = any(item.never_ends for item in relations)
    if has_streams:
        # Bounds of times may fail, by overflow; they are what streams are joined by.
        fixed = [item for item in fixed if is_volatile(item)]
    stays = len(relations) < 3 or len(relations) > MOST_PARTS or any(map(_is_equality, fixed))
    if stays or (has_streams and all(map(_is_in_time, _inner_joins(node)))):
        return _with_leaves(node, iter(relations)) if changed else node
    greedy = _Greedy(parts, [item for item in parts.conditions if item not in fixed])
    found = greedy.joined_in_time() if has_streams else greedy.joined()
    if found is None or (found.shape == shape and not fixed):
        return _with_leaves(node, iter(relations)) if changed else node
    where = {old: new for new, old in enumerate(found.columns)}
    relation = found.relation
    above = conjunction(renumber(item, where) for item in fixed)
    if above is not None:
        relation = Filter(input=relation, condition=above)
    columns = references(relation.fields)
    expressions = tuple(columns[where[place]] for place in places)
    names = tuple(item.name for item in node.fields)
    return Project(input=relation, expressions=expressions, names=names, position=node.position)


def _inner_joins(node: Relation) -> Iterator[Join]:
    """The inner joins of a tree of them."""
    if isinstance(node, Join) and node.kind in _INNER:
        yield node
    if _is_inner(node):
        for item in node.inputs:
            yield from _inner_joins(item)


def _is_in_time(join: Join) -> bool:
    """Whether the times of both sides bound each other, where neither ends."""
    if not join.left.never_ends or not join.right.never_ends:
        return True
    # Loaded on first use: few statements join streams.
    from runnel.planner.event_time.bounds import side_bounds
    from runnel.planner.event_time.join_bounds import interval_shape

    times = interval_shape(join, side_bounds(join))[0]
    return times.left.watermark is not None and times.right.watermark is not None


def _with_leaves(node: Relation, leaves: Iterable[Relation]) -> Relation:
    """The same joins over other relations, taken from `leaves` in order."""
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
class _Part:
    """Some of the relations joined: which, how nested, their columns by place, and about how many
    rows."""

    members: frozenset[int]
    shape: object
    relation: Relation
    columns: list[int]
    rows: float


class _Greedy:
    """Joins pair after pair."""

    def __init__(self, parts: _Parts, conditions: list[Expression]) -> None:
        self._parts = parts
        self._conditions = [(item, parts.owners(item)) for item in conditions]
        self._classes = _classes(conditions)
        self._domains: dict[int, float] = {}

    def joined(self) -> _Part | None:
        """All relations in one; None where a size isn't known."""
        left: list[_Part] = []
        for number, relation in enumerate(self._parts.relations):
            rows = estimate(relation)
            if rows is None:
                return None
            offset = self._parts.offsets[number]
            columns = list(range(offset, offset + len(relation.fields)))
            left.append(_Part(frozenset((number,)), number, relation, columns, float(rows)))
        while len(left) > 1:
            first, second = min(combinations(left, 2), key=lambda pair: self._cost(*pair))
            left = [item for item in left if item is not first and item is not second]
            left.append(self._join(first, second))
        return left[0]

    def joined_in_time(self) -> _Part | None:
        """Streams in the order in which they are written, but each as soon as its times and those
        of the ones before bound each other; None where that leaves any over."""
        left: list[_Part] = []
        for number, relation in enumerate(self._parts.relations):
            offset = self._parts.offsets[number]
            columns = list(range(offset, offset + len(relation.fields)))
            left.append(_Part(frozenset((number,)), number, relation, columns, 1.0))
        joined = left.pop(0)
        while left:
            place = next(
                (at for at, item in enumerate(left) if self._fits_in_time(joined, item)), None
            )
            if place is None:
                return None
            joined = self._join(joined, left.pop(place))
        return joined

    def _fits_in_time(self, first: _Part, second: _Part) -> bool:
        where = {old: new for new, old in enumerate(first.columns + second.columns)}
        condition = conjunction(renumber(item, where) for item, _ in self._between(first, second))
        join = Join(
            kind=JoinKind.INNER, left=first.relation, right=second.relation, condition=condition
        )
        return _is_in_time(join)

    def _between(self, first: _Part, second: _Part) -> list[tuple[Expression, frozenset[int]]]:
        """The conditions that can be checked when the two are joined, and not before."""
        both = first.members | second.members
        return [
            (item, owners)
            for item, owners in self._conditions
            if owners <= both
            and not (owners and (owners <= first.members or owners <= second.members))
        ]

    def _cost(self, first: _Part, second: _Part) -> tuple[int, float, float, tuple[int, ...]]:
        """Pairs with an equality come first, then those with another condition; then the fewest
        rows count."""
        check_time()
        found = [item for item, owners in self._between(first, second) if owners]
        kind = 0 if any(map(_is_equality, found)) else 1 if found else 2
        order = tuple(sorted(first.members | second.members))
        return kind, self._rows(first, second), first.rows + second.rows, order

    def _rows(self, first: _Part, second: _Part) -> float:
        rows = first.rows * second.rows
        equal: dict[frozenset[int], float] = {}
        for condition, owners in self._between(first, second):
            if not _is_equality(condition):
                rows *= OTHER_SELECTIVITY if owners else 1
                continue
            size = min((self._domain(column) for column in columns_of(condition)), default=inf)
            equal[owners] = equal.get(owners, 1.0) * max(size, 1.0)
        for owners, values in equal.items():
            # Several equalities are hardly independent: together they have no more values than the
            # smaller table has rows.
            rows /= min(values, *(max(_base_rows(self._parts.relations[i]), 1.0) for i in owners))
        return rows

    def _domain(self, column: int) -> float:
        """How many values a column has that is equated with others: as many as the one of them with
        the fewest."""
        if column not in self._domains:
            members = next((item for item in self._classes if column in item), frozenset((column,)))
            sizes = []
            for member in members:
                owner = self._parts.owner(member)
                size = domain_size(
                    self._parts.relations[owner], member - self._parts.offsets[owner]
                )
                sizes.append(inf if size is None else float(size))
            self._domains |= dict.fromkeys(members, min(sizes))
        return self._domains[column]

    def _join(self, first: _Part, second: _Part) -> _Part:
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
        return _Part(first.members | second.members, shape, relation, columns, max(rows, 1.0))


def _base_rows(relation: Relation) -> float:
    """About how many rows a relation would have without its filters."""
    rows = domain_size(relation, None)
    return inf if rows is None else float(rows)


def _classes(conditions: Iterable[Expression]) -> list[frozenset[int]]:
    """The columns that are equal to each other by the conditions."""
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
