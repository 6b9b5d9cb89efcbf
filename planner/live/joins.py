"""Joins of a live query.

A side without streams is read once, before the first epoch ends. If it is the right side, a row of
the left side is joined when it comes, whether it appears or disappears. Two streams whose times
bound each other are joined as without EMIT CHANGES. Every other join arranges both sides by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.connector import KeyedTable
from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.planner.event_time.check import check_stream_join
from runnel.planner.live.maintained import Maintain, Maintained, check_repeatable
from runnel.planner.live.null_aware import null_aware_join
from runnel.planner.rewriting import project_columns, renumber
from runnel.relation.live import WEIGHT, LiveJoin
from runnel.relation.nodes import (
    LEFT_ONLY,
    MARKS,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Scan,
    references,
    walk,
)

_SYMMETRIC = (JoinKind.INNER, JoinKind.CROSS)
_LEFT_ROWS = (*LEFT_ONLY, *MARKS, JoinKind.SINGLE)
"""The kinds that return each row of the left side once at most."""


def maintained_join(node: Join, maintain: Maintain) -> Maintained:
    """The join, maintained."""
    if not node.is_unbounded:
        return Maintained(node)
    is_turned = node.kind is JoinKind.RIGHT or (
        node.kind in _SYMMETRIC and not node.left.is_unbounded
    )
    if is_turned:
        return maintain(_turned(node))
    left = maintain(node.left) if node.left.is_unbounded else Maintained(node.left)
    if not node.right.is_unbounded and node.kind is not JoinKind.FULL:
        if not left.is_changing:
            return Maintained(replace(node, left=left.relation), unique=_unique(node, left))
        if _is_fixed(node.right):
            return _row_by_row(node, left)
    elif _is_bounded_in_time(node):
        right = maintain(node.right)
        if not left.is_changing and not right.is_changing:
            return Maintained(node.with_inputs((left.relation, right.relation)))
    if node.kind in (JoinKind.NULL_ANTI, JoinKind.MARK):
        return maintain(null_aware_join(node))
    below = _existence(node)
    right = maintain(below) if below.is_unbounded else Maintained(below)
    return _arranged_join(node, left, right)


def _turned(node: Join) -> Relation:
    """The join with its sides exchanged, and the columns in the order of before."""
    left, right = len(node.left.fields), len(node.right.fields)
    places = {i: right + i for i in range(left)} | {left + i: i for i in range(right)}
    turned = replace(
        node,
        kind=JoinKind.LEFT if node.kind is JoinKind.RIGHT else node.kind,
        left=node.right,
        right=node.left,
        left_keys=node.right_keys,
        right_keys=node.left_keys,
        condition=None if node.condition is None else renumber(node.condition, places),
    )
    return project_columns(turned, [places[i] for i in range(left + right)])


def _unique(node: Join, left: Maintained) -> tuple[int, ...] | None:
    return left.unique if node.kind in _LEFT_ROWS else None


def _is_fixed(relation: Relation) -> bool:
    """Whether a row of the left side meets the same rows when it appears and when it disappears:
    not if they are looked up, or read again."""
    tables = [node.table for node in walk(relation) if isinstance(node, Scan)]
    return all(
        table.refresh_millis is None and not isinstance(table, KeyedTable) for table in tables
    )


def _is_bounded_in_time(node: Join) -> bool:
    """Whether a join of two streams retains rows for a limited time."""
    if not (node.left.never_ends and node.right.never_ends):
        return False
    try:
        check_stream_join(node, False)
    except NotSupportedError:
        return False
    return True


def _row_by_row(node: Join, left: Maintained) -> Maintained:
    """The join of rows that change with rows that don't: the weight passes through as the last
    column of the left side."""
    check_repeatable(node)
    width = len(node.left.fields)
    total = width + len(node.right.fields)
    places = {i: i if i < width else i + 1 for i in range(total)}
    condition = None if node.condition is None else renumber(node.condition, places)
    joined = replace(node, left=left.relation, condition=condition)
    result = [i if i < width else i + 1 for i in range(len(node.fields))]
    return Maintained(project_columns(joined, [*result, width]), True, _unique(node, left))


def _existence(node: Join) -> Relation:
    """The right side of a join without the LIMIT of an uncorrelated EXISTS."""
    right = below = node.right
    is_existence = node.kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.EXISTS_MARK)
    if not is_existence or node.left_keys or node.condition is not None:
        return right
    while isinstance(below, Project):  # its columns are not read
        below = below.input
    if (
        isinstance(below, Limit)
        and below.offset is None
        and isinstance(below.count, Literal)
        and below.count.value
    ):
        return below.input
    return right


@frozen
class _Arranged:
    """One side of a join as it is arranged.

    relation: the keys, the other columns, and the weight if rows change.
    positions: the index of each column of the side.
    width: the number of columns without the weight.
    """

    relation: Relation
    positions: dict[int, int]
    width: int


def _arranged(side: Maintained, keys: Sequence[Expression]) -> _Arranged:
    columns = references(side.relation.fields)
    plain = columns[:-1] if side.is_changing else columns
    positions = {
        item.index: i for i, item in reversed([*enumerate(keys)]) if isinstance(item, Column)
    }
    rest = [item for item in plain if item.index not in positions]
    positions |= {item.index: len(keys) + i for i, item in enumerate(rest)}
    expressions: list[Expression] = [*keys, *rest]
    names = [
        item.name if isinstance(item, Column) else f"$key{i}" for i, item in enumerate(expressions)
    ]
    width = len(expressions)
    if side.is_changing:
        expressions.append(side.weight)
        names.append(WEIGHT)
    relation = Project(input=side.relation, expressions=tuple(expressions), names=tuple(names))
    return _Arranged(relation, positions, width)


def _compares_all(node: Join, left: Maintained, right: Maintained) -> bool:
    """Whether a join compares all rows of both sides. A side with one row is no such side, and of
    a side whose columns are not read the rows are only counted."""
    if node.left_keys or node.kind is JoinKind.SINGLE or () in (left.unique, right.unique):
        return False
    return node.condition is not None or node.kind in (*_SYMMETRIC, JoinKind.LEFT, JoinKind.FULL)


def _arranged_join(node: Join, left: Maintained, right: Maintained) -> Maintained:
    """The join over the arrangements of both sides."""
    check_repeatable(node)
    first, second = _arranged(left, node.left_keys), _arranged(right, node.right_keys)
    before = len(node.left.fields)
    places = dict(first.positions)
    places |= {before + i: first.width + place for i, place in second.positions.items()}
    kind = JoinKind.INNER if node.kind is JoinKind.CROSS else node.kind
    is_changing = left.is_changing or right.is_changing or kind is not JoinKind.INNER
    relation = LiveJoin(
        left=first.relation,
        right=second.relation,
        kind=kind,
        keys=len(node.left_keys),
        null_safe=node.null_safe,
        condition=None if node.condition is None else renumber(node.condition, places),
        changing=(left.is_changing, right.is_changing),
        is_changing=is_changing,
        compares_all=_compares_all(node, left, right),
        position=node.position,
    )
    if kind is JoinKind.EXISTS_MARK:
        places[before] = first.width
    indexes = [places[i] for i in range(len(node.fields))]
    if is_changing:
        indexes.append(len(relation.fields) - 1)
    result = project_columns(relation, indexes)
    return Maintained(result, is_changing, _unique(node, left))
