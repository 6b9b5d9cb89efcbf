"""The bounds that a join condition puts on the times of both sides, and how long rows must wait for
a match.

Such bounds are found in conjuncts that compare a column of one side, plus or minus a constant, with
a column of the other side by =, <, <=, > or >= (BETWEEN is two of them), or that compare the
difference of two columns with a constant. They are normalised to low ≤ right − left ≤ high.

For example, `r.ts BETWEEN l.ts - INTERVAL '5' SECOND AND l.ts` is low = −5 s, high = 0: a left row
waits until the right watermark passes l.ts, and a right row until the left one passes r.ts + 5 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from runnel.expressions.kernels.buffers import DAY_US
from runnel.expressions.nodes import Call, Cast, Column, Expression, conjuncts, walk
from runnel.planner.event_time.expressions import Bounds, constant_of
from runnel.planner.event_time.truncation import CALENDAR_SUMS, CLOCK_CHANGE, moved_by_calendar
from runnel.planner.rewriting import conjunction
from runnel.relation.nodes import Join, JoinKind
from runnel.relation.stream_joins import (
    BufferedSide,
    IntervalShape,
    JoinTimeBounds,
    WindowJoinShape,
)
from runnel.sqltypes import Kind, SqlType

MOST = 1 << 61
"""Larger constants, in units of event time, are ignored."""

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


class Sum(NamedTuple):
    """The event time of a column, plus a constant.

    column: the index of the column.
    plus: the constant, in units of event time.
    slack: by how much the sum may differ from that, as the clock of a zone changes.
    """

    column: int
    plus: int
    slack: int = 0


def sum_of(expression: Expression) -> Sum | None:
    """The sum for an expression that is a column's event time plus a constant; None for any other
    expression."""
    if isinstance(expression, Column):
        return Sum(expression.index, 0) if _is_time(expression.type) else None
    if isinstance(expression, Cast):
        same = _is_time(expression.type) and _family(expression.type) == _family(
            expression.operand.type
        )
        widens = expression.operand.type.kind is Kind.DATE or expression.type.is_integer
        return (
            sum_of(expression.operand)
            if same and widens and expression.type.kind is not Kind.DATE
            else None
        )
    if isinstance(expression, Call) and expression.function in CALENDAR_SUMS:
        found, days = sum_of(expression.arguments[0]), moved_by_calendar(expression)
        if found is None or days is None:
            return None
        return Sum(found.column, found.plus + days, found.slack + CLOCK_CHANGE)
    if (
        isinstance(expression, Call)
        and expression.function in ("add", "subtract")
        and len(expression.arguments) == 2
    ):
        first, second = expression.arguments
        if expression.function == "add" and constant_of(first) is not None:
            first, second = second, first
        found, constant = sum_of(first), constant_of(second)
        is_interval, of_days = second.type.kind is Kind.INTERVAL, expression.type.kind is Kind.DATE
        if (
            found is None
            or constant is None
            or is_interval == (expression.type.is_integer or of_days)
        ):
            return None
        constant *= DAY_US if of_days else 1
        return found._replace(
            plus=found.plus + (constant if expression.function == "add" else -constant)
        )
    return None


def _is_time(kind: SqlType) -> bool:
    return kind.is_integer or _family(kind) != "other"


def _family(kind: SqlType) -> str:
    if kind.is_integer:
        return "integer"
    if kind.kind in (Kind.DATE, Kind.TIMESTAMP):
        return "local"
    return "instant" if kind.kind is Kind.TIMESTAMP_TZ else "other"


def bounds_of(conjunct: Expression, width: int) -> JoinTimeBounds | None:
    """The bounds that a conjunct puts on two columns; columns from `width` on are the right side's.
    None for any other conjunct."""
    if (
        not isinstance(conjunct, Call)
        or conjunct.function not in _FLIPPED
        or len(conjunct.arguments) != 2
    ):
        return None
    function, (first, second) = conjunct.function, conjunct.arguments
    if constant_of(first) is not None:
        function, first, second = _FLIPPED[function], second, first
    constant = constant_of(second)
    if constant is not None:
        if not isinstance(first, Call) or first.function != "subtract":
            return None
        if (first.type.kind is Kind.INTERVAL) != (second.type.kind is Kind.INTERVAL):
            return None
        one, other = (sum_of(item) for item in first.arguments)
        if one is None or other is None or _differs(first.arguments):
            return None
        # The difference of two DATEs is in days.
        constant *= DAY_US if first.arguments[0].type.kind is Kind.DATE else 1
        return _compared(function, one, other._replace(plus=other.plus + constant), width)
    one, other = sum_of(first), sum_of(second)
    if one is None or other is None or _differs((first, second)):
        return None
    return _compared(function, one, other, width)


def _differs(pair: tuple[Expression, ...]) -> bool:
    """Whether the two sides are times of different kinds."""
    return _family(pair[0].type) != _family(pair[1].type)


def _compared(function: str, one: Sum, other: Sum, width: int) -> JoinTimeBounds | None:
    """The bounds from comparing `one` with `other`; None if both are of the same side."""
    if (one.column < width) == (other.column < width):
        return None
    if one.column < width:
        one, other, function = other, one, _FLIPPED[function]
    # `one` is the right column and `other` the left one: right + p ⋚ left + q.
    apart = other.plus - one.plus
    if abs(apart) > MOST:
        return None
    low = {"ge": apart, "gt": apart + 1, "eq": apart}.get(function)
    high = {"le": apart, "lt": apart - 1, "eq": apart}.get(function)
    slack = one.slack + other.slack
    low, high = None if low is None else low - slack, None if high is None else high + slack
    return JoinTimeBounds(other.column, one.column - width, low, high)


def all_bounds(node: Join) -> dict[JoinTimeBounds, Expression | None]:
    """All time bounds of a join, each with the conjunct that it is equal to (None: a pair of keys,
    or a conjunct that the bounds are wider than)."""
    width = len(node.left.fields)
    found: dict[JoinTimeBounds, Expression | None] = {}
    for number, (left, right) in enumerate(zip(node.left_keys, node.right_keys, strict=True)):
        first, second = sum_of(left), sum_of(right)
        if first is not None and second is not None and number not in node.null_safe:
            apart, slack = first.plus - second.plus, first.slack + second.slack
            found.setdefault(
                JoinTimeBounds(first.column, second.column, apart - slack, apart + slack), None
            )
    for conjunct in conjuncts(node.condition):
        link = bounds_of(conjunct, width)
        if link is not None:
            found.setdefault(link, None if _has_slack(conjunct) else conjunct)
    return found


def _has_slack(conjunct: Expression) -> bool:
    """Whether the bounds of a conjunct are wider than the conjunct, which must be evaluated, too:
    it has a sum on the local clock of a zone."""
    return any(isinstance(node, Call) and node.function in CALENDAR_SUMS for node in walk(conjunct))


def buffered_sides(
    links: Iterable[JoinTimeBounds], left: Bounds, right: Bounds
) -> tuple[BufferedSide, BufferedSide]:
    """How long the rows of either side wait, given the join's time bounds and the bounds of both
    sides' columns.

    For low ≤ right − left ≤ high, a left row waits until the bound of the right column passes
    left + high, and a right row until the bound of the left column passes right − low. Of several
    watermarks, the one that releases the rows first is used.
    """
    all_links = tuple(links)
    from_right = [
        (link.left, link.high, right.get(link.right)) for link in all_links if link.high is not None
    ]
    from_left = [
        (link.right, -link.low, left.get(link.left)) for link in all_links if link.low is not None
    ]
    sides = []
    for found, bounds in ((from_right, left), (from_left, right)):
        ends = [
            (column, plus - bound.offset, bound.watermark)
            for column, plus, bound in found
            if bound is not None
        ]
        watermark = min(ends, key=lambda end: end[1])[2] if ends else None
        expiry = tuple(
            sorted({(column, offset) for column, offset, number in ends if number == watermark})
        )
        sides.append(
            BufferedSide(watermark=watermark, expiry=expiry, bounds=tuple(sorted(bounds.items())))
        )
    return sides[0], sides[1]


def interval_shape(
    node: Join, bounds: tuple[Bounds, Bounds]
) -> tuple[IntervalShape, Expression | None]:
    """How long the rows of a join of streams wait, and the rest of its condition when matches are
    searched by time."""
    links = all_bounds(node)
    left, right = buffered_sides(links, *bounds)
    tie = tied(node, *bounds)
    pairs: dict[tuple[int, int], JoinTimeBounds] = {}
    for link in links:
        if link.left not in bounds[0] or link.right not in bounds[1]:
            continue
        before = pairs.get((link.left, link.right))
        pairs[link.left, link.right] = link if before is None else _narrower(before, link)
    chosen = min(pairs.values(), key=_width, default=None)
    if chosen is None:
        return IntervalShape(
            time_bounds=None, condition=None, left=left, right=right, tie=tie
        ), node.condition
    said = [
        conjunct
        for link, conjunct in links.items()
        if conjunct is not None and (link.left, link.right) == (chosen.left, chosen.right)
    ]
    rest = conjunction(
        conjunct
        for conjunct in conjuncts(node.condition)
        if not any(conjunct is item for item in said)
    )
    return IntervalShape(
        time_bounds=chosen, condition=conjunction(said), left=left, right=right, tie=tie
    ), rest


def tied(node: Join, left: Bounds, right: Bounds) -> tuple[int, int] | None:
    """The right and the left watermark that a FULL JOIN with equal times merges into one: of the
    two time columns, or of COALESCE of both, the smaller watermark counts. None for other joins."""
    if node.kind is not JoinKind.FULL:
        return None
    for link in all_bounds(node):
        if (
            link.low is not None
            and link.low == link.high
            and link.left in left
            and link.right in right
        ):
            mine, other = left[link.left].watermark, right[link.right].watermark
            if mine not in {bound.watermark for bound in right.values()}:
                return other, mine
    return None


def window_join_shape(node: Join, bounds: tuple[Bounds, Bounds]) -> WindowJoinShape | None:
    """The bounded time that the condition of a join requires to be equal on both sides; None if
    there is none."""
    left, right = bounds
    for link, part in all_bounds(node).items():
        if part is None and node.kind in (JoinKind.MARK, JoinKind.NULL_ANTI):
            # The two sides of IN: a NULL among them counts for all rows.
            continue
        if (
            link.low is not None
            and link.low == link.high
            and link.left in left
            and link.right in right
        ):
            return WindowJoinShape(
                time_bounds=link, bounds=(tuple(sorted(left.items())), tuple(sorted(right.items())))
            )
    return None


def _narrower(one: JoinTimeBounds, other: JoinTimeBounds) -> JoinTimeBounds:
    """The intersection of two bounds of the same columns."""
    return replace(one, low=_limit(max, one.low, other.low), high=_limit(min, one.high, other.high))


def _limit(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _width(link: JoinTimeBounds) -> tuple[int, int]:
    """The sort key of a bound to search by: the narrowest first, then bounds with one limit."""
    if link.low is None or link.high is None:
        return (1, 0)
    return (0, link.high - link.low)
