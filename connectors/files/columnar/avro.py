"""Avro files: blocks of records with a schema (package fastavro).

Only the requested fields are decoded. A union with null is a column that may be NULL. A union of
several other types is read as their common type, and refused if they have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import BATCH_ROWS
from runnel.connectors.files.columnar.avro_schema import (
    columns_of_schema,
    fastavro_package,
    narrowed,
    record_schema,
    to_record_values,
)
from runnel.connectors.files.columnar.columns import typed
from runnel.connectors.files.columnar.format import DAMAGED, TypedFormat
from runnel.connectors.files.format import (
    Batches,
    FileColumn,
    FileScanRequest,
    FileShare,
    batch_of,
    external_name,
    match_names,
)
from runnel.connectors.files.input import open_bytes, reading
from runnel.connectors.files.output import FileOutput, RowWriter
from runnel.connectors.files.storage import DataFile
from runnel.errors import Error, OperationalError
from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import to_arrow

BLOCK_BYTES = 256 << 10
"""The size in bytes of a written block, before compression."""

_CODECS = {"auto": "deflate", "gz": "deflate", "bz2": "bzip2", "zst": "zstandard", "none": "null"}


@contextmanager
def reading_avro(path: str) -> Iterator[None]:
    """As `reading`; files that are not Avro, or are damaged, are reported too."""
    with reading(path):
        try:
            yield
        except (Error, GeneratorExit, OSError):
            raise
        except Exception as error:
            # fastavro raises exceptions of many classes for damaged bytes.
            raise OperationalError(
                f'file "{path}" can\'t be read as Avro',
                detail=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
                hint=DAMAGED,
            ) from error


class AvroFormat(TypedFormat):
    """Records in blocks."""

    name = "avro"
    compressions = ("zst", "gz", "bz2")

    def columns_in(self, file: DataFile) -> list[FileColumn]:
        fastavro = fastavro_package()
        with reading_avro(file.path), open_bytes(file.path, "none") as stream:
            schema = fastavro.reader(stream).writer_schema
        return [FileColumn(name, item) for name, item in columns_of_schema(schema, file.path)]

    def read(self, share: FileShare, asked: FileScanRequest) -> Batches:
        for file in share.files:
            with reading_avro(file.path), open_bytes(file.path, "none") as stream:
                yield from self._read_file(stream, file, asked)

    def _read_file(self, stream: pa.NativeFile, file: DataFile, asked: FileScanRequest) -> Batches:
        fastavro = fastavro_package()
        schema = fastavro.reader(stream).writer_schema
        stream.seek(0)
        found = columns_of_schema(schema, file.path)
        positions = match_names(
            [external_name(column) for column in asked.requested], [name for name, _ in found]
        )
        names = [found[position][0] for position in positions if position is not None]
        row = 0
        for block in fastavro.block_reader(stream, narrowed(schema, names)):
            records = list(block)
            for start in range(0, len(records), BATCH_ROWS):
                part = records[start : start + BATCH_ROWS]
                arrays = []
                for column, position in zip(asked.requested, positions, strict=True):
                    if position is None:
                        arrays.append(pa.nulls(len(part), to_arrow(column.type)))
                    else:
                        name, kind = found[position]
                        values = array_of([record[name] for record in part], kind)
                        arrays.append(
                            typed(
                                values,
                                column,
                                (file, row),
                                is_inferred=asked.is_inferred,
                                kind=kind,
                            )
                        )
                yield batch_of(arrays, asked.names, len(part))
                row += len(part)

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        return AvroRows(output, columns, _CODECS[self.options.compression])


class AvroRows(RowWriter):
    """Writes rows as records in blocks."""

    def __init__(self, output: FileOutput, columns: Sequence[TableColumn], codec: str) -> None:
        fastavro = fastavro_package()
        self._columns = columns
        self._names, schema = record_schema(columns)
        try:
            self._writer = fastavro.write.Writer(
                output.stream, schema, codec=codec, sync_interval=BLOCK_BYTES
            )
        except ValueError as error:
            raise OperationalError(
                "compression zst of format avro needs the package zstandard",
                detail=str(error),
                hint="use gz, bz2 or none",
            ) from error

    def write(self, batch: pa.RecordBatch) -> None:
        values = [
            to_record_values(array, column.type)
            for array, column in zip(batch.columns, self._columns, strict=True)
        ]
        for row in zip(*values, strict=True):
            self._writer.write(dict(zip(self._names, row, strict=True)))

    def finish(self) -> None:
        self._writer.flush()
