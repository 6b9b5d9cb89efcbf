"""What a node of a plan says of itself in EXPLAIN: one title, and its properties by name.

One function per node. A property is a short name and a text; the order is that of reading.
"""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.planner.explain import streams as _streams  # noqa: F401
from runnel.planner.explain.parts import (
    Properties,
)
from runnel.planner.operators.passes import EXPLAIN
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Relation
from runnel.relation.subqueries import (
    CommonRows,
)


@frozen
class Node:
    """A node of a plan as people read it. `rows` is the estimate, None where it isn't known or not
    asked for."""

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


def refreshed_every(node: physical.HashJoin) -> str:
    """How often a join reads its table again, as people read it, after a comma; empty where it
    reads it once."""
    if node.refresh is None:
        return ""
    time = f"{node.refresh} ms" if node.refresh % 1000 else f"{node.refresh // 1000} s"
    return f", refreshed every {time}"
