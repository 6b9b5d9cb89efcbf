"""A table at rest as an input of live queries: it is read again and again, and the differences
between two reads are events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import indexes, join_batches, make_batch, no_rows, slices
from runnel.connector import End, Pause, ReadableTable, ScanRequest, Source, SourcePartition
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.processor import JobContext
from runnel.processors.live.consolidation import net_changes
from runnel.relation.changing_tables import ChangingTable, EventLog, OnInconsistency
from runnel.sqltypes import BOOLEAN, VARCHAR, to_arrow

OPERATION = "$change"
REST = 10
"""The time between two reads is at least this many times as long as the last read."""

MILLISECOND = 1_000_000


Observers = set[Callable[[], None]]
"""Are called after each change of a table."""


def read_again(
    table: ReadableTable, millis: int | None, observers: Observers | None = None
) -> ChangingTable:
    """The rows of a table, and then the differences: each `millis` milliseconds, and after each
    change of which `observers` are notified."""
    row: tuple[Expression, ...] = tuple(
        Column(index=i, name=item.name, type=item.type) for i, item in enumerate(table.columns)
    )
    always = Literal(value=True, type=BOOLEAN)
    log = EventLog(
        operation=Column(index=len(row), name=OPERATION, type=VARCHAR),
        after=row,
        before=row,
        has_after=always,
        has_before=always,
        key=None,
        on_inconsistency=OnInconsistency.TRUST,
        source=f'table "{table.name}"',
    )
    events = RepeatedReads(table, millis, observers)
    return ChangingTable(table.name, table.connector, table.columns, events, log)


class RepeatedReads(ReadableTable):
    """The differences between the reads of a table: its columns, and the operation.

    table: the table; each scan of it has an end.
    millis: the interval between two reads; None: only changes are a reason to read.
    observers: are called after each change; None: changes are not known.
    """

    def __init__(
        self, table: ReadableTable, millis: int | None, observers: Observers | None
    ) -> None:
        self.name = table.name
        self.connector = table.connector
        self.columns = (*table.columns, TableColumn(OPERATION, VARCHAR))
        self.table = table
        self.millis = millis
        self.observers = set() if observers is None else observers

    @property
    def is_unbounded(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return RepeatedScan(self, request.columns)


class RepeatedScan(Source):
    """Blocking: it reads tables."""

    cooperative = False

    def __init__(self, reads: RepeatedReads, columns: tuple[int, ...]) -> None:
        self._reads = reads
        self._columns = columns

    def split(self, context: JobContext) -> list[SourcePartition]:
        return [RepeatedPartition(self._reads, self._columns, context)]


class RepeatedPartition(SourcePartition):
    """Reads the table, and emits the difference to the read before. An epoch has whole reads."""

    is_between_epochs = False

    def __init__(self, reads: RepeatedReads, columns: tuple[int, ...], context: JobContext) -> None:
        width = len(reads.table.columns)
        self._own = tuple(i for i in columns if i < width)
        self._source = reads.table.scan(ScanRequest(self._own))
        self._places = [self._own.index(i) if i < width else None for i in columns]
        self._schema = pa.schema(
            [pa.field(f"c{i}", to_arrow(reads.columns[i].type)) for i in columns]
        )
        self._row_schema = pa.schema(
            [pa.field(f"c{i}", to_arrow(reads.columns[i].type)) for i in self._own]
        )
        self._interval = None if reads.millis is None else reads.millis * MILLISECOND
        self._observers = reads.observers
        self._context = context
        self._earliest = 0
        self._next: int | None = None
        self._is_changed = True
        self._rows: pa.RecordBatch | None = None
        self._events: deque[pa.RecordBatch] = deque()
        self._wake: Callable[[], None] = lambda: None

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._observers.add(self._notice)

    def _notice(self) -> None:
        """The table was changed. Called from any thread."""
        self._is_changed = True
        self._wake()

    def close(self) -> None:
        self._observers.discard(self._notice)

    def read(self) -> pa.RecordBatch | Pause | End:
        if not self._events and self._is_due(self._context.clock()):
            self._read_again()
        if self._events:
            self.is_between_epochs = False
            return self._events.popleft()
        if not self.is_between_epochs:
            self.is_between_epochs = True
            self._wake()
        return Pause(self._earliest if self._is_changed else self._next)

    def _is_due(self, now: int) -> bool:
        is_time = self._next is not None and now >= self._next
        return (self._is_changed or is_time) and now >= self._earliest

    def _read_again(self) -> None:
        start = self._context.clock()
        self._is_changed = False  # a change from now on is seen by the next read
        rows = join_batches(list(self._all_rows()))
        self._events.extend(self._differences(self._rows, rows))
        self._rows = rows
        end = self._context.clock()
        self._earliest = end + REST * (end - start)
        if self._interval is not None:
            self._next = max(start + self._interval, self._earliest)

    def _all_rows(self) -> Iterator[pa.RecordBatch]:
        yield no_rows(self._row_schema)
        for partition in self._source.split(self._context):
            with closing(partition):
                partition.open(lambda: None)
                while not isinstance(item := partition.read(), End):
                    if isinstance(item, pa.RecordBatch):
                        yield make_batch(item.columns, self._row_schema, item.num_rows)

    def _differences(
        self, before: pa.RecordBatch | None, rows: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        # Example: the rows [a, b] before and [b, c] now, with the weights [−1, −1, 1, 1]. The net
        # changes are a with −1 and c with 1: a disappears, c appears.
        weights = np.ones(rows.num_rows, np.int64)
        if before is not None:
            weights = np.concatenate((np.full(before.num_rows, -1), weights))
            rows = join_batches([before, rows])
        found, totals = net_changes(rows.columns, weights)
        repeated = np.repeat(np.arange(len(found)), np.abs(totals))
        chosen = indexes(found[repeated])
        operations = array_of(["c", "d"], VARCHAR).take(indexes((totals[repeated] < 0) * 1))
        columns = [
            operations if place is None else rows.column(place).take(chosen)
            for place in self._places
        ]
        yield from slices(make_batch(columns, self._schema, len(repeated)))
