"""Rewriting of expressions when a rule moves columns: substitution, renumbering, conjunctions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import (
    Call,
    Column,
    Expression,
    Literal,
    Parameter,
    columns_of,
    transform,
)
from runnel.relation.nodes import Field, Project, Relation
from runnel.sqltypes import BOOLEAN


def substitute(expression: Expression, replacements: Sequence[Expression]) -> Expression:
    """The expression with `replacements[i]` in place of column i."""

    def change(node: Expression) -> Expression:
        return replacements[node.index] if isinstance(node, Column) else node

    return transform(expression, change)


def renumber(expression: Expression, positions: Mapping[int, int]) -> Expression:
    """The expression with column `positions[i]` in place of column i."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Column) and positions[node.index] != node.index:
            return replace(node, index=positions[node.index])
        return node

    return transform(expression, change)


def shift(expression: Expression, by: int) -> Expression:
    """The expression with every column index raised by `by`."""

    def change(node: Expression) -> Expression:
        return replace(node, index=node.index + by) if isinstance(node, Column) and by else node

    return transform(expression, change)


def conjunction(conjuncts: Iterable[Expression]) -> Expression | None:
    """The conjuncts joined by AND; None for none."""
    found = tuple(conjuncts)
    if len(found) < 2:
        return found[0] if found else None
    return Call(function="and", arguments=found, type=BOOLEAN)


def is_trivial(expression: Expression) -> bool:
    """Whether computing the expression twice costs nothing: a column, literal or parameter."""
    return isinstance(expression, Column | Literal | Parameter)


def reads_only(expression: Expression, start: int, stop: int) -> bool:
    """Whether all columns that the expression reads are in start … stop - 1."""
    return all(start <= index < stop for index in columns_of(expression))


def divide(
    conjuncts: Sequence[Expression], may_move: Callable[[Expression], bool], fallible_may_move: bool
) -> tuple[list[Expression], list[Expression]]:
    """Divides conjuncts into those that move down and those that stay.

    A volatile conjunct stays. A conjunct that can fail moves only past a step that removes no rows,
    and only if all conjuncts before it move too: otherwise it could fail on rows that it would not
    have been evaluated for in its old position.
    """
    moving: list[Expression] = []
    staying: list[Expression] = []
    for part in conjuncts:
        fails = can_fail(part)
        if (
            is_volatile(part)
            or not may_move(part)
            or (fails and (staying or not fallible_may_move))
        ):
            staying.append(part)
        else:
            moving.append(part)
    return moving, staying


def project_columns(relation: Relation, indexes: Sequence[int]) -> Relation:
    """The relation with only the columns at `indexes`, in that order; `relation` itself if nothing
    changes."""
    fields = relation.fields
    if list(indexes) == list(range(len(fields))):
        return relation
    return Project(
        input=relation,
        expressions=tuple(column(fields, index) for index in indexes),
        names=tuple(fields[index].name for index in indexes),
        position=relation.position,
    )


def column(fields: Sequence[Field], index: int) -> Column:
    """The column at `index` of these fields."""
    return Column(index=index, name=fields[index].name, type=fields[index].type)
