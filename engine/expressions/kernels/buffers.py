"""Arrow arrays and scalars from a few Python values, packed straight into buffers.

`pa.array` and `pa.scalar` import pandas on first use if it is installed (0.3 s), a cost that
literals and arguments must not have. The values must already be of the right Python class and in
range, which `values.py` checks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from runnel.errors import DataError
from runnel.sqltypes import Kind, SqlType, to_arrow

EPOCH = datetime(1970, 1, 1)
EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY = date(1970, 1, 1).toordinal()
"""The ordinal of 1970-01-01 in Python's proleptic Gregorian calendar."""
DAY_US = 86_400_000_000
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last µs of the years 1 to 9999, from the epoch."""
_MICROSECOND = timedelta(microseconds=1)


def microseconds(value: time) -> int:
    """The time of day in µs. Raises DataError if it has a time zone, as TIME has none."""
    if value.tzinfo is not None:
        raise DataError(
            f"time {value} has a time zone, which TIME can't store",
            hint="remove it: value.replace(tzinfo=None)",
        )
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def unscaled(value: Decimal, scale: int) -> int:
    """A finite Decimal as an integer number of 10^-scale; further digits are cut off.

    The caller has checked that no digits are lost, or that they may be.
    """
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    shift = exponent + scale
    number: int = int("".join(map(str, digits)) or "0")
    number = number * int(10**shift) if shift >= 0 else number // int(10**-shift)
    return -number if sign else number


def _duration(value: timedelta) -> int:
    """An interval in µs; DataError if it exceeds 64 bits."""
    number = value // _MICROSECOND
    if not -(2**63) <= number < 2**63:
        raise DataError(f"interval {value} is too long")
    return number


def _mixed_interval(value: Any) -> bytes:
    """Months, days and nanoseconds of a `runnel.Interval` or timedelta; zeros for None."""
    if value is None:
        return bytes(16)
    if isinstance(value, timedelta):
        micros = abs(value) // _MICROSECOND
        sign = -1 if value < timedelta(0) else 1
        months, days, rest = 0, sign * (micros // DAY_US), sign * (micros % DAY_US)
    else:
        months, days, rest = value
        if abs(rest) >= _LONGEST_CLOCK:
            carried = int(rest / DAY_US)
            days, rest = days + carried, rest - carried * DAY_US
    if abs(months * 30 + days) >= LONGEST_DAYS or abs(months) >= 2**31 or abs(days) >= 2**31:
        raise DataError(f"interval {value} is too long")
    return struct.pack("=iiq", months, days, rest * 1000)


_LONGEST_CLOCK = 2**63 // 1000
"""The µs from which the nanoseconds of an interval need more than 64 bits."""
LONGEST_DAYS = 2**63 // DAY_US - 1
"""The days, with months of 30 days, from which the µs of an interval need more than 64 bits."""

_FORMATS = {
    Kind.TINYINT: "b",
    Kind.SMALLINT: "h",
    Kind.INTEGER: "i",
    Kind.BIGINT: "q",
    Kind.REAL: "f",
    Kind.DOUBLE: "d",
    Kind.DATE: "i",
    Kind.TIME: "q",
    Kind.TIMESTAMP: "q",
    Kind.TIMESTAMP_TZ: "q",
    Kind.INTERVAL: "q",
    Kind.INTERVAL_MONTH: "i",
}
"""The `struct` format of one value of each fixed-width kind."""
_TO_NUMBER: dict[Kind, Callable[[Any], Any]] = {
    Kind.DATE: lambda value: value.toordinal() - EPOCH_DAY,
    Kind.TIME: microseconds,
    Kind.TIMESTAMP: lambda value: (value - EPOCH) // _MICROSECOND,
    Kind.TIMESTAMP_TZ: lambda value: (value - EPOCH_UTC) // _MICROSECOND,
    Kind.INTERVAL: _duration,
}
"""How values of each kind become the number that is stored, where they aren't that number
already.
"""


def pack(values: Sequence[Any], sql_type: SqlType) -> pa.Array:
    """An array of the canonical type; None is NULL."""
    kind = sql_type.kind
    arrow = to_arrow(sql_type)
    if kind is Kind.NULL:
        return pa.nulls(len(values), arrow)
    if sql_type.is_nested:
        return pack_nested(values, sql_type, pack)
    validity = _validity(values)
    if kind in (Kind.VARCHAR, Kind.JSON, Kind.UUID, Kind.VARBINARY):
        if kind is Kind.UUID:
            values = [None if value is None else str(value) for value in values]
        offsets, data = _pack_bytes(values, kind is not Kind.VARBINARY)
        return pa.Array.from_buffers(arrow, len(values), [validity, offsets, data])
    if kind is Kind.BOOLEAN:
        data = _bits([bool(value) for value in values])
    elif kind is Kind.DECIMAL:
        data = _pack_decimals(values, sql_type.scale)
    elif kind is Kind.INTERVAL_MIXED:
        data = pa.py_buffer(b"".join(map(_mixed_interval, values)))
    else:
        to_number = _TO_NUMBER.get(kind)
        if to_number is not None:
            values = [0 if value is None else to_number(value) for value in values]
        elif validity is not None:
            values = [0 if value is None else value for value in values]
        data = pa.py_buffer(struct.pack(f"={len(values)}{_FORMATS[kind]}", *values))
    return pa.Array.from_buffers(arrow, len(values), [validity, data])


def pack_scalar(value: Any, sql_type: SqlType) -> pa.Scalar:
    """One value as a scalar of the canonical type."""
    code = _FORMATS.get(sql_type.kind)
    if code is None or value is None:
        return pack((value,), sql_type)[0]
    to_number = _TO_NUMBER.get(sql_type.kind)
    data = struct.pack(code, value if to_number is None else to_number(value))
    return pa.Array.from_buffers(to_arrow(sql_type), 1, [None, pa.py_buffer(data)])[0]


@lru_cache(maxsize=256)
def null_scalar(sql_type: SqlType) -> pa.Scalar:
    """The NULL of a type."""
    return pa.nulls(1, to_arrow(sql_type))[0]


def validity(array: pa.Array) -> pa.Buffer | None:
    """The validity bitmap of an array from bit 0 on, or None without NULLs. (The array's own bitmap
    begins at the array's offset.)
    """
    return None if array.null_count == 0 else array.is_valid().buffers()[1]


def _bits(flags: Sequence[bool]) -> pa.Buffer:
    """Flags as a bitmap: flag i is bit i % 8 of byte i // 8."""
    packed = bytearray((len(flags) + 7) // 8)
    for index, flag in enumerate(flags):
        if flag:
            packed[index >> 3] |= 1 << (index & 7)
    return pa.py_buffer(bytes(packed))


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    """The validity bitmap of some values, or None if no value is None."""
    flags = [value is not None for value in values]
    return None if all(flags) else _bits(flags)


def _pack_bytes(values: Sequence[Any], is_text: bool) -> tuple[pa.Buffer, pa.Buffer]:
    """The offsets and the bytes of texts or binary values.

    For ['ab', None, 'c'] these are [0, 2, 2, 3] and b"abc".
    """
    try:
        encoded = [
            b"" if value is None else value.encode() if is_text else bytes(value)
            for value in values
        ]
    except UnicodeEncodeError as error:
        raise DataError(
            f"a text has a character that isn't valid Unicode: {error.object[error.start]!a}"
        ) from None
    ends = [0]
    for item in encoded:
        ends.append(ends[-1] + len(item))
    return pa.py_buffer(struct.pack(f"={len(ends)}i", *ends)), pa.py_buffer(b"".join(encoded))


def _pack_decimals(values: Sequence[Any], scale: int) -> pa.Buffer:
    numbers = (0 if value is None else unscaled(value, scale) for value in values)
    return pa.py_buffer(b"".join(number.to_bytes(16, "little", signed=True) for number in numbers))


# For the ARRAYs [[1, 2], None, [3]]:
#     flat      [1, 2, 3]     the elements of all lists
#     ends      [0, 2, 2, 3]  list i has the elements flat[ends[i]:ends[i + 1]]
#     validity  0b101         bit 1 is 0: the second list is NULL
# MAPs are lists of (key, value) entries; a ROW is a column per field.
def pack_nested(
    values: Sequence[Any],
    sql_type: SqlType,
    pack_items: Callable[[Sequence[Any], SqlType], pa.Array],
) -> pa.Array:
    """Lists, dicts, and dicts that have every field of a ROW as an array; `pack_items` packs their
    elements.
    """
    arrow = to_arrow(sql_type)
    validity = _validity(values)
    if sql_type.kind is Kind.ROW:
        children = [
            pack_items([None if value is None else value[name] for value in values], item)
            for name, item in sql_type.fields
        ]
        return pa.Array.from_buffers(arrow, len(values), [validity], children=children)
    assert sql_type.element is not None
    ends, flat = [0], []
    for value in values:
        if value is not None:
            flat.extend(value.items() if sql_type.kind is Kind.MAP else value)
        ends.append(len(flat))
    offsets = pa.py_buffer(struct.pack(f"={len(ends)}i", *ends))
    if sql_type.kind is Kind.ARRAY:
        child = pack_items(flat, sql_type.element)
    else:
        assert sql_type.key is not None
        entries = [
            pack_items([key for key, _ in flat], sql_type.key),
            pack_items([item for _, item in flat], sql_type.element),
        ]
        child = pa.Array.from_buffers(_entries_type(arrow), len(flat), [None], children=entries)
    return pa.Array.from_buffers(arrow, len(values), [validity, offsets], children=[child])


def _entries_type(arrow: pa.DataType) -> pa.DataType:
    return pa.struct(
        [pa.field("key", arrow.key_type, nullable=False), pa.field("value", arrow.item_type)]
    )


FALSE = pack_scalar(False, SqlType(Kind.BOOLEAN))
TRUE = pack_scalar(True, SqlType(Kind.BOOLEAN))
