"""The common base of formats whose files declare column types and consist of chunks.

Parquet and Arrow IPC files do; of Avro files the types are used, but not the chunks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connectors.files.columnar.columns import check_columns
from runnel.connectors.files.format import (
    FileColumn,
    FileFormat,
    FileShare,
    external_name,
    sample_of,
)
from runnel.connectors.files.inference import check_shapes, united_columns
from runnel.connectors.files.input import reading
from runnel.connectors.files.options import FileOptions
from runnel.connectors.files.output import RowWriter
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.storage import DataFile
from runnel.errors import OperationalError, ProgrammingError
from runnel.sqltypes import to_arrow

COUNTED_FILES = 16
"""The maximum number of files that are opened to count rows for the planner, evenly spread."""

DAMAGED = "the file is damaged, cut off or not yet finished"


@contextmanager
def reading_typed(path: str, kind: str) -> Iterator[None]:
    """As `reading`; files that are not of that kind, or are damaged, are reported too."""
    with reading(path):
        try:
            yield
        except pa.ArrowException as error:
            raise OperationalError(
                f'file "{path}" can\'t be read as {kind}', detail=str(error), hint=DAMAGED
            ) from error


class TypedFormat(FileFormat):
    """Files that declare the types of their columns."""

    is_text = False
    compressions: ClassVar[Sequence[str]]
    """The compressions of its files, in addition to "auto" and "none"."""

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        if options.compression not in ("auto", "none", *self.compressions):
            raise ProgrammingError(
                f"format {self.name} has no compression {options.compression}",
                hint=f"use {', '.join(self.compressions)} or none",
            )

    @abstractmethod
    def columns_in(self, file: DataFile) -> list[FileColumn]:
        """The columns of a file."""

    def rows_in(self, file: DataFile) -> int | None:
        """The number of rows of a file, if it is cheap to find; else None."""
        return None

    def discover(self, files: Sequence[DataFile]) -> tuple[FileColumn, ...]:
        tables = [(file.path, self.columns_in(file)) for file in sample_of(files)]
        check_shapes(
            [(path, [item.name for item in columns]) for path, columns in tables],
            is_merging=self.options.is_merging,
        )
        return united_columns([columns for _, columns in tables])

    def check_declared(self, columns: Sequence[TableColumn], files: Sequence[DataFile]) -> None:
        if len(files) == 1:
            check_columns(columns, self.columns_in(files[0]), files[0])

    def row_count(self, path: FilePath) -> int | None:
        try:
            files = path.files()
            asked = files[:: -(-len(files) // COUNTED_FILES) or 1]
            counts = [self.rows_in(file) for file in asked]
        except OperationalError:
            # Only the plan's quality depends on this. Reading will report the error.
            return None
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return None
        if len(asked) == len(files):
            return sum(known)
        # The files that were not opened are assumed to have as many rows per byte.
        return (
            sum(known)
            * sum(file.size for file in files)
            // max(1, sum(file.size for file in asked))
        )


def shares(file: DataFile, count: int, chunks: int) -> list[FileShare]:
    """A file of `count` row groups (or record batches), divided into about `chunks` shares."""
    if count < 2 or chunks < 2:
        return [FileShare((file,))]
    size = -(-count // chunks)
    return [
        FileShare((file,), tuple(range(first, min(first + size, count))))
        for first in range(0, count, size)
    ]


class RowGroupWriter(RowWriter):
    """Writes rows in row groups (or record batches) of `group_rows` rows; the last has the rest."""

    def __init__(self, columns: Sequence[TableColumn], group_rows: int) -> None:
        self.schema = pa.schema(
            [pa.field(external_name(item), to_arrow(item.type)) for item in columns]
        )
        self._group_rows = group_rows
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    @abstractmethod
    def write_row_group(self, batches: list[pa.RecordBatch]) -> None:
        """Writes one row group."""

    def write(self, batch: pa.RecordBatch) -> None:
        rest = pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        while self._rows + rest.num_rows >= self._group_rows:
            count = self._group_rows - self._rows
            self._waiting.append(rest.slice(0, count))
            self._end_row_group()
            rest = rest.slice(count)
        if rest.num_rows:
            self._waiting.append(rest)
            self._rows += rest.num_rows

    def _end_row_group(self) -> None:
        if self._waiting:
            self.write_row_group(self._waiting)
            self._waiting, self._rows = [], 0

    def finish(self) -> None:
        self._end_row_group()
