"""Subqueries, correlation, common tables, recursion: what the binder makes of them. The rule
"subqueries to joins" takes the subqueries apart.

A subquery stands as an expression, or as the right side of a `DependentJoin` (LATERAL). Inside it
an `OuterColumn` refers to the query around: `depth` 1 is the query that the subquery directly
stands in, 2 the one around that, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Change, Expression, SortKey, mapped
from runnel.expressions.nodes import walk as expressions_in
from runnel.relation.nodes import Field, JoinKind, Pair, Relation, Single, walk
from runnel.sqltypes import BIGINT


@frozen(kw_only=True)
class ScalarSubquery(Expression):
    """`(SELECT …)` as a value: NULL without a row, a DataError with a second one."""

    relation: Relation

    def __str__(self) -> str:
        return "(scalar subquery)"


@frozen(kw_only=True)
class InSubquery(Expression):
    """`operands IN (SELECT …)`: BOOLEAN by three-valued logic; the relation has as many columns as
    there are operands, of the same types. NOT IN is a `not` call around it."""

    operands: tuple[Expression, ...]
    relation: Relation

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.operands

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, operands=children)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.operands))} IN (subquery))"


@frozen(kw_only=True)
class Exists(Expression):
    """`EXISTS (SELECT …)`: never NULL."""

    relation: Relation

    def __str__(self) -> str:
        return "EXISTS (subquery)"


@frozen(kw_only=True)
class OuterValue(Expression):
    """A value of a query around a subquery, `depth` levels out."""

    depth: int = 1

    def at_depth(self, depth: int) -> OuterValue:
        """The same value as it stands at another depth."""
        return replace(self, depth=depth)


@frozen(kw_only=True)
class OuterColumn(OuterValue):
    """The column at `index` of a query around a subquery."""

    index: int
    name: str

    def __str__(self) -> str:
        return f"outer.{self.name}"


@frozen(kw_only=True)
class DependentJoin(Pair):
    """LATERAL: for each left row the right side, in which `OuterColumn`s of depth 1 are that row's
    columns. `kind` is INNER, LEFT or CROSS; `condition` (over the columns of both sides) pairs the
    rows."""

    kind: JoinKind
    condition: Expression | None = None

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)

    def map_expressions(self, change: Change) -> Relation:
        return self if self.condition is None else self._replaced(condition=change(self.condition))


@frozen(kw_only=True)
class CommonRows(Relation):
    """The rows of a common table that is planned and run once for all who read it; those with the
    same `number` are the same. To all that looks at relations it is a leaf: `relation` is planned
    by itself. `rows` is an estimate of their number."""

    number: int
    relation: Relation = field(repr=False)
    rows: int | None = None

    def __eq__(self, other: object) -> bool:
        """By the relation's identity: to compare it would take as long as its copies are many."""
        return (
            isinstance(other, CommonRows)
            and self.number == other.number
            and self.relation is other.relation
        )

    def __hash__(self) -> int:
        return hash((CommonRows, self.number))

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.relation.fields


@frozen(kw_only=True)
class GroupLimit(Single):
    """LIMIT within groups: of the rows with the same `keys` (NULL is the same as NULL), in the
    order of `order`, `count` rows (None: all) after leaving out `offset`. Both are BIGINT literals
    or parameters."""

    keys: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    count: Expression | None
    offset: Expression | None

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        last = (item for item in (self.count, self.offset) if item is not None)
        return (*self.keys, *(key.expression for key in self.order), *last)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(
            keys=mapped(self.keys, change),
            order=tuple(key.mapped(change) for key in self.order),
            count=None if self.count is None else change(self.count),
            offset=None if self.offset is None else change(self.offset),
        )


@frozen(kw_only=True)
class Series(Single):
    """Each input row once per value of GENERATE_SERIES(start, stop, step), the value as a last
    column `name`; the three `arguments` are over the input's columns. With `outer` a row whose
    series is empty comes once, with NULL. With `ordinality` a BIGINT from 1 follows."""

    arguments: tuple[Expression, ...]
    name: str
    outer: bool = False
    ordinality: str | None = None

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return self.arguments

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(arguments=mapped(self.arguments, change))

    @property
    def fields(self) -> tuple[Field, ...]:
        last = () if self.ordinality is None else (Field(self.ordinality, BIGINT),)
        return (*self.input.fields, Field(self.name, self.arguments[0].type), *last)


@frozen(kw_only=True)
class UnnestTogether(Single):
    """Like `relation.Unnest`, of several arrays side by side: as many rows as the longest has
    elements, NULL behind the end of the shorter ones. The elements are last columns called by
    `names`."""

    arrays: tuple[Expression, ...]
    names: tuple[str, ...]
    outer: bool = False
    ordinality: str | None = None

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return self.arrays

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(arrays=mapped(self.arrays, change))

    @property
    def fields(self) -> tuple[Field, ...]:
        elements = [item.type.element for item in self.arrays]
        added = [
            Field(name, kind)
            for name, kind in zip(self.names, elements, strict=True)
            if kind is not None
        ]
        last = () if self.ordinality is None else (Field(self.ordinality, BIGINT),)
        return (*self.input.fields, *added, *last)


SUBQUERIES = (ScalarSubquery, InSubquery, Exists)
OuterChange = Callable[[Expression, int], Expression | None]


def map_outer(relation: Relation, change: OuterChange, nesting: int = 0) -> Relation:
    """The relation with expressions in it changed, those of its subqueries too, from the outside
    in: where `change(expression, nesting)` gives one, that takes the expression's place as a whole.
    `nesting` says how many levels inside the relation the expression stands: an `OuterValue` there
    is from outside the relation if it is deeper."""
    if isinstance(relation, DependentJoin):
        left = map_outer(relation.left, change, nesting)
        inputs: tuple[Relation, ...] = (left, map_outer(relation.right, change, nesting + 1))
    else:
        inputs = tuple(map_outer(item, change, nesting) for item in relation.inputs)
    if any(new is not old for new, old in zip(inputs, relation.inputs, strict=True)):
        relation = relation.with_inputs(inputs)
    return relation.map_expressions(lambda item: map_outer_in(item, change, nesting))


def map_outer_in(expression: Expression, change: OuterChange, nesting: int = 0) -> Expression:
    """Like `map_outer`, for an expression that stands `nesting` levels inside."""
    changed = change(expression, nesting)
    if changed is not None:
        return changed
    old = expression.children
    children = tuple(map_outer_in(child, change, nesting) for child in old)
    if any(new is not child for new, child in zip(children, old, strict=True)):
        expression = expression.with_children(children)
    if isinstance(expression, SUBQUERIES):
        inner = map_outer(expression.relation, change, nesting + 1)
        if inner is not expression.relation:
            expression = replace(expression, relation=inner)
    return expression


def outer_columns(relation: Relation) -> list[OuterColumn]:
    """The columns from outside of the relation, each with its depth as seen from the relation
    itself."""
    found: list[OuterColumn] = []

    def note(item: Expression, nesting: int) -> Expression | None:
        if isinstance(item, OuterColumn) and item.depth > nesting:
            found.append(replace(item, depth=item.depth - nesting))
        return None

    map_outer(relation, note)
    return found


def deepened(relation: Relation, by: int) -> Relation:
    """The relation as it stands `by` levels further inside (or outside, where negative)."""

    def change(item: Expression, nesting: int) -> Expression | None:
        if isinstance(item, OuterValue) and item.depth > nesting:
            return item.at_depth(item.depth + by)
        return None

    return map_outer(relation, change) if by else relation


@frozen(kw_only=True)
class Recursion(Relation):
    """WITH RECURSIVE: the rows of `anchor`, then those of `step` over the rows of the round before
    (a `WorkingTable` of the same `name` inside it), until a round gives none. With `distinct`
    (UNION) rows that were there before are dropped."""

    name: str
    anchor: Relation
    step: Relation
    distinct: bool

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.anchor, self.step)

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        return replace(self, anchor=inputs[0], step=inputs[1])

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.anchor.fields


@frozen(kw_only=True)
class WorkingTable(Relation):
    """Inside the step of the Recursion called `name`: the rows that the round before gave."""

    name: str
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns

    @cached_property
    def recurs(self) -> bool:
        return True


def everything(relation: Relation) -> list[Relation]:
    """All nodes, those of subqueries and of common tables too."""
    return _gathered(relation, set())


def _gathered(relation: Relation, commons: set[int]) -> list[Relation]:
    nodes = []
    for node in walk(relation):
        nodes.append(node)
        for expression in node.own_expressions:
            for part in expressions_in(expression):
                if isinstance(part, SUBQUERIES):
                    nodes += _gathered(part.relation, commons)
        if isinstance(node, CommonRows) and node.number not in commons:
            commons.add(node.number)
            nodes += _gathered(node.relation, commons)
    return nodes
