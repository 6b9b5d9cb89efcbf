"""The table of a File mapping, and reading it: files are dealt out to partitions when a query starts.

Small files are read many to a partition, and their rows gathered into batches of a good size. A query sees the files that
are there when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic_ns

import pyarrow as pa

from runnel.batches import empty_columns
from runnel.catalog import TableColumn
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    ReadableTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    WritableTable,
    WriteMode,
)
from runnel.connectors.file_format import Batches, FileFormat, FileShare, Reading
from runnel.connectors.file_paths import FilePath
from runnel.connectors.file_sink import FileSink, sink_target
from runnel.connectors.file_system import DataFile
from runnel.processor import Guarantee, JobContext

MOST_PARTITIONS = 16
"""Into how many partitions a scan is divided at most: enough for the load to even out."""

PARTITION_BYTES = 1 << 20
"""Less than this isn't worth a partition of its own."""

LARGE_BYTES = 64 << 20
"""A file of at least this size is cut into parts where its format can be."""

GATHERED_ROWS = 16_384
GATHERED_NANOSECONDS = 50_000_000
"""Batches are gathered until they have so many rows, or took so long."""


class FileTable(ReadableTable, WritableTable):
    """Files with one set of columns."""

    connector = "File"
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(
        self, name: str, columns: tuple[TableColumn, ...], file_format: FileFormat, path: FilePath, *, is_inferred: bool
    ) -> None:
        self.name = name
        self.columns = columns
        self.format = file_format
        self.path = path
        self.is_inferred = is_inferred
        self.divert_to = file_format.options.on_error.mapping
        self.reads_slowly = file_format.is_text

    def row_count(self) -> int | None:
        return self.format.row_count(self.path)

    def scan(self, request: ScanRequest) -> Source:
        return FileSource(self, request)

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset({WriteMode.INSERT, WriteMode.SINK})

    def sink(self, request: SinkRequest) -> Sink:
        return FileSink(self.format, sink_target(self.path, self.format), self.columns, request)


class FileSource(Source):
    """A scan of files. Blocking: each partition is read on a thread of its own."""

    cooperative = False

    def __init__(self, table: FileTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table, request = self._table, self._request
        asked = Reading(
            request.columns,
            table.columns,
            request.predicate,
            context.evaluation,
            request.limit,
            table.is_inferred,
        )
        shares = divide(table.format, table.path.files())
        if not table.format.options.on_error.fails:
            # Loaded on first use: most mappings fail on what they can't read.
            from runnel.connectors.file_leniently import lenient_partitions

            return lenient_partitions(table.name, table.format, shares, asked)
        return [FilePartition(table.format.read(share, asked), asked) for share in shares]


def divide(file_format: FileFormat, files: Sequence[DataFile]) -> list[FileShare]:
    """Files dealt out to at most about MOST_PARTITIONS shares of like size; neighbours stay together."""
    shares: list[FileShare] = []
    total = sum(file.size for file in files)
    target = max(PARTITION_BYTES, -(-total // MOST_PARTITIONS))
    group: list[DataFile] = []
    size = 0
    for file in files:
        if file.size >= LARGE_BYTES:
            shares.extend(file_format.divide(file, max(1, round(file.size / target))))
            continue
        if group and size + file.size > target:
            shares.append(FileShare(tuple(group)))
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        shares.append(FileShare(tuple(group)))
    return shares


class FilePartition(SourcePartition):
    """Reads one share; closes its files when it comes to the end."""

    def __init__(self, batches: Batches, asked: Reading) -> None:
        self._batches: Batches | None = batches
        self._names = asked.names
        self._left: list[pa.RecordBatch] = []
        self._limit = asked.limit
        self._given = 0

    def open(self, wake: Callable[[], None]) -> None:
        """Nothing to do: files are opened one at a time as they are read."""

    def read(self) -> pa.RecordBatch | End:
        if not self._left:
            self._gather()
        if not self._left:
            return END
        batch = self._left[0]
        if batch.num_rows > BATCH_ROWS:
            self._left[0] = batch.slice(BATCH_ROWS)
            batch = batch.slice(0, BATCH_ROWS)
        else:
            del self._left[0]
        return batch

    def _gather(self) -> None:
        """Reads until there are rows enough for a batch, and puts small ones together."""
        if self._batches is None:
            return
        gathered: list[pa.RecordBatch] = []
        rows = 0
        until = monotonic_ns() + GATHERED_NANOSECONDS
        enough = GATHERED_ROWS if self._limit is None else min(GATHERED_ROWS, self._limit - self._given)
        while rows < enough and (not gathered or monotonic_ns() < until):
            batch = next(self._batches, None)
            if batch is None:
                self.close()
                break
            if batch.num_rows:
                gathered.append(batch)
                rows += batch.num_rows
        self._given += rows
        if self._limit is not None and self._given >= self._limit:
            self.close()
        if gathered:
            self._left = gathered if len(gathered) == 1 else [self._together(gathered, rows)]

    def _together(self, batches: list[pa.RecordBatch], rows: int) -> pa.RecordBatch:
        return pa.concat_batches(batches) if self._names else empty_columns(rows)

    def close(self) -> None:
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()
