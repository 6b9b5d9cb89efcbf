"""Checks single rows before they are written to a map: each value against its column's type.

A check returns the value as a later fetch returns it. The usual Python types are checked here,
since writing one row should take microseconds. Other values go through the conversion of
parameters.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation
from typing import Any

from runnel.errors import DataError
from runnel.expressions.kernels.values import array_of, python_values
from runnel.sqltypes import INTEGER_WIDTHS, MAX_PRECISION, Kind, SqlType

Check = Callable[[Any], Any]


def value_check(sql_type: SqlType) -> Check:
    """A function from a Python value to the value to be stored; DataError if it does not fit."""
    kind = sql_type.kind
    fast = _FAST.get(kind)
    if kind in INTEGER_WIDTHS or kind is Kind.INTERVAL_MONTH:
        fast = _integer(INTEGER_WIDTHS.get(kind, 32))
    elif kind is Kind.DECIMAL:
        fast = _decimal(sql_type)
    if fast is None:
        return lambda value: convert(value, sql_type)
    check: Check = fast

    def checked(value: Any) -> Any:
        if value is None:
            return None
        found = check(value)
        return convert(value, sql_type) if found is None else found

    return checked


def convert(value: Any, sql_type: SqlType) -> Any:
    """The slow conversion: to Arrow and back."""
    if value is None:
        return None
    return python_values(array_of([value], sql_type), sql_type)[0]


# A fast check returns the value to store, or None if it cannot decide.


def _integer(bits: int) -> Check:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return lambda value: value if type(value) is int and least <= value <= most else None


def _decimal(sql_type: SqlType) -> Check:
    # Inexact is trapped: a value with more digits than the column is left to the slow conversion,
    # which has the proper error.
    context = Context(
        prec=sql_type.precision or MAX_PRECISION,
        rounding=ROUND_HALF_UP,
        traps=[Inexact, InvalidOperation],
    )
    quantum = Decimal(1).scaleb(-sql_type.scale)

    def check(value: Any) -> Any:
        if type(value) is not Decimal or not value.is_finite():
            return None
        try:
            return context.quantize(value, quantum)
        except (Inexact, InvalidOperation):
            return None

    return check


def _boolean(value: Any) -> Any:
    return value if type(value) is bool else None


def _double(value: Any) -> Any:
    return value if type(value) is float else None


def _real(value: Any) -> Any:
    if type(value) is not float:
        return None
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise DataError(f"{value!r} is out of range for REAL") from None
    return narrow


def _text(value: Any) -> Any:
    if type(value) is not str:
        return None
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"text {value!r} can't be written in UTF-8", hint="leave lone surrogates out"
            ) from None
    return value


def _binary(value: Any) -> Any:
    return value if type(value) is bytes else None


def _date(value: Any) -> Any:
    return value if type(value) is date else None


def _time(value: Any) -> Any:
    return value if type(value) is time and value.tzinfo is None else None


def _timestamp(value: Any) -> Any:
    return value if type(value) is datetime and value.tzinfo is None else None


def _instant(value: Any) -> Any:
    return value if type(value) is datetime and value.tzinfo is UTC else None


def _interval(value: Any) -> Any:
    return value if type(value) is timedelta else None


_FAST: dict[Kind, Check] = {
    Kind.BOOLEAN: _boolean,
    Kind.REAL: _real,
    Kind.DOUBLE: _double,
    Kind.VARCHAR: _text,
    Kind.VARBINARY: _binary,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMP_TZ: _instant,
    Kind.INTERVAL: _interval,
}
