"""SQL types: their names, their Arrow types, and the common type of two.

Each SQL type has exactly one Arrow type in which the engine computes (its canonical type). Scans
convert data of other Arrow types to it. The numeric rules follow Hazelcast SQL, the rest
PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import pyarrow as pa

from runnel.errors import NotSupportedError

MAX_PRECISION = 38


class Kind(Enum):
    """The family of a type; the values are the precedence, lowest first."""

    NULL = 0
    INTERVAL_MONTH = 1
    INTERVAL = 2
    INTERVAL_MIXED = 3
    MAP = 4
    ARRAY = 5
    ROW = 6
    JSON = 7
    VARBINARY = 8
    VARCHAR = 9
    BOOLEAN = 10
    TINYINT = 11
    SMALLINT = 12
    INTEGER = 13
    BIGINT = 14
    DECIMAL = 15
    REAL = 16
    DOUBLE = 17
    TIME = 18
    DATE = 19
    TIMESTAMP = 20
    TIMESTAMP_TZ = 21
    UUID = 22

    # Members are compared by identity. Enum hashes their names in Python, and types are part of the
    # key of each look-up in the plan cache.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class SqlType:
    """A SQL type.

    kind: the family.
    precision, scale: digits, and digits after the point, of a DECIMAL.
    element: type of the items of an ARRAY, or of the values of a MAP.
    key: type of the keys of a MAP.
    fields: names and types of the fields of a ROW.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    element: SqlType | None = None
    key: SqlType | None = None
    fields: tuple[tuple[str, SqlType], ...] = ()

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.kind is Kind.ARRAY:
            return f"{self.element}[]"
        if self.kind is Kind.MAP:
            return f"MAP({self.key}, {self.element})"
        if self.kind is Kind.ROW:
            return "ROW(" + ", ".join(f"{name} {item}" for name, item in self.fields) + ")"
        return _NAMES.get(self.kind, self.kind.name)

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGER_WIDTHS

    @property
    def is_exact(self) -> bool:
        """An integer or a DECIMAL."""
        return self.kind in INTEGER_WIDTHS or self.kind is Kind.DECIMAL

    @property
    def is_approximate(self) -> bool:
        """REAL or DOUBLE."""
        return self.kind is Kind.REAL or self.kind is Kind.DOUBLE

    @property
    def is_numeric(self) -> bool:
        return self.is_exact or self.is_approximate

    @property
    def is_temporal(self) -> bool:
        return self.kind in (Kind.TIME, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)

    @property
    def is_interval(self) -> bool:
        return self.kind in INTERVAL_KINDS

    @property
    def is_nested(self) -> bool:
        return self.kind in (Kind.ARRAY, Kind.ROW, Kind.MAP)


INTEGER_WIDTHS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INTEGER: 32, Kind.BIGINT: 64}
INTERVAL_KINDS = frozenset({Kind.INTERVAL, Kind.INTERVAL_MONTH, Kind.INTERVAL_MIXED})
"""The kinds of intervals: of days and less, of months, and of both."""
NUMBERS = frozenset({*INTEGER_WIDTHS, Kind.DECIMAL, Kind.REAL, Kind.DOUBLE})
"""The kinds of numbers."""
_NAMES = {
    Kind.TIMESTAMP_TZ: "TIMESTAMP WITH TIME ZONE",
    Kind.INTERVAL: "INTERVAL DAY TO SECOND",
    Kind.INTERVAL_MONTH: "INTERVAL YEAR TO MONTH",
    Kind.INTERVAL_MIXED: "INTERVAL",
}

NULL = SqlType(Kind.NULL)
BOOLEAN = SqlType(Kind.BOOLEAN)
TINYINT = SqlType(Kind.TINYINT)
SMALLINT = SqlType(Kind.SMALLINT)
INTEGER = SqlType(Kind.INTEGER)
BIGINT = SqlType(Kind.BIGINT)
REAL = SqlType(Kind.REAL)
DOUBLE = SqlType(Kind.DOUBLE)
VARCHAR = SqlType(Kind.VARCHAR)
VARBINARY = SqlType(Kind.VARBINARY)
JSON = SqlType(Kind.JSON)
UUID = SqlType(Kind.UUID)
DATE = SqlType(Kind.DATE)
TIME = SqlType(Kind.TIME)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
TIMESTAMP_TZ = SqlType(Kind.TIMESTAMP_TZ)
INTERVAL = SqlType(Kind.INTERVAL)
INTERVAL_MONTH = SqlType(Kind.INTERVAL_MONTH)
INTERVAL_MIXED = SqlType(Kind.INTERVAL_MIXED)

INTEGERS = (TINYINT, SMALLINT, INTEGER, BIGINT)
INTEGER_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 19}


def decimal(precision: int = MAX_PRECISION, scale: int = 10) -> SqlType:
    """DECIMAL(precision, scale); bare DECIMAL is (38, 10)."""
    return SqlType(Kind.DECIMAL, precision, scale)


def array(element: SqlType) -> SqlType:
    return SqlType(Kind.ARRAY, element=element)


class UnnamedField(str):
    """The name of a field of ROW(a, b) or (a, b), which has no name: f1, f2, … A cursor returns
    such a row as a tuple, as in DuckDB. Stored types have these names as any other."""

    __slots__ = ()


def unnamed_row(*types: SqlType) -> SqlType:
    """A ROW of fields f1, f2, …"""
    return row(*((UnnamedField(f"f{number}"), item) for number, item in enumerate(types, 1)))


def row(*fields: tuple[str, SqlType]) -> SqlType:
    return SqlType(Kind.ROW, fields=fields)


def map_of(key: SqlType, value: SqlType) -> SqlType:
    return SqlType(Kind.MAP, element=value, key=key)


_ARROW = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INTEGER: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.REAL: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.VARCHAR: pa.string(),
    Kind.JSON: pa.string(),
    Kind.UUID: pa.string(),
    Kind.VARBINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMP_TZ: pa.timestamp("us", "UTC"),
    Kind.INTERVAL: pa.duration("us"),
    Kind.INTERVAL_MONTH: pa.int32(),
    Kind.INTERVAL_MIXED: pa.month_day_nano_interval(),
}


@lru_cache(maxsize=4096)
def to_arrow(sql_type: SqlType) -> pa.DataType:
    """The canonical Arrow type of a SQL type. A year-month interval is its number of months."""
    kind = sql_type.kind
    if kind is Kind.DECIMAL:
        return pa.decimal128(sql_type.precision, sql_type.scale)
    if kind is Kind.ARRAY and sql_type.element is not None:
        return pa.list_(to_arrow(sql_type.element))
    if kind is Kind.MAP and sql_type.key is not None and sql_type.element is not None:
        return pa.map_(to_arrow(sql_type.key), to_arrow(sql_type.element))
    if kind is Kind.ROW:
        return pa.struct([pa.field(name, to_arrow(item)) for name, item in sql_type.fields])
    return _ARROW[kind]


_UNSIGNED = {
    pa.uint8(): SMALLINT,
    pa.uint16(): INTEGER,
    pa.uint32(): BIGINT,
    pa.uint64(): decimal(20, 0),
}
_FROM_ARROW = {
    arrow: SqlType(kind)
    for kind, arrow in _ARROW.items()
    if kind not in (Kind.JSON, Kind.UUID, Kind.INTERVAL_MONTH)
}
_FROM_ARROW |= _UNSIGNED | {
    pa.float16(): REAL,
    pa.large_string(): VARCHAR,
    pa.string_view(): VARCHAR,
    pa.large_binary(): VARBINARY,
    pa.binary_view(): VARBINARY,
    pa.date64(): DATE,
    pa.uuid(): UUID,
}


@lru_cache(maxsize=4096)
def from_arrow(arrow: pa.DataType) -> SqlType:
    """The SQL type that holds every value of an Arrow type; NotSupportedError if there is none."""
    known = _FROM_ARROW.get(arrow)
    if known is not None:
        return known
    if pa.types.is_timestamp(arrow):
        return TIMESTAMP if arrow.tz is None else TIMESTAMP_TZ
    if pa.types.is_time(arrow):
        return TIME
    if pa.types.is_duration(arrow):
        return INTERVAL
    if (
        pa.types.is_decimal(arrow)
        and arrow.precision <= MAX_PRECISION
        and 0 <= arrow.scale <= arrow.precision
    ):
        return decimal(arrow.precision, arrow.scale)
    if pa.types.is_fixed_size_binary(arrow):
        return VARBINARY
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return from_arrow(arrow.value_type)
    return _from_nested(arrow)


def _from_nested(arrow: pa.DataType) -> SqlType:
    if pa.types.is_map(arrow):
        return map_of(from_arrow(arrow.key_type), from_arrow(arrow.item_type))
    if pa.types.is_struct(arrow):
        names = [arrow.field(i).name for i in range(arrow.num_fields)]
        if len(set(names)) < len(names):
            raise NotSupportedError(
                f"Arrow type {arrow} has two fields of one name",
                hint="rename one of them before you register the data",
            )
        return row(
            *(
                (arrow.field(i).name, from_arrow(arrow.field(i).type))
                for i in range(arrow.num_fields)
            )
        )
    if (
        pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
        or pa.types.is_list_view(arrow)
        or pa.types.is_large_list_view(arrow)
    ):
        return array(from_arrow(arrow.value_type))
    if isinstance(arrow, pa.BaseExtensionType):
        return from_arrow(arrow.storage_type)
    raise NotSupportedError(
        f"Arrow type {arrow} is not supported",
        hint="cast the column to a supported type before you register it",
    )


def fitting_integer(bits: int) -> SqlType:
    """The narrowest integer type with at least `bits` bits; BIGINT if none is wide enough."""
    return next((item for item in INTEGERS if INTEGER_WIDTHS[item.kind] >= bits), BIGINT)


def integer_type_of(value: int) -> SqlType:
    """The type of an integer literal: the narrowest that holds it, DECIMAL beyond BIGINT."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    if bits <= 64:
        return fitting_integer(bits)
    return decimal(min(len(str(abs(value))), MAX_PRECISION), 0)


def as_decimal(sql_type: SqlType) -> SqlType:
    """The DECIMAL that holds every value of an exact type."""
    if sql_type.kind is Kind.DECIMAL:
        return sql_type
    return decimal(INTEGER_DIGITS[sql_type.kind], 0)


def capped_decimal(precision: int, scale: int) -> SqlType:
    """A DECIMAL limited to 38 digits: first the scale is reduced, but not below 6 (or below the
    original scale, if that is smaller)."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    reduced = max(MAX_PRECISION - whole, min(scale, 6))
    return decimal(MAX_PRECISION, reduced)


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The least restrictive type of two, as for UNION, CASE, COALESCE and comparison; None if there
    is none.

    Of two numbers it is the type with the higher precedence; of two DECIMALs one that holds both,
    as far as 38 digits allow; of temporal types the wider; of ARRAY and ROW the common type of each
    element. Two kinds of intervals have INTERVAL. VARCHAR and a number have none.
    """
    if left == right:
        return left
    if left.kind is Kind.NULL:
        return right
    if right.kind is Kind.NULL:
        return left
    if left.is_numeric and right.is_numeric:
        return _common_number(left, right)
    kinds = {left.kind, right.kind}
    if kinds <= {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ}:
        return left if left.kind.value > right.kind.value else right
    if kinds <= INTERVAL_KINDS:
        return INTERVAL_MIXED
    if kinds == {Kind.JSON, Kind.VARCHAR}:
        return VARCHAR
    if left.kind is right.kind and left.is_nested:
        return _common_nested(left, right)
    return None


def has_mixed_interval(sql_type: SqlType) -> bool:
    """Whether values of the type are, or contain, intervals of months and days."""
    return contains(sql_type, Kind.INTERVAL_MIXED)


def contains(sql_type: SqlType, kind: Kind) -> bool:
    """Whether values of the type are, or contain, values of a kind."""
    inner = [item for item in (sql_type.element, sql_type.key) if item is not None]
    inner += [item for _, item in sql_type.fields]
    return sql_type.kind is kind or any(contains(item, kind) for item in inner)


def loses_digits(left: SqlType, right: SqlType) -> bool:
    """Whether the common type of two types cannot hold all of their digits: exact numbers, also
    within ARRAY, MAP and ROW, that need more than 38 together."""
    if left.is_exact and right.is_exact:
        first, second = as_decimal(left), as_decimal(right)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        return whole + max(first.scale, second.scale) > MAX_PRECISION
    if left.kind is not right.kind or not left.is_nested:
        return False
    pairs = [(left.element, right.element), (left.key, right.key)]
    pairs += [
        (first, second) for (_, first), (_, second) in zip(left.fields, right.fields, strict=False)
    ]
    return any(
        first is not None and second is not None and loses_digits(first, second)
        for first, second in pairs
    )


def _common_number(left: SqlType, right: SqlType) -> SqlType:
    if left.kind is Kind.DECIMAL or right.kind is Kind.DECIMAL:
        if left.is_approximate or right.is_approximate:
            return DOUBLE if Kind.DOUBLE in (left.kind, right.kind) else REAL
        first, second = as_decimal(left), as_decimal(right)
        scale = max(first.scale, second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        return capped_decimal(whole + scale, scale)
    return left if left.kind.value > right.kind.value else right


def _common_nested(left: SqlType, right: SqlType) -> SqlType | None:
    if left.kind is Kind.ROW:
        if len(left.fields) != len(right.fields):
            return None
        merged = []
        for (name, first), (_, second) in zip(left.fields, right.fields, strict=True):
            item = common_type(first, second)
            if item is None:
                return None
            merged.append((name, item))
        return row(*merged)
    assert left.element is not None and right.element is not None
    element = common_type(left.element, right.element)
    if element is None:
        return None
    if left.kind is Kind.ARRAY:
        return array(element)
    assert left.key is not None and right.key is not None
    key = common_type(left.key, right.key)
    return None if key is None else map_of(key, element)


def can_cast(source: SqlType, target: SqlType) -> bool:
    """Whether CAST(source AS target) is allowed; whether a value can be converted is known only at
    run time."""
    if source == target or source.kind is Kind.NULL:
        return True
    if source.kind is Kind.JSON:
        return not contains(target, Kind.VARBINARY)
    if source.is_nested or target.is_nested:
        return _can_cast_nested(source, target)
    if source.kind is Kind.VARCHAR or target.kind in (Kind.VARCHAR, source.kind):
        return True
    if source.is_numeric:
        return target.is_numeric or (target.kind is Kind.BOOLEAN and source.is_integer)
    if source.kind is Kind.BOOLEAN:
        return target.is_integer
    if source.is_interval:
        return target.is_interval and Kind.INTERVAL_MIXED in (source.kind, target.kind)
    allowed = {
        Kind.DATE: (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ),
        Kind.TIME: (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ),
        Kind.TIMESTAMP: (Kind.DATE, Kind.TIME, Kind.TIMESTAMP_TZ),
        Kind.TIMESTAMP_TZ: (Kind.DATE, Kind.TIME, Kind.TIMESTAMP),
    }
    return target.kind in allowed.get(source.kind, ())


def _can_cast_nested(source: SqlType, target: SqlType) -> bool:
    if target.kind in (Kind.VARCHAR, Kind.JSON):
        return True
    if source.kind is Kind.VARCHAR and target.kind is Kind.ARRAY:
        assert target.element is not None
        return can_cast(source, target.element)
    if source.kind is not target.kind:
        return False
    if source.kind is Kind.ROW:
        return len(source.fields) == len(target.fields) and all(
            can_cast(first, second)
            for (_, first), (_, second) in zip(source.fields, target.fields, strict=True)
        )
    assert source.element is not None and target.element is not None
    if source.kind is Kind.MAP:
        assert source.key is not None and target.key is not None
        if not can_cast(source.key, target.key):
            return False
    return can_cast(source.element, target.element)


def can_assign(source: SqlType, target: SqlType) -> bool:
    """Whether INSERT and UPDATE convert `source` to `target` without a CAST: within numbers, within
    temporal types, each interval to INTERVAL, VARCHAR and JSON, UUID to VARCHAR. (The binder
    converts a VARCHAR literal or parameter for a temporal column.)"""
    if source == target or source.kind is Kind.NULL:
        return True
    if source.is_numeric and target.is_numeric:
        return True
    if source.is_temporal and target.is_temporal:
        return can_cast(source, target)
    if source.is_nested and source.kind is target.kind:
        return can_cast(source, target)
    if source.is_interval:
        return target.kind is Kind.INTERVAL_MIXED
    if source.kind is Kind.UUID:
        return target.kind is Kind.VARCHAR
    return {source.kind, target.kind} == {Kind.JSON, Kind.VARCHAR}
