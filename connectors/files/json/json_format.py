"""JSON files: one object a line, or an array of objects.

Chunks of whole records are read by Arrow with the types of the columns wanted. Where Arrow refuses
a chunk, or can't give what a column wants (a number's own text in a VARCHAR column, a JSON column),
the chunk is read by Python's parser instead, which also finds the record to blame.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from runnel.catalog import TableColumn
from runnel.connectors.files.ahead import done_ahead
from runnel.connectors.files.conversion import Converter, converter
from runnel.connectors.files.csv.csv_times import formatted_type, text_converter
from runnel.connectors.files.format import (
    SMALL_BYTES,
    Batches,
    FileColumn,
    FileFormat,
    FileScanRequest,
    FileShare,
    batch_of,
    external_name,
    sample_of,
)
from runnel.connectors.files.inference import united_columns
from runnel.connectors.files.input import open_input, reading, undecodable
from runnel.connectors.files.json.json_faults import JsonFaults, first_unfit
from runnel.connectors.files.json.json_inference import columns_of_records
from runnel.connectors.files.json.json_numbers import has_long_number
from runnel.connectors.files.json.json_records import CHUNK_BYTES, Chunk, record_chunks
from runnel.connectors.files.json.json_uniform import uniform_columns
from runnel.connectors.files.json.json_values import array_of_values, parse_records
from runnel.connectors.files.json.json_writer import JsonWriter
from runnel.connectors.files.output import FileOutput, RowWriter
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.row_counts import estimated_rows, json_count
from runnel.connectors.files.storage import DataFile
from runnel.errors import DataError, Error
from runnel.expressions.kernels.values import array_of
from runnel.sqltypes import JSON, MAX_PRECISION, VARCHAR, Kind, SqlType, array, row, to_arrow

_READ_AS_THEMSELVES = frozenset(
    {
        Kind.BOOLEAN,
        Kind.TINYINT,
        Kind.SMALLINT,
        Kind.INTEGER,
        Kind.BIGINT,
        Kind.REAL,
        Kind.DOUBLE,
        Kind.DECIMAL,
        Kind.VARCHAR,
    }
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_BEGINS_WITH_OBJECT = re.compile(rb"\s*\{")
LARGE_FILE = 12 * CHUNK_BYTES
"""Files from this size on are parsed by several threads."""
UNIFORM_BYTES = 1 << 16
"""Chunks from this size on are tried as lines that are alike, until GIVE_UP of them aren't."""
GIVE_UP = 2
_NO_COLUMN = "\0"
"""A name that no field has: read to count the records when no column is wanted."""


class JsonFormat(FileFormat):
    """Records with nested values; a field that a record hasn't is NULL."""

    name = "json"

    def discover(self, files: Sequence[DataFile]) -> tuple[FileColumn, ...]:
        if self.options.whole_records:
            return (FileColumn("json", JSON),)
        sample = sample_of(files)
        is_whole = len(sample) == len(files) and sum(item.size for item in files) <= SMALL_BYTES
        share = SMALL_BYTES // len(sample)
        tables = []
        for file in sample:
            seen = 0
            with closing(self._sampled(file, CHUNK_BYTES if is_whole else share)) as pieces:
                for records, size in pieces:
                    tables.append(self._columns_of(records))
                    seen += size
                    if not is_whole and seen >= share:
                        break
        columns = united_columns(tables)
        for column in columns:
            if not column.name.isprintable() and _SURROGATES.search(column.name):
                shown = column.name.encode("utf-8", "backslashreplace").decode()
                raise DataError(
                    f'the name "{shown}" in file "{files[0].path}" has half of a surrogate pair'
                )
        return columns

    def _columns_of(self, records: list[dict[str, Any]]) -> list[FileColumn]:
        """The columns of records; dates and timestamps also by the formats of the options."""
        columns = columns_of_records(records)
        dialect = self.options.dialect
        if dialect.date_format is None and dialect.timestamp_format is None:
            return columns
        for i, column in enumerate(columns):
            values = [record.get(column.name) for record in records]
            if column.type == VARCHAR and all(isinstance(v, str | None) for v in values):
                found = formatted_type(array_of_values(values, VARCHAR), dialect)
                columns[i] = replace(column, type=found)
        return columns

    def _sampled(
        self, file: DataFile, chunk_bytes: int
    ) -> Generator[tuple[list[dict[str, Any]], int], None, None]:
        """The records of a file, chunk by chunk, with the chunk's size."""
        options = self.options
        if not options.on_error.fails:
            options = replace(options, replace_invalid=True)
        with (
            reading(file.path),
            open_input(file.path, options) as stream,
        ):
            faults = JsonFaults(file.path, self.options)
            first = 0
            for chunk in record_chunks(stream, file.path, chunk_bytes):
                if options.on_error.fails:
                    records = checked_records(chunk, first, faults, keep_texts=False)
                else:
                    records = valid_records(chunk)
                yield records, len(chunk.data)
                first += len(records)

    def read(self, share: FileShare, asked: FileScanRequest) -> Batches:
        for file in share.files:
            with (
                reading(file.path),
                open_input(file.path, self.options) as stream,
            ):
                reader = ChunkReader(JsonFaults(file.path, self.options), asked)
                chunks = record_chunks(stream, file.path)
                if self.options.whole_records:
                    yield from whole_records(chunks, reader, asked)
                    continue
                threads = os.cpu_count() or 1
                if threads == 1 or file.size < LARGE_FILE or asked.limit is not None:
                    yield from (reader.checked(chunk, reader.parsed(chunk)) for chunk in chunks)
                    continue
                with closing(done_ahead(reader.parsed, chunks, threads)) as done:
                    yield from (reader.checked(chunk, batch) for chunk, batch in done)

    def row_count(self, path: FilePath) -> int | None:
        return estimated_rows(path, self.options.compression, json_count)

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        return JsonWriter(output, columns, self.options.dialect)


class ChunkReader:
    """Reads the chunks of one file, one after the other."""

    def __init__(self, faults: JsonFaults, asked: FileScanRequest) -> None:
        self._faults = faults
        self._asked = asked
        self._records = 0
        self._schema = _raw_schema(asked.requested)
        self._uneven = 0
        scales = [scale for column in asked.requested for scale in _scales(column.type)]
        # Arrow multiplies a DECIMAL's digits by 10^scale without noticing every overflow of 128
        # bits.
        self._digits = MAX_PRECISION - max(scales) if scales else None

    def parsed(self, chunk: Chunk) -> pa.RecordBatch | None:
        """The chunk's records as a batch of the columns wanted, if Arrow takes them. Several
        threads may call it."""
        if not _is_utf8(chunk.data):
            raise undecodable(self._faults.path, self._faults.options)
        return None if chunk.is_cut else self.by_arrow(chunk.data)

    def checked(self, chunk: Chunk, batch: pa.RecordBatch | None) -> pa.RecordBatch:
        """What was parsed of the next chunk, or, where that is None, what Python's parser makes of
        it."""
        if batch is None:
            batch = self._by_python(chunk)
        self._records += batch.num_rows
        return batch

    def check(self, chunk: Chunk) -> None:
        """Fails if a record of the next chunk is not JSON."""
        self.parsed(replace(chunk, is_cut=True))
        try:
            parse_records(chunk.data, keep_texts=False)
        except (ValueError, RecursionError):
            raise self._faults.malformed(chunk, self._records) from None
        if chunk.is_cut:
            raise self._faults.cut_off()
        self._records += len(_lines(chunk))

    def by_arrow(self, data: bytes) -> pa.RecordBatch | None:
        """By Arrow's reader; None where it refuses the text or a value."""
        # A null before the first object makes Arrow's reader follow a null pointer
        # (apache/arrow#47409).
        if self._schema is None or _BEGINS_WITH_OBJECT.match(data) is None:
            return None
        if self._digits is not None and has_long_number(data, self._digits):
            return None
        try:
            arrays = []
            found, rows = self._raw_columns(data, self._schema)
            for column, raw in zip(self._asked.requested, found, strict=True):
                raw_type = _raw_type(column.type)
                assert raw_type is not None
                if _has_infinity(raw):
                    return None
                convert = self._formatted(column) or converter(raw_type, column.type)
                arrays.append(raw if convert is None else convert(raw))
        except (pa.ArrowException, DataError):
            return None
        return batch_of(arrays, self._asked.names, rows)

    def _raw_columns(self, data: bytes, schema: pa.Schema) -> tuple[list[pa.Array], int]:
        """The columns wanted, as Arrow reads them, and how many records there are."""
        if len(data) >= UNIFORM_BYTES and self._uneven < GIVE_UP and self._asked.columns:
            found = uniform_columns(data, dict(zip(schema.names, schema.types, strict=True)))
            if found is not None:
                return [found[external_name(column)] for column in self._asked.requested], len(
                    next(iter(found.values()))
                )
            self._uneven += 1
        table = arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
        return [
            table.column(external_name(column)).combine_chunks() for column in self._asked.requested
        ], table.num_rows

    def _formatted(self, column: TableColumn) -> Converter | None:
        """The conversion of texts by a format of the options; None for other columns."""
        dialect = self._faults.options.dialect
        formats = {Kind.DATE: dialect.date_format, Kind.TIMESTAMP: dialect.timestamp_format}
        if formats.get(column.type.kind) is None:
            return None
        return text_converter(column, dialect, self._asked.is_inferred)

    def _by_python(self, chunk: Chunk) -> pa.RecordBatch:
        try:
            records = checked_records(chunk, self._records, self._faults)
        except Error:
            # An earlier record may have a value that doesn't fit: then that is what is told.
            self._arrays(sound_records(chunk))
            raise
        return batch_of(self._arrays(records), self._asked.names, len(records))

    def _arrays(self, records: list[dict[str, Any]]) -> list[pa.Array]:
        """The columns wanted of records; the error for the first record that has a value which
        doesn't fit."""
        arrays: list[pa.Array] = []
        wrong: list[tuple[int, TableColumn, Any]] = []
        for column in self._asked.requested:
            name = external_name(column)
            values = [record.get(name) for record in records]
            formatted = self._formatted(column)
            try:
                if formatted is None:
                    arrays.append(array_of_values(values, column.type))
                else:
                    arrays.append(formatted(array_of_values(values, VARCHAR)))
            except (pa.ArrowException, DataError):
                index = first_unfit(values, column, formatted)
                wrong.append((index, column, values[index]))
        if wrong:
            index, column, value = min(wrong, key=itemgetter(0))
            inferred = self._asked.is_inferred
            raise self._faults.unfit(
                value, column, self._records + index, is_inferred=inferred
            ) from None
        return arrays


def whole_records(chunks: Iterator[Chunk], reader: ChunkReader, asked: FileScanRequest) -> Batches:
    """The records as values of JSON, as they are written."""
    for chunk in chunks:
        reader.check(chunk)
        texts = [line.strip().decode() for line in _lines(chunk)]
        yield batch_of([array_of(texts, JSON) for _ in asked.requested], asked.names, len(texts))


def checked_records(
    chunk: Chunk, first: int, faults: JsonFaults, *, keep_texts: bool = True
) -> list[dict[str, Any]]:
    """The records of a chunk, all objects; a record that is null counts as an empty one."""
    try:
        records = parse_records(chunk.data, keep_texts=keep_texts)
    except (ValueError, RecursionError):
        sound = len(sound_records(chunk))
        if _is_json(_lines(chunk)[sound : sound + 1]):
            raise faults.not_an_object(first + sound) from None
        raise faults.malformed(chunk, first) from None
    if chunk.is_cut:
        raise faults.cut_off()
    for index, record in enumerate(records):
        if not isinstance(record, dict):
            if record is not None:
                raise faults.not_an_object(first + index)
            records[index] = {}
    return records


def sound_records(chunk: Chunk) -> list[dict[str, Any]]:
    """The records of a chunk before the first that isn't JSON, or no object."""
    found: list[dict[str, Any]] = []
    for line in _lines(chunk):
        try:
            parsed = parse_records(line)
        except (ValueError, RecursionError):
            break
        record = {} if parsed == [None] else parsed[0]
        if len(parsed) != 1 or not isinstance(record, dict):
            break
        found.append(record)
    return found


def valid_records(chunk: Chunk) -> list[dict[str, Any]]:
    """The records of a chunk that are objects of JSON."""
    found = []
    for line in _lines(chunk):
        try:
            parsed = parse_records(line, keep_texts=False)
        except (ValueError, RecursionError):
            continue
        found += [record for record in parsed[:1] if isinstance(record, dict)]
    return found


def _lines(chunk: Chunk) -> list[bytes]:
    return [line for line in chunk.data.split(b"\n") if line.strip()]


def _is_json(lines: Sequence[bytes]) -> bool:
    try:
        return all(len(parse_records(line)) == 1 for line in lines) and bool(lines)
    except (ValueError, RecursionError):
        return False


def _raw_schema(columns: Sequence[TableColumn]) -> pa.Schema | None:
    """What Arrow reads for the columns; None where it can't give what one of them wants."""
    raw = {external_name(column): _raw_type(column.type) for column in columns}
    if not raw:
        return pa.schema([pa.field(_NO_COLUMN, pa.null())])
    if None in raw.values():
        return None
    return pa.schema(
        [pa.field(name, to_arrow(item)) for name, item in raw.items() if item is not None]
    )


def _raw_type(wanted: SqlType) -> SqlType | None:
    """The type as which Arrow reads a column: dates and times as text, which is converted
    afterwards."""
    if wanted.kind in _READ_AS_THEMSELVES:
        return wanted
    if wanted.is_temporal:
        return VARCHAR
    if wanted.kind is Kind.ARRAY and wanted.element is not None:
        element = _raw_type(wanted.element)
        return None if element is None else array(element)
    if wanted.kind is Kind.ROW:
        fields = [(name, _raw_type(item)) for name, item in wanted.fields]
        known = [(name, item) for name, item in fields if item is not None]
        return row(*known) if len(known) == len(fields) else None
    return None


def _scales(wanted: SqlType) -> list[int]:
    """The scales of the DECIMALs that Arrow reads within a type."""
    if wanted.kind is Kind.DECIMAL:
        return [wanted.scale]
    if wanted.kind is Kind.ARRAY and wanted.element is not None:
        return _scales(wanted.element)
    return [scale for _, item in wanted.fields for scale in _scales(item)]


def _has_infinity(values: pa.Array) -> bool:
    """Whether there is an infinite number: JSON can't write one, so it was too large for Arrow."""
    if pa.types.is_floating(values.type):
        return bool(pc.any(pc.is_inf(values)).as_py())
    if pa.types.is_list(values.type):
        return _has_infinity(values.flatten())
    return pa.types.is_struct(values.type) and any(map(_has_infinity, values.flatten()))


def _is_utf8(data: bytes) -> bool:
    """Whether all of it is UTF-8. Arrow's JSON reader doesn't look."""
    offsets = pa.py_buffer(len(data).to_bytes(8, "little").rjust(16, b"\0"))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
