"""Joins of which an input has no end: what may be joined, and how it is run.

A stream joins what ends as a probe: the other side is read first. Two streams join where each row needs to wait only for so
long: their times bound each other, or they are joined window by window.
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.errors import NotSupportedError
from runnel.planner import physical
from runnel.planner.estimates import estimate, never_ends
from runnel.planner.event_time import Bounds, bound_of, time_bounds
from runnel.planner.physical import Physical
from runnel.planner.time_links import interval_shape
from runnel.relation import Join, JoinKind, Relation
from runnel.stream_joins import AsOfShape
from runnel.streams import AsOfJoin

Choose = Callable[[Relation], Physical]

_STREAM_ON_THE_LEFT = frozenset(JoinKind) - {JoinKind.RIGHT, JoinKind.FULL}
_NULL_AWARE = (JoinKind.MARK, JoinKind.NULL_ANTI)


def check_stream_join(node: Join, unbounded_state: bool = False) -> None:
    """NotSupportedError where a join would have to wait for the end of an input that has none, or to keep its rows for ever
    (unless it may: `unbounded_state`)."""
    left, right = never_ends(node.left), never_ends(node.right)
    if left and right:
        _check_two_streams(node, unbounded_state)
    elif right:
        name = _NAMES.get(node.kind)
        raise NotSupportedError(
            f"the right side of {name} cannot be a streaming source" if name else "a subquery cannot read a streaming source",
            detail="that side is read to its end before the first row comes out",
            hint="put the stream on the left side of the join" if name else "put a LIMIT into the subquery",
            position=node.right.position or node.position,
        )
    elif left and node.kind not in _STREAM_ON_THE_LEFT:
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


def _check_two_streams(node: Join, unbounded_state: bool) -> None:
    if node.kind in _NULL_AWARE:
        raise NotSupportedError(
            "NOT IN and IN as a value are not supported between two streams",
            detail="a NULL among the rows of the subquery, which has no end, would change the answer for all rows",
            hint="use [NOT] EXISTS with a condition that bounds the difference of the times of both",
            position=node.position,
        )
    if unbounded_state:
        return
    left, right = time_bounds(node.left), time_bounds(node.right)
    for bounds, side in ((left, node.left), (right, node.right)):
        if not bounds:
            raise NotSupportedError(
                "for stream-to-stream join, both joined sides must have an order imposed",
                detail="without a watermark on both sides all rows would have to be kept for ever",
                hint="add WATERMARK FOR to the mapping, or read TABLE(IMPOSE_ORDER(TABLE t, DESCRIPTOR(ts), lag)); or end the "
                "SELECT with OPTIONS ('allowUnboundedState'='true')",
                position=side.position or node.position,
            )
    shape, _ = interval_shape(node)
    if shape.left.watermark is None or shape.right.watermark is None:
        raise NotSupportedError(
            "a stream-to-stream join must have a join condition constraining the maximum difference between time values of the "
            "joined tables in both directions",
            detail=f"time columns on the left side: [{_names(node.left, left)}], on the right side: "
            f"[{_names(node.right, right)}]{_missing(shape.left.watermark, shape.right.watermark)}",
            hint=_remedy(node, left, right),
            position=node.position,
        )


def _names(side: Relation, bounds: Bounds) -> str:
    return ", ".join(side.fields[place].name for place in sorted(bounds))


def _missing(for_left: int | None, for_right: int | None) -> str:
    if for_left is None and for_right is None:
        return ""
    side, word = ("left", "latest") if for_left is None else ("right", "latest")
    return f"; nothing says what the {word} time is that a row of the {side} side may match"


def _remedy(node: Join, left: Bounds, right: Bounds) -> str:
    first, second = node.left.fields[min(left)], node.right.fields[min(right)]
    some = "10" if first.type.is_integer else "INTERVAL '10' SECOND"
    return (
        f"add a condition such as right.{second.name} BETWEEN left.{first.name} - {some} AND left.{first.name} + {some}, or "
        "end the SELECT with OPTIONS ('allowUnboundedState'='true')"
    )


def choose_stream_join(node: Join, choose: Choose) -> Physical | None:
    """The operator that joins two streams; None where a side ends."""
    if not never_ends(node.left) or not never_ends(node.right):
        return None
    shape, rest = interval_shape(node)
    return physical.IntervalJoin(
        fields=node.fields,
        rows=estimate(node),
        kind=node.kind,
        left=choose(node.left),
        right=choose(node.right),
        left_keys=node.left_keys,
        right_keys=node.right_keys,
        condition=rest,
        null_safe=node.null_safe,
        times=shape,
    )


def check_as_of_join(node: AsOfJoin, unbounded_state: bool = False) -> None:
    """NotSupportedError where an as-of join of streams couldn't tell the version of a row, or would keep versions for ever."""
    if not never_ends(node.right):
        return
    if not never_ends(node.left):
        raise NotSupportedError(
            "the right side of ASOF JOIN cannot be a streaming source where the left side ends",
            detail="the versions of the right side would be read for ever",
            hint="put the stream on the left side of the join",
            position=node.right.position or node.position,
        )
    if node.forward:
        raise NotSupportedError(
            "ASOF JOIN between two streams looks back only",
            hint="write ON a.ts >= b.ts",
            position=node.position,
        )
    if bound_of(node.right_time, time_bounds(node.right)) is None:
        raise NotSupportedError(
            "the right side of an ASOF JOIN between streams must have an order imposed on the column that is compared",
            detail="nothing says when the version of a row is known",
            hint="add WATERMARK FOR to its mapping, or read TABLE(IMPOSE_ORDER(TABLE t, DESCRIPTOR(ts), lag))",
            position=node.right.position or node.position,
        )
    if bound_of(node.left_time, time_bounds(node.left)) is None and not unbounded_state:
        raise NotSupportedError(
            "the left side of an ASOF JOIN between streams must have an order imposed on the column that is compared",
            detail="nothing says which versions of the right side aren't needed any more",
            hint="add WATERMARK FOR to its mapping, or read TABLE(IMPOSE_ORDER(TABLE t, DESCRIPTOR(ts), lag)); or end the "
            "SELECT with OPTIONS ('allowUnboundedState'='true')",
            position=node.left.position or node.position,
        )


def choose_as_of_join(node: AsOfJoin, choose: Choose) -> Physical:
    """The operator of an as-of join."""
    left = time_bounds(node.left)
    shape = AsOfShape(
        outer=node.outer,
        strict=node.strict,
        forward=node.forward,
        version=bound_of(node.right_time, time_bounds(node.right)) if never_ends(node.right) else None,
        due=bound_of(node.left_time, left),
        bounds=tuple(sorted(left.items())),
    )
    return physical.AsOfJoin(
        fields=node.fields,
        rows=estimate(node.left),
        left=choose(node.left),
        right=choose(node.right),
        left_keys=node.left_keys,
        right_keys=node.right_keys,
        left_time=node.left_time,
        right_time=node.right_time,
        shape=shape,
    )
