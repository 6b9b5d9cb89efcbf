"""What OVER can't do on streams, and what can be done instead."""

from __future__ import annotations

from runnel.errors import NotSupportedError
from runnel.planner.event_time.bounds import time_bounds
from runnel.planner.event_time.expressions import Bounds, bound_of
from runnel.planner.event_time.ordered_windows import Refusal, reach_of
from runnel.planner.event_time.over_streams import stages_of
from runnel.relation.nodes import walk
from runnel.relation.over import Window, WindowCall
from runnel.relation.streams import ImposeOrder

_ORDER = (
    "PARTITION BY window_end of TUMBLE, HOP, CUMULATE or SESSION as well, "
    "or ORDER BY the event time, ascending"
)

_DIFFERENT = Refusal(
    "its calls wait for different watermarks, and rows that wait for one are behind the other",
    "use one of the times in the PARTITION BY, or first in the ORDER BY, of all calls",
)


def check_window(node: Window, unbounded_state: bool = False) -> None:
    """NotSupportedError where a call on a stream would never be known, or where state would be kept
    for ever for each partition (unless it may: `unbounded_state`)."""
    bounds = time_bounds(node.input)
    stages = stages_of(node, bounds)
    if stages is None:
        is_timed = any(isinstance(item, ImposeOrder) for item in walk(node.input))
        found = (_refusal(call, bounds, is_timed) for call in node.calls)
        refusal = next((item for item in found if item is not None), None)
        raise _refused(node, refusal or _DIFFERENT)
    if unbounded_state:
        return
    for stage in stages:
        call = node.calls[stage.calls[0]]
        if call.partition and not all(reach.is_bounded_in_time for reach in stage.reaches):
            what = ", ".join(map(str, call.partition))
            raise NotSupportedError(
                "OVER would keep something for each of its partitions for ever",
                detail=(
                    f"a stream may bring ever new values of {what}, "
                    "and none tells that it is the last"
                ),
                hint=(
                    "use a frame RANGE BETWEEN INTERVAL … PRECEDING AND CURRENT ROW, "
                    "PARTITION BY window_end as well, or "
                    "end the SELECT with OPTIONS ('allowUnboundedState'='true')"
                ),
                position=node.position,
            )


def _refusal(call: WindowCall, bounds: Bounds, is_timed: bool) -> Refusal | None:
    """Why a call can't be computed; None if it can. `is_timed`: there is a watermark, if perhaps of
    no column that is left."""
    if any(bound_of(item, bounds) is not None for item in call.partition):
        return None
    if not bounds and not is_timed:
        return Refusal(
            "an input of this query has no end and no watermark, "
            "so no row's value would ever be known",
            "add WATERMARK FOR to the mapping, or read TABLE(IMPOSE_ORDER(TABLE t, "
            "DESCRIPTOR(time), lag))",
        )
    if not call.order or bound_of(call.order[0].expression, bounds) is None:
        return Refusal(
            "no watermark tells when a partition is complete, or in which order its rows come",
            _ORDER,
        )
    if call.order[0].descending:
        return Refusal(
            "the first row in descending order of event time is the last to come", _ORDER
        )
    reach = reach_of(call)
    return reach if isinstance(reach, Refusal) else None


def _refused(node: Window, refusal: Refusal) -> NotSupportedError:
    return NotSupportedError(
        "OVER and DISTINCT ON over a stream need rows that watermarks complete",
        detail=refusal.detail,
        hint=refusal.hint,
        position=node.position,
    )
