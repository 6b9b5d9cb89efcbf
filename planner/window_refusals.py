"""What OVER can't do on streams, and what can be done instead."""

from __future__ import annotations

from runnel.errors import NotSupportedError
from runnel.planner.event_time import time_bounds
from runnel.planner.window_times import stages_of
from runnel.windows import Window


def check_window(node: Window) -> None:
    """NotSupportedError where a call on a stream would never be known."""
    bounds = time_bounds(node.input)
    if stages_of(node, bounds) is not None:
        return
    raise NotSupportedError(
        "OVER and DISTINCT ON over a stream need a watermark that tells when their rows are complete",
        detail="an input of this query has no end, so no partition would ever be complete",
        hint="PARTITION BY window_start or window_end of TUMBLE, HOP, CUMULATE or SESSION as well"
        if bounds
        else "add WATERMARK FOR to the mapping, and PARTITION BY window_end of TABLE(TUMBLE(…)) as well",
        position=node.position,
    )
