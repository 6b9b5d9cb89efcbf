"""Chunks of whole rows of a CSV file, which several threads parse at the same time.

A chunk ends with a line feed that is outside quotes, by the number of quotes before it. That number
decides only if every quote that opens a value stands at the start of a field, which `check_quotes`
finds out on the thread that parses the chunk. If a chunk can't be cut or parsed in this way, the
reader of whole files continues after the rows before it, and reports what is wrong with the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from runnel.columns.batches import empty_columns
from runnel.connectors.files.csv.csv_reader import CsvHead, arrow_options
from runnel.connectors.files.input import BLOCK_BYTES, open_input
from runnel.connectors.files.options import CsvDialect, FileOptions
from runnel.connectors.files.storage import DataFile
from runnel.errors import DataError

LARGE_FILE = 12 * BLOCK_BYTES
"""Files from this size on are parsed by several threads."""

THREADS = os.cpu_count() or 1

LONGEST_CHUNK = 16 * BLOCK_BYTES
"""The size up to which the end of a row is searched."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Unchunkable(Exception):
    """The rest of the file is for the reader of whole files."""


UNREADABLE = (Unchunkable, DataError, pa.ArrowException, OSError, EOFError, UnicodeError)
"""The exceptions after which the reader of whole files continues."""


class RowChunk(NamedTuple):
    """Whole rows of a file.

    data: the rows, each with its end; the last one of a file needs none.
    is_first: whether the header is in it.
    """

    data: bytes
    is_first: bool


def can_be_chunked(file: DataFile, options: FileOptions) -> bool:
    """Whether `row_chunks` may read the file, and gains by it."""
    dialect = options.dialect
    return (
        THREADS > 1
        and file.size >= LARGE_FILE
        and options.on_error.fails
        and not dialect.skip
        and not dialect.escape
    )


def row_chunks(file: DataFile, options: FileOptions) -> Iterator[RowChunk]:
    """The rows of a file, chunk by chunk; Unchunkable where a chunk has no end."""
    quote = options.dialect.quote.encode()
    with open_input(file.path, options) as stream:
        block: bytes = stream.read(BLOCK_BYTES)
        rest, is_first = block.removeprefix(_BYTE_ORDER_MARK), True
        while block:
            block = stream.read(BLOCK_BYTES)
            end = _end_of_rows(rest, quote) if block else len(rest)
            if end:
                if not block and quote and rest.count(quote) % 2:
                    raise Unchunkable
                yield RowChunk(rest[:end], is_first)
                is_first = False
            elif len(rest) > LONGEST_CHUNK:
                raise Unchunkable
            rest = rest[end:] + block


def _end_of_rows(data: bytes, quote: bytes) -> int:
    """The position after the last line feed outside quotes; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    if not quote:
        return end
    quotes = data.count(quote, 0, end)
    while quotes % 2 and end:
        before = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(quote, before, end)
        end = before
    return end


def parsed_chunk(
    chunk: RowChunk, head: CsvHead, used: list[int], dialect: CsvDialect
) -> pa.RecordBatch:
    """The columns at `used` of the rows, as text; Unchunkable or an Arrow exception if the chunk
    can't be read by itself."""
    check_quotes(chunk.data, dialect)
    if not chunk.is_first:
        head = CsvHead(head.names, 0, has_rows=True)
    options = arrow_options(head, used, dialect, len(chunk.data) + 1)
    with arrow_csv.open_csv(pa.BufferReader(chunk.data), **options) as reader:
        batches = list(reader)
    if len(batches) != 1:
        raise Unchunkable
    return batches[0] if used else empty_columns(batches[0].num_rows)


def check_quotes(data: bytes, dialect: CsvDialect) -> None:
    """Unchunkable unless every second quote, from the first on, stands at the start of a field or
    repeats the quote before it."""
    # Example: in `1,"a""b"` the quotes are at 2, 4, 5 and 7. Those at 2 and 5 open: before the one
    # is a delimiter, before the other a quote. In `1,a"b"` the one at 3 is no opening quote.
    quote = dialect.quote.encode()
    if not quote or quote not in data:
        return
    characters = np.frombuffer(data, np.uint8)
    opening = np.flatnonzero(characters == quote[0])[::2]
    before = characters[opening[1:] - 1] if opening[0] == 0 else characters[opening - 1]
    may_precede = np.zeros(256, np.bool_)
    may_precede[list(b"\r\n" + quote + dialect.delimiter.encode())] = True
    if not may_precede[before].all():
        raise Unchunkable
