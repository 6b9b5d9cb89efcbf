"""EXPLAIN of a live query: whether each operator emits rows that only appear, or changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.planner.explain.nodes import Node
from runnel.planner.physical.nodes import Physical
from runnel.relation.live import WEIGHT
from runnel.relation.nodes import Relation

APPENDED, CHANGES = "appended rows", "changes"


def with_change_kinds(plan: Relation | Physical, node: Node) -> Node:
    """The description of a plan with the kind of the rows that each operator emits.

    plan: a plan whose root is a change stream, or a plan below one.
    """
    fields = plan.fields
    kind = CHANGES if fields and fields[-1].name == WEIGHT else APPENDED
    below: Sequence[Relation | Physical] = plan.inputs
    inputs = tuple(
        with_change_kinds(item, described)
        for item, described in zip(below, node.inputs, strict=False)
    )
    return replace(node, properties={"emits": kind, **node.properties}, inputs=inputs)
