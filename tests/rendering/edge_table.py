"""One table of edge values for every type, in which every two values of two columns meet in some
row.

With a prime number of rows per value and column (an orthogonal array), every pair of columns shows
every pair of their values, so that one table serves every function of two arguments, and every
engine.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa

from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Column
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    INTERVAL_MONTH,
    JSON,
    REAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    TINYINT,
    VARBINARY,
    VARCHAR,
    SqlType,
    array,
    decimal,
)

NAN, INF = math.nan, math.inf
PRIME = 37


def _texts() -> list[Any]:
    return [
        *(
            None,
            "",
            "a",
            "Hello World",
            " pad ",
            "ÄÖ ß İ",
            "a,b,,c",
            "100%",
            "line\nbreak",
            "日本語",
            "xxaxx",
            "e\u0301a",
        ),
        *(
            "\0a",
            "it's",
            "back\\slash",
            '"',
            "😀😀",
            "a_b",
            "ǅ ŉ ﬀ",
            "12",
            "\t x ",
            "2020-02-29",
            "true",
            "%",
            "ſK",
            "zz" * 40,
        ),
    ]


def _dates() -> list[Any]:
    days = [
        date(1970, 1, 1),
        date(2000, 2, 29),
        date(1969, 12, 31),
        date(1, 1, 1),
        date(9999, 12, 31),
        date(2021, 1, 1),
    ]
    return [
        None,
        *days,
        date(2020, 12, 31),
        date(2024, 2, 29),
        date(1900, 3, 1),
        date(2023, 1, 31),
        date(1582, 10, 10),
    ]


def _moments() -> list[Any]:
    return [
        None,
        datetime(1970, 1, 1),
        datetime(2020, 2, 29, 23, 59, 59, 999999),
        datetime(1969, 12, 31, 23, 59, 59, 500000),
        datetime(1, 1, 1),
        datetime(2001, 1, 1, 12),
        datetime(2000, 12, 31, 1, 2, 3, 4),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime(2024, 3, 31, 2, 30),
        datetime(2024, 10, 27, 2, 30),
        datetime(1899, 7, 31, 13, 0, 0, 1),
        datetime(1582, 10, 10, 0, 0, 1),
        datetime(2023, 1, 31, 10, 11, 12, 130000),
    ]


def _instants() -> list[Any]:
    return [None if value is None else value.replace(tzinfo=UTC) for value in _moments()]


def _spans() -> list[Any]:
    micros = [0, 1, -1, 86_400_000_000, -90_000_000_001, 3_600_000_000, 10**15, 59_999_999, 2**62]
    return [None, *(timedelta(microseconds=value) for value in micros)]


def _doubles() -> list[Any]:
    values = [
        0.0,
        -0.0,
        1.5,
        -2.5,
        NAN,
        INF,
        -INF,
        1.7976931348623157e308,
        5e-324,
        0.1,
        0.5,
        -0.5,
        2.5,
        1.0,
        -1.0,
    ]
    return [
        None,
        *values,
        0.49999999999999994,
        1e20,
        123456789.125,
        1e-7,
        2.0**53,
        9.2e18,
        2.0**63,
        -(2.0**63),
        1e16,
        2.675,
    ]


def _reals() -> list[Any]:
    return [
        None,
        0.0,
        -0.0,
        1.5,
        -2.25,
        NAN,
        INF,
        -INF,
        3.4028234663852886e38,
        2.0**-149,
        0.5,
        16777216.0,
        0.10000000149011612,
    ]


def _decimals(*texts: str) -> list[Any]:
    return [None, *map(Decimal, texts)]


_MONEY = _decimals(
    "0",
    "1.50",
    "-2.65",
    "9999999999999.99",
    "-9999999999999.99",
    "0.01",
    "0.05",
    "-0.01",
    "7",
    "0.33",
    "100",
)
_WIDE = _decimals(
    "0",
    "0.0000000001",
    "-1.5",
    "9" * 28 + "." + "9" * 10,
    "-" + "9" * 28 + "." + "9" * 10,
    "2.5",
    "0.5",
)
COLUMNS: dict[str, tuple[SqlType, list[Any]]] = {
    "b": (BOOLEAN, [None, True, False]),
    "b2": (BOOLEAN, [None, True, False]),
    "tiny": (TINYINT, [None, 0, 1, -1, 7, 127, -128]),
    "tiny2": (TINYINT, [None, 0, 1, -1, 7, 127, -128]),
    "small": (SMALLINT, [None, 0, 1, -1, 300, 32767, -32768]),
    "i": (INTEGER, [None, 0, 1, -1, 2, 3, 12345, 2**31 - 1, -(2**31)]),
    "i2": (INTEGER, [None, 0, 1, -1, 2, 3, 12345, 2**31 - 1, -(2**31)]),
    "big": (BIGINT, [None, 0, 1, -1, 7, -13, 9_876_543_210, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "big2": (BIGINT, [None, 0, 1, -1, 7, -13, 9_876_543_210, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "price": (
        decimal(5, 2),
        _decimals("0", "1.50", "-2.65", "999.99", "-999.99", "0.01", "0.05", "3"),
    ),
    "money": (decimal(15, 2), _MONEY),
    "money2": (decimal(15, 2), _MONEY),
    "wide": (decimal(38, 10), _WIDE),
    "wide2": (decimal(38, 10), _WIDE),
    "whole": (
        decimal(38, 0),
        _decimals("0", "1", "-7", "9" * 38, "-" + "9" * 38, "10000000000000000000"),
    ),
    "long": (
        decimal(18, 4),
        _decimals("0", "99999999999999.9999", "-99999999999999.9999", "1.0001", "-0.5"),
    ),
    "part": (decimal(6, 6), _decimals("0", "0.5", "-0.000001", "0.999999")),
    "r": (REAL, _reals()),
    "r2": (REAL, _reals()),
    "x": (DOUBLE, _doubles()),
    "x2": (DOUBLE, _doubles()),
    "s": (VARCHAR, _texts()),
    "s2": (VARCHAR, [None, "", "a", "x", "本", "ß", "e", "aX", "l", "\\", "%", "😀"]),
    "bytes": (VARBINARY, [None, b"", b"a", b"\xff\x00", "é".encode(), b"\0"]),
    "json": (JSON, [None, '{"a": 1}', "[]"]),
    "d": (DATE, _dates()),
    "d2": (DATE, _dates()),
    "t": (TIME, [None, time(0), time(23, 59, 59, 999999), time(12, 30, 15, 500000), time(12, 30)]),
    "t2": (TIME, [None, time(0), time(23, 59, 59, 999999), time(12, 30, 15, 500000)]),
    "ts": (TIMESTAMP, _moments()),
    "ts2": (TIMESTAMP, _moments()),
    "tz": (TIMESTAMP_TZ, _instants()),
    "tz2": (TIMESTAMP_TZ, _instants()),
    "span": (INTERVAL, _spans()),
    "span2": (INTERVAL, _spans()),
    "months": (INTERVAL_MONTH, [None, 0, 1, -1, 12, -13, 11, 119_988, 2**31 - 1]),
    "months2": (INTERVAL_MONTH, [None, 0, 1, -1, 12, -13, 2**31 - 1]),
    "list": (array(VARCHAR), [None, [], ["a", None], ["b"]]),
}
"""Columns of one type come in pairs, so that both operands of an operator may be of it."""

NAMES = list(COLUMNS)
ROWS = PRIME * PRIME


def value_number(index: int, row: int) -> int:
    """Which of its values a column has in a row."""
    place = row // PRIME if index == PRIME else ((row // PRIME) * index + row) % PRIME
    return place % len(COLUMNS[NAMES[index]][1])


@cache
def arrays() -> tuple[pa.Array, ...]:
    """The columns, in canonical types."""
    assert len(COLUMNS) <= PRIME + 1
    made = []
    for number, (sql_type, values) in enumerate(COLUMNS.values()):
        assert len(values) <= PRIME
        made.append(array_of([values[value_number(number, row)] for row in range(ROWS)], sql_type))
    return tuple(made)


def column(name: str) -> Column:
    """The column as an expression."""
    return Column(index=NAMES.index(name), name=name, type=COLUMNS[name][0])


@cache
def stored() -> pa.Table:
    """The table as engines get it: intervals as numbers, columns c0, c1, …, and the number of the
    row."""
    columns = [
        item.cast(pa.int64()) if pa.types.is_duration(item.type) else item for item in arrays()
    ]
    names = [f"c{i}" for i in range(len(columns))]
    return pa.table([*columns, pa.array(range(ROWS), pa.int64())], names=[*names, "row"])


COLUMN_TEXTS = [f"c{i}" for i in range(len(COLUMNS))]
