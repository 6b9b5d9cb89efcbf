"""EXPLAIN's tree of a plan: for each node a title, and properties by name in the order of reading.

The homes of the nodes register the rules (`planner/operators/passes.py::EXPLAIN`).
"""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.planner.explain.parts import (
    Properties,
)
from runnel.planner.operators.passes import EXPLAIN
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
