"""Relational nodes: a query as values, shared by the planner, fragments and connectors.

A node is frozen and knows the fields of its result. Expressions in it refer to the columns of its input by index; for a
join, the right side's columns follow the left side's. Nothing here knows SQL text, DAGs or processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from enum import Enum
from typing import NamedTuple

from runnel.catalog import Table
from runnel.errors import Position
from runnel.expressions.nodes import Aggregate as AggregateCall
from runnel.expressions.nodes import Column, Expression
from runnel.frozen import frozen
from runnel.sqltypes import BIGINT, BOOLEAN, SqlType


class Field(NamedTuple):
    """A column of a result. Names may repeat, as in `SELECT a.x, b.x`."""

    name: str
    type: SqlType


@frozen(kw_only=True)
class Relation:
    """The base of all relational nodes."""

    position: Position | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        raise TypeError(f"{type(self).__name__} has no fields")

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        """The same node over other inputs."""
        assert not inputs
        return self

    @property
    def is_unbounded(self) -> bool:
        """Whether the result has no end that is known beforehand."""
        return any(item.is_unbounded for item in self.inputs)


@frozen(kw_only=True)
class Single(Relation):
    """A relation of one input."""

    input: Relation

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        return replace(self, input=inputs[0])

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@frozen(kw_only=True)
class Scan(Relation):
    """Rows of a table: of its columns, those at `columns`, in that order.

    `predicate` (BOOLEAN, over the *table's* columns, not over `columns`) keeps the rows for which it is true; `limit` is
    a bound on the rows needed, or None.
    """

    table: Table
    columns: tuple[int, ...]
    predicate: Expression | None = None
    limit: int | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(self.table.columns[i].name, self.table.columns[i].type) for i in self.columns)

    @property
    def is_unbounded(self) -> bool:
        return self.table.is_unbounded


@frozen(kw_only=True)
class Values(Relation):
    """Literal rows; every expression is free of columns. One row of no columns is the input of a SELECT without FROM."""

    rows: tuple[tuple[Expression, ...], ...]
    columns: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns


@frozen(kw_only=True)
class Generate(Relation):
    """A table function without an input: "generate_series" (start, stop, step) or "generate_stream" (rate). The
    arguments are free of columns."""

    function: str
    arguments: tuple[Expression, ...]
    columns: tuple[Field, ...]
    unbounded: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns

    @property
    def is_unbounded(self) -> bool:
        return self.unbounded


@frozen(kw_only=True)
class Filter(Single):
    """The rows for which `condition` (BOOLEAN) is true."""

    condition: Expression


@frozen(kw_only=True)
class Project(Single):
    """One column per expression, called by `names`."""

    expressions: tuple[Expression, ...]
    names: tuple[str, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(name, item.type) for name, item in zip(self.names, self.expressions, strict=True))


@frozen(kw_only=True)
class Aggregate(Single):
    """Groups by `keys` (any expressions) and aggregates: first the keys, then the aggregates, called by `names`.
    Without keys there is exactly one row; without aggregates it is DISTINCT."""

    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    names: tuple[str, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        types = [*(item.type for item in self.keys), *(item.type for item in self.aggregates)]
        return tuple(Field(name, item) for name, item in zip(self.names, types, strict=True))


class JoinKind(Enum):
    """How a join pairs rows. The first four and CROSS give the columns of both sides; SEMI and ANTI the left side's.

    MARK gives the left side's columns and a BOOLEAN: whether the left row has a match, NULL where that is unknown (the
    value of `x IN (SELECT …)`). EXISTS_MARK is MARK without the unknown. NULL_ANTI is `x NOT IN (SELECT …)`: the rows for
    which MARK would be false. SINGLE is LEFT, but a second match of a left row is a DataError (a scalar subquery).
    """

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    CROSS = "cross"
    SEMI = "semi"
    ANTI = "anti"
    NULL_ANTI = "null-aware anti"
    MARK = "mark"
    EXISTS_MARK = "exists mark"
    SINGLE = "single"


LEFT_ONLY = (JoinKind.SEMI, JoinKind.ANTI, JoinKind.NULL_ANTI)
MARKS = (JoinKind.MARK, JoinKind.EXISTS_MARK)


@frozen(kw_only=True)
class Join(Relation):
    """Pairs of left and right rows with equal keys for which `condition` is true.

    `left_keys[i]` is an expression over the left side's columns, `right_keys[i]` over the right side's *own* columns, of
    the same type; NULL keys never match. `condition` is over the columns of both, the left side's first.
    """

    kind: JoinKind
    left: Relation
    right: Relation
    left_keys: tuple[Expression, ...] = ()
    right_keys: tuple[Expression, ...] = ()
    condition: Expression | None = None

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    def fields(self) -> tuple[Field, ...]:
        if self.kind in LEFT_ONLY:
            return self.left.fields
        if self.kind in MARKS:
            return (*self.left.fields, Field("matched", BOOLEAN))
        return (*self.left.fields, *self.right.fields)


class SortKey(NamedTuple):
    """One ORDER BY item. NULL is the smallest value unless `nulls_first` says otherwise."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        usual = self.nulls_first is not self.descending
        nulls = "" if usual else (" NULLS FIRST" if self.nulls_first else " NULLS LAST")
        return f"{self.expression}{' DESC' if self.descending else ''}{nulls}"


@frozen(kw_only=True)
class Sort(Single):
    """The rows in order; equal rows in any order."""

    keys: tuple[SortKey, ...]


@frozen(kw_only=True)
class Limit(Single):
    """After leaving out `offset` rows, at most `count` rows (None: all). Both are BIGINT literals or parameters."""

    count: Expression | None
    offset: Expression | None


@frozen(kw_only=True)
class Union(Relation):
    """The rows of all parts, repeated ones too (UNION ALL). The parts' fields have the same types."""

    parts: tuple[Relation, ...]

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return self.parts

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        return replace(self, parts=inputs)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.parts[0].fields


@frozen(kw_only=True)
class SetOperation(Relation):
    """INTERSECT or EXCEPT, with ALL (by count) or without; NULLs are equal here. (UNION is Aggregate over Union.)"""

    operation: str
    all: bool
    left: Relation
    right: Relation

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields


@frozen(kw_only=True)
class Unnest(Single):
    """Each input row once per element of `array` (over the input's columns), the element as a last column `name`. With
    `outer` a row whose array is NULL or empty comes once, with NULL. With `ordinality` a BIGINT from 1 follows."""

    array: Expression
    name: str
    outer: bool = False
    ordinality: str | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        element = self.array.type.element
        assert element is not None
        last = () if self.ordinality is None else (Field(self.ordinality, BIGINT),)
        return (*self.input.fields, Field(self.name, element), *last)


# Subqueries stand as expressions until the rule "subqueries" turns them into joins.


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
    """`EXISTS (SELECT …)`: never NULL. The relation's Filter may refer to the outer query by `OuterColumn`."""

    relation: Relation

    def __str__(self) -> str:
        return "EXISTS (subquery)"


@frozen(kw_only=True)
class OuterColumn(Expression):
    """The column at `index` of the query around a subquery."""

    index: int
    name: str

    def __str__(self) -> str:
        return f"outer.{self.name}"


def walk(relation: Relation) -> Iterator[Relation]:
    """The relation and all below it, outermost first (not into subqueries)."""
    yield relation
    for item in relation.inputs:
        yield from walk(item)


def transform(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """A copy with `change` applied to every node, innermost first; nodes that stay as they are are shared."""
    inputs = relation.inputs
    changed = tuple(transform(item, change) for item in inputs)
    if any(new is not old for new, old in zip(changed, inputs, strict=True)):
        relation = relation.with_inputs(changed)
    return change(relation)


def expressions_of(relation: Relation) -> Iterator[Expression]:
    """The expressions of one node itself: conditions, keys, arguments of aggregates, and so on."""
    match relation:
        case Scan(predicate=predicate):
            yield from () if predicate is None else (predicate,)
        case Values(rows=rows):
            yield from (item for row in rows for item in row)
        case Generate(arguments=arguments):
            yield from arguments
        case Filter(condition=condition):
            yield condition
        case Project(expressions=expressions):
            yield from expressions
        case Aggregate(keys=keys, aggregates=aggregates):
            yield from keys
            for call in aggregates:
                yield from call.arguments
                yield from () if call.predicate is None else (call.predicate,)
        case Join(left_keys=left_keys, right_keys=right_keys, condition=condition):
            yield from (*left_keys, *right_keys)
            yield from () if condition is None else (condition,)
        case Sort(keys=keys):
            yield from (key.expression for key in keys)
        case Limit(count=count, offset=offset):
            yield from (item for item in (count, offset) if item is not None)
        case Unnest(array=array):
            yield array


def references(fields: tuple[Field, ...], offset: int = 0) -> tuple[Column, ...]:
    """One column expression per field, as they stand."""
    return tuple(Column(index=offset + i, name=item.name, type=item.type) for i, item in enumerate(fields))
