"""From the relation of a query to the relation that emits its changes.

It runs after the rules, on the whole tree. Each node becomes a node that maintains its result
(`planner/operators/passes.py::MAINTENANCE`). Rows that only appear have no further column, so a
query without an aggregation is the plan that it always was, under one more operator.
"""

from __future__ import annotations

from runnel.planner.live.changing_tables import with_changing_tables
from runnel.planner.live.maintained import Maintained, stays
from runnel.planner.operators.passes import MAINTENANCE
from runnel.planner.parse.syntax import ChangesClause
from runnel.planner.statement_time import check_no_statement_time
from runnel.relation.live import CHANGE_COLUMNS, ChangeStream
from runnel.relation.nodes import Field, Relation

EPOCH_MILLIS = 20
"""Default of the option 'epochMillis': minimum time between the ends of two epochs."""


def maintained(relation: Relation) -> Maintained:
    """The relation that maintains the result of `relation`. NotSupportedError for a node that can't
    be maintained."""
    rule = MAINTENANCE.find(relation)
    return stays(relation, maintained) if rule is None else rule(relation, maintained)


def change_stream(
    relation: Relation, fields: tuple[Field, ...], clause: ChangesClause
) -> tuple[Relation, tuple[Field, ...]]:
    """The changes of a query, and the fields of the result.

    relation, fields: the query after the rules, and its fields before them.
    """
    relation = with_changing_tables(relation, clause.poll_millis)
    if relation.is_unbounded:
        check_no_statement_time(relation, "EMIT CHANGES over a stream", "its start")
    found = maintained(relation)
    millis = EPOCH_MILLIS if clause.epoch_millis is None else clause.epoch_millis
    changes = ChangeStream(
        input=found.relation,
        is_changing=found.is_changing,
        unique=found.unique,
        distance=millis * 1_000_000,
        position=clause.position,
    )
    return changes, (*CHANGE_COLUMNS, *fields)
