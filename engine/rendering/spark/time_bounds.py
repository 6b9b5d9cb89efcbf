"""Conditions on two event times of a join, in Spark's SQL and over its marked columns: by these it
knows which rows may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runnel.expressions.nodes import Call, Column, Expression, Literal
from runnel.sqltypes import Kind

_COMPARISONS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "eq": "="}


def time_bound(
    condition: Expression, columns: Sequence[str], times: Mapping[str, str]
) -> str | None:
    """The comparison of two event times, each with a constant interval added or not; None where it
    is something else. `times` has the marked columns by the texts of `columns`. A time out of range
    by its interval is no error here."""
    if not isinstance(condition, Call) or condition.function not in _COMPARISONS:
        return None
    sides = [_moved(item, columns, times) for item in condition.arguments]
    if None in sides:
        return None
    return f"{sides[0]} {_COMPARISONS[condition.function]} {sides[1]}"


def _moved(side: Expression, columns: Sequence[str], times: Mapping[str, str]) -> str | None:
    if isinstance(side, Column):
        return times.get(columns[side.index])
    if (
        not isinstance(side, Call)
        or side.function not in ("add", "subtract")
        or len(side.arguments) != 2
    ):
        return None
    time, span = side.arguments
    if (
        not isinstance(time, Column)
        or not isinstance(span, Literal)
        or span.type.kind is not Kind.INTERVAL
    ):
        return None
    marked, microseconds = times.get(columns[time.index]), _microseconds(span.value)
    if marked is None or microseconds is None:
        return None
    sign = "+" if side.function == "add" else "-"
    return f"{marked} {sign} {_interval(microseconds)}"


def _interval(microseconds: int) -> str:
    """A literal, as Spark looks through no function."""
    seconds, rest = divmod(microseconds, 10**6)
    days, seconds = divmod(seconds, 86_400)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"INTERVAL '{days} {hours:02}:{minutes:02}:{seconds % 60:02}.{rest:06}' DAY TO SECOND"


def _microseconds(value: object) -> int | None:
    """The span of a literal; None for what isn't one of at least 0."""
    from datetime import timedelta

    number = value // timedelta(microseconds=1) if isinstance(value, timedelta) else value
    return number if isinstance(number, int) and 0 <= number < 10**15 else None
