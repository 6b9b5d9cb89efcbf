"""LIMIT moves towards the scans, so that less is read and computed.

It moves below a projection. A copy of it moves below a UNION ALL, and below a join into the side of
which every row is returned at least once. A scan without a predicate gets the number of rows as a
hint. LIMIT moves past no other node.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.nodes import Expression, Literal
from runnel.planner.estimates import literal_count
from runnel.planner.operators.passes import LIMITS
from runnel.relation.nodes import Limit, Project, Relation, Scan


def push_limits(relation: Relation) -> Relation:
    """The relation with its limits moved down as far as possible."""
    if isinstance(relation, Limit):
        relation = _push(relation)
    inputs = tuple(push_limits(item) for item in relation.inputs)
    if all(new is old for new, old in zip(inputs, relation.inputs, strict=True)):
        return relation
    return relation.with_inputs(inputs)


def _push(node: Limit) -> Relation:
    rule = LIMITS.find(node.input)
    return node if rule is None else rule(node.input, node)


def with_limit(scan: Scan, rows: Expression) -> Scan:
    """The scan with the number of rows that are needed, if that is a number and no predicate drops
    rows."""
    count = literal_count(rows)
    if (
        count is None
        or count < 0
        or scan.predicate is not None
        or (scan.limit is not None and scan.limit <= count)
    ):
        return scan
    return replace(scan, limit=count)


def rows_needed(node: Limit) -> Expression | None:
    """Count plus offset as one literal or parameter; None if that is not possible."""
    if node.offset is None or node.count is None:
        return node.count
    count, offset = literal_count(node.count), literal_count(node.offset)
    if count is None or offset is None or min(count, offset) < 0:
        return None
    return Literal(value=count + offset, type=node.count.type, position=node.count.position)


def limited(relation: Relation, rows: Expression) -> Relation:
    """About the first `rows` rows, as a scan uses the number only as a hint; the relation itself if
    it already has that limit."""
    if isinstance(relation, Project):
        return replace(relation, input=limited(relation.input, rows))
    if isinstance(relation, Limit) and relation.offset is None and relation.count == rows:
        return relation
    if (
        isinstance(relation, Scan)
        and relation.predicate is None
        and literal_count(rows) is not None
    ):
        return with_limit(relation, rows)
    return Limit(input=relation, count=rows, offset=None, position=relation.position)
