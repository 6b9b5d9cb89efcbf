"""The hint `SELECT /*+ STATE(name) */ …` names the state of a SELECT in a job, so that a changed
query of the job finds the state by its name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from runnel.errors import ProgrammingError
from runnel.planner.operators.passes import STATE_NAMES
from runnel.planner.parse.query.allow_list import position_of
from runnel.relation.nodes import Relation

_HINT = re.compile(r"\+\s*STATE\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"\(\s*([A-Za-z_]\w*)\s*\)\s*")


def with_state_name(relation: Relation, tree: Any, sql: str) -> Relation:
    """Sets the state name in the nodes of a SELECT that have state: the name in the SELECT's hint,
    or "" without a hint. Nodes of nested SELECTs already have a name."""
    return _named(relation, _name_of(tree, sql) or "")


def _named(node: Relation, name: str) -> Relation:
    inputs = tuple(_named(item, name) for item in node.inputs)
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        node = node.with_inputs(inputs)
    return replace(node, state_name=name) if node.state_name is None and _has_state(node) else node


def _name_of(tree: Any, sql: str) -> str | None:
    found = [
        match.group(1)
        for comment in tree.comments or ()
        if (match := _HINT.fullmatch(comment.rstrip()))
    ]
    if not found:
        return None
    name = _NAME.fullmatch(found[0] + " ")
    if name is None or len(found) > 1:
        raise ProgrammingError(
            "the hint STATE has one name",
            hint="write SELECT /*+ STATE(counts) */ …",
            position=position_of(tree, sql),
        )
    return name.group(1).lower()


def _has_state(node: Relation) -> bool:
    rule = STATE_NAMES.find(node)
    return rule is not None and rule(node)
