"""The hint for a query over a stream that is refused, but whose changes can be emitted."""

from __future__ import annotations

from runnel.errors import NotSupportedError
from runnel.planner.event_time.check import check_streaming
from runnel.planner.live.maintenance import change_stream
from runnel.planner.parse.syntax import ChangesClause, Query
from runnel.relation.nodes import Relation


def has_changes(relation: Relation, statement: Query) -> bool:
    """Whether EMIT CHANGES of a query is supported. `relation`: the query after the rules."""
    try:
        clause = ChangesClause(statement.position)
        changes = change_stream(relation, relation.fields, clause)[0]
        check_streaming(changes, statement.unbounded_state)
    except NotSupportedError:
        return False
    return True


def suggest_changes(error: NotSupportedError, statement: Query, relation: Relation) -> None:
    """Adds the statement with EMIT CHANGES to the hint of the error, if that is supported.

    relation: the relation after the rules.
    """
    if statement.changes is not None or statement.emission is not None:
        return
    if not has_changes(relation, statement):
        return
    text = statement.text.strip().rstrip(";").rstrip()
    live = f"ask for the changes of the result: {text} EMIT CHANGES"
    error.hint = live if not error.hint else f"{live}; or {error.hint}"
