"""EXPLAIN (STATE): what each operator of a physical plan keeps, and what bounds it."""

from __future__ import annotations

from dataclasses import replace

from runnel.planner.explain.nodes import Node, describe
from runnel.planner.operators.passes import STATE_TEXTS
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical

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
