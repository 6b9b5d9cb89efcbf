"""The checks of a query over an unbounded input: what it may do, and the errors for the rest.

They run on the tree after the rules, when the sides of joins are fixed: the right side of a join is
read to its end first. A LIMIT ends its input, so any operator is allowed above it.
"""

from __future__ import annotations

from runnel.planner.event_time.joins import check_join
from runnel.planner.operators.passes import STREAM_CHECKS
from runnel.relation.nodes import Join, Relation
from runnel.relation.streams import AsOfJoin


def check_streaming(relation: Relation, unbounded_state: bool = False) -> None:
    """Raises NotSupportedError, with position and remedy, if a query would wait for the end of an
    unbounded input, or would need unbounded state without being allowed to (`unbounded_state`)."""
    for item in relation.inputs:
        check_streaming(item, unbounded_state)
    rule = STREAM_CHECKS.find(relation)
    if rule is not None:
        rule(relation, unbounded_state)


def check_stream_join(node: Join | AsOfJoin, unbounded_state: bool) -> None:
    if node.is_unbounded:
        check_join(node, unbounded_state)
