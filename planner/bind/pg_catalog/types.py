"""The types with the numbers and names that PostgreSQL has for them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from zlib import crc32

from runnel.base.frozen import frozen
from runnel.errors import DatabaseError
from runnel.planner.parse.types import parse_type
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    JSON,
    REAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    UUID,
    VARBINARY,
    VARCHAR,
    Kind,
    SqlType,
    decimal,
)


@frozen
class PgType:
    """A row of pg_type.

    oid: its number.
    name: its name in pg_type: int4.
    shown: its name in SQL: integer.
    length: bytes of a value; -1: it varies.
    category: the family, as in pg_type.typcategory.
    element: number of the type of the elements of an array; 0: it is no array.
    array: number of the array of this type; 0: there is none.
    """

    oid: int
    name: str
    shown: str
    length: int
    category: str
    element: int = 0
    array: int = 0


_TEXT = """
16 bool boolean 1 B 1000
17 bytea bytea -1 U 1001
18 char "char" 1 Z 1002
19 name name 64 S 1003
20 int8 bigint 8 N 1016
21 int2 smallint 2 N 1005
23 int4 integer 4 N 1007
24 regproc regproc 4 N 1008
25 text text -1 S 1009
26 oid oid 4 N 1028
114 json json -1 U 199
700 float4 real 4 N 1021
701 float8 double_precision 8 N 1022
1042 bpchar character -1 S 1014
1043 varchar character_varying -1 S 1015
1082 date date 4 D 1182
1083 time time_without_time_zone 8 D 1183
1114 timestamp timestamp_without_time_zone 8 D 1115
1184 timestamptz timestamp_with_time_zone 8 D 1185
1186 interval interval 16 T 1187
1700 numeric numeric -1 N 1231
2205 regclass regclass 4 N 2210
2206 regtype regtype 4 N 2211
2249 record record -1 P 2287
2278 void void 4 P 0
2950 uuid uuid 16 U 2951
3802 jsonb jsonb -1 U 3807
"""
"""Number, name, name in SQL, length, category and number of the array of each type."""

_OF_KIND = {
    Kind.BOOLEAN: 16,
    Kind.VARBINARY: 17,
    Kind.BIGINT: 20,
    Kind.SMALLINT: 21,
    Kind.TINYINT: 21,
    Kind.INTEGER: 23,
    Kind.NULL: 25,
    Kind.JSON: 114,
    Kind.REAL: 700,
    Kind.DOUBLE: 701,
    Kind.VARCHAR: 1043,
    Kind.DATE: 1082,
    Kind.TIME: 1083,
    Kind.TIMESTAMP: 1114,
    Kind.TIMESTAMP_TZ: 1184,
    Kind.INTERVAL: 1186,
    Kind.INTERVAL_MONTH: 1186,
    Kind.INTERVAL_MIXED: 1186,
    Kind.DECIMAL: 1700,
    Kind.ROW: 2249,
    Kind.UUID: 2950,
}
"""The number of the type that stands for each family. A TINYINT is a smallint; a MAP has a type of
its own."""

TYPE_OF = {
    16: BOOLEAN,
    17: VARBINARY,
    20: BIGINT,
    21: SMALLINT,
    23: INTEGER,
    25: VARCHAR,
    26: BIGINT,
    114: JSON,
    700: REAL,
    701: DOUBLE,
    1043: VARCHAR,
    1082: DATE,
    1083: TIME,
    1114: TIMESTAMP,
    1184: TIMESTAMP_TZ,
    1186: INTERVAL,
    1700: decimal(),
    2950: UUID,
}
"""The type of each number that stands for one."""


@cache
def base_types() -> dict[int, PgType]:
    """The types of PostgreSQL by number, with their arrays."""
    found: dict[int, PgType] = {}
    for line in _TEXT.split("\n")[1:-1]:
        number, name, shown, length, category, array = line.split()
        shown = shown.replace("_", " ")
        item = PgType(int(number), name, shown, int(length), category, array=int(array))
        found[item.oid] = item
        if item.array:
            found[item.array] = PgType(item.array, f"_{name}", f"{shown}[]", -1, "A", item.oid)
    return found


def oid_of(sql_type: SqlType) -> int:
    """The number of a type; of a nested ARRAY the one of its innermost elements' ARRAY."""
    if sql_type.kind is Kind.ARRAY and sql_type.element is not None:
        inner = sql_type.element
        while inner.kind is Kind.ARRAY and inner.element is not None:
            inner = inner.element
        element = base_types().get(oid_of(inner))
        return element.array if element and element.array else _own_oid(sql_type)
    return _OF_KIND.get(sql_type.kind) or _own_oid(sql_type)


def _own_oid(sql_type: SqlType) -> int:
    """The number of a type that PostgreSQL does not have: MAP."""
    return 2**31 + crc32(str(sql_type).encode()) % 2**30


def modifier_of(sql_type: SqlType) -> int:
    """pg_attribute.atttypmod: the digits of a DECIMAL; -1 for other types."""
    if sql_type.kind is Kind.DECIMAL:
        return ((sql_type.precision << 16) | sql_type.scale) + 4
    return -1


def all_types(used: Iterator[SqlType]) -> dict[int, PgType]:
    """The types of PostgreSQL, and the used ones that it does not have."""
    found = dict(base_types())
    for sql_type in used:
        oid = oid_of(sql_type)
        if oid not in found:
            found[oid] = PgType(oid, str(sql_type).lower(), str(sql_type), -1, "U")
    return found


def shown(item: PgType, modifier: int | None) -> str:
    """A type as format_type shows it, with the digits that the modifier has."""
    if modifier is None or modifier < 4 or item.name not in ("numeric", "varchar", "_numeric"):
        return item.shown
    digits = modifier - 4
    if item.name == "varchar":
        return f"{item.shown}({digits})"
    name, brackets = "numeric", "[]" if item.element else ""
    return f"{name}({digits >> 16},{digits & 0xFFFF}){brackets}"


def named_type(text: str) -> PgType | None:
    """The type that a text names, in SQL or in pg_type; None if there is none."""
    name = text.strip().removeprefix("pg_catalog.").strip('"').lower()
    for item in base_types().values():
        if name in (item.name, item.shown):
            return item
    try:
        return base_types().get(oid_of(parse_type(text)))
    except DatabaseError:
        return None
