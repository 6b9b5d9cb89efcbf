"""TO_DATE and TO_TIMESTAMP with a pattern: one regular expression splits all texts into fields, and
numpy combines the fields.
"""

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
from runnel.expressions.to_char.patterns import DAYS, MONTHS, PatternToken, tokens_of
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
"""The number of digits of the numeric fields that don't have two."""
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
"""The words that each field of words accepts."""
_READABLE = (
    frozenset(_NAMES)
    | frozenset(_DIGITS)
    | {"MM", "DD", "HH", "HH12", "HH24", "MI", "SS", "D", "ID", "Q", "TZH", "TZM", "OF"}
)
"""The fields that can be parsed."""
_SEPARATOR, _SIGN_TOO = r"[^\pL\pN_\s+-]", r"[^\pL\pN_\s]"
"""The characters that a separator in a pattern matches; a + or − also matches a sign."""
_FIRST_DAY, _LAST_DAY = FIRST_US // DAY_US, LAST_US // DAY_US
_EPOCH_JULIAN = 2_440_588


class ParsedTimes(NamedTuple):
    """The parsed texts.

    micros: local time, in µs since the epoch.
    offsets: the offset from UTC in seconds, if the pattern has one; None otherwise.
    """

    micros: Numbers
    offsets: Numbers | None

    @property
    def walls(self) -> pa.Array:
        return from_numbers(self.micros, to_arrow(TIMESTAMP))

    @property
    def instants(self) -> pa.Array:
        """Timestamps in UTC if there is an offset, else in local time."""
        micros = self.micros if self.offsets is None else self.micros - self.offsets * 1_000_000
        if ((micros < FIRST_US) | (micros > LAST_US)).any():
            raise DataError("TIMESTAMP overflow")
        return from_numbers(micros, to_arrow(TIMESTAMP))

    @property
    def offset_flags(self) -> pa.Array:
        return from_flags(np.full(len(self.micros), self.offsets is not None))


def over_distinct(function: Callable[[pa.Array], pa.Array]) -> Callable[[Datum], Datum]:
    """A kernel that applies a function of texts once to each distinct text; NULL stays NULL."""

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
    """The regular expression of a pattern, with groups g0, g1, …, and the field of each group."""
    groups, fields = [r"(?i)\A\s*"], list[str]()
    tokens = tokens_of(pattern)
    for position, token in enumerate(tokens):
        if not token.field:
            groups.append(_plain(token.text))
            continue
        if token.field not in _READABLE:
            raise DataError(f"{token.field} can't be read from a text")
        next_token = tokens[position + 1] if position + 1 < len(tokens) else None
        groups.append(_group(token, next_token, f"g{len(fields)}"))
        fields.append(token.field)
    return "".join(groups) + r"\s*\z", tuple(fields)


def _plain(text: str) -> str:
    """The regular expression of plain text. A separator matches any one, with any spaces, as in
    PostgreSQL.
    """
    if text.isspace():
        return r"\s*"
    if text.isalnum():
        return text
    return rf"\s*{_SEPARATOR if text not in '+-' else _SIGN_TOO}?\s*"


def _group(token: PatternToken, next_token: PatternToken | None, group: str) -> str:
    """The regular expression of a field."""
    names = _NAMES.get(token.field)
    if names is not None:
        words = "|".join(name.replace(".", r"\.") for name in sorted(names, key=len, reverse=True))
        return rf"(?P<{group}>{words})\s*"
    if token.field == "TZH":
        return rf"(?P<{group}>[+-]?\d{{1,2}})"
    if token.field == "OF":
        return rf"(?P<{group}>Z|[+-]\d{{1,2}}(?::?\d{{2}})?)"
    width = _DIGITS.get(token.field, 2)
    is_open = next_token is None or not next_token.field
    most = 9 if is_open and token.field in ("YYYY", "J") else width
    return rf"(?P<{group}>\d{{1,{most}}}){'(?:st|nd|rd|th)' if token.ending else ''}"


def read(texts: pa.Array, pattern: str) -> ParsedTimes:
    """The timestamps that texts show by a pattern; no text may be NULL.

    Raises DataError, which shows the first such text, for a text that doesn't fit or isn't an
    existing date.
    """
    regex, fields = _regex_of(pattern)
    found = _found_at_positions(texts, pattern) or _found(texts, pattern, regex, fields)
    shown = np.ones(len(texts), np.bool_)
    days = _days_of(found, shown)
    micros = days * DAY_US + _time_of(found, shown)
    shown &= micros <= LAST_US
    if not shown.all():
        text = texts[int(np.flatnonzero(~shown)[0])].as_py()
        raise DataError(f"the text '{text[:60]}' is a date or time that does not exist")
    return ParsedTimes(micros, _offsets_of(found))


def _found(texts: pa.Array, pattern: str, regex: str, fields: tuple[str, ...]) -> Found:
    """The fields of each text by the regular expression."""
    if not fields:
        regex = f"{regex[:-2]}(?P<nothing>)\\z"
    groups = pc.extract_regex(texts, regex)
    if groups.null_count:
        text = texts.filter(groups.is_null())[0].as_py()
        raise DataError(
            f"the text '{text[:60]}' doesn't fit the pattern '{pattern}'",
            hint="TRY_STRPTIME(text, '%Y-%m-%d') is NULL for such a text",
        )
    return {field: groups.field(position) for position, field in enumerate(fields)}


@lru_cache(maxsize=256)
def _positions_of(
    pattern: str,
) -> tuple[tuple[tuple[str, int, int], ...], tuple[tuple[int, int], ...], int] | None:
    """The fixed positions of a pattern's fields, if it has only numbers and single characters; None
    otherwise.

    Returns (the field, position and width of each field), (the position and code of each character
    between fields), and the length of a text.
    """
    fields, others, at = [], [], 0
    for token in tokens_of(pattern):
        if token.field:
            if token.field not in _FIXED or token.ending:
                return None
            width = _DIGITS.get(token.field, 2)
            fields.append((token.field, at, width))
        else:
            width = len(token.text)
            if width != 1 or not token.text.isascii() or token.text.isdigit():
                return None
            others.append((at, ord(token.text)))
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
"""The fields that have a fixed width if they have all their digits."""


# For the texts '2024-08' and '2025-01' and the pattern YYYY-MM:
#     positions  fields (YYYY, 0, 4) and (MM, 5, 2); others (4, ord('-')); width 7
#     offsets    [0, 7, 14]   every text has 7 bytes
#     octets     a row of 7 bytes for each text
#     digits     of MM: [[0, 8], [0, 1]], the columns 5 and 6 less ord('0') = 48
#     found      MM: digits @ [10, 1] = [8, 1]
# A byte below ord('0') wraps to a number above 9, so one comparison finds all other characters.
def _found_at_positions(texts: pa.Array, pattern: str) -> Found | None:
    """The fields if all texts have every digit and exactly the pattern's separators, as is usual;
    else None.
    """
    positions = _positions_of(pattern)
    if positions is None or not len(texts):
        return None
    fields, others, width = positions
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    if not fields or (np.diff(offsets) != width).any():
        return None
    octets = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].reshape(
        len(texts), width
    )
    if any((octets[:, position] != other).any() for position, other in others):
        return None
    found: Found = {}
    for field, position, size in fields:
        digits = octets[:, position : position + size] - np.uint8(48)
        if (digits > 9).any():
            return None
        found[field] = digits.astype(np.int64) @ 10 ** np.arange(size - 1, -1, -1)
    return found


Found = dict[str, Any]
"""The values of each field: an Arrow array of texts, or a numpy array of numbers."""


def _number(found: Found, field: str) -> Numbers:
    shown: pa.Array | Numbers = found[field]
    return shown if isinstance(shown, np.ndarray) else numbers(pc.cast(shown, pa.int64()), np.int64)


def _days_of(found: Found, shown: Mask) -> Numbers:
    """Days since the epoch; clears the flags in `shown` of dates that don't exist."""
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
    first, next_token = _first_days(months), _first_days(months + (12 if by_year else 1))
    shown &= (day >= 1) & (day <= next_token - first)
    return first + np.where(shown, day - 1, 0)


_MONTH_KEYS = pack([name.lower() for name in _SHORT_MONTHS], VARCHAR)


def _first_days(months: Numbers) -> Numbers:
    """The first day of each month, in days since the epoch."""
    days: Numbers = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days


def _full_year(number: Numbers, field: str) -> Numbers:
    """Years of fewer than four digits are the ones nearest to 2020, as in PostgreSQL."""
    if field in ("YYYY", "IYYY"):
        return number
    if field == "YYY":
        return number + np.where(number >= 520, 1000, 2000)
    if field == "Y":
        return number + 2000
    return number + np.where(number >= 70, 1900, 2000)


def _time_of(found: Found, shown: Mask) -> Numbers:
    """µs of the day; clears the flags in `shown` of times that don't exist."""
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
    """The number of digits of a fraction of a second."""
    if isinstance(found[field], np.ndarray):
        return np.full(len(found[field]), _DIGITS[field])
    return numbers(pc.binary_length(found[field]), np.int32).astype(np.int64)


def _is_afternoon(half: pa.Array) -> Mask:
    flags = pc.starts_with(half, "p", ignore_case=True)
    return numbers(flags.cast(pa.int8()), np.int8).astype(np.bool_)


def _offsets_of(found: Found) -> Numbers | None:
    """Offsets in seconds east of UTC; None if the pattern has none."""
    if "OF" in found:
        text = pc.replace_substring_regex(found["OF"], "(?i)^Z$", "+00")
        groups = pc.extract_regex(text, r"^[+-](?P<h>\d{1,2}?):?(?P<m>\d{2})?$")
        minutes = pc.if_else(pc.equal(groups.field(1), ""), "0", groups.field(1))
        hours = groups.field(0)
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
