"""The errors for OVER on streams, with remedies."""

from __future__ import annotations

from runnel.errors import NotSupportedError
from runnel.planner.event_time.bounds import time_bounds
from runnel.planner.event_time.expressions import Bounds, bound_of
from runnel.planner.event_time.ordered_windows import OrderedWindowRefusal, reach_of
from runnel.planner.event_time.over_streams import stages_of
from runnel.relation.over import Window, WindowCall
from runnel.relation.streams import event_times

_ORDER = (
    "PARTITION BY window_end of TUMBLE, HOP, CUMULATE or SESSION too, "
    "or ORDER BY the event time, ascending"
)

_DIFFERENT = OrderedWindowRefusal(
    "its calls wait for different watermarks, and rows that wait for one are late by the other",
    "use one of the times in the PARTITION BY, or first in the ORDER BY, of all calls",
)


def check_window(node: Window, unbounded_state: bool = False) -> None:
    """Raises NotSupportedError if the value of a call on a stream would never be known, or if each
    partition would need state without bound and that is not allowed (`unbounded_state`)."""
    bounds = time_bounds(node.input)
    stages = stages_of(node, bounds)
    if stages is None:
        has_event_time = bool(event_times(node.input))
        found = (_refusal(call, bounds, has_event_time) for call in node.calls)
        refusal = next((item for item in found if item is not None), None)
        raise _refused(node, refusal or _DIFFERENT)
    if unbounded_state:
        return
    for stage in stages:
        call = node.calls[stage.calls[0]]
        if call.partition and not all(reach.is_bounded_in_time for reach in stage.reaches):
            what = ", ".join(map(str, call.partition))
            raise NotSupportedError(
                "OVER would need state for each of its partitions without bound",
                detail=(
                    f"a stream may contain ever new values of {what}, "
                    "and no watermark shows which one is the last"
                ),
                hint=(
                    "use a frame RANGE BETWEEN INTERVAL … PRECEDING AND CURRENT ROW, "
                    "PARTITION BY window_end too, or "
                    "end the SELECT with OPTIONS ('allowUnboundedState'='true')"
                ),
                position=node.position,
            )


def _refusal(call: WindowCall, bounds: Bounds, has_event_time: bool) -> OrderedWindowRefusal | None:
    """Why a call can't be computed; None if it can. `has_event_time`: whether there is a watermark,
    perhaps of a column that was projected away."""
    if any(bound_of(item, bounds) is not None for item in call.partition):
        return None
    if not bounds and not has_event_time:
        return OrderedWindowRefusal(
            "an input of this query has no end and no watermark, "
            "so no row's value would ever be known",
            "add WATERMARK FOR to the mapping, or read TABLE(IMPOSE_ORDER(TABLE t, "
            "DESCRIPTOR(time), lag))",
        )
    if not call.order or bound_of(call.order[0].expression, bounds) is None:
        return OrderedWindowRefusal(
            "no watermark shows when a partition is complete, or orders its rows",
            _ORDER,
        )
    if call.order[0].descending:
        return OrderedWindowRefusal(
            "the first row in descending order of event time arrives last", _ORDER
        )
    reach = reach_of(call)
    return reach if isinstance(reach, OrderedWindowRefusal) else None


def _refused(node: Window, refusal: OrderedWindowRefusal) -> NotSupportedError:
    return NotSupportedError(
        "OVER and DISTINCT ON over a stream need partitions or an order that a watermark completes",
        detail=refusal.detail,
        hint=refusal.hint,
        position=node.position,
    )
