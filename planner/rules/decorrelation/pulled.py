"""What is left of a subquery when its correlation is taken out: rows, columns, and the condition
that pairs them.

Outer columns are `OuterColumn`s of depth 0 here; those of queries further out keep a depth from 1.
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
    """A relation without correlation that stands for a correlated one. For an outer row the rows
    are those of `relation` for which all `parts` are true, and `columns` are their values; both are
    over the relation's columns and the outer row's.

    Where no row is left and `defaults` (over outer columns) is given, these values are the one row
    that there is.
    `is_reached`: each row of the relation belongs to some outer row, so what fails on it would have
    failed anyway.
    """

    relation: Relation
    columns: tuple[Expression, ...]
    parts: tuple[Expression, ...] = ()
    defaults: tuple[Expression, ...] | None = None
    is_reached: bool = False


def as_it_is(relation: Relation) -> Pulled:
    """An uncorrelated relation."""
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
    """The expression over the `width` columns of the outer relation followed by the pulled
    one's."""

    def change(node: Expression) -> Expression:
        if isinstance(node, OuterColumn) and node.depth == 0:
            return Column(index=node.index, name=node.name, type=node.type, position=node.position)
        return node

    return transform(shift(expression, width), change)


def fails(expression: Expression) -> bool:
    """Whether there are rows on which the expression raises."""

    def change(node: Expression) -> Expression:
        return (
            Column(index=0, name=node.name, type=node.type)
            if isinstance(node, OuterColumn)
            else node
        )

    return can_fail(transform(expression, change))


def pair_of(part: Expression) -> tuple[Expression, Expression] | None:
    """The outer and the inner side of a condition that says that they are equal; None for any other
    condition."""
    if not isinstance(part, Call) or part.function not in ("eq", "is_not_distinct"):
        return None
    first, second = part.arguments
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


def is_outer_only(part: Expression) -> bool:
    """Whether a condition is about the outer row alone."""
    return not columns_of(part)


def provided(parts: Sequence[Expression]) -> dict[int, Expression]:
    """The outer columns whose values the relation has, by the parts, each with the inner expression
    that is equal."""
    found: dict[int, Expression] = {}
    for part in parts:
        pair = pair_of(part)
        if pair is not None and isinstance(pair[0], OuterColumn):
            found.setdefault(pair[0].index, pair[1])
    return found


def outer_sides(part: Expression) -> list[OuterColumn]:
    """The outer column that a part equates; none where it equates something else."""
    pair = pair_of(part)
    return [pair[0]] if pair is not None and isinstance(pair[0], OuterColumn) else []


def same_as(column: OuterColumn, inner: Expression) -> Expression:
    """The part that says that an outer column is the same as an inner expression."""
    return Call(function="is_not_distinct", arguments=(column, inner), type=BOOLEAN)


def with_inner(part: Expression, inner: Expression) -> Expression:
    """A pairing condition with another expression as its inner side."""
    pair = pair_of(part)
    assert pair is not None and isinstance(part, Call)
    return replace(part, arguments=(pair[0], inner))


def marked(relation: Relation) -> Relation:
    """The relation with TRUE as a last column: behind an outer join it tells whether there was a
    row."""
    fields = relation.fields
    true = Literal(value=True, type=BOOLEAN)
    names = (*(item.name for item in fields), "$present")
    return Project(input=relation, expressions=(*references(fields), true), names=names)


def where_present(mark: Expression, value: Expression, otherwise: Expression | None) -> Expression:
    """The value where there was a row, else `otherwise` (None: NULL)."""
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
