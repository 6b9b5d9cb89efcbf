"""CSV files: read as text by Arrow's streaming reader, then brought to the columns' types batch by
batch.

Several threads parse a large file (`csv_chunks`). Reading text first costs a third more than typed
reading would, and buys that a value that doesn't fit can be named, with its line, and that
conversions mean what CAST means. An unquoted empty field
(or the `nullValue`) is NULL; a quoted one is the empty text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from runnel.catalog import TableColumn
from runnel.connectors.files.ahead import done_ahead
from runnel.connectors.files.conversion import ValueLocation, convert_or_fail, unfit
from runnel.connectors.files.csv.csv_chunks import (
    THREADS,
    UNREADABLE,
    RowChunk,
    can_be_chunked,
    parsed_chunk,
    row_chunks,
)
from runnel.connectors.files.csv.csv_faults import check_header, line_of_row
from runnel.connectors.files.csv.csv_reader import CsvHead, read_head, text_batches
from runnel.connectors.files.csv.csv_times import formatted_type, text_converter, without_groups
from runnel.connectors.files.csv.csv_writer import CsvWriter
from runnel.connectors.files.format import (
    SMALL_BYTES,
    Batches,
    FileColumn,
    FileFormat,
    FileScanRequest,
    FileShare,
    batch_of,
    external_name,
    match_names,
    sample_of,
)
from runnel.connectors.files.inference import (
    TextColumns,
    check_shapes,
    type_of_text,
    united_columns,
)
from runnel.connectors.files.input import reading
from runnel.connectors.files.output import FileOutput, RowWriter
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.records.malformed import naming_on_error
from runnel.connectors.files.row_counts import csv_count, estimated_rows, line_count
from runnel.connectors.files.storage import DataFile
from runnel.errors import Error, NotSupportedError, ProgrammingError, suggest
from runnel.sqltypes import DOUBLE, VARCHAR, SqlType, to_arrow


class CsvFormat(FileFormat):
    """Text with delimiters; the first row may name the columns."""

    name = "csv"

    def discover(self, files: Sequence[DataFile]) -> tuple[FileColumn, ...]:
        sample = sample_of(files)
        options = self.options
        if not options.on_error.fails:
            options = replace(options, replace_invalid=True)
        is_whole = len(sample) == len(files) and sum(item.size for item in files) <= SMALL_BYTES
        share = SMALL_BYTES // len(sample)
        tables = []
        for file in sample:
            with reading(file.path):
                head = read_head(file, options)
                found = TextColumns(head.names, self._type_of_text)
                seen = 0
                for texts in text_batches(file, head, range(len(head.names)), options):
                    found.add(texts.columns)
                    seen += texts.nbytes
                    if not is_whole and seen >= share:
                        break
                tables.append(found.columns())
        names = [[column.name for column in columns] for columns in tables]
        check_shapes(
            [(file.path, item) for file, item in zip(sample, names, strict=True)],
            is_merging=self.options.is_merging,
        )
        return united_columns(tables)

    def _type_of_text(self, text: pa.Array) -> SqlType:
        """The type of a column of text, also by the formats of the dialect."""
        dialect = self.options.dialect
        if dialect.thousands:
            text = without_groups(text, dialect)
        found = type_of_text(text)
        if dialect.decimal == "," and found == DOUBLE:
            return VARCHAR if pc.any(pc.match_substring(text, ".")).as_py() else DOUBLE
        return found if found != VARCHAR else formatted_type(text, dialect)

    def check_declared(self, columns: Sequence[TableColumn], files: Sequence[DataFile]) -> None:
        for column in columns:
            if column.type.is_nested:
                raise ProgrammingError(
                    f'column "{column.name}" is of type {column.type}, '
                    "which format csv can't hold",
                    hint="declare it as VARCHAR or JSON",
                )
        if len(files) == 1 and self.options.dialect.header:
            self._check_names(columns, files[0])

    def _check_names(self, columns: Sequence[TableColumn], file: DataFile) -> None:
        with reading(file.path):
            names = read_head(file, self.options).names
        wanted = [external_name(column) for column in columns]
        for name, place in zip(wanted, match_names(wanted, names), strict=True):
            if place is None and names:
                raise ProgrammingError(
                    f'column "{name}" is not in file "{file.path}"',
                    hint=suggest(
                        name,
                        names,
                        f"its columns are {', '.join(names)}; if the first row is data, add "
                        "OPTIONS ('header' = 'false')",
                    ),
                )

    def read(self, share: FileShare, asked: FileScanRequest) -> Batches:
        for file in share.files:
            with reading(file.path):
                yield from self._read_file(file, asked)

    def row_count(self, path: FilePath) -> int | None:
        return estimated_rows(
            path, self.options.compression, csv_count if self.options.dialect.header else line_count
        )

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        dialect = self.options.dialect
        for option, value in (
            ("skip", dialect.skip),
            ("comment", dialect.comment),
            ("delimiter", dialect.separator),
            ("thousands", dialect.thousands),
        ):
            if value:
                raise NotSupportedError(
                    f"option {option} with the value '{value}' is for reading",
                    hint=f"write to a mapping without the option {option}",
                )
        return CsvWriter(output, columns, dialect)

    def _read_file(self, file: DataFile, asked: FileScanRequest) -> Batches:
        head = read_head(file, self.options)
        if self.options.dialect.header and not asked.is_inferred:
            check_header(file.path, head.names, asked.table_columns)
        places = self._places(asked, head)
        used = sorted({place for place in places if place is not None})
        header_rows = 1 if self.options.dialect.header else 0
        emitted = 0
        if head.has_rows and asked.limit is None and can_be_chunked(file, self.options):

            def columns_of(chunk: RowChunk) -> pa.RecordBatch:
                texts = parsed_chunk(chunk, head, used, self.options.dialect)
                return self._columns(texts, asked, places, None)

            try:
                with closing(
                    done_ahead(columns_of, row_chunks(file, self.options), THREADS)
                ) as done:
                    for _, batch in done:
                        yield batch
                        emitted += batch.num_rows
                return
            except UNREADABLE:
                # The reader of whole files continues, and finds what is wrong with the rest.
                pass
        for texts in text_batches(file, head, used, self.options, emitted):
            yield self._columns(texts, asked, places, (file, header_rows + emitted))
            emitted += texts.num_rows

    def _columns(
        self,
        texts: pa.RecordBatch,
        asked: FileScanRequest,
        positions: Sequence[int | None],
        origin: tuple[DataFile, int] | None,
    ) -> pa.RecordBatch:
        """The requested columns in their types. `origin` as in `_typed`."""
        used = sorted({position for position in positions if position is not None})
        arrays = []
        for column, position in zip(asked.requested, positions, strict=True):
            if position is None:
                arrays.append(pa.nulls(texts.num_rows, to_arrow(column.type)))
            else:
                text = texts.column(used.index(position))
                arrays.append(self._typed(text, column, origin, asked.is_inferred))
        return batch_of(arrays, asked.names, texts.num_rows)

    def _places(self, asked: FileScanRequest, head: CsvHead) -> list[int | None]:
        """Where the wanted columns are in a file: by name, or without a header by position."""
        if self.options.dialect.header:
            return match_names([external_name(column) for column in asked.requested], head.names)
        return [i if i < len(head.names) else None for i in asked.columns]

    def _typed(
        self,
        text: pa.Array,
        column: TableColumn,
        origin: tuple[DataFile, int] | None,
        is_inferred: bool,
    ) -> pa.Array:
        """A text column in the type of the table's column; `origin` is the file and the number of
        rows before, for the error; None: the error needs no location."""
        convert = text_converter(column, self.options.dialect, is_inferred)
        if convert is None:
            return text
        if origin is None:
            return convert(text)

        def fault(index: int) -> Error:
            file, rows_before = origin
            line = line_of_row(file.path, self.options, rows_before + index)
            where = f"line {line}" if line is not None else f"row {rows_before + index + 1}"
            value = text[index].as_py()
            location = ValueLocation(file.path, where)
            error = unfit(value, column.name, column.type, location, is_inferred=is_inferred)
            return naming_on_error(error)

        return convert_or_fail(text, convert, fault)
