"""STRFTIME and STRPTIME: dates and timestamps in the forms of C, with the specifiers of DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import cast
from runnel.expressions.function import Bound, Function, always_may_fail
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Call, Expression, Literal, elements
from runnel.expressions.signature import signature
from runnel.expressions.to_char.patterns import DAYS, MONTHS
from runnel.sqltypes import TIMESTAMP, TIMESTAMP_TZ, VARCHAR, Kind

_SPECIFIER = re.compile(r"%(-?)(.?)", re.DOTALL)
_KNOWN = "%a %A %b %B %c %d %f %g %G %H %I %j %m %M %n %p %S %u %U %V %w %W %x %X %y %Y %z %Z %%"


def _weekday(value: datetime) -> str:
    return DAYS[value.isoweekday() % 7].capitalize()


def _month(value: datetime) -> str:
    return MONTHS[value.month - 1].capitalize()


def _day_of_year(value: datetime) -> int:
    return value.timetuple().tm_yday


def _week(value: datetime, first: int) -> int:
    """The week of the year; weeks begin on the weekday `first`, Monday being 0."""
    return (_day_of_year(value) + 6 - (value.weekday() - first) % 7) // 7


_FIELDS: dict[str, tuple[int, Callable[[datetime], Any]]] = {
    "a": (0, lambda value: _weekday(value)[:3]),
    "A": (0, _weekday),
    "b": (0, lambda value: _month(value)[:3]),
    "h": (0, lambda value: _month(value)[:3]),
    "B": (0, _month),
    "c": (0, lambda value: _strftime(value, "%Y-%m-%d %H:%M:%S")),
    "x": (0, lambda value: _strftime(value, "%Y-%m-%d")),
    "X": (0, lambda value: _strftime(value, "%H:%M:%S")),
    "d": (2, lambda value: value.day),
    "f": (6, lambda value: value.microsecond),
    "g": (3, lambda value: value.microsecond // 1000),
    "n": (9, lambda value: value.microsecond * 1000),
    "G": (4, lambda value: value.isocalendar()[0]),
    "H": (2, lambda value: value.hour),
    "I": (2, lambda value: value.hour % 12 or 12),
    "j": (3, _day_of_year),
    "m": (2, lambda value: value.month),
    "M": (2, lambda value: value.minute),
    "p": (0, lambda value: "AM" if value.hour < 12 else "PM"),
    "S": (2, lambda value: value.second),
    "u": (1, lambda value: value.isoweekday()),
    "w": (1, lambda value: value.isoweekday() % 7),
    "U": (2, lambda value: _week(value, 6)),
    "W": (2, lambda value: _week(value, 0)),
    "V": (2, lambda value: value.isocalendar()[1]),
    "y": (2, lambda value: value.year % 100),
    "Y": (4, lambda value: value.year),
    "%": (0, lambda value: "%"),
}
"""The number of digits of each field, 0 for a text, and its value."""


def _strftime(value: datetime, pattern: str, zone: str = "+00 ") -> str:
    """The text of a local time; `zone`: the offset of its zone from UTC, a blank, and its name."""

    def field(match: re.Match[str]) -> str:
        if match[2] in ("z", "Z"):
            return zone.partition(" ")[0 if match[2] == "z" else 2]
        found = _FIELDS.get(match[2])
        if found is None:
            raise DataError(f"STRFTIME doesn't know '{match[0]}'", hint=f"it knows {_KNOWN}")
        digits, read = found
        return str(read(value)).zfill(0 if match[1] else digits)

    return _SPECIFIER.sub(field, pattern)


def _bind_format(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """The pattern may also be the first argument, as in DuckDB."""
    if len(arguments) == 2 and arguments[0].type.kind is Kind.VARCHAR:
        second = arguments[1].type.kind
        if second in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
            arguments = arguments[::-1]
    if len(arguments) == 2 and arguments[0].type.kind is Kind.TIMESTAMP_TZ:
        _check_literal(arguments[1], position)
        instant, pattern = arguments
        arguments = (cast(instant, TIMESTAMP, position), pattern)
        if isinstance(pattern, Literal) and re.search("%-?[zZ]", str(pattern.value)):
            offset = Literal(value="OF TZ", type=VARCHAR)
            shown = Call(function="to_char", arguments=(instant, offset), type=VARCHAR)
            with_offset = signature(TIMESTAMP, VARCHAR, VARCHAR, result=VARCHAR)
            return with_offset(name, (*arguments, shown), position)
    return signature(TIMESTAMP, VARCHAR, result=VARCHAR)(name, arguments, position)


def _check_literal(pattern: Expression, position: Position | None) -> None:
    """ProgrammingError for a pattern of an instant that is no literal: its fields are not known
    when the call is bound."""
    if isinstance(pattern, Literal):
        return
    raise ProgrammingError(
        "STRFTIME of a TIMESTAMP WITH TIME ZONE needs a literal pattern",
        hint="convert the instant to a TIMESTAMP: strftime(ts AT TIME ZONE 'UTC', pattern)",
        position=pattern.position or position,
    )


_READABLE = frozenset("aAbBdfHIjmMpSyYzZ%GuVwUW")


def _strptime(text: str, *patterns: str) -> datetime:
    for pattern in patterns:
        found = _parsed(text, pattern)
        if found is not None:
            if found.tzinfo is not None:
                return found.astimezone(UTC)
            # A text without an offset is in UTC if another pattern has an offset.
            is_zoned = any("%z" in item for item in patterns)
            return found.replace(tzinfo=UTC) if is_zoned else found
    raise DataError(
        f"the text '{text[:60]}' doesn't match the pattern '{patterns[0][:60]}'"
        + (f", nor {len(patterns) - 1} more" if patterns[1:] else ""),
        hint="TRY_STRPTIME returns NULL for such a text",
    )


def _try_strptime(text: str, *patterns: str) -> datetime | None:
    try:
        return _strptime(text, *patterns)
    except DataError:
        for pattern in patterns:
            _standard(pattern)  # an error of the pattern is an error of the statement
        return None


def _standard(pattern: str) -> str:
    """The pattern with the specifiers that Python reads."""

    def field(match: re.Match[str]) -> str:
        written = {"c": "%Y-%m-%d %H:%M:%S", "x": "%Y-%m-%d", "X": "%H:%M:%S", "h": "%b"}.get(
            match[2]
        )
        if written is not None:
            return written
        if match[2] == "g":
            return "%f"
        if match[2] not in _READABLE:
            raise DataError(f"STRPTIME doesn't know '{match[0]}'", hint=f"it knows {_KNOWN}")
        return f"%{match[2]}"

    return _SPECIFIER.sub(field, pattern)


def _parsed(text: str, pattern: str) -> datetime | None:
    try:
        return datetime.strptime(text.strip(), _standard(pattern).strip())
    except (ValueError, OverflowError):
        return None


def _bind_parse(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """The pattern is one text, or an array of them that are tried in order."""
    if len(arguments) != 2:
        return signature(VARCHAR, VARCHAR, result=TIMESTAMP)(name, arguments, position)
    patterns: tuple[Expression, ...] = (arguments[1],)
    if arguments[1].type.kind is Kind.ARRAY:
        patterns = elements(arguments[1]) or ()
        if not patterns:
            raise ProgrammingError(
                f"the list of patterns of {name.upper()} must be written out, with at least one",
                hint="write ['%Y-%m-%d', '%d.%m.%Y']",
                position=arguments[1].position or position,
            )
    is_zoned = any(isinstance(item, Literal) and "%z" in str(item.value) for item in patterns)
    result = TIMESTAMP_TZ if is_zoned else TIMESTAMP
    bind = signature(*[VARCHAR] * (1 + len(patterns)), result=result)
    return bind(name, (arguments[0], *patterns), position)


def _function(name: str, arguments: str, result: str, bind: Any, run: Any) -> Function:
    return Function(
        name=name,
        arguments=arguments,
        result=result,
        bind=bind,
        compile=per_value(run),
        sql_names=(name.upper(),),
        can_fail=always_may_fail,
        family="date-time",
    )


_PATTERN = "s VARCHAR, pattern VARCHAR or VARCHAR[]"
_PARSED = "TIMESTAMP; WITH TIME ZONE if the pattern has %z"
FUNCTIONS = (
    _function(
        "strftime", "x DATE or TIMESTAMP, pattern VARCHAR", "VARCHAR", _bind_format, _strftime
    ),
    _function("strptime", _PATTERN, _PARSED, _bind_parse, _strptime),
    _function("try_strptime", _PATTERN, _PARSED, _bind_parse, _try_strptime),
)
