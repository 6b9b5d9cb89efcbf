"""EXPLAIN's tree of a plan: for each node a title, and properties by name in the order of reading.

The homes of the nodes register the rules (`planner/operators/passes.py::EXPLAIN`; of EXPLAIN
(STATE), which shows the state of each operator and what bounds it, `STATE_TEXTS`).
"""

from __future__ import annotations

from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.planner.explain.parts import Properties
from runnel.planner.operators.passes import EXPLAIN, STATE_TEXTS
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Relation
from runnel.relation.subqueries import CommonRows

NOTHING = "nothing"
WITHOUT_BOUND = "without bound"


@frozen
class Node:
    """A node of a plan as people read it.

    title: the operator's name, with its table or kind.
    properties: the texts after the title, by label.
    rows: the estimated number of rows; None: unknown, or not requested.
    inputs: the nodes below.
    """

    title: str
    properties: Properties
    rows: int | None
    inputs: tuple[Node, ...]


def describe(plan: Relation | Physical) -> Node:
    """The tree of a logical or physical plan; a common table that runs once is written out where it
    comes first."""
    return _described(plan, set())


def _described(plan: Relation | Physical, written: set[int]) -> Node:
    if isinstance(plan, CommonRows):
        title = f"Common table {plan.number}"
        if plan.number in written:
            return Node(f"{title}, as before", {}, None, ())
        written.add(plan.number)
        return Node(title, {}, None, (_described(plan.relation, written),))
    rule = EXPLAIN.find(plan)
    title, properties = (type(plan).__name__, {}) if rule is None else rule(plan)
    known = {name: text for name, text in properties.items() if text}
    rows = plan.rows if isinstance(plan, Physical) else None
    return Node(title, known, rows, tuple(_described(item, written) for item in plan.inputs))


def describe_state(plan: Physical) -> Node:
    """The tree of a physical plan, with the state of each operator as its properties."""
    node = describe(plan)
    rule = STATE_TEXTS.find(plan)
    properties = {"keeps": NOTHING if rule is None else rule(plan)}
    in_memory = _buffered_in_memory(plan)
    if in_memory is not None:
        properties["must fit in memory"] = in_memory
    return replace(
        node,
        properties=properties,
        rows=None,
        inputs=tuple(describe_state(item) for item in plan.inputs),
    )


def _buffered_in_memory(node: Physical) -> str | None:
    """The state of an operator on a stream that is never spilled to files, and must fit in
    memory_limit; None if all its state can be spilled."""
    if (
        isinstance(node, physical_streams.EventTimeAggregate)
        and node.lateness
        and any(call.distinct for call in node.aggregates)
    ):
        return "all, because emitted results may change"
    if isinstance(node, physical_streams.EventTimeWindow) and node.reaches:
        return "rows after the watermark"
    return None
