"""EXPLAIN (STATE): what each operator of a physical plan keeps, and what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.planner.explain.nodes import Node, describe
from runnel.planner.explain.parts import time_span
from runnel.planner.operators.passes import STATE_TEXTS
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Field
from runnel.relation.stream_joins import BufferedSide
from runnel.sqltypes import SqlType

NOTHING = "nothing"
FOR_EVER = "for ever"


def describe_state(plan: Physical) -> Node:
    """The tree of a physical plan with the state of each operator instead of how it works."""
    node = describe(plan)
    rule = STATE_TEXTS.find(plan)
    properties = {"keeps": NOTHING if rule is None else rule(plan)}
    held = _buffered_in_memory(plan)
    if held is not None:
        properties["must fit in memory"] = held
    return replace(
        node,
        properties=properties,
        rows=None,
        inputs=tuple(describe_state(item) for item in plan.inputs),
    )


def _buffered_in_memory(node: Physical) -> str | None:
    """What of an operator on a stream stays in memory, where memory_limit has no room for it; all
    else goes to files."""
    if (
        isinstance(node, physical_streams.EventTimeAggregate)
        and node.lateness
        and any(call.distinct for call in node.aggregates)
    ):
        return "all, since what was given may change"
    if isinstance(node, physical_streams.EventTimeWindow) and node.reaches:
        return "rows behind the watermark"
    return None


def keeps(node: Physical) -> bool:
    """Whether an operator keeps anything."""
    rule = STATE_TEXTS.find(node)
    return rule is not None and rule(node) != NOTHING


def _interval_join(node: physical_streams.IntervalJoin) -> str:
    left = _waiting("left", node.times.left, node.left.fields, node.right.fields)
    return f"{left}; {_waiting('right', node.times.right, node.right.fields, node.left.fields)}"


def _waiting(name: str, side: BufferedSide, own: Sequence[Field], other: Sequence[Field]) -> str:
    if side.watermark is None:
        return f"{name} rows {FOR_EVER}"
    ends = [
        f"{own[column].name}{_moved(offset, own[column].type)}" for column, offset in side.expiry
    ]
    return f"{name} rows until the other side's watermark is past {' or '.join(ends)}"


def _moved(units: int, time: SqlType) -> str:
    return "" if not units else f" {'+' if units > 0 else '-'} {time_span(abs(units), time)}"


def _window_join(node: physical_streams.WindowJoin) -> str:
    link = node.times.time_bounds
    left, right = node.left.fields[link.left].name, node.right.fields[link.right].name
    return (
        "the rows of both sides until both watermarks are past their "
        f"{left if left == right else f'{left} and {right}'}"
    )


def _as_of_join(node: physical_streams.PhysicalAsOfJoin) -> str:
    if node.shape.version is None:
        return "all rows of the right side"
    versions = "the versions of each key from the last one before the left watermark on"
    if node.shape.due is None:
        versions = f"all versions, {FOR_EVER}"
    return f"left rows until the versions' watermark is past {node.left_time}; {versions}"


STATE_TEXTS.add_all(
    {
        physical_streams.IntervalJoin: _interval_join,
        physical_streams.WindowJoin: _window_join,
        physical_streams.PhysicalAsOfJoin: _as_of_join,
    }
)
