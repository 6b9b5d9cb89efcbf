"""What a query may do over an input without end, and the refusal of the rest.

Checked on the tree after the rules, when joins already have their sides: the right side of a join is read to its end first.
A LIMIT makes an end, so anything may stand above one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runnel.errors import NotSupportedError
from runnel.relation import Aggregate, Join, JoinKind, Limit, Recursion, Relation, SetOperation, Sort
from runnel.subqueries import GroupLimit
from runnel.windows import Window

_STREAM_ON_THE_LEFT = frozenset(JoinKind) - {JoinKind.RIGHT, JoinKind.FULL}


def check_streaming(relation: Relation) -> None:
    """NotSupportedError, with position and remedy, where a query would wait for the end of an input that has none."""
    for item in relation.inputs:
        check_streaming(item)
    rule = _CHECKS.get(type(relation))
    if rule is not None:
        rule(relation)


def never_ends(relation: Relation) -> bool:
    """Whether a relation's rows have no end: there is an unbounded input, and no LIMIT above it."""
    if isinstance(relation, Limit) and relation.count is not None:
        return False
    if not relation.inputs:
        return relation.is_unbounded
    return any(never_ends(item) for item in relation.inputs)


def _aggregate(node: Aggregate) -> None:
    if not never_ends(node.input):
        return
    what = "DISTINCT" if not node.aggregates else "aggregation"
    raise NotSupportedError(
        f"streaming {what} is supported only for window aggregation, with imposed order, grouping by a window bound",
        detail="an input of this query has no end, so the groups would never be complete",
        hint="put a LIMIT into a subquery over the stream, or aggregate a table that has an end",
        position=node.position,
    )


def _sort(node: Sort) -> None:
    if never_ends(node.input):
        raise NotSupportedError(
            "sorting is not supported for a streaming query",
            detail="an input of this query has no end, so there is no last row to wait for",
            hint="leave ORDER BY out, or put a LIMIT into a subquery over the stream and sort that",
            position=node.position,
        )


def _window(node: Window) -> None:
    if never_ends(node.input):
        raise NotSupportedError(
            "OVER and DISTINCT ON are not supported for a streaming query",
            detail="an input of this query has no end, so no partition would ever be complete",
            hint="put a LIMIT into a subquery over the stream, or read a table that has an end",
            position=node.position,
        )


def _set_operation(node: SetOperation) -> None:
    if never_ends(node):
        raise NotSupportedError(
            f"{node.operation.upper()} is not supported for a streaming query",
            detail="an input of this query has no end",
            hint="use UNION ALL, or put a LIMIT into a subquery over the stream",
            position=node.position,
        )


def _join(node: Join) -> None:
    left, right = never_ends(node.left), never_ends(node.right)
    if left and right:
        raise NotSupportedError(
            "for stream-to-stream join, both joined sides must have an order imposed",
            detail="a join of two inputs without end would have to keep all rows of both",
            hint="join the stream with a table that has an end",
            position=node.position,
        )
    if right:
        name = _NAMES.get(node.kind)
        raise NotSupportedError(
            f"the right side of {name} cannot be a streaming source" if name else "a subquery cannot read a streaming source",
            detail="that side is read to its end before the first row comes out",
            hint="put the stream on the left side of the join" if name else "put a LIMIT into the subquery",
            position=node.right.position or node.position,
        )
    if left and node.kind not in _STREAM_ON_THE_LEFT:
        raise NotSupportedError(
            f"the left side of {_NAMES[node.kind]} cannot be a streaming source",
            detail="the rows of the other side without a match are known only at the end",
            hint="use an INNER or a LEFT JOIN",
            position=node.left.position or node.position,
        )


_NAMES = {
    JoinKind.INNER: "an INNER JOIN",
    JoinKind.CROSS: "a CROSS JOIN",
    JoinKind.LEFT: "a LEFT JOIN",
    JoinKind.RIGHT: "a RIGHT JOIN",
    JoinKind.FULL: "a FULL JOIN",
}


def _recursion(node: Recursion) -> None:
    if never_ends(node):
        raise NotSupportedError(
            "a recursive query cannot read a streaming source",
            detail="an input of this query has no end, so the first round would never be over",
            hint="put a LIMIT into a subquery over the stream",
            position=node.position,
        )


def _group_limit(node: GroupLimit) -> None:
    if never_ends(node.input):
        raise NotSupportedError(
            "a LIMIT for each outer row is not supported for a streaming query",
            detail="an input of this query has no end, so the first rows of a group are never known",
            hint="put the stream on the left side of the join",
            position=node.position,
        )


_CHECKS: dict[type[Relation], Callable[[Any], None]] = {
    Aggregate: _aggregate,
    Sort: _sort,
    SetOperation: _set_operation,
    Window: _window,
    Join: _join,
    GroupLimit: _group_limit,
    Recursion: _recursion,
}
