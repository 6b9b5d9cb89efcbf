"""Intervals as text and back: 'D days HH:MM:SS.ffffff' and 'Y years M mons', as PostgreSQL writes
them.

Formatting uses Arrow's kernels. Parsing is in Python, once per distinct text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.expressions.kernels.buffers import DAY_US, pack, pack_scalar
from runnel.expressions.kernels.python_values import Interval
from runnel.sqltypes import BIGINT, INTERVAL, INTERVAL_MIXED, INTERVAL_MONTH, VARCHAR, SqlType

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000
SECOND_US = 1_000_000
UNIT_US = {
    "day": DAY_US,
    "hour": HOUR_US,
    "minute": MINUTE_US,
    "second": SECOND_US,
    "millisecond": 1000,
    "microsecond": 1,
}
"""Units of fixed length, in µs."""
UNIT_US["week"] = 7 * DAY_US
UNIT_MONTHS = {
    "month": 1,
    "quarter": 3,
    "year": 12,
    "decade": 120,
    "century": 1200,
    "millennium": 12000,
}
"""Units of whole months, in months."""

_EMPTY = pack_scalar("", VARCHAR)
_ZERO = pack_scalar(0, BIGINT)
_AMOUNT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_CLOCK = re.compile(r"([+-])?(\d+):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?$")


def format_durations(array: pa.Array) -> pa.Array:
    """Intervals of days and time as text."""
    total = pc.cast(array, pa.int64())
    negative = pc.less(total, _ZERO)
    sign = pc.if_else(negative, pack_scalar("-", VARCHAR), _EMPTY)
    size = pc.abs(total)
    days, rest = _split(size, DAY_US)
    days_text = _counted(days, sign, "day")
    hours, rest = _split(rest, HOUR_US)
    minutes, rest = _split(rest, MINUTE_US)
    seconds, micros = _split(rest, SECOND_US)
    clock = pc.binary_join_element_wise(
        *(_two(item) for item in (hours, minutes, seconds)), pack_scalar(":", VARCHAR)
    )
    fraction = pc.utf8_rtrim(pc.utf8_lpad(pc.cast(micros, pa.string()), 6, "0"), "0")
    fraction = pc.replace_substring_regex(fraction, "^(.+)$", r".\1")
    clock = pc.binary_join_element_wise(sign, clock, fraction, _EMPTY)
    only_days = pc.and_(
        pc.equal(pc.multiply(days, pack_scalar(DAY_US, BIGINT)), size), pc.greater(days, _ZERO)
    )
    clock = pc.if_else(only_days, _EMPTY, clock)
    return pc.utf8_trim(
        pc.binary_join_element_wise(days_text, clock, pack_scalar(" ", VARCHAR)), " "
    )


def format_months(array: pa.Array) -> pa.Array:
    """Intervals of months as text."""
    total = pc.cast(array, pa.int64())
    negative = pc.less(total, _ZERO)
    sign = pc.if_else(negative, pack_scalar("-", VARCHAR), _EMPTY)
    years, months = _split(pc.abs(total), 12)
    texts_of_units = (_counted(years, sign, "year"), _counted(months, sign, "mon"))
    text = pc.utf8_trim(
        pc.binary_join_element_wise(*texts_of_units, pack_scalar(" ", VARCHAR)), " "
    )
    return pc.if_else(pc.equal(text, _EMPTY), pack_scalar("0 mons", VARCHAR), text)


def offset_text(microseconds: pa.Array) -> pa.Array:
    """Offsets from UTC as '+01' or '-03:30'."""
    sign = pc.if_else(
        pc.less(microseconds, _ZERO), pack_scalar("-", VARCHAR), pack_scalar("+", VARCHAR)
    )
    hours, rest = _split(pc.abs(microseconds), HOUR_US)
    minutes, _ = _split(rest, MINUTE_US)
    tail = pc.if_else(
        pc.equal(minutes, _ZERO),
        _EMPTY,
        pc.binary_join_element_wise(pack_scalar(":", VARCHAR), _two(minutes), _EMPTY),
    )
    return pc.binary_join_element_wise(sign, _two(hours), tail, _EMPTY)


def _split(array: pa.Array, unit: int) -> tuple[pa.Array, pa.Array]:
    """The quotient and the remainder by a unit."""
    scalar = pack_scalar(unit, BIGINT)
    return pc.divide(array, scalar), pc.remainder(array, scalar)


def _two(array: pa.Array) -> pa.Array:
    return pc.utf8_lpad(pc.cast(array, pa.string()), 2, "0")


def _counted(count: pa.Array, sign: pa.Array, unit: str) -> pa.Array:
    """'3 days', '1 day', '' for none."""
    is_one = pc.and_(pc.equal(count, pack_scalar(1, BIGINT)), pc.equal(sign, _EMPTY))
    name = pc.if_else(is_one, pack_scalar(f" {unit}", VARCHAR), pack_scalar(f" {unit}s", VARCHAR))
    text = pc.binary_join_element_wise(sign, pc.cast(count, pa.string()), name, _EMPTY)
    return pc.if_else(pc.equal(count, _ZERO), _EMPTY, text)


def parse_durations(texts: pa.Array) -> pa.Array:
    return distinct(texts, duration_of, INTERVAL)


def parse_months(texts: pa.Array) -> pa.Array:
    return distinct(texts, months_of, INTERVAL_MONTH)


_LONGEST = 1000
"""The largest permitted length of an interval's text, as parsing needs time quadratic in the
text.
"""


def distinct(texts: pa.Array, read: Callable[[str], Any], sql_type: SqlType) -> pa.Array:
    """Texts read by a function, once per distinct text."""
    encoded = texts.dictionary_encode()
    return pack([read(text) for text in encoded.dictionary.to_pylist()], sql_type).take(
        encoded.indices
    )


def duration_of(text: str) -> timedelta:
    """The value of '1 day 02:03:04.5', '90 minutes' or '-1:30:00'; ArrowInvalid for any other
    text.
    """
    months, days, micros = interval_of(text)
    if months:
        raise pa.ArrowInvalid(f"months have no fixed length: {text!r}")
    try:
        return timedelta(days, microseconds=micros)
    except OverflowError:
        raise pa.ArrowInvalid("interval out of range") from None


def months_of(text: str) -> int:
    """The number of months of '1 year 2 months'; ArrowInvalid for any other text."""
    months, days, micros = interval_of(text)
    if days or micros:
        raise pa.ArrowInvalid(f"more than years and months: {text!r}")
    if not -(2**31) <= months < 2**31:
        raise pa.ArrowInvalid("interval out of range")
    return months


def interval_of(text: str) -> Interval:
    """The value of '1 month 2 days 03:04:05', '1.5 days ago' or 'P1Y2M3DT4H5M6S'; ArrowInvalid for
    any other text. The fraction of a month goes to the days, as 30 days, and the fraction of a day
    to the time."""
    rest, sign_of_all = _without_ago(_short(text).strip())
    iso = _ISO.fullmatch(rest)
    if iso is not None and (iso[1] or iso[2]):
        amounts = [(number, _ISO_DAYS[unit]) for number, unit in _ISO_AMOUNT.findall(iso[1] or "")]
        amounts += [(number, _ISO_TIME[unit]) for number, unit in _ISO_AMOUNT.findall(iso[2] or "")]
        return _summed(amounts, 0, text) * sign_of_all
    total = 0
    clock = _CLOCK.search(rest)
    if clock is not None:
        sign, hours, minutes, seconds, fraction = clock.groups()
        micros = int((fraction or "")[:6].ljust(6, "0"))
        if int(minutes) > 59 or int(seconds or 0) > 59:
            raise pa.ArrowInvalid(f"no such time in {text!r}")
        size = (
            int(hours) * HOUR_US + int(minutes) * MINUTE_US + int(seconds or 0) * SECOND_US + micros
        )
        total = -size if sign == "-" else size
        rest = rest[: clock.start()]
    return _summed(_amounts(rest, text, clock is not None), total, text) * sign_of_all


_ISO = re.compile(r"P((?:[+-]?\d+(?:\.\d+)?[YMWD])*)(?:T((?:[+-]?\d+(?:\.\d+)?[HMS])+))?", re.ASCII)
_ISO_AMOUNT = re.compile(r"([+-]?\d+(?:\.\d+)?)([A-Z])", re.ASCII)
_ISO_DAYS = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME = {"H": "hour", "M": "minute", "S": "second"}


def _summed(amounts: Iterable[tuple[str, str]], micros: int, text: str) -> Interval:
    """The interval of some numbers of units, and of `micros` in addition."""
    from fractions import Fraction  # loaded on first use: a process may have no intervals

    months, days = Fraction(0), Fraction(0)
    clock = Fraction(micros)
    for number, written in amounts:
        unit = _singular(written)
        if unit in UNIT_MONTHS:
            months += Fraction(number) * UNIT_MONTHS[unit]
        elif unit in ("day", "week"):
            days += Fraction(number) * (7 if unit == "week" else 1)
        elif unit in UNIT_US:
            clock += Fraction(number) * UNIT_US[unit]
        else:
            raise pa.ArrowInvalid(f"no such unit in {text!r}")
    days += (months - int(months)) * 30
    clock += (days - int(days)) * DAY_US
    return Interval(int(months), int(days), round(clock))


def narrowed(value: Interval) -> tuple[Any, SqlType]:
    """An interval of a literal, with the narrowest type that has it: of months only, of days and
    less only, or of both."""
    if value.months and (value.days or value.microseconds):
        return value, INTERVAL_MIXED
    if value.months:
        return value.months, INTERVAL_MONTH
    return timedelta(value.days, microseconds=value.microseconds), INTERVAL


def _without_ago(text: str) -> tuple[str, int]:
    """The text without a final 'ago', and the sign that it means."""
    return (text[:-4], -1) if text.lower().endswith(" ago") else (text, 1)


def _short(text: str) -> str:
    if len(text) > _LONGEST:
        raise pa.ArrowInvalid(f"not an interval: {text[:60]!r}…")
    return text


def _amounts(rest: str, text: str, may_be_empty: bool) -> list[tuple[str, str]]:
    """The pairs of a number and a unit."""
    found = _AMOUNT.findall(rest)
    if _AMOUNT.sub("", rest).strip() or not (found or may_be_empty):
        raise pa.ArrowInvalid(f"not an interval: {text!r}")
    return found


_SHORT = {
    "mon": "month",
    "min": "minute",
    "sec": "second",
    "hr": "hour",
    "y": "year",
    "d": "day",
    "h": "hour",
    "m": "minute",
}
_SHORT |= {
    "s": "second",
    "ms": "millisecond",
    "us": "microsecond",
    "centuries": "century",
    "millennia": "millennium",
}


def _singular(unit: str) -> str:
    lower = unit.lower()
    lower = _SHORT.get(lower, lower)
    lower = lower[:-1] if lower.endswith("s") and lower not in ("s", "ms", "us") else lower
    return _SHORT.get(lower, lower)
