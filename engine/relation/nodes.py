"""Relational nodes: a query as values, shared by the planner, fragments and connectors.

A node is frozen and knows the fields of its result. Its expressions refer to the columns of its
input by index; in a join, the columns of the right side follow those columns of the left side.
This module knows nothing of SQL text, DAGs or processors.
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
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Change, Column, Expression, SortKey, mapped
from runnel.sqltypes import BOOLEAN, SqlType

if TYPE_CHECKING:
    from runnel.connector import SinkRequest, WritableTable
    from runnel.relation.emission import Emission, LateSides


class Field(NamedTuple):
    """A column of a result.

    name: need not be unique, as in `SELECT a.x, b.x`.
    type: the SQL type.
    """

    name: str
    type: SqlType


@frozen(kw_only=True)
class Relation:
    """The base class of all relational nodes.

    family: the module of `planner/operators` that registers what the planner does with the node.
    clause: the clause of SQL that the node is, for messages; "" if the class has the same name.
    combines_rows: whether the node groups, sorts or pairs rows, or compares them with other rows.
    is_computed_once: whether the text for another engine computes the node once if a plan has it
        several times. (An order of rows would get lost.)
    position: where the clause stands in the statement; None if unknown.
    state_name: the name that a hint assigns to the state of the node.
    """

    keeps_hash: ClassVar[bool] = True
    family: ClassVar[str] = ""
    clause: ClassVar[str] = ""
    combines_rows: ClassVar[bool] = False
    is_computed_once: ClassVar[bool] = False

    position: Position | None = field(default=None, compare=False, repr=False)
    state_name: str | None = field(default=None, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        raise TypeError(f"{type(self).__name__} has no fields")

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Relation, ...]) -> Relation:
        """Return the same node with other inputs."""
        assert not inputs
        return self

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        """The expressions of the node itself, in the order of `map_expressions`.

        Rules ask whether one of them is volatile (`engine/expressions/properties.py::is_volatile`)
        before they share, repeat or move a node. A value that makes the rows of the node differ
        between executions, such as a random seed, must therefore be an expression here.
        """
        return ()

    def map_expressions(self, change: Change) -> Relation:
        """Return the node with `change` applied to each of its own expressions as a whole.

        Returns the node itself if no expression changes.
        """
        assert not self.own_expressions, f"{type(self).__name__} doesn't map its expressions"
        return self

    def _replaced(self, **values: Any) -> Relation:
        if all(getattr(self, name) == value for name, value in values.items()):
            return self
        return replace(self, **values)

    @property
    def is_unbounded(self) -> bool:
        """Whether no end of the result is known beforehand."""
        return any(item.is_unbounded for item in self.inputs)

    @cached_property
    def never_ends(self) -> bool:
        """Whether the rows have no end: an input is unbounded, and no LIMIT is above it."""
        return any(item.never_ends for item in self.inputs) if self.inputs else self.is_unbounded

    @cached_property
    def recurs(self) -> bool:
        """Whether the rows differ in each round of a recursion."""
        return any(item.recurs for item in self.inputs)


@frozen(kw_only=True)
class Single(Relation):
    """A relation with one input."""

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
    """A relation with two inputs.

    The fields are computed once, since each join of a chain needs the fields of the joins below it.

    left: the first input, whose columns come first in `fields`.
    right: the second input.
    """

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
class MalformedOutput:
    """The output for malformed records.

    table: the table that gets the records.
    request: the request for a sink of the table, with the columns to write.
    fields: the field of the record (`place`, `record` or `reason`) for each of these columns.
    """

    table: WritableTable
    request: SinkRequest
    fields: tuple[str, ...]


@frozen(kw_only=True)
class Scan(Relation):
    """Rows of a table.

    table: the table that is read.
    columns: the indexes of the columns that the scan returns, in this order.
    predicate: BOOLEAN over all columns of the *table*, not over `columns`; the scan returns the
        rows for which it is true.
    limit: the number of rows that are needed at most; None: all.
    malformed: the output for malformed records; None: such a record is an error.
    at_arrival: whether a row of a stream meets the rows of the table at its arrival (PROCTIME()).
    """

    family = "sources"

    table: Table
    columns: tuple[int, ...]
    predicate: Expression | None = None
    limit: int | None = None
    malformed: MalformedOutput | None = None
    at_arrival: bool = False

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
    """Literal rows. The input of a SELECT without FROM is one row without columns.

    rows: the expressions of each row, which refer to no columns.
    columns: the fields of the result.
    """

    family = "sources"

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
    """A table function without an input.

    function: "generate_series", with the arguments start, stop and step, or "generate_stream",
        with the argument rate.
    arguments: expressions that refer to no columns.
    columns: the fields of the result.
    unbounded: whether the rows have no end.
    """

    family = "sources"

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

    family = "calculations"

    condition: Expression

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return (self.condition,)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(condition=change(self.condition))


@frozen(kw_only=True)
class Project(Single):
    """One column per expression.

    expressions: over the columns of the input.
    names: the names of the columns.
    """

    family = "calculations"

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
    """GROUP BY: one row per group, with the keys first and then the aggregates.

    Without keys the result is exactly one row; without aggregates it is DISTINCT.

    keys: any expressions over the input.
    aggregates: the aggregate calls.
    names: the names of all columns of the result.
    emission: when the results over an unbounded input are emitted; None if the SELECT doesn't say.
    """

    family = "aggregates"
    combines_rows = True
    is_computed_once = True

    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    emission: Emission | None = None

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
    """How a join pairs rows.

    INNER, LEFT, RIGHT, FULL, CROSS: as in SQL, with the columns of both sides.
    SEMI, ANTI: the left rows with or without a match, with the columns of the left side.
    NULL_ANTI: `x NOT IN (SELECT …)`: the left rows for which MARK would be false.
    MARK: all left rows with a further BOOLEAN column: whether the row has a match, or NULL if that
        is unknown (the value of `x IN (SELECT …)`).
    EXISTS_MARK: MARK without the unknown case: the value is never NULL.
    SINGLE: LEFT, but a second match of a left row is a DataError (a scalar subquery).
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
"""The kinds of which the result has the columns of the left side only."""

MARKS = (JoinKind.MARK, JoinKind.EXISTS_MARK)
"""The kinds of which the result has the columns of the left side and a BOOLEAN."""


@frozen(kw_only=True)
class Join(Pair):
    """Pairs of left and right rows with equal keys for which `condition` is true.

    kind: how the rows are paired, and the columns of the result.
    left_keys: expressions over the columns of the left side.
    right_keys: expressions over the *own* columns of the right side, numbered from 0;
        `right_keys[i]` has the type of `left_keys[i]`.
    condition: over the columns of both sides, first the left side's; None: true.
    null_safe: the indexes of the keys that match by IS NOT DISTINCT FROM; other keys never match
        if they are NULL.
    late: the output for late rows of unbounded inputs; None if the SELECT has none.
    """

    family = "joins"
    combines_rows = True
    is_computed_once = True

    kind: JoinKind
    left_keys: tuple[Expression, ...] = ()
    right_keys: tuple[Expression, ...] = ()
    condition: Expression | None = None
    null_safe: tuple[int, ...] = ()
    late: LateSides | None = None

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
    """The rows in order; rows with equal keys in any order.

    keys: the sort keys, most significant first.
    emission: the output for late rows of an unbounded input; None if the SELECT has none.
    """

    family = "sorting"
    combines_rows = True

    keys: tuple[SortKey, ...]
    emission: Emission | None = None

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
    """At most `count` rows after the first `offset` rows.

    count: a BIGINT literal or parameter; None: all rows.
    offset: a BIGINT literal or parameter; None: 0.
    """

    family = "limits"

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
    """The rows of all branches, including duplicates (UNION ALL).

    `parts`: the branches, whose fields have the same types.
    """

    family = "set_operations"

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
    """INTERSECT or EXCEPT; NULLs are equal to each other. (UNION is an Aggregate over a Union.)

    operation: "intersect" or "except".
    all: whether duplicates are counted (ALL) or removed.
    """

    family = "set_operations"
    combines_rows = True
    is_computed_once = True

    operation: str
    all: bool

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields


@frozen(kw_only=True)
class Expand(Single):
    """Each input row once per list of `projections`.

    GROUPING SETS are an Aggregate over an Expand: one list per set, in which the keys outside the
    set are NULL, and a column with the number of the set.

    projections: lists of expressions of the same types, one expression per column.
    names: the names of the columns.
    of_sets: whether the last column is the number of a grouping set.
    """

    family = "calculations"

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


def repeated(
    relation: Relation, projections: tuple[tuple[Expression, ...], ...], names: tuple[str, ...]
) -> Relation:
    """Each row once per list of expressions."""
    return Expand(input=relation, projections=projections, names=names, position=relation.position)


def walk(relation: Relation) -> Iterator[Relation]:
    """Yield the relation and all relations below it, outermost first, without subqueries."""
    waiting = [relation]
    while waiting:
        yield (node := waiting.pop())
        waiting += node.inputs[::-1]


def transform(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """Return a copy with `change` applied to every node, innermost first.

    The copy shares the nodes that don't change.
    """
    inputs = relation.inputs
    changed = tuple(transform(item, change) for item in inputs)
    if any(new is not old for new, old in zip(changed, inputs, strict=True)):
        relation = relation.with_inputs(changed)
    return change(relation)


def references(fields: tuple[Field, ...], offset: int = 0) -> tuple[Column, ...]:
    """Return one column expression per field, in order; the first index is `offset`."""
    return tuple(
        Column(index=offset + i, name=item.name, type=item.type) for i, item in enumerate(fields)
    )
