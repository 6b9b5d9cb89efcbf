"""TO_DATE and TO_TIMESTAMP by a pattern: all texts are taken apart by one regular expression, and
put together in numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import Mask, Numbers, from_flags, from_numbers, numbers
from runnel.errors import DataError
from runnel.expressions.function import Datum
from runnel.expressions.kernels.buffers import DAY_US, FIRST_US, LAST_US, pack
from runnel.expressions.to_char.patterns import DAYS, MONTHS, Piece, pieces_of
from runnel.sqltypes import TIMESTAMP, VARCHAR, to_arrow

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
_SHORT_MONTHS = tuple(name[:3] for name in MONTHS)
_NAMES: dict[str, tuple[str, ...]] = {
    "MONTH": MONTHS,
    "MON": _SHORT_MONTHS,
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
_SEPARATOR, _SIGN_TOO = r"[^\pL\pN_\s+-]", r"[^\pL\pN_\s]"
_FIRST_DAY, _LAST_DAY = FIRST_US // DAY_US, LAST_US // DAY_US
_EPOCH_JULIAN = 2_440_588


class Reading(NamedTuple):
    """What texts show: `micros` in local time, and the offset from UTC in seconds where the pattern
    reads one."""

    micros: Numbers
    offsets: Numbers | None

    @property
    def walls(self) -> pa.Array:
        return from_numbers(self.micros, to_arrow(TIMESTAMP))

    @property
    def instants(self) -> pa.Array:
        """In UTC where there is an offset, else in local time."""
        micros = self.micros if self.offsets is None else self.micros - self.offsets * 1_000_000
        if ((micros < FIRST_US) | (micros > LAST_US)).any():
            raise DataError("TIMESTAMP overflow")
        return from_numbers(micros, to_arrow(TIMESTAMP))

    @property
    def offset_flags(self) -> pa.Array:
        return from_flags(np.full(len(self.micros), self.offsets is not None))


def over_distinct(function: Callable[[pa.Array], pa.Array]) -> Callable[[Datum], Datum]:
    """A kernel over texts that works on each distinct one once; NULL stays NULL."""

    def run(datum: Datum) -> Datum:
        if isinstance(datum, pa.Scalar):
            return run(pa.repeat(datum, 1))[0]
        encoded = datum.dictionary_encode()
        return function(encoded.dictionary).take(encoded.indices)

    return run


def reads_offset(pattern: str) -> bool:
    """Whether the pattern has an offset from UTC."""
    return not {"TZH", "OF"}.isdisjoint(_regex_of(pattern)[1])


@lru_cache(maxsize=256)
def _regex_of(pattern: str) -> tuple[str, tuple[str, ...]]:
    """The regular expression of a pattern, with groups g0, g1, …, and the fields that they show."""
    parts, fields = [r"(?i)\A\s*"], list[str]()
    pieces = pieces_of(pattern)
    for place, piece in enumerate(pieces):
        if not piece.field:
            parts.append(_plain(piece.text))
            continue
        if piece.field not in _READABLE:
            raise DataError(f"{piece.field} can't be read from a text")
        following = pieces[place + 1] if place + 1 < len(pieces) else None
        parts.append(_group(piece, following, f"g{len(fields)}"))
        fields.append(piece.field)
    return "".join(parts) + r"\s*\z", tuple(fields)


def _plain(text: str) -> str:
    """Separators match any run of them, as in PostgreSQL."""
    if text.isspace():
        return r"\s*"
    if text.isalnum():
        return text
    return rf"\s*{_SEPARATOR if text not in '+-' else _SIGN_TOO}?\s*"


def _group(piece: Piece, following: Piece | None, group: str) -> str:
    names = _NAMES.get(piece.field)
    if names is not None:
        words = "|".join(name.replace(".", r"\.") for name in sorted(names, key=len, reverse=True))
        return rf"(?P<{group}>{words})\s*"
    if piece.field == "TZH":
        return rf"(?P<{group}>[+-]?\d{{1,2}})"
    if piece.field == "OF":
        return rf"(?P<{group}>[+-]\d{{1,2}}(?::?\d{{2}})?)"
    width = _DIGITS.get(piece.field, 2)
    is_open = following is None or not following.field
    most = 9 if is_open and piece.field in ("YYYY", "J") else width
    return rf"(?P<{group}>\d{{1,{most}}}){'(?:st|nd|rd|th)' if piece.ending else ''}"


def read(texts: pa.Array, pattern: str) -> Reading:
    """The moments that texts show; DataError, which shows the first one, for a text that doesn't
    fit. No text is NULL."""
    regex, fields = _regex_of(pattern)
    found = _found_at_places(texts, pattern) or _found(texts, pattern, regex, fields)
    shown = np.ones(len(texts), np.bool_)
    days = _days_of(found, shown)
    micros = days * DAY_US + _time_of(found, shown)
    shown &= micros <= LAST_US
    if not shown.all():
        text = texts[int(np.flatnonzero(~shown)[0])].as_py()
        raise DataError(f"the text '{text[:60]}' shows no date or time that there is")
    return Reading(micros, _offsets_of(found))


def _found(texts: pa.Array, pattern: str, regex: str, fields: tuple[str, ...]) -> Found:
    if not fields:
        regex = f"{regex[:-2]}(?P<nothing>)\\z"
    parts = pc.extract_regex(texts, regex)
    if parts.null_count:
        text = texts.filter(parts.is_null())[0].as_py()
        raise DataError(f"the text '{text[:60]}' doesn't fit the pattern '{pattern}'")
    return {field: parts.field(place) for place, field in enumerate(fields)}


@lru_cache(maxsize=256)
def _places_of(
    pattern: str,
) -> tuple[tuple[tuple[str, int, int], ...], tuple[tuple[int, int], ...], int] | None:
    """Where the fields (with their widths) and the characters between them are in a text that has
    every digit; None where a pattern has more than numbers and single characters."""
    fields, others, at = [], [], 0
    for piece in pieces_of(pattern):
        if piece.field:
            if piece.field not in _FIXED or piece.ending:
                return None
            width = _DIGITS.get(piece.field, 2)
            fields.append((piece.field, at, width))
        else:
            width = len(piece.text)
            if width != 1 or not piece.text.isascii() or piece.text.isdigit():
                return None
            others.append((at, ord(piece.text)))
        at += width
    return tuple(fields), tuple(others), at


_FIXED = frozenset(
    (
        "YYYY",
        "MM",
        "DD",
        "DDD",
        "HH24",
        "HH12",
        "HH",
        "MI",
        "SS",
        "MS",
        "US",
        *(f"FF{n}" for n in range(1, 7)),
    )
)


def _found_at_places(texts: pa.Array, pattern: str) -> Found | None:
    """The fields where all texts have every digit and the very separators of the pattern, as most
    do; else None."""
    places = _places_of(pattern)
    if places is None or not len(texts):
        return None
    fields, others, width = places
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    if not fields or (np.diff(offsets) != width).any():
        return None
    octets = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].reshape(
        len(texts), width
    )
    if any((octets[:, place] != other).any() for place, other in others):
        return None
    found: Found = {}
    for field, place, size in fields:
        digits = octets[:, place : place + size] - np.uint8(48)
        if (digits > 9).any():
            return None
        found[field] = digits.astype(np.int64) @ 10 ** np.arange(size - 1, -1, -1)
    return found


Found = dict[str, Any]
"""Of each field what the texts have: texts, or numbers already."""


def _number(found: Found, field: str) -> Numbers:
    shown: pa.Array | Numbers = found[field]
    return shown if isinstance(shown, np.ndarray) else numbers(pc.cast(shown, pa.int64()), np.int64)


def _days_of(found: Found, shown: Mask) -> Numbers:
    """Days since the epoch; takes the flag of those off that there aren't."""
    if "J" in found:
        days = _number(found, "J") - _EPOCH_JULIAN
        shown &= (days >= _FIRST_DAY) & (days <= _LAST_DAY)
        return np.where(shown, days, 0)
    year = np.ones(len(shown), np.int64)
    for field in ("YYYY", "IYYY", "YYY", "YY", "Y"):
        if field in found:
            year = _full_year(_number(found, field), field)
    month = _number(found, "MM") if "MM" in found else np.ones(len(shown), np.int64)
    for field in ("MONTH", "MON"):
        if field in found:
            names = pc.utf8_lower(pc.utf8_slice_codeunits(found[field], 0, 3))
            month = numbers(pc.index_in(names, _MONTH_KEYS), np.int32).astype(np.int64) + 1
    by_year = "DDD" in found
    day = (
        _number(found, "DDD" if by_year else "DD")
        if by_year or "DD" in found
        else np.ones(len(shown), np.int64)
    )
    month = np.ones(len(shown), np.int64) if by_year else month
    shown &= (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12)
    months = np.where(shown, (year - 1970) * 12 + month - 1, 0)
    first, following = _first_days(months), _first_days(months + (12 if by_year else 1))
    shown &= (day >= 1) & (day <= following - first)
    return first + np.where(shown, day - 1, 0)


_MONTH_KEYS = pack([name.lower() for name in _SHORT_MONTHS], VARCHAR)


def _first_days(months: Numbers) -> Numbers:
    days: Numbers = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


def _full_year(number: Numbers, field: str) -> Numbers:
    """Years of less than four digits are those nearest to 2020, as in PostgreSQL."""
    if field in ("YYYY", "IYYY"):
        return number
    if field == "YYY":
        return number + np.where(number >= 520, 1000, 2000)
    if field == "Y":
        return number + 2000
    return number + np.where(number >= 70, 1900, 2000)


def _time_of(found: Found, shown: Mask) -> Numbers:
    """µs of the day."""
    for field in ("SSSS", "SSSSS"):
        if field in found:
            return _number(found, field) * 1_000_000
    nothing = np.zeros(len(shown), np.int64)
    hour = _number(found, "HH24") if "HH24" in found else nothing
    half = next((found[field] for field in ("AM", "PM", "A.M.", "P.M.") if field in found), None)
    for field in ("HH12", "HH"):
        if field in found:
            hour = _number(found, field)
            shown &= (hour >= 1) & (hour <= 12)
            hour = hour % 24 if half is None else hour % 12 + 12 * _is_afternoon(half)
    minute, second = (
        _number(found, field) if field in found else nothing for field in ("MI", "SS")
    )
    shown &= (hour <= 23) & (minute <= 59) & (second <= 59)
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000
    for field in ("MS", "US", *(f"FF{count}" for count in range(1, 7))):
        if field in found:
            micros = micros + _number(found, field) * 10 ** (6 - _widths(found, field))
    return micros


def _widths(found: Found, field: str) -> Numbers:
    if isinstance(found[field], np.ndarray):
        return np.full(len(found[field]), _DIGITS[field])
    return numbers(pc.binary_length(found[field]), np.int32).astype(np.int64)


def _is_afternoon(half: pa.Array) -> Mask:
    flags = pc.starts_with(half, "p", ignore_case=True)
    return numbers(flags.cast(pa.int8()), np.int8).astype(np.bool_)


def _offsets_of(found: Found) -> Numbers | None:
    """Seconds east of UTC."""
    if "OF" in found:
        text = found["OF"]
        parts = pc.extract_regex(text, r"^[+-](?P<h>\d{1,2}?):?(?P<m>\d{2})?$")
        minutes = pc.if_else(pc.equal(parts.field(1), ""), "0", parts.field(1))
        hours = parts.field(0)
    elif "TZH" in found:
        text = found["TZH"]
        hours = pc.utf8_ltrim(text, "+-")
        minutes = found.get("TZM")
    else:
        return None
    seconds = numbers(pc.cast(hours, pa.int64()), np.int64) * 3600
    if minutes is not None:
        seconds = seconds + numbers(pc.cast(minutes, pa.int64()), np.int64) * 60
    is_west = numbers(pc.starts_with(text, "-").cast(pa.int8()), np.int8).astype(np.bool_)
    return np.where(is_west, -seconds, seconds)
