"""PEP 249's type objects and constructors.

A type object equals the types of its family: `cursor.description[i][1] == runnel.NUMBER` is True if
column i holds numbers. The type code in `description` is a `SqlType`.
"""

from __future__ import annotations

from datetime import date, datetime, time

from runnel.sqltypes import Kind, SqlType

Date = date
Time = time
Timestamp = datetime


class TypeObject:
    """A family of SQL types, by PEP 249's name for it."""

    __slots__ = ("kinds", "name")

    def __init__(self, name: str, *kinds: Kind) -> None:
        self.name = name
        self.kinds = frozenset(kinds)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SqlType):
            return other.kind in self.kinds
        if isinstance(other, TypeObject):
            return self.name == other.name
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"runnel.{self.name}"


STRING = TypeObject("STRING", Kind.VARCHAR, Kind.JSON, Kind.UUID)
BINARY = TypeObject("BINARY", Kind.VARBINARY)
NUMBER = TypeObject(
    "NUMBER",
    Kind.TINYINT,
    Kind.SMALLINT,
    Kind.INTEGER,
    Kind.BIGINT,
    Kind.DECIMAL,
    Kind.REAL,
    Kind.DOUBLE,
)
DATETIME = TypeObject(
    "DATETIME",
    Kind.DATE,
    Kind.TIME,
    Kind.TIMESTAMP,
    Kind.TIMESTAMP_TZ,
    Kind.INTERVAL,
    Kind.INTERVAL_MONTH,
    Kind.INTERVAL_MIXED,
)
ROWID = TypeObject("ROWID")


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - PEP 249's name
    """The local date at `ticks` seconds since the epoch."""
    return datetime.fromtimestamp(ticks).date()


def TimeFromTicks(ticks: float) -> time:  # noqa: N802 - PEP 249's name
    """The local time of day at `ticks` seconds since the epoch."""
    return datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802 - PEP 249's name
    """The local date and time at `ticks` seconds since the epoch."""
    return datetime.fromtimestamp(ticks)


def Binary(value: bytes | bytearray | memoryview) -> bytes:  # noqa: N802 - PEP 249's name
    """The value as VARBINARY."""
    return bytes(value)
