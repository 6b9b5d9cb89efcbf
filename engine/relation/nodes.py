"""Relational nodes: a query as values, shared by the planner, fragments and connectors.

A node is frozen and knows the fields of its result. Expressions in it refer to the columns of its
input by index; for a join, the right side's columns follow the left side's. Nothing here knows SQL
text, DAGs or processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.errors import Position
from runnel.expressions.nodes import Aggregate as AggregateCall
from runnel.expressions.nodes import Change, Column, Expression, SortKey, mapped
from runnel.sqltypes import BIGINT, BOOLEAN, SqlType

if TYPE_CHECKING:
    from runnel.connector import SinkRequest, WritableTable
    from runnel.relation.emission import Emission, LateSides


class Field(NamedTuple):
    """A column of a result. Names may repeat, as in `SELECT a.x, b.x`."""

    name: str
    type: SqlType


@frozen(kw_only=True)
class Relation:
    """The base of all relational nodes."""

    keeps_hash: ClassVar[bool] = True

    position: Position | None = field(default=None, compare=False, repr=False)
    state_name: str | None = field(default=None, repr=False)
    """The name that a hint gives to what the node keeps."""

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
    def own_expressions(self) -> tuple[Expression, ...]:
        """The expressions of the node itself, in the order in which `map_expressions` visits
        them."""
        return ()

    def map_expressions(self, change: Change) -> Relation:
        """The node with `change` applied to each of its own expressions as a whole; itself where
        none changes."""
        assert not self.own_expressions, f"{type(self).__name__} doesn't map its expressions"
        return self

    def _replaced(self, **values: Any) -> Relation:
        if all(getattr(self, name) == value for name, value in values.items()):
            return self
        return replace(self, **values)

    @property
    def is_unbounded(self) -> bool:
        """Whether the result has no end that is known beforehand."""
        return any(item.is_unbounded for item in self.inputs)

    @cached_property
    def never_ends(self) -> bool:
        """Whether the rows have no end: there is an unbounded input, and no LIMIT above it."""
        return any(item.never_ends for item in self.inputs) if self.inputs else self.is_unbounded

    @cached_property
    def recurs(self) -> bool:
        """Whether it is other rows in each round of a recursion."""
        return any(item.recurs for item in self.inputs)


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
class Pair(Relation):
    """A relation of two inputs. Its fields are kept: those of a chain of joins would be put
    together again at each of them."""

    left: Relation
    right: Relation

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        return replace(self, left=inputs[0], right=inputs[1])

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (*self.left.fields, *self.right.fields)


@frozen
class Divert:
    """Where records go that a source can't read: to `request.columns` of the table, which hold
    `fields`, in that order."""

    table: WritableTable
    request: SinkRequest
    fields: tuple[str, ...]


@frozen(kw_only=True)
class Scan(Relation):
    """Rows of a table: of its columns, those at `columns`, in that order.

    `predicate` (BOOLEAN, over the *table's* columns, not over `columns`) keeps the rows for which
    it is true; `limit` is a bound on the rows needed, or None. `divert`: where records go that
    can't be read."""

    table: Table
    columns: tuple[int, ...]
    predicate: Expression | None = None
    limit: int | None = None
    divert: Divert | None = None

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return () if self.predicate is None else (self.predicate,)

    def map_expressions(self, change: Change) -> Relation:
        return self if self.predicate is None else self._replaced(predicate=change(self.predicate))

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(
            Field(self.table.columns[i].name, self.table.columns[i].type) for i in self.columns
        )

    @property
    def is_unbounded(self) -> bool:
        return self.table.is_unbounded


@frozen(kw_only=True)
class Values(Relation):
    """Literal rows; every expression is free of columns. One row of no columns is the input of a
    SELECT without FROM."""

    rows: tuple[tuple[Expression, ...], ...]
    columns: tuple[Field, ...]

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return tuple(item for row in self.rows for item in row)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(rows=tuple(mapped(row, change) for row in self.rows))

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.columns


@frozen(kw_only=True)
class Generate(Relation):
    """A table function without an input: "generate_series" (start, stop, step) or "generate_stream"
    (rate). The arguments are free of columns."""

    function: str
    arguments: tuple[Expression, ...]
    columns: tuple[Field, ...]
    unbounded: bool = False

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return self.arguments

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(arguments=mapped(self.arguments, change))

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

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return (self.condition,)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(condition=change(self.condition))


@frozen(kw_only=True)
class Project(Single):
    """One column per expression, called by `names`."""

    expressions: tuple[Expression, ...]
    names: tuple[str, ...]

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return self.expressions

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(expressions=mapped(self.expressions, change))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(
            Field(name, item.type) for name, item in zip(self.names, self.expressions, strict=True)
        )


@frozen(kw_only=True)
class Aggregate(Single):
    """Groups by `keys` (any expressions) and aggregates: first the keys, then the aggregates,
    called by `names`.
    Without keys there is exactly one row; without aggregates it is DISTINCT."""

    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    emission: Emission | None = None
    """When results of an input without end come, where the SELECT says so."""

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        late = () if self.emission is None else self.emission.late
        return (*self.keys, *(item for call in self.aggregates for item in call.expressions), *late)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(
            keys=mapped(self.keys, change),
            aggregates=tuple(call.map_expressions(change) for call in self.aggregates),
            emission=None if self.emission is None else self.emission.map_expressions(change),
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        types = [*(item.type for item in self.keys), *(item.type for item in self.aggregates)]
        return tuple(Field(name, item) for name, item in zip(self.names, types, strict=True))


class JoinKind(Enum):
    """How a join pairs rows. The first four and CROSS give the columns of both sides; SEMI and ANTI
    the left side's.

    MARK gives the left side's columns and a BOOLEAN: whether the left row has a match, NULL where
    that is unknown (the value of `x IN (SELECT …)`). EXISTS_MARK is MARK without the unknown.
    NULL_ANTI is `x NOT IN (SELECT …)`: the rows for which MARK would be false. SINGLE is LEFT, but
    a second match of a left row is a DataError (a scalar subquery).
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
class Join(Pair):
    """Pairs of left and right rows with equal keys for which `condition` is true.

    `left_keys[i]` is an expression over the left side's columns, `right_keys[i]` over the right
    side's *own* columns, of the same type; NULL keys never match, but for those whose number is in
    `null_safe`: they match by IS NOT DISTINCT FROM. `condition` is over the columns of both, the
    left side's first.
    """

    kind: JoinKind
    left_keys: tuple[Expression, ...] = ()
    right_keys: tuple[Expression, ...] = ()
    condition: Expression | None = None
    null_safe: tuple[int, ...] = ()
    late: LateSides | None = None
    """Where late rows of inputs without end go, where the SELECT says so."""

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        late = () if self.late is None else self.late.expressions
        return (
            *self.left_keys,
            *self.right_keys,
            *(() if self.condition is None else (self.condition,)),
            *late,
        )

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(
            left_keys=mapped(self.left_keys, change),
            right_keys=mapped(self.right_keys, change),
            condition=None if self.condition is None else change(self.condition),
            late=None if self.late is None else self.late.mapped(change, change),
        )

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if self.kind in MARKS:
            return (*self.left.fields, Field("matched", BOOLEAN))
        return self.left.fields if self.kind in LEFT_ONLY else super().fields


@frozen(kw_only=True)
class Sort(Single):
    """The rows in order; equal rows in any order."""

    keys: tuple[SortKey, ...]
    emission: Emission | None = None
    """Where late rows of an input without end go, where the SELECT says so."""

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        late = () if self.emission is None else self.emission.late
        return (*(key.expression for key in self.keys), *late)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(
            keys=tuple(key.mapped(change) for key in self.keys),
            emission=None if self.emission is None else self.emission.map_expressions(change),
        )


@frozen(kw_only=True)
class Limit(Single):
    """After leaving out `offset` rows, at most `count` rows (None: all). Both are BIGINT literals
    or parameters."""

    count: Expression | None
    offset: Expression | None

    @cached_property
    def never_ends(self) -> bool:
        return self.count is None and self.input.never_ends

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return tuple(item for item in (self.count, self.offset) if item is not None)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(
            count=None if self.count is None else change(self.count),
            offset=None if self.offset is None else change(self.offset),
        )


@frozen(kw_only=True)
class Union(Relation):
    """The rows of all parts, repeated ones too (UNION ALL). The parts' fields have the same
    types."""

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
class SetOperation(Pair):
    """INTERSECT or EXCEPT, with ALL (by count) or without; NULLs are equal here. (UNION is
    Aggregate over Union.)"""

    operation: str
    all: bool

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields


@frozen(kw_only=True)
class Expand(Single):
    """Each input row once per list of `projections`: one column per expression, called by `names`.
    GROUPING SETS are an Aggregate over it: one list per set, the keys outside the set NULL, and the
    number of the set as a column (`of_sets`)."""

    projections: tuple[tuple[Expression, ...], ...]
    names: tuple[str, ...]
    of_sets: bool = False

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return tuple(item for expressions in self.projections for item in expressions)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(projections=tuple(mapped(item, change) for item in self.projections))

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(
            Field(name, item.type)
            for name, item in zip(self.names, self.projections[0], strict=True)
        )


@frozen(kw_only=True)
class Unnest(Single):
    """Each input row once per element of `array` (over the input's columns), the element as a last
    column `name`. With `outer` a row whose array is NULL or empty comes once, with NULL. With
    `ordinality` a BIGINT from 1 follows."""

    array: Expression
    name: str
    outer: bool = False
    ordinality: str | None = None

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return (self.array,)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(array=change(self.array))

    @property
    def fields(self) -> tuple[Field, ...]:
        element = self.array.type.element
        assert element is not None
        last = () if self.ordinality is None else (Field(self.ordinality, BIGINT),)
        return (*self.input.fields, Field(self.name, element), *last)


def walk(relation: Relation) -> Iterator[Relation]:
    """The relation and all below it, outermost first (not into subqueries)."""
    waiting = [relation]
    while waiting:
        yield (node := waiting.pop())
        waiting += node.inputs[::-1]


def transform(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """A copy with `change` applied to every node, innermost first; nodes that stay as they are are
    shared."""
    inputs = relation.inputs
    changed = tuple(transform(item, change) for item in inputs)
    if any(new is not old for new, old in zip(changed, inputs, strict=True)):
        relation = relation.with_inputs(changed)
    return change(relation)


def references(fields: tuple[Field, ...], offset: int = 0) -> tuple[Column, ...]:
    """One column expression per field, as they stand."""
    return tuple(
        Column(index=offset + i, name=item.name, type=item.type) for i, item in enumerate(fields)
    )
