"""Aggregations below a join are reduced to the groups that the join needs: the aggregate of a
correlated subquery would otherwise read its whole table, though few of its groups have a partner.

This is not one of RULES, because it would apply to its own result. It is used once, after the other
rules.
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
"""Joins that drop rows of that side that have no partner."""

FEWER = 8
"""A reduction is used only if the rows to group are at least this many times the rows that identify
the groups."""


def reduce_groups(relation: Relation) -> Relation:
    """The plan with a semi join below each aggregation of which a join needs few groups."""
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
    """A join side with these keys, with its aggregation reduced to the groups that the other side
    has; None if there is no aggregation, or the reduction isn't worth it."""
    positions = _key_columns(keys)
    other_positions = _key_columns(other[1])
    if positions is None or other_positions is None:
        return None
    if isinstance(node, (Project, Filter)):
        below = (
            [node.expressions[i] for i in positions] if isinstance(node, Project) else list(keys)
        )
        inner = _over_fewer(node.input, below, other)
        return None if inner is None else replace(node, input=inner)
    if (
        not isinstance(node, Aggregate)
        or not node.aggregates
        or any(position >= len(node.keys) for position in positions)
    ):
        return None
    grouped = [node.keys[position] for position in positions]
    rows, origin = estimate(node.input), _smallest(other[0], other_positions)
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


def _key_columns(keys: Sequence[Expression]) -> list[int] | None:
    """The indexes of the keys' columns; None if one isn't a plain column."""
    found = [key.index for key in keys if isinstance(key, Column)]
    return found if len(found) == len(keys) else None


def _smallest(relation: Relation, columns: list[int]) -> tuple[Relation, int, list[int]] | None:
    """The subtree with the fewest rows that has all these columns, its number of rows, and the
    columns' positions in it. The subtree has at least the values that the relation has in them."""
    best: tuple[Relation, int, list[int]] | None = None
    for subtree, positions in _origins(relation, columns):
        rows = estimate(subtree)
        if rows is not None and (best is None or rows <= best[1]) and _is_repeatable(subtree):
            best = (subtree, rows, positions)
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
    """Whether computing the relation twice returns the same rows."""
    nodes = list(walk(relation))
    if any(
        isinstance(node, Limit) or (isinstance(node, Scan) and node.limit is not None)
        for node in nodes
    ):
        return False
    return not any(is_volatile(expression) for node in nodes for expression in node.own_expressions)
