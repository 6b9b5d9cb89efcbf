"""Tables that exist for planning only: fixed columns, fixed sizes, no rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runnel.catalog import Catalog, Index, Mapping, Snapshot, TableColumn
from runnel.connector import (
    IndexedTable,
    IndexLookup,
    KeyedTable,
    ReadableTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    WriteMode,
)
from runnel.processor import JobContext
from runnel.sqltypes import BIGINT, INTEGER, TIMESTAMP, VARCHAR, SqlType, array, decimal


class EmptySource(Source):
    """A source of no partitions, which remembers what it was asked for."""

    def __init__(self, request: ScanRequest, lookup: IndexLookup | None = None) -> None:
        self.request = request
        self.lookup = lookup

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return ()


class SampleTable(ReadableTable):
    """A table that can be read."""

    connector = "Sample"

    def __init__(
        self, name: str, columns: dict[str, SqlType], rows: int | None, unbounded: bool = False
    ) -> None:
        self.name = name
        self.columns = tuple(TableColumn(column, kind) for column, kind in columns.items())
        self.rows = rows
        self.unbounded = unbounded
        self.sources: list[EmptySource] = []

    @property
    def is_unbounded(self) -> bool:
        return self.unbounded

    def row_count(self) -> int | None:
        return self.rows

    def scan(self, request: ScanRequest) -> Source:
        self.sources.append(EmptySource(request))
        return self.sources[-1]


class SampleMap(SampleTable, IndexedTable, KeyedTable):
    """A table with a key and indexes, like a map; its first column is the key."""

    @property
    def key_columns(self) -> tuple[int, ...]:
        return (0,)

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset(WriteMode)

    def validate_index(self, index: Index) -> None:
        """Any index is possible."""

    def index_scan(self, request: ScanRequest, lookup: IndexLookup) -> Source:
        self.sources.append(EmptySource(request, lookup))
        return self.sources[-1]

    def sink(self, request: SinkRequest) -> Sink:
        raise AssertionError("planning writes nothing")

    def get(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        raise AssertionError("planning reads nothing")

    def put(self, row: tuple[Any, ...], mode: WriteMode) -> int:
        raise AssertionError("planning writes nothing")

    def clear(self) -> int:
        raise AssertionError("planning writes nothing")


def trades() -> SampleMap:
    columns = {
        "__key": BIGINT,
        "ticker": VARCHAR,
        "price": decimal(10, 2),
        "quantity": INTEGER,
        "ts": TIMESTAMP,
    }
    return SampleMap("trades", columns, 10_000)


def companies() -> SampleMap:
    return SampleMap(
        "companies", {"__key": VARCHAR, "name": VARCHAR, "country": VARCHAR, "size": INTEGER}, 100
    )


def lines() -> SampleTable:
    return SampleTable("lines", {"line": VARCHAR, "words": array(VARCHAR)}, None)


def events() -> SampleTable:
    return SampleTable(
        "events", {"id": BIGINT, "ticker": VARCHAR, "amount": INTEGER}, None, unbounded=True
    )


INDEXES = (
    Index("by_ticker", "trades", ("ticker",), "hash", 1),
    Index("by_ts", "trades", ("ts", "price"), "sorted", 2),
    Index("by_size", "companies", ("size",), "sorted", 3),
)


def sample_snapshot(indexes: Sequence[Index] = INDEXES) -> Snapshot:
    """A catalog of the four tables."""
    catalog = Catalog()
    for table in (trades(), companies(), lines(), events()):
        catalog.put(Mapping(table.name, "Sample", table, {}, None))
    for index in indexes:
        catalog.put_index(index)
    return catalog.snapshot
