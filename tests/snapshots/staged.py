"""Streams that jobs read in stages, each of which ends in the middle of the rows, and a table that
takes what jobs write."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import date, datetime
from threading import Condition
from typing import Any

import pyarrow as pa

from runnel.catalog import EventTime, TableColumn
from runnel.columns.batches import empty_columns
from runnel.connector import (
    END,
    End,
    Pause,
    ReadableTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
    WritableTable,
    WriteMode,
)
from runnel.connectors.arrow.tables import registered_table
from runnel.processor import Guarantee, JobContext
from tests.processors.places import job_context

STAGES = 3
PARTITIONS = 2
DAY = 86_400_000_000


class Stage:
    """How far the streams of a job may be read: `number` of STAGES."""

    def __init__(self) -> None:
        self.number = 1
        self._changed = Condition()
        self._readers: dict[SourcePartition, bool] = {}
        self._is_over = False

    def add(self, reader: SourcePartition) -> None:
        with self._changed:
            self._readers[reader] = False

    def stands(self, reader: SourcePartition) -> None:
        with self._changed:
            self._readers[reader] = True
            self._changed.notify_all()

    def end(self) -> None:
        """The job has ended, though there is more to be read."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def wait(self, timeout: float) -> bool:
        """Until all that reads has read all of the stage; whether the job needs more."""
        with self._changed:
            has_read = self._changed.wait_for(lambda: self._is_over or self._all_read(), timeout)
            assert has_read, f"not all is read after {timeout:g} s"
            return not self._is_over

    def _all_read(self) -> bool:
        return bool(self._readers) and all(self._readers.values())

    def next(self) -> None:
        """For the executions to come: those of before have ended."""
        with self._changed:
            self.number += 1
            self._readers.clear()


class StagedTable(ReadableTable):
    """Rows that are dealt to partitions and cut into batches by the dice of a seed. With a `stage`
    it is a stream, whose event time is in the column `time`, if it has one; its rows are never
    late. Without it is a table that is read at once."""

    connector = "Staged"

    def __init__(
        self,
        name: str,
        columns: Sequence[TableColumn],
        rows: pa.Table,
        stage: Stage | None = None,
        time: int | None = None,
    ) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.stage = stage
        self.parts = _parts(rows, random.Random(f"{name} {rows.num_rows}"))
        if stage is not None and time is not None:
            self.event_time = EventTime(time, max(_disorder(part, time) for part in self.parts), 0)

    @property
    def is_unbounded(self) -> bool:
        return self.stage is not None

    @property
    def can_end(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return (
            None
            if self.stage is not None
            else sum(batch.num_rows for part in self.parts for batch in part)
        )

    def scan(self, request: ScanRequest) -> Source:
        return _Staged(self, request.columns)


class _Staged(Source):
    traits = SourceTraits(is_repeatable=True)

    def __init__(self, table: StagedTable, columns: tuple[int, ...]) -> None:
        self._table = table
        self._columns = columns

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [
            _StagedPartition(part, self._columns, self._table.stage) for part in self._table.parts
        ]


class _StagedPartition(SourcePartition):
    def __init__(
        self, batches: Sequence[pa.RecordBatch], columns: tuple[int, ...], stage: Stage | None
    ) -> None:
        self._batches = batches
        self._columns = list(columns)
        self._stage = stage
        self._place = 0
        self._limit = len(batches) * (stage.number if stage else STAGES) // STAGES

    def open(self, wake: Callable[[], None]) -> None:
        if self._stage is not None:
            self._stage.add(self)

    def position(self) -> Token:
        return {"place": self._place}

    def seek(self, token: Token) -> None:
        self._place = token["place"]

    def read(self) -> pa.RecordBatch | Pause | End:
        if self._place >= self._limit:
            if self._stage is None or self._stage.number == STAGES:
                return END
            self._stage.stands(self)
            return Pause()
        batch = self._batches[self._place]
        self._place += 1
        return batch.select(self._columns) if self._columns else empty_columns(batch.num_rows)


def _parts(rows: pa.Table, rng: random.Random) -> list[list[pa.RecordBatch]]:
    """The rows in their order, each in one of the partitions, a few to a batch."""
    most = max(3, rows.num_rows // 60)
    places: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for number in range(rows.num_rows):
        rng.choice(places).append(number)
    found = []
    for part in places:
        taken = _canonical(rows.take(pa.array(part, pa.int64())))
        batches, at = [], 0
        while at < taken.num_rows:
            size = rng.randint(1, most)
            batches += taken.slice(at, size).to_batches()
            at += size
        found.append(batches)
    return found


def _canonical(rows: pa.Table) -> pa.Table:
    """The rows as connectors give them."""
    request = ScanRequest(tuple(range(rows.num_columns)))
    batches = []
    for part in registered_table("rows", rows).scan(request).split(job_context()):  # type: ignore[attr-defined]
        part.open(lambda: None)
        while isinstance(batch := part.read(), pa.RecordBatch):
            batches.append(batch)
    return pa.Table.from_batches(batches).combine_chunks() if batches else rows


def _disorder(batches: Sequence[pa.RecordBatch], time: int) -> int:
    """By how much a row comes too late at most, in units of event time."""
    last, most = None, 0
    for value in (value for batch in batches for value in batch.column(time).to_pylist()):
        if value is not None:
            at = _event_time(value)
            last = at if last is None else max(last, at)
            most = max(most, last - at)
    return most


def _event_time(value: Any) -> int:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=value.tzinfo)) // datetime.resolution
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * DAY
    assert isinstance(value, int)
    return value


class StagedOutput(WritableTable):
    """Takes rows of any types. What was staged, and what can be seen, outlives the executions, as
    in a table on a disk."""

    connector = "Output"
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, name: str, columns: Sequence[TableColumn]) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.staged: dict[tuple[str, str], list[pa.RecordBatch]] = {}
        self.visible: list[pa.RecordBatch] = []
        self.commits = 0

    def row_count(self) -> int | None:
        return None

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset((WriteMode.INSERT, WriteMode.SINK))

    def sink(self, request: SinkRequest) -> Sink:
        return _OutputSink(self, request.owner)


class _OutputSink(Sink):
    def __init__(self, table: StagedOutput, owner: str) -> None:
        self._table = table
        self._owner = owner
        self._rows: list[pa.RecordBatch] = []
        self._count = 0

    def recover(self, tokens: Sequence[Token]) -> None:
        super().recover(tokens)
        for owner, name in list(self._table.staged):
            if owner == self._owner:
                del self._table.staged[owner, name]

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.append(batch)

    def stage(self, epoch: int) -> Token:
        self._count += 1
        name = f"{id(self)} {self._count}"
        self._table.staged[self._owner, name], self._rows = self._rows, []
        return {"owner": self._owner, "name": name}

    def commit(self, token: Token) -> None:
        rows = self._table.staged.pop((token["owner"], token["name"]), None)
        if rows is not None:
            self._table.visible += rows
            self._table.commits += 1

    def abort(self, token: Token | None) -> None:
        self._rows = []
