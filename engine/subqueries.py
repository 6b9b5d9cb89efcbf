"""Subqueries and correlation: what the binder makes of them, until the rule "subqueries to joins" takes them apart.

A subquery stands as an expression, or as the right side of a `DependentJoin` (LATERAL). Inside it an `OuterColumn` refers to
the query around: `depth` 1 is the query that the subquery directly stands in, 2 the one around that, and so on.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.nodes import Expression
from runnel.frozen import frozen
from runnel.relation import Change, Field, JoinKind, Relation


@frozen(kw_only=True)
class ScalarSubquery(Expression):
    """`(SELECT …)` as a value: NULL without a row, a DataError with a second one."""

    relation: Relation

    def __str__(self) -> str:
        return "(scalar subquery)"


@frozen(kw_only=True)
class InSubquery(Expression):
    """`operands IN (SELECT …)`: BOOLEAN by three-valued logic; the relation has as many columns as there are operands,
    of the same types. NOT IN is a `not` call around it."""

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
class OuterColumn(Expression):
    """The column at `index` of a query around a subquery, `depth` levels out."""

    index: int
    name: str
    depth: int = 1

    def __str__(self) -> str:
        return f"outer.{self.name}"


@frozen(kw_only=True)
class DependentJoin(Relation):
    """LATERAL: for each left row the right side, in which `OuterColumn`s of depth 1 are that row's columns. `kind` is INNER,
    LEFT or CROSS; `condition` (over the columns of both sides) pairs the rows."""

    kind: JoinKind
    left: Relation
    right: Relation
    condition: Expression | None = None

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)

    def map_expressions(self, change: Change) -> Relation:
        return self if self.condition is None else self._replaced(condition=change(self.condition))

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.left.fields, *self.right.fields)
