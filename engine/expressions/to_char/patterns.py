"""The patterns of TO_CHAR, TO_DATE and TO_TIMESTAMP, parsed into tokens.

A pattern consists of PostgreSQL's fields. Their case doesn't matter (MM is the month, MI the
minute), except for fields that are words, whose text has the case of the field: Month, MONTH or
month. FM before a field omits the padding. TH after a number adds its ordinal ending. Text in
double quotes, and any other character, stands for itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from runnel.errors import DataError

FIELDS = (
    *("Y,YYY", "YYYY", "IYYY", "YYY", "IYY", "YY", "IY", "Y", "I"),
    *("SSSSS", "SSSS", "SS", "HH24", "HH12", "HH", "MONTH", "MON", "MM", "MI", "MS"),
    *("A.M.", "P.M.", "AM", "PM", "A.D.", "B.C.", "AD", "BC"),
    *("US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6"),
    *("IDDD", "DDD", "DAY", "DD", "DY", "ID", "D", "IW", "WW", "W", "CC", "J", "Q"),
    *("RM", "RY", "RD", "TZH", "TZM", "TZ", "OF"),
)
"""All fields."""
_BY_LENGTH = sorted(FIELDS, key=len, reverse=True)
_PREFIXES = ("FM", "FX", "TM")


class PatternToken(NamedTuple):
    """A token of a pattern: a field, or plain text.

    text: the plain text; empty for a field.
    field: the field in upper case; empty for plain text.
    written: the field as the pattern has it.
    fills: whether the field is padded (no FM before it).
    ending: TH or th as the pattern has it after the field; empty without one.
    """

    text: str
    field: str = ""
    written: str = ""
    fills: bool = True
    ending: str = ""


@lru_cache(maxsize=256)
def tokens_of(pattern: str) -> tuple[PatternToken, ...]:
    """The tokens of a pattern for dates and times."""
    tokens: list[PatternToken] = []
    at, fills = 0, True
    upper = pattern.upper()
    while at < len(pattern):
        if pattern[at] == '"':
            end = pattern.find('"', at + 1)
            if end < 0:
                raise DataError(f"the pattern '{pattern}' has a quote without an end")
            tokens.append(PatternToken(pattern[at + 1 : end]))
            at = end + 1
            continue
        prefix = next((word for word in _PREFIXES if upper.startswith(word, at)), None)
        if prefix is not None:
            fills = fills and prefix != "FM"
            at += 2
            continue
        field = next((word for word in _BY_LENGTH if upper.startswith(word, at)), None)
        if field is None:
            tokens.append(PatternToken(pattern[at]))
            at += 1
            continue
        written = pattern[at : at + len(field)]
        at += len(field)
        ending = pattern[at : at + 2] if upper.startswith("TH", at) else ""
        at += len(ending)
        tokens.append(PatternToken("", field, written, fills, ending))
        fills = True
    return tuple(tokens)


def cased(written: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names (passed with a capital) in the case of their field."""
    if written[:2].isupper():
        return tuple(name.upper() for name in names)
    return names if written[:1].isupper() else tuple(name.lower() for name in names)


MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ROMAN = (
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
)
_ROMAN_SMALL = ((9, "IX"), (5, "V"), (4, "IV"), (1, "I"))


def roman(number: int) -> str:
    """A number from 1 to 3999 in Roman numerals."""
    text = ""
    for value, letters in (*_ROMAN, *_ROMAN_SMALL):
        count, number = divmod(number, value)
        text += letters * count
    return text


def ordinal_ending(number: int) -> str:
    """The ending of an ordinal number: th, st, nd or rd."""
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
