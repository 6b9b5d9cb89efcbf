"""Rows of random values in the columns of the edge table: edges, their neighbours, and anything."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import INTEGER_WIDTHS, Kind, SqlType
from tests.rendering.edge_table import COLUMNS

_EPOCH = datetime(1970, 1, 1)
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
_CHANGES = (
    *(
        "1582-10-04 23:59:59.999999",
        "1582-10-15",
        "1893-03-31 23:53:28",
        "1899-12-31",
        "1900-02-28 12:00",
        "1916-04-30 23:00",
    ),
    *(
        "1945-05-24 00:00",
        "1969-12-31 23:59:59.999999",
        "1980-04-06 01:00",
        "1999-12-31 23:59:59",
        "2000-02-29",
        "2016-12-31",
    ),
    *(
        "2024-03-31 00:59:59.999999",
        "2024-03-31 01:00",
        "2024-10-27 00:30",
        "2024-10-27 01:30",
        "2037-10-25 01:00",
        "9999-12-31",
    ),
)
_CHARACTERS = [
    *"aAbBzZ019 _%\\'\"$`{}()[]^.*+?|/-,;:\t\n\r\0\x1f",
    *"äÄßẞéÉıİſKÅΣσςǅǆŉﬀﬁ",
    *(
        "e\u0301",
        "\u00a0",
        "\u2003",
        "\u200d",
        "\ufeff",
        "\uffff",
        "日本",
        "한",
        "ไทย",
        "😀",
        "🦀",
        "👩‍👩‍👧",
        "🇩🇪",
        "\U0010ffff",
    ),
]
_TEXTS = [
    *(
        "",
        " ",
        "true",
        "FALSE",
        "t",
        "no",
        "1",
        "-1",
        "+7",
        " 12 ",
        "1e3",
        "1.5",
        ".5",
        "5.",
        "0x1F",
        "NaN",
        "-Infinity",
        "inf",
    ),
    *(
        "9223372036854775808",
        "-9223372036854775808",
        "99999999999999999999999999999999999999",
        "1.005",
        "12:30",
        "24:00:00",
    ),
    *(
        "2024-02-30",
        "2024-02-29",
        "0001-01-01",
        "9999-12-31",
        "10000-01-01",
        "-0001-01-01",
        "2024-2-9",
        "2024-02-29T12:30:15.5Z",
    ),
    *(
        "2024-03-31 02:30:00",
        "2024-10-27 02:30:00 Europe/Berlin",
        "1582-10-10",
        "infinity",
        "[1]",
        '{"a": 1}',
        "\\xff",
    ),
]


def random_columns(seed: int, rows: int) -> tuple[pa.Array, ...]:
    """A column for each of the edge table's, in canonical types."""
    rng = random.Random(seed)
    return tuple(_column(rng, sql_type, values, rows) for sql_type, values in COLUMNS.values())


def _column(rng: random.Random, sql_type: SqlType, edges: list[Any], rows: int) -> pa.Array:
    make = _maker(sql_type)
    values = []
    for _ in range(rows):
        chance = rng.random()
        value = (
            None
            if chance < 0.05
            else rng.choice(edges)
            if chance < 0.25 or make is None
            else make(rng)
        )
        values.append(value)
    return array_of(values, sql_type)


def _maker(sql_type: SqlType) -> Callable[[random.Random], Any] | None:
    kind = sql_type.kind
    if kind in INTEGER_WIDTHS:
        return lambda rng: _integer(rng, INTEGER_WIDTHS[kind])
    if kind is Kind.DECIMAL:
        return lambda rng: _decimal(rng, sql_type)
    return _MAKERS.get(kind)


def _integer(rng: random.Random, bits: int) -> int:
    """Numbers of every length, the ends and what is next to them."""
    if rng.random() < 0.15:
        return rng.choice(
            (-(2 ** (bits - 1)), 1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1, 2 ** (bits - 1) - 2)
        )
    value = rng.getrandbits(rng.randint(1, bits - 1))
    return -value if rng.random() < 0.5 else value


def _decimal(rng: random.Random, sql_type: SqlType) -> Decimal:
    digits = sql_type.precision if rng.random() < 0.15 else rng.randint(1, sql_type.precision)
    value = 10**digits - 1 if rng.random() < 0.15 else rng.randrange(10**digits)
    if rng.random() < 0.2:
        value = value // 10 * 10 + 5
    return Decimal((rng.random() < 0.5, tuple(map(int, str(value))), -sql_type.scale))


def _double(rng: random.Random) -> float:
    chance = rng.random()
    if chance < 0.3:
        return float(struct.unpack("<d", rng.randbytes(8))[0])
    if chance < 0.5:
        return rng.randint(-1000, 1000) / rng.choice((1, 2, 4, 10, 100, 3))
    if chance < 0.7:
        return float(
            rng.choice((2**31, 2**53, 2**63, 2**62, 2**24)) + rng.choice((-1, 0, 1))
        ) * rng.choice((1, -1))
    return rng.uniform(-1, 1) * 10.0 ** rng.randint(-320, 308)


def _real(rng: random.Random) -> float:
    if rng.random() < 0.5:
        return float(struct.unpack("<f", rng.randbytes(4))[0])
    return float(
        struct.unpack(
            "<f", struct.pack("<f", rng.randint(-1000, 1000) / rng.choice((1, 2, 10, 3)))
        )[0]
    )


def _text(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return rng.choice(_TEXTS)
    return "".join(rng.choices(_CHARACTERS, k=rng.choice((0, 1, 2, 3, 5, 8, 40))))


def _moment(rng: random.Random) -> datetime:
    chance = rng.random()
    if chance < 0.4:
        near = timedelta(
            microseconds=rng.choice(
                (0, 1, -1, 3_600_000_000, -3_600_000_000, rng.randint(-(10**11), 10**11))
            )
        )
        try:
            return datetime.fromisoformat(rng.choice(_CHANGES)) + near
        except OverflowError:
            return datetime.max
    if chance < 0.7:
        return _EPOCH + timedelta(microseconds=rng.randint(_FIRST, _LAST))
    return _EPOCH + timedelta(
        seconds=rng.randint(-(2**31), 2**32), microseconds=rng.choice((0, 0, 1, 500_000, 999_999))
    )


def _day(rng: random.Random) -> date:
    return _moment(rng).date()


def _of_day(rng: random.Random) -> time:
    return (_EPOCH + timedelta(microseconds=rng.randrange(86_400_000_000))).time()


def _span(rng: random.Random) -> timedelta:
    return timedelta(
        microseconds=_integer(rng, 63) if rng.random() < 0.5 else rng.randint(-(10**12), 10**12)
    )


_MAKERS: dict[Kind, Callable[[random.Random], Any]] = {
    Kind.BOOLEAN: lambda rng: rng.random() < 0.5,
    Kind.DOUBLE: _double,
    Kind.REAL: _real,
    Kind.VARCHAR: _text,
    Kind.VARBINARY: lambda rng: rng.randbytes(rng.choice((0, 1, 2, 5, 33))),
    Kind.DATE: _day,
    Kind.TIME: _of_day,
    Kind.TIMESTAMP: _moment,
    Kind.TIMESTAMP_TZ: lambda rng: _moment(rng).replace(tzinfo=UTC),
    Kind.INTERVAL: _span,
    Kind.INTERVAL_MONTH: lambda rng: (
        _integer(rng, 32) if rng.random() < 0.3 else rng.randint(-3000, 3000)
    ),
}
