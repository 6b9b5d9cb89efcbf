"""Streams for jobs that tests write row by row. Their partitions retain all rows, can be read
again, blocked, and made to fail.

A feed wakes the partition that was opened last, so each job that runs at the same time needs a feed
of its own. A feed is in memory: a job in a directory that is opened again needs another source,
such as a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event

import pyarrow as pa

from runnel.catalog import EventTime, Table, TableColumn
from runnel.columns.batches import make_batch
from runnel.connector import (
    END,
    Connector,
    End,
    MappingDefinition,
    Pause,
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.errors import OperationalError
from runnel.processor import JobContext
from runnel.sqltypes import BIGINT

PATIENCE = 20
NAMES = ("k", "ts")


class Feed:
    """One partition: rows of a key and an event time. While it isn't `free`, whoever reads it
    stands still when all is read."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self.is_over = False
        self.failures: list[OperationalError] = []
        self.saved = 0
        self.free, self.stands = Event(), Event()
        self.free.set()
        self.wake: Callable[[], None] = lambda: None

    def give(self, *rows: tuple[int, int]) -> None:
        self.rows += rows
        self.wake()

    def end(self) -> None:
        self.is_over = True
        self.free.set()
        self.wake()

    def fail(self, message: str) -> None:
        self.failures.append(OperationalError(message))
        self.wake()


class FeedConnector(Connector):
    """`tables`: the feeds of each mapping, by its name. `idle_timeout`: as in
    `catalog.EventTime`."""

    name = "Feed"
    idle_timeout: int | None = None

    def __init__(self, **tables: Sequence[Feed]) -> None:
        self.tables = tables

    def open(self, definition: MappingDefinition) -> Table:
        return FeedTable(definition.name, self.tables[definition.name], self.idle_timeout)


class FeedTable(ReadableTable):
    connector = "Feed"
    columns = tuple(TableColumn(name, BIGINT) for name in NAMES)
    is_unbounded = True
    can_end = True

    def __init__(self, name: str, feeds: Sequence[Feed], idle_timeout: int | None = None) -> None:
        self.name = name
        self.feeds = feeds
        self.event_time = EventTime(1, 0, idle_timeout)

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return _FeedSource(self.feeds, request.columns)


class _FeedSource(Source):
    cooperative = False
    traits = SourceTraits(is_repeatable=True)

    def __init__(self, feeds: Sequence[Feed], columns: tuple[int, ...]) -> None:
        self._feeds = feeds
        self._columns = columns

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [
            _FeedPartition(feed, str(number), self._columns)
            for number, feed in enumerate(self._feeds)
        ]


class _FeedPartition(SourcePartition):
    def __init__(self, feed: Feed, identity: str, columns: tuple[int, ...]) -> None:
        self.identity = identity
        self._feed = feed
        self._columns = columns
        self._next = 0
        self._last: int | None = None

    def open(self, wake: Callable[[], None]) -> None:
        if self._last is None:  # who reads again what was read before never waits
            self._feed.wake = wake

    def position(self) -> Token:
        self._feed.saved += 1
        return {"next": self._next}

    def seek(self, token: Token) -> None:
        self._next = token["next"]

    def stop_at(self, token: Token) -> None:
        self._last = token["next"]

    def read(self) -> pa.RecordBatch | Pause | End:
        feed = self._feed
        if self._next == self._last:
            return END
        if feed.failures and self._last is None:
            raise feed.failures.pop(0)
        if self._next < len(feed.rows):
            row = feed.rows[self._next]
            self._next += 1
            names = [NAMES[number] for number in self._columns]
            values = [pa.array([row[number]], pa.int64()) for number in self._columns]
            return make_batch(values, pa.schema([(name, pa.int64()) for name in names]), 1)
        if feed.is_over:
            return END
        if not feed.free.is_set():
            feed.stands.set()
            assert feed.free.wait(PATIENCE)
        return Pause()
