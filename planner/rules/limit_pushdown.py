"""LIMIT moves towards the scans, so that less is read and computed.

It passes a projection; in front of a UNION ALL, and of the preserved side of a join that gives every row at least once, a
copy of it goes below; a scan without a predicate is told how many rows are needed. Past anything else it may not go.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.nodes import Expression, Literal
from runnel.relation import MARKS, Join, JoinKind, Limit, Project, Relation, Scan, Union

_KEEPS_EVERY_LEFT_ROW = (JoinKind.LEFT, *MARKS)


def push_limits(relation: Relation) -> Relation:
    """The relation with its limits as far down as they may stand."""
    if isinstance(relation, Limit):
        relation = _push(relation)
    inputs = tuple(push_limits(item) for item in relation.inputs)
    if all(new is old for new, old in zip(inputs, relation.inputs, strict=True)):
        return relation
    return relation.with_inputs(inputs)


def _push(node: Limit) -> Relation:
    below = node.input
    if isinstance(below, Project):
        return replace(below, input=replace(node, input=below.input))
    rows = _rows_needed(node)
    if rows is None:
        return node
    if isinstance(below, Union):
        return replace(node, input=replace(below, parts=tuple(_limited(part, rows) for part in below.parts)))
    if isinstance(below, Join) and below.kind in _KEEPS_EVERY_LEFT_ROW:
        return replace(node, input=replace(below, left=_limited(below.left, rows)))
    if isinstance(below, Scan) and below.predicate is None and isinstance(rows, Literal):
        limit = rows.value if below.limit is None else min(below.limit, rows.value)
        return node if limit == below.limit else replace(node, input=replace(below, limit=limit))
    return node


def _rows_needed(node: Limit) -> Expression | None:
    """Count plus offset, if it is one literal or parameter."""
    if node.offset is None or node.count is None:
        return node.count
    if not isinstance(node.offset, Literal) or not isinstance(node.count, Literal):
        return None
    if not isinstance(node.offset.value, int) or not isinstance(node.count.value, int):
        return None
    return replace(node.count, value=node.count.value + node.offset.value)


def _limited(relation: Relation, rows: Expression) -> Relation:
    """About the first `rows` rows (a scan takes the number as advice); itself where it has that limit already."""
    if isinstance(relation, Project):
        return replace(relation, input=_limited(relation.input, rows))
    if isinstance(relation, Limit) and relation.offset is None and relation.count == rows:
        return relation
    if isinstance(relation, Scan) and relation.predicate is None and isinstance(rows, Literal):
        limit = rows.value if relation.limit is None else min(relation.limit, rows.value)
        return relation if limit == relation.limit else replace(relation, limit=limit)
    return Limit(input=relation, count=rows, offset=None, position=relation.position)
