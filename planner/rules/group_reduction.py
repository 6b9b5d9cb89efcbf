"""Groups that a join is going to ask for, and no others: what a correlated subquery's aggregate is
turned into reads its whole table, though few of its groups have a partner.

Not one of RULES, as it would apply to its own result: it is used once, when the others have come to
rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Column, Expression
from runnel.planner.estimates import estimate
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Scan,
    transform,
    walk,
)

_RIGHT_MAY_SHRINK = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SINGLE, JoinKind.SEMI)
_LEFT_MAY_SHRINK = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
"""Joins that don't give a row of that side which has no partner."""

FEWER = 8
"""A reduction is worth it where the rows that name the groups are at most one in so many of those
to be grouped."""


def reduce_groups(relation: Relation) -> Relation:
    """The plan with a semi join below each aggregation of which a join wants few groups."""
    return transform(relation, lambda node: _reduced(node) if isinstance(node, Join) else node)


def _reduced(join: Join) -> Relation:
    if not join.left_keys or join.null_safe or join.is_unbounded:
        return join
    if join.kind in _RIGHT_MAY_SHRINK:
        right = _over_fewer(join.right, join.right_keys, (join.left, join.left_keys))
        if right is not None:
            return replace(join, right=right)
    if join.kind in _LEFT_MAY_SHRINK:
        left = _over_fewer(join.left, join.left_keys, (join.right, join.right_keys))
        if left is not None:
            return replace(join, left=left)
    return join


def _over_fewer(
    node: Relation, keys: Sequence[Expression], other: tuple[Relation, Sequence[Expression]]
) -> Relation | None:
    """A side of a join, with these keys, with its aggregation reduced to the groups that the other
    side has; None where there is none, or it isn't worth it."""
    places = _places(keys)
    wanted = _places(other[1])
    if places is None or wanted is None:
        return None
    if isinstance(node, (Project, Filter)):
        below = [node.expressions[i] for i in places] if isinstance(node, Project) else list(keys)
        inner = _over_fewer(node.input, below, other)
        return None if inner is None else replace(node, input=inner)
    if (
        not isinstance(node, Aggregate)
        or not node.aggregates
        or any(place >= len(node.keys) for place in places)
    ):
        return None
    grouped = [node.keys[place] for place in places]
    rows, origin = estimate(node.input), _smallest(other[0], wanted)
    if (
        rows is None
        or origin is None
        or origin[1] * FEWER > rows
        or any(can_fail(key) for key in grouped)
    ):
        return None
    names = Project(
        input=origin[0],
        expressions=tuple(
            Column(index=i, name=f"$key{n}", type=k.type)
            for n, (i, k) in enumerate(zip(origin[2], grouped, strict=True))
        ),
        names=tuple(f"$key{n}" for n in range(len(grouped))),
    )
    semi = Join(
        kind=JoinKind.SEMI,
        left=node.input,
        right=names,
        left_keys=tuple(grouped),
        right_keys=tuple(
            Column(index=n, name=f"$key{n}", type=key.type) for n, key in enumerate(grouped)
        ),
    )
    return replace(node, input=semi)


def _places(keys: Sequence[Expression]) -> list[int] | None:
    """The columns that the keys are; None where one isn't a plain column."""
    found = [key.index for key in keys if isinstance(key, Column)]
    return found if len(found) == len(keys) else None


def _smallest(relation: Relation, columns: list[int]) -> tuple[Relation, int, list[int]] | None:
    """The part of a relation with the fewest rows in which all these columns are, and where they
    are there. The values of the columns in it are at least those in the relation."""
    best: tuple[Relation, int, list[int]] | None = None
    for part, places in _origins(relation, columns):
        rows = estimate(part)
        if rows is not None and (best is None or rows <= best[1]) and _is_repeatable(part):
            best = (part, rows, places)
    return best


def _origins(relation: Relation, columns: list[int]) -> Iterator[tuple[Relation, list[int]]]:
    yield relation, columns
    if isinstance(relation, Project):
        inner = [item.index for i in columns if isinstance(item := relation.expressions[i], Column)]
        if len(inner) == len(columns):
            yield from _origins(relation.input, inner)
    elif isinstance(relation, Join) and relation.kind in _RIGHT_MAY_SHRINK:
        width = len(relation.left.fields)
        if all(i < width for i in columns):
            yield from _origins(relation.left, columns)
        elif relation.kind is JoinKind.INNER and all(i >= width for i in columns):
            yield from _origins(relation.right, [i - width for i in columns])


def _is_repeatable(relation: Relation) -> bool:
    """Whether computing the relation twice gives the same rows."""
    nodes = list(walk(relation))
    if any(
        isinstance(node, Limit) or (isinstance(node, Scan) and node.limit is not None)
        for node in nodes
    ):
        return False
    return not any(is_volatile(expression) for node in nodes for expression in node.own_expressions)
