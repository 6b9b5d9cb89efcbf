"""Nodes for subqueries, correlation, common tables and recursion, as the binder produces them.

The rule "subqueries to joins" replaces the subqueries by joins.

A subquery is an expression, or the right side of a `DependentJoin` (LATERAL). Inside it an
`OuterColumn` refers to an enclosing query: `depth` 1 is the query that directly contains the
subquery, 2 the query that contains that query, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Change, Expression, SortKey, mapped
from runnel.expressions.nodes import walk as expressions_in
from runnel.relation.nodes import Field, JoinKind, Pair, Relation, Single, walk


@frozen(kw_only=True)
class ScalarSubquery(Expression):
    """`(SELECT …)` as a value: NULL if it has no row, a DataError if it has a second one."""

    relation: Relation

    def __str__(self) -> str:
        return "(scalar subquery)"


@frozen(kw_only=True)
class InSubquery(Expression):
    """`operands IN (SELECT …)`: BOOLEAN by three-valued logic. NOT IN is a `not` call around it.

    operands: one or more values.
    relation: the subquery, with one column per operand, of the same types.
    """

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
    """A value of the query that encloses a subquery, `depth` levels out."""

    depth: int = 1

    def at_depth(self, depth: int) -> OuterValue:
        """Return the same value as referred to from another depth."""
        return replace(self, depth=depth)


@frozen(kw_only=True)
class OuterColumn(OuterValue):
    """A column of a query that encloses a subquery.

    index: the index of the column in the relation of that query.
    name: the column's name, for EXPLAIN and messages.
    """

    index: int
    name: str

    def __str__(self) -> str:
        return f"outer.{self.name}"


@frozen(kw_only=True)
class DependentJoin(Pair):
    """LATERAL: evaluates the right side for each left row.

    In the right side, `OuterColumn`s of depth 1 are the columns of the left row.

    kind: INNER, LEFT or CROSS.
    condition: over the columns of both sides; pairs the rows.
    """

    family = "joins"

    kind: JoinKind
    condition: Expression | None = None

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)

    def map_expressions(self, change: Change) -> Relation:
        return self if self.condition is None else self._replaced(condition=change(self.condition))


@frozen(kw_only=True)
class CommonRows(Relation):
    """The rows of a common table that is planned and run once for all its readers.

    It is a leaf for all code that walks relations, as `relation` is planned on its own.

    number: identifies the common table; equal numbers are the same rows.
    relation: the query of the common table.
    rows: the estimated number of rows; None if unknown.
    """

    family = "recursion"

    number: int
    relation: Relation = field(repr=False)
    rows: int | None = None

    def __eq__(self, other: object) -> bool:
        """Compare the relations by identity: comparing them by value would visit every copy."""
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
    """LIMIT within groups: of each group at most `count` rows after the first `offset` rows.

    keys: the rows with equal keys are a group; NULLs are equal.
    order: the order of the rows in a group.
    count: a BIGINT literal or parameter; None: all rows.
    offset: a BIGINT literal or parameter; None: 0.
    """

    family = "limits"
    combines_rows = True

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


SUBQUERIES = (ScalarSubquery, InSubquery, Exists)
OuterChange = Callable[[Expression, int], Expression | None]


def map_outer(relation: Relation, change: OuterChange, nesting: int = 0) -> Relation:
    """Replace expressions of the relation and of its subqueries, from the outside in.

    change: is called with an expression and its nesting. If it returns an expression, that replaces
        the whole expression; if it returns None, the operands are visited.
    nesting: how many levels of subqueries are between the original relation and this one. An
        `OuterValue` refers to a query outside of the original relation if its depth is greater.
    """
    if isinstance(relation, DependentJoin):
        left = map_outer(relation.left, change, nesting)
        inputs: tuple[Relation, ...] = (left, map_outer(relation.right, change, nesting + 1))
    else:
        inputs = tuple(map_outer(item, change, nesting) for item in relation.inputs)
    if any(new is not old for new, old in zip(inputs, relation.inputs, strict=True)):
        relation = relation.with_inputs(inputs)
    return relation.map_expressions(lambda item: map_outer_in(item, change, nesting))


def map_outer_in(expression: Expression, change: OuterChange, nesting: int = 0) -> Expression:
    """Like `map_outer`, for an expression at `nesting` levels of subqueries."""
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
    """Return the columns of enclosing queries that the relation refers to.

    The depth of each is as seen from the relation itself.
    """
    found: list[OuterColumn] = []

    def note(item: Expression, nesting: int) -> Expression | None:
        if isinstance(item, OuterColumn) and item.depth > nesting:
            found.append(replace(item, depth=item.depth - nesting))
        return None

    map_outer(relation, note)
    return found


def deepened(relation: Relation, by: int) -> Relation:
    """Return the relation as moved `by` levels further inside (if negative, outside)."""

    def change(item: Expression, nesting: int) -> Expression | None:
        if isinstance(item, OuterValue) and item.depth > nesting:
            return item.at_depth(item.depth + by)
        return None

    return map_outer(relation, change) if by else relation


@frozen(kw_only=True)
class Recursion(Relation):
    """WITH RECURSIVE: the rows of `anchor`, then the rows of `step` round by round.

    In each round `step` reads the rows of the round before, by a `WorkingTable` of the same name.
    The recursion ends with the first round that produces no rows.

    name: the name of the common table.
    anchor: the query of the first rows.
    step: the query of each round.
    distinct: whether rows that an earlier round produced are dropped (UNION instead of UNION ALL).
    """

    family = "recursion"
    clause = "WITH RECURSIVE"

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
    """Inside the step of a Recursion: the rows that the previous round produced.

    name: the name of the Recursion.
    columns: the columns of the Recursion, with their types.
    """

    family = "recursion"

    name: str
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns

    @cached_property
    def recurs(self) -> bool:
        return True


def rows_at_run_time(name: str, columns: tuple[Field, ...]) -> Relation:
    """A relation of rows that the operator above it receives at run time."""
    return WorkingTable(name=name, columns=columns)


def everything(relation: Relation) -> list[Relation]:
    """All nodes, including the nodes of subqueries and of common tables."""
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
