"""NOW() and similar functions in unbounded queries: they return the time of the statement, however
long it runs. And windows of instants, which do not begin at midnight of the session's zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Call, Cast, Expression
from runnel.expressions.nodes import walk as expressions_in
from runnel.relation.nodes import Relation, walk
from runnel.relation.streams import AssignWindows, WindowKind
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


_HOUR = timedelta(hours=1)
_SEASONS = (datetime(2026, 1, 1), datetime(2026, 7, 1))
"""Days in winter and summer, whose offsets from UTC may differ."""


def window_zone_notice(relation: Relation, zone: str) -> str:
    """The notice for windows over instants that would begin at other times if they were aligned in
    the zone of the session; "" for none.

    In Asia/Tokyo a window of a day begins at 9:00, which is midnight of UTC; a window of an hour
    begins at the same times in both zones.
    """
    if zone == "UTC":
        return ""
    offsets = [season.replace(tzinfo=ZoneInfo(zone)).utcoffset() for season in _SEASONS]
    for node in walk(relation):
        if not isinstance(node, AssignWindows) or node.time.type.kind is not Kind.TIMESTAMP_TZ:
            continue
        shape = node.shape
        if shape.kind is WindowKind.SESSION or shape.offset:
            continue
        period = timedelta(microseconds=shape.step if shape.kind is WindowKind.HOP else shape.size)
        other = next((item for item in offsets if item is not None and item % period), None)
        if other is not None:
            january, july = (f"'{-(item or timedelta()) / _HOUR:g}'" for item in offsets)
            varies = "" if january == july else f", and {july} in summer"
            return (
                f"the windows of {node.time.name} begin at midnight of UTC, not of {zone}: add the "
                f"offset INTERVAL {january} HOUR after the size{varies}"
            )
    return ""


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
