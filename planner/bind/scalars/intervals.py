"""INTERVAL literals: `INTERVAL '1' DAY`, `INTERVAL '1:30' HOUR TO MINUTE`, `INTERVAL '2 days 3
hours'`.

A literal of days and less is a number of µs, a literal of months a number of months, a literal of
both an INTERVAL. The last is added to a time as two intervals.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions.kernels.python_values import Interval
from runnel.expressions.nodes import Literal
from runnel.expressions.time.intervals import interval_of
from runnel.sqltypes import INTERVAL, INTERVAL_MIXED, INTERVAL_MONTH

MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
CLOCK_UNITS = frozenset(MICROSECONDS) - {"DAY", "WEEK"}
"""Units that are not longer where clocks change."""
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200}
MONTHS |= {"MILLENNIUM": 12_000}
_FIELDS = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"]
_SHORT = {
    "MIN": "MINUTE",
    "SEC": "SECOND",
    "MS": "MILLISECOND",
    "US": "MICROSECOND",
    "HR": "HOUR",
    "MON": "MONTH",
}
_SHORT |= {"S": "SECOND", "H": "HOUR", "D": "DAY", "W": "WEEK", "Y": "YEAR", "CENTURIE": "CENTURY"}
_SHORT |= {"MILLENNIA": "MILLENNIUM"}
_LARGEST = 2**63 - 1
_MARK = "\0"
"""Separates the characters of a text that sqlglot must not split: see `whole_interval` in
`planner/parse/query/rules.py`."""
_LONGEST = 1000
_PAIR = re.compile(r"([+-]?[\d.]+)\s*([A-Za-z]+)")
_CLOCK = re.compile(r"(?:^|(?<=\s))([+-]?)(\d+):([0-5]?\d)(?::([0-5]?\d(?:\.\d{1,6})?))?$")


def has_units(text: str, following: str) -> bool:
    """Whether the text of an INTERVAL contains its units, so that no unit follows it."""
    if any(character.isalpha() for character in text):
        return True
    unit = following.removesuffix("S") if len(following) > 2 else following
    unit = _SHORT.get(unit, unit)
    return ":" in text and unit not in MICROSECONDS and unit not in MONTHS


def is_computed(tree: Any) -> bool:
    """Whether the number of an INTERVAL is an expression: INTERVAL (x + 1) DAY."""
    this = tree.this
    while isinstance(this, (exp.Neg, exp.Paren)):
        this = this.this
    return not isinstance(this, exp.Literal)


def as_call(tree: Any, position: Position | None) -> Any:
    """The call that returns an INTERVAL of an expression: TO_DAYS(x + 1)."""
    unit = unit_of(tree.args["unit"].name, position)
    plural = {"CENTURY": "CENTURIES"}.get(unit, f"{unit}S")
    call = exp.Anonymous(this=f"TO_{plural}", expressions=[tree.this.copy()])
    call.meta.update(tree.meta)
    return call


def interval_literals(tree: Any, position: Position | None) -> list[Literal]:
    """An interval literal as the intervals to add to a time one after another: the months, as
    PostgreSQL does, and then the days and less."""
    found = [
        Literal(value=value, type=INTERVAL_MONTH, position=position)
        if is_months
        else Literal(value=timedelta(microseconds=value), type=INTERVAL, position=position)
        for value, is_months in _parts(tree, position)
    ]
    return sorted(found, key=lambda literal: literal.type != INTERVAL_MONTH)


def interval_literal(tree: Any, position: Position | None) -> Literal:
    """An interval literal as one value, of the narrowest type that has it."""
    first, *others = interval_literals(tree, position)
    if not others:
        return first
    micros = others[0].value // timedelta(microseconds=1)
    days = int(micros / MICROSECONDS["DAY"])
    value = Interval(first.value, days, micros - days * MICROSECONDS["DAY"])
    text = _text_of(tree, position)
    if _MARK in text:
        value = interval_of(text.replace(_MARK, "").strip())
    return Literal(value=value, type=INTERVAL_MIXED, position=position)


def calendar_interval(tree: Any, position: Position | None) -> Literal:
    """An interval literal as an INTERVAL of the months, days and time that were typed: of INTERVAL
    '24' HOUR the days are 0."""
    text, unit = _text_of(tree, position), tree.args.get("unit")
    if _MARK in text:
        try:
            value = interval_of(text.replace(_MARK, "").strip())
            return Literal(value=value, type=INTERVAL_MIXED, position=position)
        except pa.ArrowInvalid:
            pass
    totals = {is_months: total for total, is_months in _parts(tree, position)}
    micros, first = totals.get(False, 0), unit.this if isinstance(unit, exp.IntervalSpan) else unit
    is_clock = first is not None and unit_of(first.name, position) in CLOCK_UNITS
    days = 0 if is_clock else int(micros / MICROSECONDS["DAY"])
    value = Interval(totals.get(True, 0), days, micros - days * MICROSECONDS["DAY"])
    return Literal(value=value, type=INTERVAL_MIXED, position=position)


def parse_interval(tree: Any, position: Position | None) -> tuple[int, bool]:
    """The value of an interval literal, and whether it is in months (else in µs)."""
    first, *others = _parts(tree, position)
    if others:
        raise NotSupportedError(
            "an interval of both months and days has no fixed length",
            hint="use days and less, as in INTERVAL '30' DAY",
            position=position,
        )
    return first


def _parts(tree: Any, position: Position | None) -> list[tuple[int, bool]]:
    """The number of months and the number of µs of a literal, or the one that it has; with each,
    whether it is in months."""
    text, unit = _text_of(tree, position), tree.args.get("unit")
    if _MARK in text:
        text = text.replace(_MARK, "").strip()
        values = _marked_parts(text, position)
    elif isinstance(unit, exp.IntervalSpan):
        first, last = (unit_of(item.name, position) for item in (unit.this, unit.expression))
        values = _parse_span(text, first, last, position)
    elif unit is not None:
        values = [_scaled(text, unit_of(unit.name, position), position)]
    else:
        raise NotSupportedError("INTERVAL without a unit", position=position)
    totals: dict[bool, int] = {}
    for value, is_months in values:
        totals[is_months] = totals.get(is_months, 0) + value
    if any(abs(total) > _LARGEST for total in totals.values()):
        raise ProgrammingError(f"interval '{text}' is out of range", position=position)
    return [(total, is_months) for is_months, total in totals.items()]


def _text_of(tree: Any, position: Position | None) -> str:
    this = tree.this
    sign = ""
    while isinstance(this, (exp.Neg, exp.Paren)):
        if isinstance(this, exp.Neg):
            sign = "" if sign else "-"
        this = this.this
    if not isinstance(this, exp.Literal):
        raise NotSupportedError(
            "INTERVAL needs a literal",
            hint="multiply an interval instead: x * INTERVAL '1' DAY",
            position=position,
        )
    return sign + str(this.this).strip()


def unit_of(name: str, position: Position | None) -> str:
    unit = name.upper()
    unit = unit.removesuffix("S") if len(unit) > 2 else unit
    unit = _SHORT.get(unit, unit)
    if unit not in MICROSECONDS and unit not in MONTHS:
        raise ProgrammingError(
            f'unknown interval unit "{name}"', hint="e.g. SECOND, DAY, MONTH", position=position
        )
    return unit


def _number(text: str, position: Position | None) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise ProgrammingError(f"'{text}' is not a number for an interval", position=position)
    return number


def _scaled(text: str, unit: str, position: Position | None) -> tuple[int, bool]:
    number = _number(text, position)
    value = number * (MONTHS[unit] if unit in MONTHS else MICROSECONDS[unit])
    if value != value.to_integral_value():
        smallest = "months" if unit in MONTHS else "microseconds"
        raise ProgrammingError(
            f"interval '{text}' {unit} is not a whole number of {smallest}", position=position
        )
    return int(value), unit in MONTHS


def _parse_span(
    text: str, first: str, last: str, position: Position | None
) -> list[tuple[int, bool]]:
    if first not in _FIELDS or last not in _FIELDS or _FIELDS.index(first) >= _FIELDS.index(last):
        raise ProgrammingError(f"an interval can't go from {first} to {last}", position=position)
    fields = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    sign = -1 if text.startswith("-") else 1
    numbers = re.split(r"[-:\s]+", text.lstrip("+-"))
    if len(numbers) != len(fields):
        raise ProgrammingError(
            f"interval '{text}' has {len(numbers)} fields, {first} TO {last} needs {len(fields)}",
            position=position,
        )
    values = [_scaled(number, unit, position) for number, unit in zip(numbers, fields, strict=True)]
    return [(sign * value, is_months) for value, is_months in values]


def _marked_parts(text: str, position: Position | None) -> list[tuple[int, bool]]:
    """The numbers of a text that contains its units; the error if there is one names the unit."""
    try:
        months, days, micros = interval_of(text)
    except pa.ArrowInvalid:
        return _parse_words(text, position)
    rest = days * MICROSECONDS["DAY"] + micros
    found = [(months, True)] if months else []
    return found + ([(rest, False)] if rest or not months else [])


def _parse_words(text: str, position: Position | None) -> list[tuple[int, bool]]:
    """Parses '1 day 2 hours', '1 day 02:03:04.5' and '3 days ago'."""
    unreadable = ProgrammingError(
        f"can't read interval '{text[:60]}'",
        hint="write it as INTERVAL '1' DAY, or '1 day 02:03:04'",
        position=position,
    )
    if len(text) > _LONGEST:
        raise unreadable
    is_ago = text.lower().endswith(" ago")
    rest = text[:-4].rstrip() if is_ago else text
    values: list[tuple[int, bool]] = []
    clock = _CLOCK.search(rest)
    if clock is not None:
        sign, *numbers = clock.groups()
        sizes = [
            _scaled(number or "0", unit, position)[0]
            for number, unit in zip(numbers, ("HOUR", "MINUTE", "SECOND"), strict=True)
        ]
        values.append((-sum(sizes) if sign == "-" else sum(sizes), False))
        rest = rest[: clock.start()]
    values += [
        _scaled(number, unit_of(unit, position), position) for number, unit in _PAIR.findall(rest)
    ]
    if not values or _PAIR.sub("", rest).strip():
        raise unreadable
    return [(-value if is_ago else value, is_months) for value, is_months in values]
