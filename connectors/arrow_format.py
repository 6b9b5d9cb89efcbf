"""Arrow IPC files, also called Feather: the record batches of a file are dealt out to partitions, and only the columns wanted
are read. A file of the disk is mapped into memory, so what isn't compressed is read without a copy.

The streaming form (a file without Arrow's mark at its start) is read too, by one partition from the beginning. A file without
its footer was cut off, or is still being written by someone who doesn't rename at the end; it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import ipc

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
from runnel.connectors.typed_columns import check_columns, columns_of, typed
from runnel.errors import OperationalError, ProgrammingError
from runnel.sqltypes import to_arrow

COUNTED_FILES = 16
"""Up to so many files are opened to count their rows for the planner."""

MARK = b"ARROW1"
_COMPRESSIONS = {"auto": None, "none": None, "zst": "zstd", "lz4": "lz4"}


@contextmanager
def _reading_arrow(path: str) -> Iterator[None]:
    """As `reading`, for files that aren't Arrow's or are damaged too."""
    with reading(path):
        try:
            yield
        except pa.ArrowException as error:
            raise OperationalError(
                f'file "{path}" can\'t be read as Arrow IPC',
                detail=str(error),
                hint="the file is damaged, cut off or not yet finished",
            ) from error


def _source(path: str) -> pa.NativeFile:
    if isinstance(path, RemotePath):
        return opened(path)
    return pa.memory_map(path, "r")


class ArrowFormat(FileFormat):
    """Columnar files with types of their own, laid out as in memory."""

    name = "arrow"
    is_text = False

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        if options.compression not in _COMPRESSIONS:
            raise ProgrammingError(f"format arrow has no compression {options.compression}", hint="use zst, lz4 or none")

    def discover(self, files: Sequence[DataFile]) -> tuple[FileColumn, ...]:
        return united_columns([self._columns_of(file) for file in sample_of(files)])

    def _columns_of(self, file: DataFile) -> list[FileColumn]:
        with _reading_arrow(file.path), _source(file.path) as source:
            return columns_of((_open_file(source) or ipc.open_stream(source)).schema, file)

    def check_declared(self, columns: Sequence[TableColumn], files: Sequence[DataFile]) -> None:
        if len(files) == 1:
            check_columns(columns, self._columns_of(files[0]), files[0])

    def divide(self, file: DataFile, pieces: int) -> list[FileShare]:
        with _reading_arrow(file.path), _source(file.path) as source:
            found = _open_file(source)
            count = 1 if found is None else found.num_record_batches
        if count < 2 or pieces < 2:
            return [FileShare((file,))]
        size = -(-count // pieces)
        return [FileShare((file,), tuple(range(i, min(i + size, count)))) for i in range(0, count, size)]

    def row_count(self, path: FilePath) -> int | None:
        try:
            files = path.files()
            if len(files) > COUNTED_FILES:
                return None
            rows = 0
            for file in files:
                with _reading_arrow(file.path), _source(file.path) as source:
                    found = _open_file(source)
                    if found is None:
                        return None
                    rows += found.count_rows()
        except OperationalError:
            # Asked for only to plan well; reading will report it.
            return None
        return rows

    def read(self, share: FileShare, asked: Reading) -> Batches:
        wanted = [external_name(column) for column in asked.wanted]
        for file in share.files:
            with _reading_arrow(file.path), _source(file.path) as source:
                row = 0
                for batch, places in _batches(source, wanted, share.parts):
                    yield _converted(batch, places, (file, row), asked)
                    row += batch.num_rows

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        return ArrowRows(output, columns, _COMPRESSIONS[self.options.compression])


def _open_file(source: pa.NativeFile, fields: list[int] | None = None) -> ipc.RecordBatchFileReader | None:
    """A reader of a file, perhaps of some fields only; None where it has the streaming form."""
    source.seek(0)
    is_file = source.read(len(MARK)) == MARK
    source.seek(0)
    if not is_file:
        return None
    return ipc.open_file(source, options=_options(fields))


def _options(fields: list[int] | None) -> ipc.IpcReadOptions:
    # Columns are converted one at a time by who reads them: threads of Arrow's own would only be in the way.
    return ipc.IpcReadOptions(included_fields=fields, use_threads=False)


def _batches(
    source: pa.NativeFile, wanted: Sequence[str], parts: tuple[int, ...] | None
) -> Iterator[tuple[pa.RecordBatch, list[int | None]]]:
    """The batches, checked, and where in them the columns wanted are."""
    plain = _open_file(source)
    if plain is None:
        stream = ipc.open_stream(source, options=_options(None))
        places = match_names(wanted, stream.schema.names)
        for batch in stream:
            batch.validate(full=True)
            yield batch, places
        return
    found = match_names(wanted, plain.schema.names)
    # Without any field the number of rows would be unknown too.
    fields = sorted({place for place in found if place is not None}) or list(range(min(len(plain.schema), 1)))
    reader = _open_file(source, fields) if fields else plain
    assert reader is not None
    places = [None if place is None else fields.index(place) for place in found]
    for index in range(reader.num_record_batches) if parts is None else parts:
        batch = reader.get_batch(index)
        # What comes from a file may hold anything: offsets behind the end would be read by whoever trusts them.
        batch.validate(full=True)
        yield batch, places


def _converted(
    batch: pa.RecordBatch, places: Sequence[int | None], origin: tuple[DataFile, int], asked: Reading
) -> pa.RecordBatch:
    arrays = []
    for column, place in zip(asked.wanted, places, strict=True):
        if place is None:
            arrays.append(pa.nulls(batch.num_rows, to_arrow(column.type)))
        else:
            arrays.append(typed(batch.column(place), column, origin, is_inferred=asked.is_inferred))
    return batch_of(arrays, asked.names, batch.num_rows)


class ArrowRows(RowWriter):
    """Writes record batches of a good size."""

    def __init__(self, output: FileOutput, columns: Sequence[TableColumn], compression: str | None) -> None:
        self._schema = pa.schema([pa.field(external_name(item), to_arrow(item.type)) for item in columns])
        options = ipc.IpcWriteOptions(compression=compression, use_threads=False)
        self._writer = ipc.new_file(output.stream, self._schema, options=options)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._rows += batch.num_rows
        if self._rows >= BATCH_ROWS:
            self._write_batch()

    def _write_batch(self) -> None:
        if self._waiting:
            self._writer.write_batch(pa.concat_batches(self._waiting))
            self._waiting, self._rows = [], 0

    def finish(self) -> None:
        self._write_batch()
        self._writer.close()
