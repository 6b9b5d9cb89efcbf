"""Conditions are rewritten so that scans, indexes and joins can use them.

`CAST(d AS TIMESTAMP) < TIMESTAMP '1994-01-01 00:00:00'`, as which a comparison of a DATE with DATE
plus INTERVAL is bound, becomes `d < DATE '1994-01-01'`. `(a AND b) OR (a AND c)` becomes
`a AND (b OR c)`, which exposes a join key that occurs in every alternative.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import time

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Call, Cast, Expression, Literal, conjuncts, transform
from runnel.planner.rewriting import conjunction
from runnel.relation.nodes import Relation
from runnel.relation.nodes import transform as transform_relation
from runnel.sqltypes import DATE, Kind

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_WITHIN_DAY = {"lt": "le", "le": "le", "gt": "gt", "ge": "gt"}
"""The comparison of a date with the day of a timestamp that is equivalent to its comparison with
the timestamp, if the timestamp is after midnight."""


def simplify_conditions(relation: Relation) -> Relation:
    """Applies these rewrites to all expressions of the relation."""
    return transform_relation(relation, lambda node: node.map_expressions(_simplified))


def _simplified(expression: Expression) -> Expression:
    return transform(expression, _rewrite)


def _rewrite(node: Expression) -> Expression:
    if isinstance(node, Call):
        if node.function in _MIRRORED:
            return _comparison(node)
        if node.function == "or":
            return _alternatives(node)
    return node


def _comparison(node: Call) -> Expression:
    """Turns the comparison of a date with a constant timestamp into a comparison of dates."""
    left, right = node.arguments
    function = node.function
    if isinstance(left, Literal):
        left, right, function = right, left, _MIRRORED[function]
    if not (
        isinstance(left, Cast)
        and left.operand.type.kind is Kind.DATE
        and left.type.kind is Kind.TIMESTAMP
    ):
        return node
    if (
        not isinstance(right, Literal)
        or right.value is None
        or right.type.kind is not Kind.TIMESTAMP
    ):
        return node
    if right.value.time() != time.min:
        if function not in _WITHIN_DAY:
            return node
        function = _WITHIN_DAY[function]
    day = Literal(value=right.value.date(), type=DATE, position=right.position)
    return replace(node, function=function, arguments=(left.operand, day))


def _alternatives(node: Call) -> Expression:
    """Factors out the conjuncts that all alternatives of an OR have in common."""
    alternatives = [conjuncts(item) for item in node.arguments]
    common = [item for item in alternatives[0] if all(item in other for other in alternatives[1:])]
    if not common or can_fail(node) or is_volatile(node):
        return node
    rests = [conjunction(item for item in items if item not in common) for items in alternatives]
    found = [rest for rest in rests if rest is not None]
    if len(found) == len(rests):
        common.append(replace(node, arguments=tuple(found)))
    shared = conjunction(common)
    assert shared is not None
    return shared
