"""Parquet files: reads only the requested columns of the row groups that may match the predicate.

A file without a footer was cut off, or a writer that does not rename is still writing it; it is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.catalog import TableColumn
from runnel.connector import BATCH_ROWS
from runnel.connectors.confined_path import ConfinedPath
from runnel.connectors.files.columnar.columns import columns_of, typed
from runnel.connectors.files.columnar.format import (
    RowGroupWriter,
    TypedFormat,
    reading_typed,
    shares,
)
from runnel.connectors.files.columnar.row_groups import groups_to_read
from runnel.connectors.files.format import (
    Batches,
    FileColumn,
    FileScanRequest,
    FileShare,
    batch_of,
    external_name,
    match_names,
)
from runnel.connectors.files.output import FileOutput, RowWriter
from runnel.connectors.files.storage import DataFile, RemotePath, opened
from runnel.errors import NotSupportedError
from runnel.sqltypes import has_mixed_interval, to_arrow

ROW_GROUP_ROWS = 262_144
"""The number of rows of a written row group."""

_COMPRESSIONS = {
    "auto": "zstd",
    "zst": "zstd",
    "gz": "gzip",
    "lz4": "lz4",
    "snappy": "snappy",
    "brotli": "brotli",
    "none": "none",
}

_KIND = "Parquet"


def _source(path: str) -> Any:
    """The argument for pyarrow, which maps and reads local files best by itself."""
    return opened(path) if isinstance(path, RemotePath | ConfinedPath) else path


class ParquetFormat(TypedFormat):
    """Columnar files that declare types."""

    name = "parquet"
    compressions = ("zst", "gz", "lz4", "snappy", "brotli")

    def columns_in(self, file: DataFile) -> list[FileColumn]:
        with reading_typed(file.path, _KIND):
            schema = pq.read_schema(_source(file.path))
        return columns_of(schema, file)

    def divide(self, file: DataFile, chunks: int) -> list[FileShare]:
        with reading_typed(file.path, _KIND), pq.ParquetFile(_source(file.path)) as opened:
            groups = opened.num_row_groups
        return shares(file, groups, chunks)

    def rows_in(self, file: DataFile) -> int | None:
        with reading_typed(file.path, _KIND):
            rows: int = pq.read_metadata(_source(file.path)).num_rows
            return rows

    def read(self, share: FileShare, asked: FileScanRequest) -> Batches:
        for file in share.files:
            with (
                reading_typed(file.path, _KIND),
                pq.ParquetFile(_source(file.path), page_checksum_verification=True) as opened,
            ):
                yield from self._read_file(opened, (file, share.parts), asked)

    def check_written(self, columns: Sequence[TableColumn]) -> None:
        for column in columns:
            if has_mixed_interval(column.type):
                raise NotSupportedError(
                    f"a column of type {column.type} can't be written in format parquet",
                    hint="CAST it to VARCHAR, or to INTERVAL DAY TO SECOND",
                )

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        self.check_written(columns)
        return ParquetRows(
            output,
            columns,
            _COMPRESSIONS[self.options.compression],
            group_rows=self.options.group_rows or ROW_GROUP_ROWS,
            level=self.options.compression_level,
        )

    def _read_file(
        self,
        opened: pq.ParquetFile,
        what: tuple[DataFile, tuple[int, ...] | None],
        asked: FileScanRequest,
    ) -> Batches:
        file, parts = what
        schema = opened.schema_arrow
        positions = match_names([external_name(column) for column in asked.requested], schema.names)
        groups = groups_to_read(opened.metadata, schema, asked, parts)
        names = [schema.names[position] for position in positions if position is not None]
        if not names:
            for group in groups:
                yield self._converted(
                    None, [], opened.metadata.row_group(group).num_rows, (file, 0, asked)
                )
            return
        # The name of a struct also selects a column called "struct.field": so the result is looked
        # up by name.
        row = 0
        for some in _in_turn(opened.metadata, groups):
            for batch in opened.iter_batches(batch_size=BATCH_ROWS, row_groups=some, columns=names):
                found = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
                arrays = [
                    None if position is None else found[schema.names[position]]
                    for position in positions
                ]
                yield self._converted(batch, arrays, batch.num_rows, (file, row, asked))
                row += batch.num_rows

    def _converted(
        self,
        batch: pa.RecordBatch | None,
        arrays: list[pa.Array | None],
        rows: int,
        origin: tuple[DataFile, int, FileScanRequest],
    ) -> pa.RecordBatch:
        file, row, asked = origin
        result = []
        for column, array in zip(
            asked.requested, arrays or [None] * len(asked.columns), strict=True
        ):
            if array is None:
                result.append(pa.nulls(rows, to_arrow(column.type)))
            else:
                result.append(typed(array, column, (file, row), is_inferred=asked.is_inferred))
        return batch_of(result, asked.names, rows)


def _in_turn(metadata: pq.FileMetaData, groups: Sequence[int]) -> Iterator[list[int]]:
    """The row groups, a few at a time: before its first row, pyarrow reads all bytes of the row
    groups."""
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


class ParquetRows(RowGroupWriter):
    """Writes row groups of a good size.

    `schema` is the schema of the batches, if it differs from the schema of the columns.
    """

    def __init__(
        self,
        output: FileOutput,
        columns: Sequence[TableColumn],
        compression: str,
        schema: pa.Schema | None = None,
        group_rows: int = ROW_GROUP_ROWS,
        level: int | None = None,
    ) -> None:
        super().__init__(columns, group_rows)
        self.schema = self.schema if schema is None else schema
        self._writer = pq.ParquetWriter(
            output.stream,
            self.schema,
            compression=compression,
            compression_level=level,
            write_page_checksum=True,
        )

    def write_row_group(self, batches: list[pa.RecordBatch]) -> None:
        self._writer.write_table(pa.Table.from_batches(batches, self.schema))

    def finish(self) -> None:
        super().finish()
        self._writer.close()
