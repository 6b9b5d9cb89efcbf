"""The table of a File mapping and its scans, which distribute the files to partitions.

A partition reads many small files and gathers their rows into batches of a good size. A query reads
the files that exist when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import empty_columns
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    MalformedRecord,
    Pause,
    ReadableTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Skipped,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
    WritableTable,
    WriteMode,
)
from runnel.connectors.files.format import Batches, FileFormat, FileScanRequest, FileShare
from runnel.connectors.files.options import (
    DATE_FORMAT,
    DECIMAL_SEPARATOR,
    ENCODING,
    TIMESTAMP_FORMAT,
    text_literal,
)
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.position import (
    Marks,
    check_marks,
    marks_of,
    share_name,
    share_of_marks,
    still_there,
)
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.sink import FileSink, ReplacingSink, sink_target
from runnel.connectors.files.sniffing.encoding import UTF_8
from runnel.connectors.files.storage import DataFile
from runnel.errors import ErrorCode, OperationalError
from runnel.processor import ExpiredPosition, Guarantee, JobContext
from runnel.processors.sinks.written_files import WritableFiles
from runnel.sqltypes import Kind

if TYPE_CHECKING:
    from runnel.connectors.files.sniffing.sniff import Sniffed

MOST_PARTITIONS = 16
"""The maximum number of partitions of a scan: enough to balance the load."""

PARTITION_BYTES = 1 << 20
"""The minimum size in bytes of a partition."""

LARGE_BYTES = 64 << 20
"""The size in bytes from which a file is divided among partitions, if its format can be."""

GATHERED_ROWS = 16_384
GATHERED_NANOSECONDS = 50_000_000
"""Batches are gathered until they have GATHERED_ROWS rows or GATHERED_NANOSECONDS have passed."""


class FileTable(ReadableTable, WritableFiles):
    """Files with one set of columns."""

    connector = "File"
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(
        self,
        name: str,
        columns: tuple[TableColumn, ...],
        file_format: FileFormat,
        path: FilePath,
        *,
        is_inferred: bool,
    ) -> None:
        self.name = name
        self.columns = columns
        self.format = file_format
        self.path = path
        self.is_inferred = is_inferred
        self.sniffed: Sniffed | None = None
        self.malformed_target = file_format.options.on_error.mapping
        self.reads_slowly = file_format.is_text

    def found(self, sniffed: Sniffed | None) -> Self:
        """The table, with what was found in its files."""
        if sniffed is not None:
            self.sniffed = sniffed
            self.found_options = sniffed.options()
        return self

    def column_note(self, index: int) -> str | None:
        options, kind = self.format.options, self.columns[index].type
        if self.columns[index].hidden or not self.format.is_text:
            return None
        given = {} if options.encoding == UTF_8 else {ENCODING.name: options.encoding}
        if self.format.name == "csv":
            concerned = {
                DATE_FORMAT.name: kind.kind is Kind.DATE,
                TIMESTAMP_FORMAT.name: kind.kind is Kind.TIMESTAMP,
                DECIMAL_SEPARATOR.name: kind.is_numeric and not kind.is_integer,
            }
            changed = options.dialect.changed().items()
            given |= {name: value for name, value in changed if concerned.get(name, True)}
        return ", ".join(f"{name} {text_literal(value)}" for name, value in given.items()) or None

    def row_count(self) -> int | None:
        return self.format.row_count(self.path)

    def scan(self, request: ScanRequest) -> Source:
        return FileSource(self, request)

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset({WriteMode.INSERT, WriteMode.SINK})

    def sink(self, request: SinkRequest) -> Sink:
        return FileSink(self.format, sink_target(self.path, self.format), self.columns, request)

    def check_written(self) -> None:
        self.format.check_written([column for column in self.columns if not column.hidden])

    def replacing(self, partition: Mapping[str, str]) -> WritableTable:
        return ReplacedFiles(self, None)


class ReplacedFiles(WritableTable):
    """A mapping of files for one INSERT OVERWRITE.

    `folders`: as in ReplacingSink.
    """

    connector = FileTable.connector

    def __init__(self, table: FileTable, folders: frozenset[str] | None) -> None:
        self.name, self.columns = table.name, table.columns
        self._table = table
        self._folders = folders

    def row_count(self) -> int | None:
        return self._table.row_count()

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return self._table.write_modes

    def sink(self, request: SinkRequest) -> Sink:
        return ReplacingSink(self._table.path, self._table.sink(request), self._folders)


class FileSource(Source):
    """A scan of files. Blocking: a thread of its own reads each partition."""

    cooperative = False

    def __init__(self, table: FileTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request
        self.traits = SourceTraits(is_repeatable=table.format.options.on_error.fails)
        self.kind = f'the mapping "{table.name}"'

    def _asked(self, context: JobContext) -> FileScanRequest:
        table, request = self._table, self._request
        return FileScanRequest(
            request.columns,
            table.columns,
            request.predicate,
            context.evaluation,
            request.limit,
            table.is_inferred,
        )

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table, asked = self._table, self._asked(context)
        files = table.path.files()
        if table.format.options.log is not None:
            shares = [FileShare(tuple(files))] if files else []
        else:
            shares = divide(table.format, files)
        if not table.format.options.on_error.fails:
            return [self._lenient_partition(share, asked) for share in shares]
        return [self._partition(share, asked) for share in shares]

    def _partition(self, share: FileShare, asked: FileScanRequest) -> FilePartition:
        read = self._table.format.read
        return FilePartition(read(share, asked), asked, share, lambda share: read(share, asked))

    def _lenient_partition(self, share: FileShare, asked: FileScanRequest) -> FilePartition:
        # Loaded on first use: most mappings fail on what they can't read.
        from runnel.connectors.files.records.parsers import without_malformed

        table = self._table
        malformed = Malformed(table.format.options.on_error, f'mapping "{table.name}"')
        return LenientPartition(
            without_malformed(table.format, share, asked, malformed), asked, malformed
        )

    def split_so_far(self, context: JobContext) -> Sequence[SourcePartition]:
        try:
            return self.split(context)
        except OperationalError as error:
            if error.code is not ErrorCode.OBJECT_NOT_FOUND:
                raise
            return ()

    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        """The partition of a stored position, with the files that the job began with.

        New files would change how files are divided into shares, so the share comes from the token.
        """
        share = (
            None
            if token is None
            else share_of_marks(token["files"], token["parts"], self._table.path.text)
        )
        if share is None:
            return super().reopen(identity, token, context)
        return self._partition(share, self._asked(context))


def divide(file_format: FileFormat, files: Sequence[DataFile]) -> list[FileShare]:
    """Distributes files to shares of similar size, at most about MOST_PARTITIONS. Neighbours stay
    together."""
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
    """Reads one share, and closes its files at the end.

    `read_share` reads another share instead.
    """

    def __init__(
        self,
        batches: Batches,
        asked: FileScanRequest,
        share: FileShare | None = None,
        read_share: Callable[[FileShare], Batches] | None = None,
    ) -> None:
        self._batches: Batches | None = batches
        self._share = share
        self._read_share = read_share
        self._marks: Marks | None = None
        self._to_skip = 0
        if share is not None:
            self.identity = share_name(share)
        self._names = asked.names
        self._left: list[pa.RecordBatch] = []
        self._limit = asked.limit
        self._emitted = 0
        self._most: int | None = None

    def open(self, wake: Callable[[], None]) -> None:
        """Does nothing: files are opened one at a time as they are read."""

    def read(self) -> pa.RecordBatch | Pause | End:
        if self._to_skip and not self._skip():
            return Pause(0)
        if self._most is not None:
            return self._limited()
        return self._read()

    def _limited(self) -> pa.RecordBatch | End:
        assert self._most is not None
        batch = self._read() if self._most else END
        if isinstance(batch, pa.RecordBatch):
            batch = batch.slice(0, self._most)
            self._most -= batch.num_rows
        return batch

    def _read(self) -> pa.RecordBatch | End:
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

    def position(self) -> Token | None:
        if self._share is None:
            return None
        if self._marks is None:
            self._marks = marks_of(self._share)
        parts = None if self._share.parts is None else list(self._share.parts)
        rows = self._emitted - sum(batch.num_rows for batch in self._left) + self._to_skip
        return {"files": self._marks, "parts": parts, "rows": rows}

    def seek(self, token: Token) -> None:
        assert self._share is not None
        check_marks(self._share, token["files"])
        self._marks = token["files"]
        self._to_skip = token["rows"]

    def stop_at(self, token: Token) -> None:
        assert self._share is not None
        check_marks(self._share, token["files"])
        self._most = token["rows"]

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        assert self._share is not None
        assert self._read_share is not None
        self.close()
        share = still_there(self._share)
        if choice is ExpiredPosition.LATEST or not share.files:
            return Skipped("the end of it")
        self._share, self._marks, self._batches = share, None, self._read_share(share)
        return Skipped("the beginning of the remaining files of it")

    def _skip(self) -> bool:
        """Reads past rows that were emitted before. False: there are more of them."""
        until = monotonic_ns() + GATHERED_NANOSECONDS
        while self._to_skip and monotonic_ns() < until:
            batch = None if self._batches is None else next(self._batches, None)
            if batch is None:
                self._to_skip = 0
                break
            skipped = min(batch.num_rows, self._to_skip)
            self._to_skip -= skipped
            self._emitted += batch.num_rows
            if skipped < batch.num_rows:
                self._left = [batch.slice(skipped)]
        return not self._to_skip

    def _gather(self) -> None:
        """Reads until there are enough rows for a batch, and concatenates small batches."""
        if self._batches is None:
            return
        gathered: list[pa.RecordBatch] = []
        rows = 0
        until = monotonic_ns() + GATHERED_NANOSECONDS
        enough = (
            GATHERED_ROWS
            if self._limit is None
            else min(GATHERED_ROWS, self._limit - self._emitted)
        )
        while rows < enough and (not gathered or monotonic_ns() < until):
            batch = next(self._batches, None)
            if batch is None:
                self.close()
                break
            if batch.num_rows:
                gathered.append(batch)
                rows += batch.num_rows
        self._emitted += rows
        if self._limit is not None and self._emitted >= self._limit:
            self.close()
        if gathered:
            self._left = gathered if len(gathered) == 1 else [self._together(gathered, rows)]

    def _together(self, batches: list[pa.RecordBatch], rows: int) -> pa.RecordBatch:
        return pa.concat_batches(batches) if self._names else empty_columns(rows)

    def close(self) -> None:
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()


class LenientPartition(FilePartition):
    """Reads one share without its malformed records ('onError' = 'skip' or 'divert:…'), which it
    reports."""

    def __init__(self, batches: Batches, asked: FileScanRequest, malformed: Malformed) -> None:
        super().__init__(batches, asked)
        self._malformed = malformed

    def read(self) -> pa.RecordBatch | Pause | End:
        item = super().read()
        self.malformed = self._malformed.count
        return item

    def take_malformed(self) -> Sequence[MalformedRecord]:
        return self._malformed.take()
