"""Arrow IPC files, also called Feather: partitions share the record batches of a file.

Only the requested columns are read. A local file is mapped into memory, so data that are not
compressed are read without a copy.

The streaming format (a file that does not start with Arrow's magic bytes) is read too, from the
start by one partition. A file without a footer was cut off, or a writer that does not rename is
still writing it; it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import ipc

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
from runnel.sqltypes import to_arrow

MARK = b"ARROW1"
_KIND = "Arrow IPC"
_COMPRESSIONS = {"auto": None, "none": None, "zst": "zstd", "lz4": "lz4"}


def _source(path: str) -> pa.NativeFile:
    if isinstance(path, RemotePath | ConfinedPath):
        return opened(path)
    return pa.memory_map(path, "r")


class ArrowFormat(TypedFormat):
    """Columnar files that declare types, with the layout of Arrow arrays in memory."""

    name = "arrow"
    compressions = ("zst", "lz4")

    def columns_in(self, file: DataFile) -> list[FileColumn]:
        with reading_typed(file.path, _KIND), _source(file.path) as source:
            return columns_of((_open_file(source) or ipc.open_stream(source)).schema, file)

    def divide(self, file: DataFile, chunks: int) -> list[FileShare]:
        with reading_typed(file.path, _KIND), _source(file.path) as source:
            found = _open_file(source)
            count = 1 if found is None else found.num_record_batches
        return shares(file, count, chunks)

    def rows_in(self, file: DataFile) -> int | None:
        with reading_typed(file.path, _KIND), _source(file.path) as source:
            found = _open_file(source)
            return None if found is None else found.count_rows()

    def read(self, share: FileShare, asked: FileScanRequest) -> Batches:
        names = [external_name(column) for column in asked.requested]
        for file in share.files:
            with reading_typed(file.path, _KIND), _source(file.path) as source:
                row = 0
                for batch, positions in _batches(source, names, share.parts):
                    yield _converted(batch, positions, (file, row), asked)
                    row += batch.num_rows

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        return ArrowRows(output, columns, _COMPRESSIONS[self.options.compression])


def _open_file(
    source: pa.NativeFile, fields: list[int] | None = None
) -> ipc.RecordBatchFileReader | None:
    """A reader of a file, of all fields or of some; None if it has the streaming format."""
    source.seek(0)
    is_file = source.read(len(MARK)) == MARK
    source.seek(0)
    if not is_file:
        return None
    return ipc.open_file(source, options=_options(fields))


def _options(fields: list[int] | None) -> ipc.IpcReadOptions:
    # The reading thread converts one column at a time: threads of Arrow's own would only compete
    # with it.
    return ipc.IpcReadOptions(included_fields=fields, use_threads=False)


def _batches(
    source: pa.NativeFile, requested: Sequence[str], parts: tuple[int, ...] | None
) -> Iterator[tuple[pa.RecordBatch, list[int | None]]]:
    """The validated batches, with the index of each requested column in them."""
    plain = _open_file(source)
    if plain is None:
        stream = ipc.open_stream(source, options=_options(None))
        positions = match_names(requested, stream.schema.names)
        for batch in stream:
            batch.validate(full=True)
            yield batch, positions
        return
    found = match_names(requested, plain.schema.names)
    # Without any field the number of rows would be unknown. So at least one field is read.
    fields = sorted({position for position in found if position is not None}) or list(
        range(min(len(plain.schema), 1))
    )
    reader = _open_file(source, fields) if fields else plain
    assert reader is not None
    positions = [None if position is None else fields.index(position) for position in found]
    for index in range(reader.num_record_batches) if parts is None else parts:
        batch = reader.get_batch(index)
        # A file may contain anything. Code that trusts its offsets could read past the end of a
        # buffer.
        batch.validate(full=True)
        yield batch, positions


def _converted(
    batch: pa.RecordBatch,
    positions: Sequence[int | None],
    origin: tuple[DataFile, int],
    asked: FileScanRequest,
) -> pa.RecordBatch:
    arrays = []
    for column, position in zip(asked.requested, positions, strict=True):
        if position is None:
            arrays.append(pa.nulls(batch.num_rows, to_arrow(column.type)))
        else:
            arrays.append(
                typed(batch.column(position), column, origin, is_inferred=asked.is_inferred)
            )
    return batch_of(arrays, asked.names, batch.num_rows)


class ArrowRows(RowGroupWriter):
    """Writes record batches of a good size."""

    def __init__(
        self, output: FileOutput, columns: Sequence[TableColumn], compression: str | None
    ) -> None:
        super().__init__(columns, BATCH_ROWS)
        options = ipc.IpcWriteOptions(compression=compression, use_threads=False)
        self._writer = ipc.new_file(output.stream, self.schema, options=options)

    def write_row_group(self, batches: list[pa.RecordBatch]) -> None:
        self._writer.write_batch(pa.concat_batches(batches))

    def finish(self) -> None:
        super().finish()
        self._writer.close()
