"""OVER ordered by a bounded column: which earlier rows, and how many later rows, the value of a
call depends on."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.expressions.aggregates.registry import row_arguments, states_of
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS
from runnel.expressions.nodes import AggregateCall, Expression, Literal
from runnel.planner.event_time.expressions import constant_of
from runnel.relation.over import BoundKind, Exclusion, FrameBound, FrameUnit, WindowCall
from runnel.relation.window_reach import Reach
from runnel.sqltypes import Kind

NUMBERINGS = frozenset(("row_number", "rank", "dense_rank"))
_WHOLE = frozenset(("percent_rank", "cume_dist", "ntile"))


@frozen
class OrderedWindowRefusal:
    """Why a call can't be computed in order of event time.

    detail: the reason.
    hint: the remedy.
    """

    detail: str
    hint: str


def reach_of(call: WindowCall) -> Reach | OrderedWindowRefusal:
    """The rows on which a call that is ordered by a bounded column depends, or why it can't be
    computed."""
    function = call.call.function
    name = function.upper()
    if function in NUMBERINGS:
        return Reach(is_running=True)
    if function in _WHOLE:
        return OrderedWindowRefusal(
            f"{name} depends on the last row of its partition",
            "PARTITION BY window_end of TABLE(TUMBLE(…)) too",
        )
    if function in ("lag", "lead"):
        return _shift(call, function, name)
    if call.frame.start.kind is BoundKind.UNBOUNDED_PRECEDING:
        return _running(call, function)
    return _framed(call)


def _shift(call: WindowCall, function: str, name: str) -> Reach | OrderedWindowRefusal:
    if call.ignore_nulls:
        return OrderedWindowRefusal(
            f"{name} IGNORE NULLS may reach back without bound", "use LAST_VALUE IGNORE NULLS"
        )
    arguments = call.call.arguments
    steps = _whole(arguments[1]) if len(arguments) > 1 else 1
    if steps is None:
        return OrderedWindowRefusal(
            f"how far {name} reaches must be known in advance",
            "use a literal number as its second argument",
        )
    back = steps if function == "lag" else -steps
    if back < 0:
        return OrderedWindowRefusal(
            f"{name} depends on rows that may be far away in time",
            "use an aggregate over RANGE BETWEEN CURRENT ROW AND INTERVAL … FOLLOWING, or LAG",
        )
    return Reach(rows=back)


def _running(call: WindowCall, function: str) -> Reach | OrderedWindowRefusal:
    frame = call.frame
    if frame.end.kind is not BoundKind.CURRENT_ROW:
        what = (
            "is known only at the end of the input"
            if frame.end.kind is BoundKind.UNBOUNDED_FOLLOWING
            else "needs all rows"
        )
        return OrderedWindowRefusal(
            f"{frame} {what}", "end the frame at CURRENT ROW, or begin it at an offset PRECEDING"
        )
    if frame.exclusion is not Exclusion.NO_OTHERS:
        return OrderedWindowRefusal(
            f"EXCLUDE needs all rows of {frame}", "begin the frame at an offset PRECEDING"
        )
    if function in ("first_value", "last_value"):
        return Reach(is_running=True)
    detail = refusal_over_earlier_rows(call.call)
    if detail is None:
        return Reach(is_running=True)
    return OrderedWindowRefusal(detail, "begin the frame at an offset PRECEDING")


def refusal_over_earlier_rows(call: AggregateCall) -> str | None:
    """Why an aggregate isn't computed over all earlier rows; None if it is: the value so far and
    the new row are combined by one operation per state.
    """
    name = call.function.upper()
    if call.function in WINDOW_FUNCTIONS or call.distinct:
        what = f"{name}(DISTINCT …)" if call.distinct else name
        return f"{what} over all earlier rows would need all of them as state"
    states = states_of(call)
    if any(state.grows for state in states):
        return f"{name} over all earlier rows would need all of them as state"
    if row_arguments(call).has_flag or any(state.merge is None for state in states):
        return f"{name} can't be computed over all earlier rows of a stream"
    return None


def _framed(call: WindowCall) -> Reach | OrderedWindowRefusal:
    frame = call.frame
    if BoundKind.UNBOUNDED_FOLLOWING in (frame.start.kind, frame.end.kind):
        return OrderedWindowRefusal(
            f"{frame} is known only at the end of the input", "end the frame at CURRENT ROW"
        )
    if frame.unit is FrameUnit.RANGE:
        return _range(call)
    if BoundKind.FOLLOWING in (frame.start.kind, frame.end.kind):
        return OrderedWindowRefusal(
            f"{frame} depends on rows that may be far away in time",
            "use RANGE BETWEEN … AND INTERVAL … FOLLOWING instead",
        )
    back = 0 if frame.start.offset is None else _whole(frame.start.offset)
    if back is None:
        return OrderedWindowRefusal(
            "the frame's reach must be known in advance", "write the offset as a literal number"
        )
    return Reach(rows=back) if frame.unit is FrameUnit.ROWS else Reach(groups=back)


def _range(call: WindowCall) -> Reach | OrderedWindowRefusal:
    key = call.order[0].expression
    spans = [_span(bound, key) for bound in (call.frame.start, call.frame.end)]
    if None in spans:
        hint = (
            "write the offset as a literal "
            f"{'INTERVAL of days or less' if key.type.is_temporal else 'whole number'}"
        )
        return OrderedWindowRefusal(
            "the frame's reach in event time must be known in advance", hint
        )
    start, end = (span for span in spans if span is not None)
    return Reach(span=max(0, -start), lead=max(0, end))


def _span(bound: FrameBound, key: Expression) -> int | None:
    """The distance of a frame bound from the row, in event time; None if it is unknown."""
    if bound.offset is None:
        return 0
    if key.type.is_temporal is not (bound.offset.type.kind is Kind.INTERVAL):
        return None
    span = constant_of(bound.offset)
    return (
        None if span is None or span < 0 else -span if bound.kind is BoundKind.PRECEDING else span
    )


def _whole(expression: Expression) -> int | None:
    is_whole = (
        isinstance(expression, Literal)
        and expression.type.is_integer
        and expression.value is not None
    )
    return int(expression.value) if isinstance(expression, Literal) and is_whole else None
