"""TO_TIMESTAMP by a pattern, a text at a time: what the reading of whole columns must give too."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from runnel.errors import DataError
from runnel.expressions.to_char.patterns import DAYS, MONTHS, PatternToken, tokens_of

_DIGITS = {
    "YYYY": 4,
    "IYYY": 4,
    "YYY": 3,
    "YY": 2,
    "Y": 1,
    "MS": 3,
    "US": 6,
    "DDD": 3,
    "J": 7,
    "SSSS": 5,
    "SSSSS": 5,
}
_DIGITS |= {f"FF{count}": count for count in range(1, 7)}
_NAMES: dict[str, tuple[str, ...]] = {
    "MONTH": MONTHS,
    "MON": tuple(name[:3] for name in MONTHS),
    "DAY": DAYS,
    "DY": tuple(name[:3] for name in DAYS),
    **dict.fromkeys(("AM", "PM"), ("AM", "PM")),
    **dict.fromkeys(("A.M.", "P.M."), ("A.M.", "P.M.")),
    **dict.fromkeys(("AD", "BC"), ("AD",)),
}
_READABLE = (
    frozenset(_NAMES)
    | frozenset(_DIGITS)
    | {"MM", "DD", "HH", "HH12", "HH24", "MI", "SS", "D", "ID", "Q", "TZH", "TZM", "OF"}
)


def _regex_of(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """The regular expression of a pattern, and the fields of its groups."""
    parts, fields = [r"\s*"], []
    pieces = tokens_of(pattern)
    for place, piece in enumerate(pieces):
        if not piece.field:
            parts.append(_plain(piece.text))
            continue
        if piece.field not in _READABLE:
            raise DataError(f"{piece.field} can't be read from a text")
        following = pieces[place + 1] if place + 1 < len(pieces) else None
        parts.append(_group(piece, following))
        fields.append(piece.field)
    return re.compile("".join(parts) + r"\s*\Z", re.IGNORECASE), tuple(fields)


def _plain(text: str) -> str:
    """Separators match any run of them, as in PostgreSQL."""
    if text.isspace():
        return r"\s*"
    return (
        re.escape(text)
        if text.isalnum()
        else r"\s*[^\w\s+-]?\s*"
        if text not in "+-"
        else r"\s*[^\w\s]?\s*"
    )


def _group(piece: PatternToken, following: PatternToken | None) -> str:
    names = _NAMES.get(piece.field)
    if names is not None:
        return (
            "("
            + "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
            + r")\s*"
        )
    if piece.field == "TZH":
        return r"([+-]?\d{1,2})"
    if piece.field == "OF":
        return r"([+-]\d{1,2}(?::?\d{2})?)"
    width = _DIGITS.get(piece.field, 2)
    is_open = following is None or not following.field
    most = 9 if is_open and piece.field in ("YYYY", "J") else width
    return rf"(\d{{1,{most}}}){'(?:st|nd|rd|th)' if piece.ending else ''}"


def read_slowly(text: str, pattern: str) -> tuple[datetime, int | None]:
    """The moment that a text shows, and its offset from UTC in seconds if it has one."""
    regex, fields = _regex_of(pattern)
    match = regex.match(text)
    if match is None:
        raise DataError(f"the text '{text[:60]}' doesn't fit the pattern '{pattern}'")
    found = {
        field: value
        for field, value in zip(fields, match.groups(), strict=True)
        if value is not None
    }
    try:
        moment = _date_of(found) + _time_of(found)
    except (ValueError, OverflowError):
        raise DataError(f"the text '{text[:60]}' is a date or time that does not exist") from None
    return moment, _offset_of(found)


def _date_of(found: dict[str, str]) -> datetime:
    if "J" in found:
        return datetime.fromordinal(int(found["J"]) - 1_721_425)
    year = 1
    for field in ("YYYY", "IYYY", "YYY", "YY", "Y"):
        if field in found:
            year = _full_year(int(found[field]), field)
    month = int(found.get("MM", 1))
    for field in ("MONTH", "MON"):
        if field in found:
            month = [name[:3].lower() for name in MONTHS].index(found[field][:3].lower()) + 1
    if "DDD" in found:
        day = int(found["DDD"])
        if not 1 <= day <= (366 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 365):
            raise ValueError
        return datetime(year, 1, 1) + timedelta(days=day - 1)
    return datetime(year, month, int(found.get("DD", 1)))


def _full_year(number: int, field: str) -> int:
    """Years of less than four digits are those nearest to 2020, as in PostgreSQL."""
    if field in ("YYYY", "IYYY"):
        return number
    if field == "YYY":
        return number + (1000 if number >= 520 else 2000)
    if field == "Y":
        return 2000 + number
    return number + (1900 if number >= 70 else 2000)


def _time_of(found: dict[str, str]) -> timedelta:
    if "SSSS" in found or "SSSSS" in found:
        return timedelta(seconds=int(found.get("SSSS") or found["SSSSS"]))
    hour = int(found.get("HH24", 0))
    half = next(
        (found[field][0].lower() for field in ("AM", "PM", "A.M.", "P.M.") if field in found), None
    )
    for field in ("HH12", "HH"):
        if field in found:
            hour = int(found[field])
            if not 1 <= hour <= 12:
                raise ValueError
            hour = hour % 12 + (12 if half == "p" else 0) if half else hour % 24
    minute, second = int(found.get("MI", 0)), int(found.get("SS", 0))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    micros = 0
    for field in ("MS", "US", *(f"FF{count}" for count in range(1, 7))):
        if field in found:
            micros += int(
                found[field]
                .ljust({"MS": 3, "US": 6}.get(field) or int(field[2]), "0")
                .ljust(6, "0")
            )
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micros)


def _offset_of(found: dict[str, str]) -> int | None:
    if "OF" in found:
        digits = found["OF"][1:].replace(":", "") + ("" if len(found["OF"]) > 3 else "00")
        seconds = int(digits[:-2]) * 3600 + int(digits[-2:]) * 60
        return -seconds if found["OF"][0] == "-" else seconds
    if "TZH" not in found:
        return None
    seconds = abs(int(found["TZH"])) * 3600 + int(found.get("TZM", 0)) * 60
    return -seconds if found["TZH"][0] == "-" else seconds
