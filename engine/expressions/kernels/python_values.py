"""Arrow arrays of canonical types as lists of the Python values that a fetch returns.

Every type is converted column-wise: numpy's `tolist` for numbers, dates and timestamps, slices of
one decoded buffer for text. (`Array.to_pylist` creates a scalar object per value and needs about
ten times as long.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import numbers
from runnel.errors import DataError
from runnel.expressions.kernels.buffers import DAY_US, FIRST_US, LAST_US
from runnel.sqltypes import Kind, SqlType, UnnamedField

_NUMPY: dict[Kind, Any] = {
    Kind.TINYINT: np.dtype("int8"),
    Kind.SMALLINT: np.dtype("int16"),
    Kind.INTEGER: np.dtype("int32"),
    Kind.BIGINT: np.dtype("int64"),
    Kind.REAL: np.dtype("float32"),
    Kind.DOUBLE: np.dtype("float64"),
    Kind.DATE: np.dtype("datetime64[D]"),
    Kind.TIMESTAMP: np.dtype("datetime64[us]"),
    Kind.TIMESTAMP_TZ: np.dtype("datetime64[us]"),
    Kind.INTERVAL: np.dtype("timedelta64[us]"),
    Kind.INTERVAL_MONTH: np.dtype("int32"),
    Kind.TIME: np.dtype("int64"),
}
"""The numpy type of the values of each fixed-width kind."""


def python_values(array: pa.Array, sql_type: SqlType) -> list[Any]:
    """The values of a canonical array.

    NULL is None; the other classes are bool, int, float, str, bytes, date, time, Decimal, datetime
    (for TIMESTAMP WITH TIME ZONE aware, in UTC), timedelta, int (months) for a year-month interval,
    `Interval` for INTERVAL, uuid.UUID, list for ARRAY, and dict for ROW and MAP.
    """
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in python_values(chunk, sql_type)]
    if sql_type.kind is Kind.NULL or array.null_count == len(array):
        return [None] * len(array)
    special = _SPECIAL.get(sql_type.kind)
    if special is None:
        values: list[Any] = numbers(array, _NUMPY[sql_type.kind]).tolist()
    else:
        values = special(array, sql_type)
    if array.null_count:
        for index in null_positions(array):
            values[index] = None
    return values


def null_positions(array: pa.Array) -> Any:
    """The indexes of the NULLs, as a list."""
    flags = pc.cast(array.is_null(), pa.uint8())
    return np.flatnonzero(numbers(flags, "uint8")).tolist()


def _booleans(array: pa.Array, sql_type: SqlType) -> Any:
    return numbers(pc.cast(array, pa.uint8()), "bool").tolist()


def _timestamps(array: pa.Array, sql_type: SqlType) -> Any:
    """Dates and timestamps as Python values.

    The slot of a NULL may contain a number that is no date at all, so it is set to 0 first.
    """
    values = numbers(array, "int32" if sql_type.kind is Kind.DATE else "int64")
    if array.null_count:
        values = np.where(numbers(pc.cast(array.is_valid(), pa.uint8()), "bool"), values, 0)
    first, last = RANGES[sql_type.kind]
    if len(values) and (values.min() < first or values.max() > last):
        raise DataError(
            f"a {sql_type} outside the years 1 to 9999 has no Python value", hint=OUTSIDE_YEARS
        )
    return values.astype(_NUMPY[sql_type.kind]).tolist()


RANGES = {
    Kind.DATE: (FIRST_US // DAY_US, LAST_US // DAY_US),
    Kind.TIMESTAMP: (FIRST_US, LAST_US),
    Kind.TIMESTAMP_TZ: (FIRST_US, LAST_US),
}
"""The years 1 to 9999: the first and the last value, in days (DATE) or µs from the epoch."""

OUTSIDE_YEARS = "filter such values out with WHERE, or replace them by NULL with CASE"


def _instants(array: pa.Array, sql_type: SqlType) -> list[Any]:
    return [value.replace(tzinfo=UTC) for value in _timestamps(array, sql_type)]


def _times(array: pa.Array, sql_type: SqlType) -> list[Any]:
    micros = np.where(np.asarray(_booleans(array.is_valid(), sql_type)), numbers(array, "int64"), 0)
    seconds, rest = np.divmod(micros, 1_000_000)
    minutes, second = np.divmod(seconds, 60)
    hour, minute = np.divmod(minutes, 60)
    return list(map(time, hour.tolist(), minute.tolist(), second.tolist(), rest.tolist()))


# For the texts 'ab', '', 'cde' in an array that was sliced off a longer one:
#     ends   [7, 9, 9, 12]  offsets into the whole buffer: text i is its bytes ends[i]:ends[i + 1]
#     data   b"abcde"       the bytes 7 to 12 only, so `start` = 7 is subtracted from each offset
def _texts(array: pa.Array, sql_type: SqlType) -> list[Any]:
    """Texts, as slices of one string if all are ASCII, so that a byte offset is a character
    offset.
    """
    data = bytes(_content(array))
    ends = _offsets(array)
    start = ends[0]
    if data.isascii():
        text = data.decode("ascii")
        return [text[a - start : b - start] for a, b in pairwise(ends)]
    return [data[a - start : b - start].decode() for a, b in pairwise(ends)]


def _uuids(array: pa.Array, sql_type: SqlType) -> list[Any]:
    texts = _texts(array, sql_type)
    for index in null_positions(array):
        texts[index] = ""
    return [UUID(text) if text else None for text in texts]


def _binaries(array: pa.Array, sql_type: SqlType) -> list[Any]:
    data = bytes(_content(array))
    ends = _offsets(array)
    start = ends[0]
    return [data[a - start : b - start] for a, b in pairwise(ends)]


def _offsets(array: pa.Array) -> Any:
    """The offsets of the values of a text, binary, list or map array, one more than there are
    values.
    """
    return np.frombuffer(
        array.buffers()[1], dtype="int32", count=len(array) + 1, offset=array.offset * 4
    ).tolist()


def _content(array: pa.Array) -> memoryview:
    """The bytes of all values of a text or binary array."""
    buffer = array.buffers()[2]
    if buffer is None:
        return memoryview(b"")
    ends = np.frombuffer(
        array.buffers()[1], dtype="int32", count=len(array) + 1, offset=array.offset * 4
    )
    return memoryview(buffer)[int(ends[0]) : int(ends[-1])]


def _decimals(array: pa.Array, sql_type: SqlType) -> list[Any]:
    texts = _texts(pc.cast(array, pa.string()), sql_type)
    return [Decimal(text or "0") for text in texts]


def _arrays(array: pa.Array, sql_type: SqlType) -> list[Any]:
    assert sql_type.element is not None
    ends = _offsets(array)
    start = ends[0]
    flat = python_values(array.values.slice(start, ends[-1] - start), sql_type.element)
    return [flat[a - start : b - start] for a, b in pairwise(ends)]


def _maps(array: pa.Array, sql_type: SqlType) -> list[Any]:
    assert sql_type.element is not None and sql_type.key is not None
    ends = _offsets(array)
    start, count = ends[0], ends[-1] - ends[0]
    keys = python_values(array.keys.slice(start, count), sql_type.key)
    items = python_values(array.items.slice(start, count), sql_type.element)
    pairs = list(zip(keys, items, strict=True))
    return [dict(pairs[a - start : b - start]) for a, b in pairwise(ends)]


def mixed_parts(array: pa.Array) -> tuple[Any, Any, Any]:
    """The months, days and µs of an array of INTERVAL, as three arrays of 64 bits. DataError for a
    fraction of a microsecond, which Arrow data from outside may have."""
    found = numbers(array, MIXED)
    micros, rest = np.divmod(found["nanoseconds"], 1000)
    if rest.any() and np.any(numbers(pc.cast(array.is_valid(), pa.uint8()), "bool") & (rest != 0)):
        raise DataError(
            "an interval has fractions of a microsecond, which would be lost",
            hint="round it to microseconds",
        )
    return found["months"].astype(np.int64), found["days"].astype(np.int64), micros


MIXED = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
"""The buffer of an array of INTERVAL."""


def _intervals(array: pa.Array, sql_type: SqlType) -> list[Any]:
    return list(map(Interval, *(part.tolist() for part in mixed_parts(array))))


def _rows(array: pa.Array, sql_type: SqlType) -> list[Any]:
    names = [name for name, _ in sql_type.fields]
    columns = [python_values(array.field(i), item) for i, (_, item) in enumerate(sql_type.fields)]
    if not names:
        return [{} for _ in range(len(array))]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


_SPECIAL: dict[Kind, Callable[[pa.Array, SqlType], list[Any]]] = {
    Kind.BOOLEAN: _booleans,
    Kind.DATE: _timestamps,
    Kind.TIMESTAMP: _timestamps,
    Kind.TIMESTAMP_TZ: _instants,
    Kind.TIME: _times,
    Kind.VARCHAR: _texts,
    Kind.JSON: _texts,
    Kind.UUID: _uuids,
    Kind.VARBINARY: _binaries,
    Kind.DECIMAL: _decimals,
    Kind.INTERVAL_MIXED: _intervals,
    Kind.ARRAY: _arrays,
    Kind.MAP: _maps,
    Kind.ROW: _rows,
}


# Values as a cursor returns them

UTC_NAME = "UTC"

_CONVERTED = frozenset(
    {
        Kind.INTERVAL_MONTH,
        Kind.INTERVAL_MIXED,
        Kind.TIMESTAMP_TZ,
        Kind.ARRAY,
        Kind.MAP,
        Kind.ROW,
    }
)
"""The kinds of which values, or values within them, may be converted."""


def fetched_values(array: pa.Array, sql_type: SqlType, zone: str = UTC_NAME) -> list[Any]:
    """The values of a column as a cursor returns them.

    As `python_values`, but TIMESTAMP WITH TIME ZONE in the time zone `zone` of the session, and
    INTERVAL YEAR TO MONTH as `Interval`, and INTERVAL without months as timedelta.
    """
    values = python_values(array, sql_type)
    if sql_type.kind in _CONVERTED and _differs(sql_type, zone == UTC_NAME):
        convert = _converter(sql_type, zone)
        return [None if value is None else convert(value) for value in values]
    return values


def fetched_row(row: tuple[Any, ...], types: Iterable[SqlType], zone: str) -> tuple[Any, ...]:
    """The same for one row of Python values."""
    return tuple(_of_nullable(item, zone)(value) for value, item in zip(row, types, strict=True))


@cache
def _differs(sql_type: SqlType, is_utc: bool) -> bool:
    """Whether values of the type, or within it, are converted."""
    if sql_type.kind in (Kind.INTERVAL_MONTH, Kind.INTERVAL_MIXED):
        return True
    if sql_type.kind is Kind.TIMESTAMP_TZ:
        return not is_utc
    if sql_type.fields and sql_type.fields[0][0] == "f1":
        return True  # its fields may have no names
    inner = [item for item in (sql_type.element, sql_type.key) if item is not None]
    inner += [item for _, item in sql_type.fields]
    return any(_differs(item, is_utc) for item in inner)


def _converter(sql_type: SqlType, zone: str) -> Callable[[Any], Any]:
    """The conversion of one value that is not NULL."""
    if sql_type.kind is Kind.INTERVAL_MONTH:
        return lambda value: value if isinstance(value, Interval) else Interval(value)
    if sql_type.kind is Kind.INTERVAL_MIXED:
        return _fetched_interval
    if sql_type.kind is Kind.TIMESTAMP_TZ:
        return _in_zone(zone)
    inner = {name: _of_nullable(item, zone) for name, item in sql_type.fields}
    if inner and isinstance(sql_type.fields[0][0], UnnamedField):
        return lambda value: tuple(inner[name](item) for name, item in value.items())
    if inner:
        return lambda value: {name: inner[name](item) for name, item in value.items()}
    assert sql_type.element is not None
    item_of = _of_nullable(sql_type.element, zone)
    if sql_type.key is None:
        return lambda value: [item_of(item) for item in value]
    key_of = _of_nullable(sql_type.key, zone)
    return lambda value: {key_of(key): item_of(item) for key, item in value.items()}


def _fetched_interval(value: Any) -> Any:
    """An INTERVAL of days and less as a timedelta."""
    if isinstance(value, timedelta) or value.months:
        return value
    return timedelta(days=value.days, microseconds=value.microseconds)


def _of_nullable(sql_type: SqlType, zone: str) -> Callable[[Any], Any]:
    if not _differs(sql_type, zone == UTC_NAME):
        return lambda value: value
    convert = _converter(sql_type, zone)
    return lambda value: None if value is None else convert(value)


def _in_zone(zone: str) -> Callable[[Any], Any]:
    from zoneinfo import ZoneInfo

    found: tzinfo = ZoneInfo(zone)

    def convert(value: datetime) -> datetime:
        try:
            return value.astimezone(found)
        except OverflowError:
            raise DataError(
                f"{value} is outside the years 1 to 9999 in the time zone {zone}",
                hint=OUTSIDE_YEARS,
            ) from None

    return convert


class _Numbers(NamedTuple):
    """The fields of an Interval.

    months, days, microseconds: whole numbers.
    """

    months: int = 0
    days: int = 0
    microseconds: int = 0


class Interval(_Numbers):
    """A number of months, of days, and of microseconds, each with its own sign.

    The three are kept apart, as months and days have no fixed length: only intervals whose three
    numbers are equal are equal, although SQL compares a month as 30 days. A query returns it for
    INTERVAL YEAR TO MONTH, and for a value of INTERVAL that has months; an interval of days and
    less is a timedelta.

    months, days, microseconds: whole numbers.
    """

    __slots__ = ()
    __module__ = "runnel"

    def __add__(self, other: object) -> Interval:
        """The sum, number by number, with another interval or a timedelta."""
        if isinstance(other, timedelta):
            other = Interval(0, other.days, other.seconds * 1_000_000 + other.microseconds)
        if not isinstance(other, Interval):
            return NotImplemented
        return Interval(*(left + right for left, right in zip(self, other, strict=True)))

    def __radd__(self, other: timedelta) -> Interval:
        return self + other

    def __neg__(self) -> Interval:
        return Interval(*(-number for number in self))

    def __sub__(self, other: Interval | timedelta) -> Interval:
        return self + -other

    def __rsub__(self, other: timedelta) -> Interval:
        return -self + other

    def __mul__(self, factor: object) -> Interval:
        """Each number times a whole number."""
        if not isinstance(factor, int):
            return NotImplemented
        return Interval(*(number * factor for number in self))

    def __rmul__(self, factor: object) -> Interval:
        return self * factor

    def __bool__(self) -> bool:
        return any(self[:])

    def __str__(self) -> str:
        """As CAST to VARCHAR writes it: `1 year 2 mons 3 days 04:05:06.7`."""
        years, months = divmod(abs(self.months), 12)
        sign = -1 if self.months < 0 else 1
        counted = ((sign * years, "year"), (sign * months, "mon"), (self.days, "day"))
        words = [
            f"{number} {unit}{'' if number == 1 else 's'}" for number, unit in counted if number
        ]
        if self.microseconds or not words:
            words.append(_clock(self.microseconds))
        return " ".join(words)


def _clock(microseconds: int) -> str:
    seconds, rest = divmod(abs(microseconds), 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return f"{'-' if microseconds < 0 else ''}{text}{fraction}"
