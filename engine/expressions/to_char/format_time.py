"""TO_CHAR of dates, times, timestamps and intervals: each token of the pattern is formatted for all
rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, numbers, validity
from runnel.errors import DataError
from runnel.expressions.kernels.buffers import DAY_US, pack, pack_scalar
from runnel.expressions.to_char.patterns import (
    DAYS,
    MONTHS,
    PatternToken,
    cased,
    ordinal_ending,
    roman,
    tokens_of,
)
from runnel.sqltypes import BIGINT, VARCHAR, Kind

_EMPTY = pack_scalar("", VARCHAR)
_INT64 = pa.int64()
_HOUR, _MINUTE, _SECOND = 3_600_000_000, 60_000_000, 1_000_000
_MONTH_COUNTS = frozenset({"YYYY", "YYY", "YY", "Y", "Y,YYY", "MM", "RM", "RY", "CC", "Q"})
"""The fields of an interval of months."""


class FormattedTimes:
    """The values to format.

    value: local times, or intervals.
    kind: the kind of the values.
    offset: for instants, the offset of local time from UTC in µs.
    zone: for instants, the name of the zone.
    """

    def __init__(
        self, value: pa.Array, kind: Kind, offset: pa.Array | None = None, zone: str = ""
    ) -> None:
        self.value = value
        self.kind = kind
        self.offset = offset
        self.zone = zone

    @property
    def micros(self) -> pa.Array:
        """µs of the day; for an interval all its µs."""
        whole = pc.cast(self.value, _INT64)
        return whole if self.kind is Kind.INTERVAL else _modulo(whole, DAY_US)


# For the timestamps 10:00:05, 10:00:40, 10:01:00 and the pattern HH24:MI, whose step is a minute:
#     steps    [600, 600, 601]  minutes since the epoch (here, of the first day)
#     encoded  dictionary [600, 601], indices [0, 0, 1]
#     distinct [10:00, 10:01]   the dictionary as timestamps, which alone are formatted
# If more than half of the steps are distinct, every row is formatted.
def text_of(times: FormattedTimes, pattern: str) -> pa.Array:
    """The values in the form of a pattern.

    Timestamps that the pattern formats alike are formatted once, as consecutive rows tend to be of
    the same minute or day.
    """
    step = _step(pattern) if times.kind is Kind.TIMESTAMP else 1
    if step == 1 or len(times.value) < _FEW:
        return _text_of_each(times, pattern)
    steps = numbers(times.value, np.int64) // step
    encoded = from_numbers(steps, _INT64, validity(times.value)).dictionary_encode()
    if 2 * len(encoded.dictionary) > len(steps):
        return _text_of_each(times, pattern)
    distinct = from_numbers(numbers(encoded.dictionary, np.int64) * step, times.value.type)
    return _text_of_each(FormattedTimes(distinct, times.kind), pattern).take(encoded.indices)


_FEW = 16
"""The number of rows below which every row is formatted."""


@lru_cache(maxsize=256)
def _step(pattern: str) -> int:
    """The size of the ranges in µs, aligned to the epoch, within which a pattern formats all
    timestamps alike.
    """
    fields = {item.field for item in tokens_of(pattern) if item.field}
    if fields <= _DAY_FIELDS:
        return DAY_US
    if fields <= _DAY_FIELDS | _MINUTE_FIELDS:
        return _MINUTE
    return _SECOND if fields <= _DAY_FIELDS | _MINUTE_FIELDS | _SECOND_FIELDS else 1


def _text_of_each(times: FormattedTimes, pattern: str) -> pa.Array:
    texts = [
        _field(times, item) if item.field else pack_scalar(item.text, VARCHAR)
        for item in tokens_of(pattern)
    ]
    valid = pc.if_else(times.value.is_valid(), _EMPTY, pa.nulls(1, pa.string())[0])
    return pc.binary_join_element_wise(valid, *texts, _EMPTY)


def _field(times: FormattedTimes, token: PatternToken) -> pa.Array:
    if times.kind is Kind.INTERVAL_MONTH:
        if token.field not in _MONTH_COUNTS:
            raise DataError(f"{token.field} is not a field of an INTERVAL YEAR TO MONTH")
        return _number_text(_month_field(times.value, token.field), token)
    by_number = _NUMBERS.get(token.field)
    if by_number is not None:
        width, number = by_number
        _check_kind(times, token.field)
        return _number_text(number(times), token, width)
    return _WORDS[token.field](times, token)


def _month_field(months: pa.Array, field: str) -> pa.Array:
    """A field of an interval of months; negative for a negative interval."""
    values = numbers(months, np.int32).astype(np.int64)
    size = np.abs(values)
    if field in ("MM", "RM"):
        amount = size % 12
    elif field == "Q":
        amount = size % 12 // 3 + 1
    elif field == "CC":
        amount = size // 1200
    else:
        amount = size // 12 % {"YYY": 1000, "YY": 100, "Y": 10}.get(field, 10**12)
    return from_numbers(np.where(values < 0, -amount, amount), _INT64, validity(months))


_DATE_ONLY = frozenset(
    {
        "Y,YYY",
        "YYYY",
        "IYYY",
        "YYY",
        "IYY",
        "YY",
        "IY",
        "Y",
        "I",
        "MM",
        "IDDD",
        "DDD",
        "ID",
        "D",
        "IW",
        "WW",
        "W",
        "CC",
        "J",
        "Q",
    }
)

_DAY_FIELDS = _DATE_ONLY | {
    "DD",
    "MONTH",
    "MON",
    "DAY",
    "DY",
    "RM",
    "RY",
    "RD",
    "AD",
    "BC",
    "A.D.",
    "B.C.",
}
_MINUTE_FIELDS = frozenset({"HH24", "HH12", "HH", "MI", "AM", "PM", "A.M.", "P.M."})
_SECOND_FIELDS = frozenset({"SS", "SSSS", "SSSSS"})


def _check_kind(times: FormattedTimes, field: str) -> None:
    """Raises DataError if values of that kind have no such field."""
    is_date_field = field in _DATE_ONLY or field in ("MONTH", "MON", "DAY", "DY", "RM", "RY", "RD")
    if (times.kind is Kind.TIME and (is_date_field or field == "DD")) or (
        times.kind is Kind.INTERVAL and is_date_field
    ):
        name = "TIME" if times.kind is Kind.TIME else "INTERVAL DAY TO SECOND"
        raise DataError(f"{field} is not a field of {'a' if name == 'TIME' else 'an'} {name}")


def _number_text(number: pa.Array, token: PatternToken, width: int = 2) -> pa.Array:
    if token.field in ("YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "I"):
        width = len(
            token.field.replace("IYYY", "YYYY")
            .replace("IYY", "YYY")
            .replace("IY", "YY")
            .replace("I", "Y")
        )
    text = pc.cast(pc.abs(number), pa.string())
    if token.field == "Y,YYY":
        text = pc.replace_substring_regex(pc.utf8_lpad(text, 4, "0"), r"([0-9]{3})$", r",\1")
    elif token.fills:
        text = pc.utf8_lpad(text, width, "0")
    sign = pc.if_else(pc.less(number, pack_scalar(0, BIGINT)), pack_scalar("-", VARCHAR), _EMPTY)
    texts = [sign, text]
    if token.ending:
        ending = _endings(token.ending.isupper()).take(_modulo(pc.abs(number), 100))
        texts.append(ending)
    return pc.binary_join_element_wise(*texts, _EMPTY)


@lru_cache(maxsize=2)
def _endings(upper: bool) -> pa.Array:
    endings = [ordinal_ending(number) for number in range(100)]
    return pack([ending.upper() if upper else ending for ending in endings], VARCHAR)


def _modulo(array: pa.Array, size: int) -> pa.Array:
    return pc.modulo(array, pack_scalar(size, BIGINT))


def _day_field(unit: int, within: int | None) -> Callable[[FormattedTimes], pa.Array]:
    """Returns the kernel of a field of the day; for negative intervals it truncates toward zero."""

    def run(times: FormattedTimes) -> pa.Array:
        micros = times.micros
        rest = micros if within is None else pc.remainder(micros, pack_scalar(within, BIGINT))
        return pc.divide(rest, pack_scalar(unit, BIGINT))

    return run


def _hour12(times: FormattedTimes) -> pa.Array:
    hour = _day_field(_HOUR, DAY_US)(times)
    rest = pc.remainder(hour, pack_scalar(12, BIGINT))
    return pc.if_else(pc.equal(rest, pack_scalar(0, BIGINT)), pack_scalar(12, BIGINT), rest)


def _hour24(times: FormattedTimes) -> pa.Array:
    return _day_field(_HOUR, DAY_US)(times)


def _day(times: FormattedTimes) -> pa.Array:
    return _day_field(DAY_US, None)(times) if times.kind is Kind.INTERVAL else pc.day(times.value)


def _year(size: int) -> Callable[[FormattedTimes], pa.Array]:
    return lambda times: _modulo(pc.year(times.value), size)


def _iso_year(size: int) -> Callable[[FormattedTimes], pa.Array]:
    return lambda times: _modulo(pc.iso_year(times.value), size)


def _week_of(day: Callable[[pa.Array], pa.Array]) -> Callable[[FormattedTimes], pa.Array]:
    def run(times: FormattedTimes) -> pa.Array:
        before = pc.subtract(day(times.value), pack_scalar(1, BIGINT))
        return pc.add(pc.divide(before, pack_scalar(7, BIGINT)), pack_scalar(1, BIGINT))

    return run


def _iso_day_of_year(times: FormattedTimes) -> pa.Array:
    days = pc.multiply(
        pc.subtract(pc.iso_week(times.value), pack_scalar(1, BIGINT)), pack_scalar(7, BIGINT)
    )
    return pc.add(days, pc.day_of_week(times.value, count_from_zero=False, week_start=1))


def _julian(times: FormattedTimes) -> pa.Array:
    days = (
        numbers(pc.cast(pc.floor_temporal(times.value, 1, unit="day"), _INT64), np.int64) // DAY_US
    )
    return from_numbers(days + 2_440_588, _INT64, validity(times.value))


def _century(times: FormattedTimes) -> pa.Array:
    one, hundred = pack_scalar(1, BIGINT), pack_scalar(100, BIGINT)
    return pc.add(pc.divide(pc.subtract(pc.year(times.value), one), hundred), one)


_NUMBERS: dict[str, tuple[int, Callable[[FormattedTimes], pa.Array]]] = {
    "Y,YYY": (4, _year(10**6)),
    **{
        field: (len(field), _year(10**6 if len(field) == 4 else 10 ** len(field)))
        for field in ("YYYY", "YYY", "YY", "Y")
    },
    **{
        field: (len(field), _iso_year(10**6 if len(field) == 4 else 10 ** len(field)))
        for field in ("IYYY", "IYY", "IY", "I")
    },
    "MM": (2, lambda times: pc.month(times.value)),
    "DD": (2, _day),
    "DDD": (3, lambda times: pc.day_of_year(times.value)),
    "IDDD": (3, _iso_day_of_year),
    "D": (1, lambda times: pc.day_of_week(times.value, count_from_zero=False, week_start=7)),
    "ID": (1, lambda times: pc.day_of_week(times.value, count_from_zero=False, week_start=1)),
    "W": (1, _week_of(pc.day)),
    "WW": (2, _week_of(pc.day_of_year)),
    "IW": (2, lambda times: pc.iso_week(times.value)),
    "CC": (2, _century),
    "J": (1, _julian),
    "Q": (1, lambda times: pc.quarter(times.value)),
    "HH24": (2, _hour24),
    "HH12": (2, _hour12),
    "HH": (2, _hour12),
    "MI": (2, _day_field(_MINUTE, _HOUR)),
    "SS": (2, _day_field(_SECOND, _MINUTE)),
    "SSSS": (1, _day_field(_SECOND, None)),
    "SSSSS": (1, _day_field(_SECOND, None)),
    "MS": (3, _day_field(1000, _SECOND)),
    "US": (6, _day_field(1, _SECOND)),
    **{f"FF{digits}": (digits, _day_field(10 ** (6 - digits), _SECOND)) for digits in range(1, 7)},
}
"""The numeric fields: the width, and the kernel."""


def _named(
    names: tuple[str, ...], number: Callable[[pa.Array], pa.Array], width: int
) -> Callable[[FormattedTimes, PatternToken], pa.Array]:
    def run(times: FormattedTimes, token: PatternToken) -> pa.Array:
        _check_kind(times, token.field)
        written = cased(token.written, names)
        padded = [name.ljust(width) for name in written] if token.fills else list(written)
        return pack(padded, VARCHAR).take(number(times.value))

    return run


def _month_index(value: pa.Array) -> pa.Array:
    return pc.subtract(pc.month(value), pack_scalar(1, BIGINT))


def _day_index(value: pa.Array) -> pa.Array:
    return pc.day_of_week(value, count_from_zero=True, week_start=7)


def _half_of_day(times: FormattedTimes, token: PatternToken) -> pa.Array:
    words = ("A.M.", "P.M.") if "." in token.field else ("AM", "PM")
    written = words if token.written[:1].isupper() else tuple(word.lower() for word in words)
    afternoon = pc.greater_equal(_hour24(times), pack_scalar(12, BIGINT))
    return pc.if_else(afternoon, pack_scalar(written[1], VARCHAR), pack_scalar(written[0], VARCHAR))


def _era(times: FormattedTimes, token: PatternToken) -> pa.Array:
    """AD or A.D., as all years are from 1 on."""
    _check_kind(times, "CC")
    word = "A.D." if "." in token.field else "AD"
    return pa.repeat(
        pack_scalar(word if token.written[:1].isupper() else word.lower(), VARCHAR),
        len(times.value),
    )


def _roman_of(
    number: Callable[[FormattedTimes], pa.Array], width: int, most: int
) -> Callable[[FormattedTimes, PatternToken], pa.Array]:
    def run(times: FormattedTimes, token: PatternToken) -> pa.Array:
        _check_kind(times, token.field)
        values = number(times)
        largest = pc.max(values).as_py()
        if largest is not None and largest > most:
            raise DataError(f"{largest} can't be written in Roman numerals")
        texts = [roman(item) for item in range((largest or 0) + 1)]
        texts = texts if token.written[:1].isupper() else [text.lower() for text in texts]
        return pack([text.ljust(width) for text in texts] if token.fills else texts, VARCHAR).take(
            values
        )

    return run


def _offset_text(times: FormattedTimes, token: PatternToken) -> pa.Array:
    if times.kind is not Kind.TIMESTAMP_TZ or times.offset is None:
        if times.kind in (Kind.INTERVAL, Kind.TIME):
            raise DataError(f"{token.field} is for a TIMESTAMP WITH TIME ZONE")
        fallback = {"TZH": "+00", "TZM": "00", "OF": "+00", "TZ": ""}[token.field]
        return pa.repeat(pack_scalar(fallback, VARCHAR), len(times.value))
    if token.field == "TZ":
        return _zone_names(times, token.written.isupper())
    seconds = numbers(times.offset, np.int64) // 1_000_000
    minutes = np.abs(seconds) // 60
    valid = validity(times.offset)
    hours = pc.utf8_lpad(pc.cast(from_numbers(minutes // 60, _INT64, valid), pa.string()), 2, "0")
    rest = pc.utf8_lpad(pc.cast(from_numbers(minutes % 60, _INT64, valid), pa.string()), 2, "0")
    if token.field == "TZM":
        return rest
    is_west = from_numbers((seconds < 0).astype(np.int8), pa.int8()).cast(pa.bool_())
    sign = pc.if_else(is_west, pack_scalar("-", VARCHAR), pack_scalar("+", VARCHAR))
    texts = [sign, hours]
    if token.field == "OF":
        tail = pc.binary_join_element_wise(pack_scalar(":", VARCHAR), rest, _EMPTY)
        texts.append(pc.if_else(pc.equal(rest, pack_scalar("00", VARCHAR)), _EMPTY, tail))
    return pc.binary_join_element_wise(*texts, _EMPTY)


def _zone_names(times: FormattedTimes, upper: bool) -> pa.Array:
    """The abbreviation of the zone at each instant, looked up once for each distinct offset."""
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(times.zone)
    encoded = times.offset.dictionary_encode() if times.offset is not None else None
    assert encoded is not None
    first = np.full(len(encoded.dictionary), -1)
    codes = numbers(encoded.indices, np.int32)
    for code in range(len(first)):
        first[code] = int(np.flatnonzero(codes == code)[0])
    names = []
    for row in first.tolist():
        micros = pc.cast(times.value[row], _INT64).as_py() - times.offset[row].as_py()  # type: ignore[index]
        name = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).astimezone(
            zone
        ).tzname() or ""
        names.append(name if upper else name.lower())
    return pack(names, VARCHAR).take(encoded.indices)


_WORDS: dict[str, Callable[[FormattedTimes, PatternToken], pa.Array]] = {
    "MONTH": _named(MONTHS, _month_index, 9),
    "MON": _named(tuple(name[:3] for name in MONTHS), _month_index, 3),
    "DAY": _named(DAYS, _day_index, 9),
    "DY": _named(tuple(name[:3] for name in DAYS), _day_index, 3),
    **dict.fromkeys(("AM", "PM", "A.M.", "P.M."), _half_of_day),
    **dict.fromkeys(("AD", "BC", "A.D.", "B.C."), _era),
    "RM": _roman_of(lambda times: pc.month(times.value), 4, 12),
    "RY": _roman_of(lambda times: pc.year(times.value), 15, 3999),
    "RD": _roman_of(_day, 6, 31),
    **dict.fromkeys(("TZH", "TZM", "TZ", "OF"), _offset_text),
}
"""The kernels of the fields that are words."""
