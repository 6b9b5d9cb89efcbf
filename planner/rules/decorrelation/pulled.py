"""The result of unnesting: a relation without correlation, its columns, and the conditions that
pair its rows with outer rows.

Columns of the outer query are `OuterColumn`s of depth 0; columns of queries further out keep a
depth from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.expressions.evaluate import can_fail
from runnel.expressions.nodes import (
    Call,
    Case,
    Column,
    Expression,
    Literal,
    columns_of,
    transform,
    walk,
)
from runnel.planner.rewriting import shift
from runnel.relation.nodes import Project, Relation, references
from runnel.relation.subqueries import OuterColumn
from runnel.sqltypes import BOOLEAN


@frozen
class Pulled:
    """A relation without correlation that represents a correlated one.

    relation: the rows of all outer rows.
    columns: the values of a row, over the relation's columns and the outer row's columns.
    `parts`: the conjuncts under which a row of `relation` belongs to an outer row, over the same
        columns.
    defaults: the values, over outer columns, of the single row that an outer row without any rows
        has; None if it has no row.
    is_reached: whether each row of `relation` belongs to some outer row, so that an expression that
        fails on it would have failed anyway.
    """

    relation: Relation
    columns: tuple[Expression, ...]
    parts: tuple[Expression, ...] = ()
    defaults: tuple[Expression, ...] | None = None
    is_reached: bool = False


def as_it_is(relation: Relation) -> Pulled:
    """An uncorrelated relation, pulled."""
    return Pulled(relation, references(relation.fields))


def is_outer(node: Expression) -> bool:
    return isinstance(node, OuterColumn) and node.depth == 0


def outer_indexes(expressions: Iterable[Expression]) -> set[int]:
    """The outer columns that the expressions read."""
    return {
        node.index
        for item in expressions
        for node in walk(item)
        if isinstance(node, OuterColumn) and node.depth == 0
    }


def with_outer(expression: Expression, values: Mapping[int, Expression]) -> Expression:
    """The expression with `values[i]` in place of the outer column i."""

    def change(node: Expression) -> Expression:
        return values[node.index] if isinstance(node, OuterColumn) and node.depth == 0 else node

    return transform(expression, change)


def joined(expression: Expression, width: int) -> Expression:
    """The expression over the `width` columns of the outer relation, followed by the columns of the
    pulled relation."""

    def change(node: Expression) -> Expression:
        if isinstance(node, OuterColumn) and node.depth == 0:
            return Column(index=node.index, name=node.name, type=node.type, position=node.position)
        return node

    return transform(shift(expression, width), change)


def fails(expression: Expression) -> bool:
    """Whether the expression can fail on some row."""

    def change(node: Expression) -> Expression:
        return (
            Column(index=0, name=node.name, type=node.type)
            if isinstance(node, OuterColumn)
            else node
        )

    return can_fail(transform(expression, change))


def pair_of(conjunct: Expression) -> tuple[Expression, Expression] | None:
    """The outer and the inner side of an equality between them; None for any other condition."""
    if not isinstance(conjunct, Call) or conjunct.function not in ("eq", "is_not_distinct"):
        return None
    first, second = conjunct.arguments
    if first.type != second.type:
        return None
    for outer, inner in ((first, second), (second, first)):
        if (
            outer_indexes([outer])
            and not columns_of(outer)
            and columns_of(inner)
            and not outer_indexes([inner])
        ):
            return outer, inner
    return None


def is_outer_only(conjunct: Expression) -> bool:
    """Whether a condition reads only the outer row."""
    return not columns_of(conjunct)


def provided(parts: Sequence[Expression]) -> dict[int, Expression]:
    """The outer columns whose values the relation has, because a condition equates them with an
    inner expression; each with that expression."""
    found: dict[int, Expression] = {}
    for conjunct in parts:
        pair = pair_of(conjunct)
        if pair is not None and isinstance(pair[0], OuterColumn):
            found.setdefault(pair[0].index, pair[1])
    return found


def outer_sides(conjunct: Expression) -> list[OuterColumn]:
    """The outer column that a condition equates; [] if it equates anything else."""
    pair = pair_of(conjunct)
    return [pair[0]] if pair is not None and isinstance(pair[0], OuterColumn) else []


def same_as(column: OuterColumn, inner: Expression) -> Expression:
    """The condition that an outer column is not distinct from an inner expression."""
    return Call(function="is_not_distinct", arguments=(column, inner), type=BOOLEAN)


def with_inner(conjunct: Expression, inner: Expression) -> Expression:
    """An equality with another expression as its inner side."""
    pair = pair_of(conjunct)
    assert pair is not None and isinstance(conjunct, Call)
    return replace(conjunct, arguments=(pair[0], inner))


def marked(relation: Relation) -> Relation:
    """The relation with TRUE as a last column, which is NULL after an outer join without a
    match."""
    fields = relation.fields
    true = Literal(value=True, type=BOOLEAN)
    names = (*(item.name for item in fields), "$present")
    return Project(input=relation, expressions=(*references(fields), true), names=names)


def where_present(mark: Expression, value: Expression, otherwise: Expression | None) -> Expression:
    """The value if there was a match, else `otherwise` (None: NULL)."""
    present = Call(function="is_not_null", arguments=(mark,), type=BOOLEAN)
    if isinstance(otherwise, Literal) and otherwise.value is None:
        otherwise = None
    return Case(
        conditions=(present,),
        results=(value,),
        otherwise=otherwise,
        type=value.type,
        position=value.position,
    )
