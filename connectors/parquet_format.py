"""Parquet files: only the columns wanted, only the row groups that may have rows for the predicate.

A file without its footer was cut off, or is still being written by someone who doesn't rename at the end; it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.catalog import TableColumn
from runnel.connector import BATCH_ROWS
from runnel.connectors.file_format import (
    Batches,
    FileColumn,
    FileFormat,
    FileShare,
    Reading,
    batch_of,
    external_name,
    match_names,
    sample_of,
)
from runnel.connectors.file_inference import united_columns
from runnel.connectors.file_input import reading
from runnel.connectors.file_options import FileOptions
from runnel.connectors.file_output import FileOutput, RowWriter
from runnel.connectors.file_paths import FilePath
from runnel.connectors.file_system import DataFile, RemotePath, opened
from runnel.connectors.parquet_pruning import groups_to_read
from runnel.connectors.typed_columns import check_columns, columns_of, typed
from runnel.errors import OperationalError, ProgrammingError
from runnel.sqltypes import to_arrow

ROW_GROUP_ROWS = 262_144
"""How many rows a row group has that we write."""

_COMPRESSIONS = {"auto": "zstd", "zst": "zstd", "gz": "gzip", "lz4": "lz4", "none": "none"}

COUNTED_FILES = 16
"""Up to so many files are opened to count their rows for the planner."""


@contextmanager
def reading_parquet(path: str) -> Iterator[None]:
    """As `reading`, for files that aren't Parquet or are damaged too."""
    with reading(path):
        try:
            yield
        except pa.ArrowException as error:
            raise OperationalError(
                f'file "{path}" can\'t be read as Parquet',
                detail=str(error),
                hint="the file is damaged, cut off or not yet finished",
            ) from error


def _source(path: str) -> Any:
    """What pyarrow opens: it maps and reads files of the disk best itself."""
    return opened(path) if isinstance(path, RemotePath) else path


class ParquetFormat(FileFormat):
    """Columnar files with types of their own."""

    name = "parquet"
    is_text = False

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        if options.compression == "bz2":
            raise ProgrammingError("format parquet has no compression bz2", hint="use zst, gz, lz4 or none")

    def discover(self, files: Sequence[DataFile]) -> tuple[FileColumn, ...]:
        return united_columns([self._columns_of(file) for file in sample_of(files)])

    def _columns_of(self, file: DataFile) -> list[FileColumn]:
        with reading_parquet(file.path):
            schema = pq.read_schema(_source(file.path))
        return columns_of(schema, file)

    def check_declared(self, columns: Sequence[TableColumn], files: Sequence[DataFile]) -> None:
        if len(files) == 1:
            check_columns(columns, self._columns_of(files[0]), files[0])

    def divide(self, file: DataFile, pieces: int) -> list[FileShare]:
        with reading_parquet(file.path), pq.ParquetFile(_source(file.path)) as opened:
            groups = opened.num_row_groups
        if groups < 2 or pieces < 2:
            return [FileShare((file,))]
        size = -(-groups // pieces)
        return [FileShare((file,), tuple(range(i, min(i + size, groups)))) for i in range(0, groups, size)]

    def row_count(self, path: FilePath) -> int | None:
        try:
            files = path.files()
            if len(files) > COUNTED_FILES:
                return None
            rows = 0
            for file in files:
                with reading_parquet(file.path):
                    rows += pq.read_metadata(_source(file.path)).num_rows
        except OperationalError:
            # Asked for only to plan well; reading will report it.
            return None
        return rows

    def read(self, share: FileShare, asked: Reading) -> Batches:
        for file in share.files:
            with reading_parquet(file.path), pq.ParquetFile(_source(file.path), page_checksum_verification=True) as opened:
                yield from self._read_file(opened, (file, share.parts), asked)

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        return ParquetRows(output, columns, _COMPRESSIONS[self.options.compression])

    def _read_file(self, opened: pq.ParquetFile, what: tuple[DataFile, tuple[int, ...] | None], asked: Reading) -> Batches:
        file, parts = what
        schema = opened.schema_arrow
        places = match_names([external_name(column) for column in asked.wanted], schema.names)
        groups = groups_to_read(opened.metadata, schema, asked, parts)
        names = [schema.names[place] for place in places if place is not None]
        if not names:
            for group in groups:
                yield self._converted(None, [], opened.metadata.row_group(group).num_rows, (file, 0, asked))
            return
        # A struct's own name also selects a column called "struct.field": the result is looked up by name again.
        row = 0
        for some in _in_turn(opened.metadata, groups):
            for batch in opened.iter_batches(batch_size=BATCH_ROWS, row_groups=some, columns=names):
                found = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
                arrays = [None if place is None else found[schema.names[place]] for place in places]
                yield self._converted(batch, arrays, batch.num_rows, (file, row, asked))
                row += batch.num_rows

    def _converted(
        self, batch: pa.RecordBatch | None, arrays: list[pa.Array | None], rows: int, origin: tuple[DataFile, int, Reading]
    ) -> pa.RecordBatch:
        file, row, asked = origin
        result = []
        for column, array in zip(asked.wanted, arrays or [None] * len(asked.columns), strict=True):
            if array is None:
                result.append(pa.nulls(rows, to_arrow(column.type)))
            else:
                result.append(typed(array, column, (file, row), is_inferred=asked.is_inferred))
        return batch_of(result, asked.names, rows)


def _in_turn(metadata: pq.FileMetaData, groups: Sequence[int]) -> Iterator[list[int]]:
    """The row groups, few of them at a time: pyarrow reads all bytes of those it is asked for before it gives the first row."""
    some: list[int] = []
    rows = 0
    for group in groups:
        some.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= BATCH_ROWS:
            yield some
            some, rows = [], 0
    if some:
        yield some


class ParquetRows(RowWriter):
    """Writes batches as row groups of a good size."""

    def __init__(self, output: FileOutput, columns: Sequence[TableColumn], compression: str) -> None:
        self._schema = pa.schema([pa.field(external_name(item), to_arrow(item.type)) for item in columns])
        self._writer = pq.ParquetWriter(output.stream, self._schema, compression=compression, write_page_checksum=True)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._rows += batch.num_rows
        if self._rows >= ROW_GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting, self._rows = [], 0

    def finish(self) -> None:
        self._write_group()
        self._writer.close()
