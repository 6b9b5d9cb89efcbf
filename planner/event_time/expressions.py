"""Event time within expressions: which column and constant an expression is, and the bound of its
values.

A column that is computed loses its bound, but for a constant that is added to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from runnel.expressions.kernels.buffers import DAY_US
from runnel.expressions.nodes import Call, Case, Cast, Column, Expression, Literal
from runnel.planner.event_time.truncation import truncated
from runnel.relation.streams import TimeBound
from runnel.sqltypes import Kind

Bounds = Mapping[int, TimeBound]
"""By the index of the column."""


def bound_of(expression: Expression, bounds: Bounds) -> TimeBound | None:
    """The bound of an expression: a column; a column plus or minus a constant, cast so that times
    are preserved, or truncated to a unit; or a choice among such expressions with one watermark, as
    of COALESCE. None for any other expression."""
    if isinstance(expression, Case):
        return least_bound(
            bound_of(item, bounds)
            for item in (*expression.results, expression.otherwise)
            if item is not None
        )
    if isinstance(expression, Column):
        return bounds.get(expression.index)
    step = _exact_step(expression)
    if step is None:
        step = truncated(expression)
    bound = None if step is None else bound_of(step[0], bounds)
    return None if step is None or bound is None else bound.moved(step[1])


def least_bound(bounds: Iterable[TimeBound | None]) -> TimeBound | None:
    """The bound of a value that has one of the bounds; None if one of them is missing, or they
    belong to several watermarks."""
    found = set(bounds)
    known = [bound for bound in found if bound is not None]
    if len(known) < len(found) or len({bound.watermark for bound in known}) != 1:
        return None
    return min(known, key=lambda bound: bound.offset)


def moved_column(expression: Expression) -> tuple[Column, int] | None:
    """The column of an expression that is a column plus a constant, and the constant in event time;
    None for any other expression."""
    added = 0
    while not isinstance(expression, Column):
        step = _exact_step(expression)
        if step is None:
            return None
        expression, by = step
        added += by
    return expression, added


def _exact_step(expression: Expression) -> tuple[Expression, int] | None:
    """The operand and the constant, in event time, of an expression that adds a constant; the
    constant is 0 for a cast that preserves times. None for any other expression."""
    if isinstance(expression, Cast):
        return (expression.operand, 0) if _keeps_time(expression) else None
    if (
        not isinstance(expression, Call)
        or expression.function not in ("add", "subtract")
        or len(expression.arguments) != 2
    ):
        return None
    left, right = expression.arguments
    if expression.function == "add" and isinstance(left, Literal):
        left, right = right, left
    by = constant_of(right)
    if by is None:
        return None
    if left.type.kind is Kind.DATE and right.type.is_integer:
        by *= DAY_US
    return left, by if expression.function == "add" else -by


def _keeps_time(cast: Cast) -> bool:
    """Whether a cast preserves the event time, or fails."""
    old, new = cast.operand.type, cast.type
    return (
        (old.is_integer and new.is_integer)
        or (old.kind is Kind.DATE and new.kind is Kind.TIMESTAMP)
        or old == new
    )


def constant_of(expression: Expression) -> int | None:
    """A literal number or INTERVAL as a distance in event time; None for any other expression."""
    if not isinstance(expression, Literal) or expression.value is None:
        return None
    if expression.type.is_integer:
        return int(expression.value)
    if expression.type.kind is Kind.INTERVAL:
        return int(expression.value // timedelta(microseconds=1))
    return None
