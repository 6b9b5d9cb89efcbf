"""The tables that generated queries read: few distinct values, so that keys meet, and every kind of
edge among them.

`tables` gives them plainly; `in_disguise` gives the same rows in other physical forms: odd chunks,
sliced arrays, dictionaries, views, large and unsigned types.
"""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCHEMA = {
    "k": pa.int64(),
    "i": pa.int32(),
    "f": pa.float64(),
    "s": pa.string(),
    "d": pa.decimal128(9, 2),
    "b": pa.bool_(),
    "t": pa.date32(),
    "w": pa.timestamp("us"),
}
KINDS = {
    "k": "int",
    "i": "int",
    "f": "float",
    "s": "text",
    "d": "decimal",
    "b": "bool",
    "t": "date",
    "w": "time",
}
VALUES: dict[str, list[Any]] = {
    "k": [None, 0, 1, 2, 3, 4, -1, 7],
    "i": [None, 0, 1, 2, 3, -2],
    "f": [None, 0.0, -0.0, float("nan"), 1.0, 1.5, -2.25, 3.0],
    "s": [None, "", "a", "b", "ab", "B", "é", "a%"],
    "d": [
        None,
        Decimal("0.00"),
        Decimal("1.00"),
        Decimal("1.50"),
        Decimal("-2.25"),
        Decimal("3.00"),
    ],
    "b": [None, True, False],
    "t": [None, date(1969, 12, 31), date(2024, 2, 29), date(2024, 3, 1)],
    "w": [
        None,
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(2024, 2, 29),
        datetime(2024, 2, 29, 12, 30),
    ],
}
SIZES = {"a": 23, "b": 11, "c": 4, "e": 0}


def tables(source: random.Random) -> dict[str, pa.Table]:
    """Tables by name, of the same columns; one is empty."""
    return {
        name: pa.table(
            {
                column: pa.array(source.choices(VALUES[column], k=size), SCHEMA[column])
                for column in SCHEMA
            }
        )
        for name, size in SIZES.items()
    }


def in_disguise(table: pa.Table, source: random.Random) -> pa.Table:
    """The same rows, otherwise stored."""
    columns = [_disguised(column.combine_chunks(), source) for column in table.columns]
    length = table.num_rows
    cuts = sorted(source.choices(range(length + 1), k=source.choice((0, 1, 4))))
    pieces = [
        pa.table([column.slice(start, end - start) for column in columns], names=table.column_names)
        for start, end in zip([0, *cuts], [*cuts, length], strict=True)
    ]
    return pa.concat_tables(pieces)


def _disguised(column: pa.Array, source: random.Random) -> pa.Array:
    match source.choice([str(column.type), "plain", "sliced"]):
        case "sliced":
            junk = (
                pa.array(VALUES["k"], pa.int64()).cast(column.type)
                if pa.types.is_integer(column.type)
                else column
            )
            return pa.concat_arrays([junk, column, junk]).slice(len(junk), len(column))
        case "string":
            return source.choice(
                [
                    lambda: column.cast(pa.large_string()),
                    lambda: column.cast(pa.string_view()),
                    column.dictionary_encode,
                    lambda: pa.DictionaryArray.from_arrays(
                        column.dictionary_encode().indices.cast(pa.uint8()),
                        column.dictionary_encode().dictionary,
                    ),
                ]
            )()
        case "int32":
            return source.choice(
                [column.cast(pa.int16()).cast(pa.int32()), column.dictionary_encode()]
            )
        case "timestamp[us]":
            return column.cast(pa.timestamp("ns"))
    return column
