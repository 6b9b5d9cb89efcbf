"""Single values of a map: decoding of one row from Arrow columns, and key forms.

A *decoder* returns the value at an index of an array, as a fetch returns it. It reads the array's
buffers directly, since an Arrow scalar costs ten times as much. A *key form* represents a value in
the key index and in a secondary index. It is the value itself, except for temporal values, whose
key form is their count of units since the epoch. Key forms of one type compare as in SQL. All NaN
are one object, so that a dict finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from runnel.columns.batches import numbers
from runnel.errors import DataError
from runnel.expressions.kernels.values import python_values
from runnel.sqltypes import MAX_PRECISION, Kind, SqlType

Decoder = Callable[[int], Any]

NAN = float("nan")
EPOCH = datetime(1970, 1, 1)
EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DECIMALS = Context(prec=MAX_PRECISION)

_FORMATS = {
    Kind.TINYINT: ("b", 1),
    Kind.SMALLINT: ("h", 2),
    Kind.INTEGER: ("i", 4),
    Kind.BIGINT: ("q", 8),
    Kind.REAL: ("f", 4),
    Kind.DOUBLE: ("d", 8),
    Kind.DATE: ("i", 4),
    Kind.TIME: ("q", 8),
    Kind.TIMESTAMP: ("q", 8),
    Kind.TIMESTAMP_TZ: ("q", 8),
    Kind.INTERVAL: ("q", 8),
    Kind.INTERVAL_MONTH: ("i", 4),
}
"""The buffer format and the bytes per value of types with numbers of fixed width."""

KEY_KINDS = frozenset(_FORMATS) | {
    Kind.BOOLEAN,
    Kind.DECIMAL,
    Kind.VARCHAR,
    Kind.VARBINARY,
    Kind.JSON,
    Kind.UUID,
}
"""The types that a key can have."""


def _to_date(days: int) -> date:
    return date.fromordinal(EPOCH_ORDINAL + days)


def _to_time(micros: int) -> time:
    return (EPOCH + timedelta(microseconds=micros)).time()


def _to_timestamp(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def _to_instant(micros: int) -> datetime:
    return EPOCH_UTC + timedelta(microseconds=micros)


def _to_interval(micros: int) -> timedelta:
    return timedelta(microseconds=micros)


_FROM_UNITS: dict[Kind, Callable[[int], Any]] = {
    Kind.DATE: _to_date,
    Kind.TIME: _to_time,
    Kind.TIMESTAMP: _to_timestamp,
    Kind.TIMESTAMP_TZ: _to_instant,
    Kind.INTERVAL: _to_interval,
}


def decoder(array: pa.Array, sql_type: SqlType) -> Decoder:
    """A function from an index to the value at that index, as a fetch returns it."""
    kind = sql_type.kind
    if kind is Kind.UUID:
        text = key_decoder(array, sql_type)
        return lambda i: value_of(text(i), sql_type)
    convert = _FROM_UNITS.get(kind)
    if convert is None:
        return key_decoder(array, sql_type)
    raw = _fixed_width(array, kind)
    return _with_nulls(array, lambda i: convert(raw(i)))


def key_decoder(array: pa.Array, sql_type: SqlType) -> Decoder:
    """A function from an index to the key form of the value at that index; None for NULL."""
    kind = sql_type.kind
    if not len(array) or kind not in KEY_KINDS:
        return lambda i: python_values(array.slice(i, 1), sql_type)[0]
    if kind in _FORMATS:
        return _with_nulls(array, _fixed_width(array, kind))
    if kind is Kind.BOOLEAN:
        return _with_nulls(array, _bits(array.buffers()[1], array.offset))
    if kind is Kind.DECIMAL:
        return _with_nulls(array, _decimals(array, sql_type.scale))
    return _with_nulls(
        array, _texts(array) if kind in (Kind.VARCHAR, Kind.JSON, Kind.UUID) else _binaries(array)
    )


def _with_nulls(array: pa.Array, decode: Decoder) -> Decoder:
    if not array.null_count:
        return decode
    is_valid = _bits(array.buffers()[0], array.offset)
    return lambda i: decode(i) if is_valid(i) else None


def _fixed_width(array: pa.Array, kind: Kind) -> Decoder:
    form, width = _FORMATS[kind]
    start = array.offset * width
    view: Any = memoryview(array.buffers()[1])[start : start + len(array) * width]
    read: Decoder = view.cast(form).__getitem__
    return read


def _bits(buffer: Any, offset: int) -> Callable[[int], bool]:
    view = memoryview(buffer)

    def bit(index: int) -> bool:
        # Bits are stored from the least significant one of each byte: of the byte 0b00000101, the
        # bits 0 and 2 are set. Bit 11 is bit 3 (11 & 7) of byte 1 (11 >> 3).
        position = offset + index
        return bool(view[position >> 3] >> (position & 7) & 1)

    return bit


def _decimals(array: pa.Array, scale: int) -> Decoder:
    start = array.offset * 16
    view = memoryview(array.buffers()[1])[start : start + len(array) * 16]
    scaleb = _DECIMALS.scaleb

    def value(index: int) -> Decimal:
        unscaled = int.from_bytes(view[16 * index : 16 * index + 16], "little", signed=True)
        return scaleb(Decimal(unscaled), -scale)

    return value


def _variable_width(array: pa.Array) -> tuple[Any, Any]:
    buffers = array.buffers()
    start = array.offset * 4
    offsets = memoryview(buffers[1])[start : start + (len(array) + 1) * 4].cast("i")
    return offsets, memoryview(buffers[2]) if buffers[2] is not None else memoryview(b"")


def _texts(array: pa.Array) -> Decoder:
    offsets, data = _variable_width(array)
    return lambda i: str(data[offsets[i] : offsets[i + 1]], "utf-8")


def _binaries(array: pa.Array) -> Decoder:
    offsets, data = _variable_width(array)
    return lambda i: bytes(data[offsets[i] : offsets[i + 1]])


def fixed_width_values(array: pa.Array, kind: Kind) -> np.ndarray[Any, Any]:
    """The numbers of a fixed-width column, including arbitrary ones where it is NULL."""
    return numbers(array, _FORMATS[kind][0])


def key_values(array: pa.Array, sql_type: SqlType) -> list[Any]:
    """The key forms of a column without NULLs."""
    kind = sql_type.kind
    if kind in _FORMATS:
        plain = fixed_width_values(array, kind)
        values: list[Any] = plain.tolist()
        if sql_type.is_approximate:
            for i in np.flatnonzero(plain != plain).tolist():
                values[i] = NAN
        return values
    if kind in (Kind.VARCHAR, Kind.JSON, Kind.UUID, Kind.VARBINARY, Kind.BOOLEAN):
        texts: list[Any] = array.to_pylist()
        return texts
    return python_values(array, sql_type)


def _of_float(value: Any) -> Any:
    return NAN if value != value else value


def _of_date(value: Any) -> int:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _wrong(value, "DATE")
    return value.toordinal() - EPOCH_ORDINAL


def _of_time(value: Any) -> int:
    if not isinstance(value, time):
        raise _wrong(value, "TIME")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _micros(delta: timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _of_timestamp(value: Any) -> int:
    if not isinstance(value, datetime) or value.tzinfo is not None:
        raise _wrong(value, "TIMESTAMP")
    return _micros(value - EPOCH)


def _of_instant(value: Any) -> int:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise _wrong(value, "TIMESTAMP WITH TIME ZONE")
    return _micros(value - EPOCH_UTC)


def _of_interval(value: Any) -> int:
    if not isinstance(value, timedelta):
        raise _wrong(value, "INTERVAL DAY TO SECOND")
    return _micros(value)


def _wrong(value: Any, type_name: str) -> DataError:
    return DataError(f"{value!r} is not a value of type {type_name}")


_KEY_FORMS: dict[Kind, Callable[[Any], Any]] = {
    Kind.REAL: _of_float,
    Kind.DOUBLE: _of_float,
    Kind.DATE: _of_date,
    Kind.TIME: _of_time,
    Kind.TIMESTAMP: _of_timestamp,
    Kind.TIMESTAMP_TZ: _of_instant,
    Kind.INTERVAL: _of_interval,
    Kind.UUID: str,
}


def key_form(sql_type: SqlType) -> Callable[[Any], Any] | None:
    """The function from a value (not NULL) to its key form; None if each value is its own key
    form."""
    return _KEY_FORMS.get(sql_type.kind)


def value_of(form: Any, sql_type: SqlType) -> Any:
    """The value of a key form."""
    if sql_type.kind is Kind.UUID:
        return None if form is None else UUID(form)
    convert = _FROM_UNITS.get(sql_type.kind)
    return form if convert is None else convert(form)
