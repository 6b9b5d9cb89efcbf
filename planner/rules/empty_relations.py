"""A relation that is certainly empty becomes an empty VALUES, and so do relations that depend on
it.

Only where it is certain whatever the data: a false condition, LIMIT 0, an inner join with an empty
side.
"""

from __future__ import annotations

from runnel.planner.operators.passes import EMPTY
from runnel.relation.nodes import (
    Relation,
    Single,
    Values,
    transform,
)


def prune_empty(relation: Relation) -> Relation:
    """The relation without subtrees that never return a row."""
    return transform(relation, _prune)


def is_empty(relation: Relation) -> bool:
    return isinstance(relation, Values) and not relation.rows


def emptied(node: Relation) -> Relation:
    return Values(rows=(), columns=node.fields, position=node.position)


def _prune(node: Relation) -> Relation:
    rule = EMPTY.find(node)
    return node if rule is None else rule(node)


def empty_if_input_is(node: Single) -> Relation:
    """For a node that returns no rows if its input has none."""
    return emptied(node) if is_empty(node.input) else node
