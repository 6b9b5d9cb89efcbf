"""NOW() and similar functions in unbounded queries: they return the time of the statement, however
long it runs."""

from __future__ import annotations

from collections.abc import Iterator

from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Call, Cast, Expression
from runnel.expressions.nodes import walk as expressions_in
from runnel.relation.nodes import Relation, walk
from runnel.sqltypes import Kind

_NAMES = {
    "now": "NOW() (CURRENT_TIMESTAMP)",
    "localtimestamp": "LOCALTIMESTAMP",
    "current_date": "CURRENT_DATE",
    "current_time": "CURRENT_TIME",
}


def check_no_statement_time(
    relation: Relation, where: str = "a job over a stream", start: str = "CREATE JOB"
) -> None:
    """Raises NotSupportedError if a continuous query uses the statement's time.

    where, start: the kind of query, and the name of its start, for the message.
    """
    for name, found in _uses(relation):
        raise NotSupportedError(
            f"{name} is not supported in {where}",
            detail=(
                "it is the time of the statement: for all rows, also after a restart, "
                f"it would be the time of {start}"
            ),
            hint=(
                "compare with the event time of the rows, for example by windows or a join within "
                "time bounds; write a fixed time as a literal, or pass it as an argument"
            ),
            position=found.position,
        )


def statement_time_notice(relation: Relation) -> str:
    """The notice for an unbounded query that uses the statement's time; "" for other queries."""
    names = dict.fromkeys(name for name, _ in _uses(relation))
    return (
        f"{', '.join(names)}: the time at which the statement started, for all rows"
        if names
        else ""
    )


def _uses(relation: Relation) -> Iterator[tuple[str, Expression]]:
    """The expressions that return the statement's time or depend on its date, each with a name."""
    for node in walk(relation):
        for item in node.own_expressions:
            for found in expressions_in(item):
                if isinstance(found, Call) and found.function in _NAMES:
                    yield _NAMES[found.function], found
                elif (
                    isinstance(found, Call)
                    and found.function == "age"
                    and len(found.arguments) == 1
                ):
                    yield "AGE of one argument, which counts from CURRENT_DATE,", found
                elif isinstance(found, Cast) and _adds_date(found):
                    yield (
                        f"CAST of {found.operand.type} to {found.type}, which adds CURRENT_DATE,",
                        found,
                    )


def _adds_date(cast: Cast) -> bool:
    return cast.operand.type.kind is Kind.TIME and cast.type.kind in (
        Kind.TIMESTAMP,
        Kind.TIMESTAMP_TZ,
    )
