"""The choice of operators for OVER and ORDER BY on streams: one, or several in a chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from runnel.planner.estimates import estimate
from runnel.planner.event_time.bounds import time_bounds
from runnel.planner.event_time.over_streams import (
    WindowStage,
    call_positions,
    sort_bound,
    stages_of,
)
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.late_rows import passing_late, with_late_filter
from runnel.planner.physical.nodes import Physical
from runnel.planner.physical.stream_aggregates import late_rows
from runnel.relation.nodes import Sort, references
from runnel.relation.over import Window

_Waiting = TypeVar("_Waiting", physical_streams.EventTimeWindow, physical_streams.EventTimeSort)

ChooseOne = Callable[[Window, Physical | None], physical.PhysicalWindow]
"""Chooses the operator for a window over a table, given the operator of its input (None: it is
still to be chosen)."""


def choose_event_time_window(node: Window, choose: ChooseOne) -> Physical:
    """The operators for a window on a stream, which `event_time.refusals` has accepted."""
    stages = stages_of(node, time_bounds(node.input)) or []
    if len(stages) == 1:
        return _taking_late(_stage(node, stages[0], choose, None), late_rows(node.emission))
    below: Physical | None = None
    made = Window(input=node.input, calls=(), names=())
    for stage in stages:
        calls = tuple(node.calls[position] for position in stage.calls)
        made = Window(
            input=made if made.calls else node.input,
            calls=calls,
            names=tuple(node.names[i] for i in stage.calls),
        )
        # Rows are late only for the first stage; rows that it emits are in time for the next.
        late = late_rows(node.emission) if below is None else None
        below = _taking_late(_stage(made, stage, choose, below), late)
    assert below is not None
    width = len(node.input.fields)
    columns = references(made.fields)
    order = [
        columns[index] for index in (*range(width), *(width + at for at in call_positions(stages)))
    ]
    return physical.Calc(
        fields=node.fields, rows=estimate(node), input=below, projections=tuple(order)
    )


def _stage(
    node: Window, stage: WindowStage, choose: ChooseOne, below: Physical | None
) -> physical_streams.EventTimeWindow:
    window = choose(node, below)
    return physical_streams.EventTimeWindow(
        fields=window.fields,
        rows=window.rows,
        input=window.input,
        calls=window.calls,
        width=window.width,
        keys=window.keys,
        bounded=stage.bounded,
        reaches=stage.reaches,
    )


def choose_event_time_sort(node: Sort, below: Physical) -> Physical:
    """The operator for ORDER BY on a stream, which `event_time.check` has accepted."""
    bound = sort_bound(node, time_bounds(node.input))
    assert bound is not None
    chosen = physical_streams.EventTimeSort(
        fields=node.fields, rows=estimate(node), input=below, keys=node.keys, bound=bound
    )
    return _taking_late(chosen, late_rows(node.emission))


def _taking_late(node: _Waiting, late: physical.LateOutput | None) -> _Waiting:
    """The operator with an output for its late rows, and for late rows of a session below."""
    if late is None:
        return node
    if isinstance(node, physical_streams.EventTimeSort):
        bounded = ((node.keys[0].expression, node.bound),)
    elif node.reaches and node.calls[0].order[0].nulls_first:
        # Rows without a time may also be late: only the window finds them.
        return replace(node, late=late, input=passing_late(node.input))
    else:
        bounded = node.bounded
    return replace(node, late=late, input=with_late_filter(node.input, bounded, late))
