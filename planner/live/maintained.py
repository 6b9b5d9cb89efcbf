"""The relation that maintains a result, and functions that the homes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.relation.live import WEIGHT
from runnel.relation.nodes import Project, Relation, references
from runnel.sqltypes import BIGINT


@frozen
class Maintained:
    """A relation whose rows are emitted while its inputs grow.

    relation: emits the rows that appear; if `is_changing`, changes with a last column WEIGHT.
    is_changing: whether rows disappear, too.
    unique: the indexes of columns by which the rows differ; None: unknown.
    """

    relation: Relation
    is_changing: bool = False
    unique: tuple[int, ...] | None = None

    @property
    def weight(self) -> Column:
        """The column of weights, if rows change."""
        return references(self.relation.fields)[-1]


Maintain = Callable[[Relation], Maintained]


def with_weights(below: Maintained) -> Relation:
    """The relation with a column of weights: the one that it has, or 1 for each row."""
    relation = below.relation
    if below.is_changing:
        return relation
    return Project(
        input=relation,
        expressions=(*references(relation.fields), Literal(value=1, type=BIGINT)),
        names=(*(field.name for field in relation.fields), WEIGHT),
    )


def computed_per_row(
    node: Relation, below: Maintained, relation: Relation, unique: tuple[int, ...] | None
) -> Maintained:
    """The result of a node that computes each row from one row of its input. A value must be the
    same when the row appears and when it disappears."""
    if below.is_changing and any(map(is_volatile, node.own_expressions)):
        volatile = next(item for item in node.own_expressions if is_volatile(item))
        raise NotSupportedError(
            f"{volatile} over rows that change is not supported",
            detail="when a row disappears, its values must be the ones with which it appeared",
            hint="compute the value below the aggregation, where rows only appear",
            position=volatile.position or node.position,
        )
    return replace(below, relation=relation, unique=unique)


def check_repeatable(node: Relation) -> None:
    """NotSupportedError if an operator over all its rows has another result each time."""
    for item in node.own_expressions:
        if is_volatile(item):
            raise NotSupportedError(
                f"{item} is not supported in an operator whose result is maintained",
                detail="its rows may be computed again, with other values",
                hint="compute the value in a subquery below the operator",
                position=item.position or node.position,
            )


def unchanged_columns(
    expressions: Iterable[Expression], unique: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """The indexes of unique columns after a projection; None if one is not among its columns."""
    if unique is None:
        return None
    places = {item.index: i for i, item in enumerate(expressions) if isinstance(item, Column)}
    return tuple(places[i] for i in unique) if set(unique) <= set(places) else None


def stays(node: Relation, maintain: Maintain) -> Maintained:
    """The default: the node as it is, over rows that only appear."""
    inputs = tuple(map(maintain, node.inputs))
    changing = next((item for item in inputs if item.is_changing), None)
    if changing is not None:
        raise refused(node, "rows of its input disappear again, and it does not take rows back yet")
    if not inputs:
        return Maintained(node)
    return Maintained(node.with_inputs(tuple(item.relation for item in inputs)))


def refused(node: Relation, reason: str) -> NotSupportedError:
    """The error for a node that can't be maintained."""
    name = node.clause or type(node).__name__.upper()
    return NotSupportedError(
        f"{name} can't be maintained",
        detail=reason,
        hint=(
            "leave it out and apply it to the changes where they are read, or put it below the "
            "aggregation, over a table that has an end"
        ),
        position=node.position,
    )
