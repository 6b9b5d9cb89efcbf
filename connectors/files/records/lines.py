"""Text files as lines: a VARCHAR column `line`, and the hidden columns `file` and `line_number`.

A line ends with a line feed, or with a carriage return and a line feed; the last line needs no end.
Lines of many small files are gathered in one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.catalog import TableColumn
from runnel.connectors.files.format import (
    Batches,
    FileColumn,
    FileFormat,
    FileScanRequest,
    FileShare,
    batch_of,
    external_name,
)
from runnel.connectors.files.input import BLOCK_BYTES, open_input, reading, split_lines, undecodable
from runnel.connectors.files.output import FileOutput, RowWriter, text_buffer
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.row_counts import estimated_rows, line_count
from runnel.connectors.files.storage import DataFile
from runnel.errors import DataError, OperationalError, ProgrammingError
from runnel.expressions.kernels.values import scalar_of
from runnel.sqltypes import BIGINT, VARCHAR, Kind, SqlType

LONGEST_LINE = 1 << 30
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TYPES: dict[str, SqlType] = {"line": VARCHAR, "file": VARCHAR, "line_number": BIGINT}


@dataclass(frozen=True, slots=True)
class LineChunk:
    """Some lines of one file.

    path: the file.
    data: the lines, each with its end.
    first_line: the number of the first line, from 1.
    """

    path: str
    data: bytes
    first_line: int


class LinesFormat(FileFormat):
    """Text without structure."""

    name = "lines"

    def discover(self, files: Sequence[DataFile]) -> tuple[FileColumn, ...]:
        return (FileColumn("line", VARCHAR),)

    def hidden_columns(self) -> tuple[TableColumn, ...]:
        return (
            TableColumn("file", VARCHAR, hidden=True),
            TableColumn("line_number", BIGINT, hidden=True),
        )

    def check_declared(self, columns: Sequence[TableColumn], files: Sequence[DataFile]) -> None:
        if len(columns) == 1 and columns[0].type.kind is Kind.VARCHAR:
            return
        for column in columns:
            expected = _TYPES.get(external_name(column).lower())
            if expected is None or expected != column.type:
                raise ProgrammingError(
                    f'format lines has no column "{external_name(column)}" of type {column.type}',
                    hint="its columns are line VARCHAR, file VARCHAR and line_number BIGINT",
                )

    def read(self, share: FileShare, asked: FileScanRequest) -> Batches:
        waiting: list[LineChunk] = []
        size = 0
        for file in share.files:
            with reading(file.path):
                for chunk in self._chunks(file):
                    waiting.append(chunk)
                    size += len(chunk.data)
                    if size >= BLOCK_BYTES:
                        yield self.batch(waiting, asked)
                        waiting, size = [], 0
        if waiting:
            yield self.batch(waiting, asked)

    def row_count(self, path: FilePath) -> int | None:
        return estimated_rows(path, self.options.compression, line_count)

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        if len(columns) != 1:
            raise ProgrammingError(
                "only a mapping with one column, the line, can be written in format lines"
            )
        return LinesWriter(output)

    def _chunks(self, file: DataFile) -> Iterator[LineChunk]:
        with open_input(file.path, self.options) as stream:
            rest: list[bytes] = []
            size = 0
            line = 1
            is_start = True
            while block := stream.read(BLOCK_BYTES):
                if is_start:
                    block = block.removeprefix(BYTE_ORDER_MARK)
                    is_start = False
                cut = block.rfind(b"\n") + 1
                if cut == 0:
                    rest.append(block)
                    size += len(block)
                    if size > LONGEST_LINE:
                        raise OperationalError(
                            f'line {line} of file "{file.path}" is longer than 1 GiB'
                        )
                    continue
                data = b"".join([*rest, block[:cut]])
                yield LineChunk(file.path, data, line)
                line += data.count(b"\n")
                rest, size = [block[cut:]], len(block) - cut
            data = b"".join(rest)
            if data:
                yield LineChunk(file.path, data + b"\n", line)

    def batch(self, chunks: Sequence[LineChunk], asked: FileScanRequest) -> pa.RecordBatch:
        """The lines of all chunks, one after the other."""
        lines = self._lines(chunks)
        is_only = sum(1 for column in asked.table_columns if not column.hidden) == 1
        arrays = []
        for column in asked.requested:
            name = "line" if is_only and not column.hidden else external_name(column).lower()
            if name == "line":
                arrays.append(lines)
            elif name == "file":
                arrays.append(_file_names(chunks))
            else:
                arrays.append(_line_numbers(chunks))
        return batch_of(arrays, asked.names, len(lines))

    def _lines(self, chunks: Sequence[LineChunk]) -> pa.Array:
        data = b"".join([chunk.data for chunk in chunks])
        try:
            return split_lines(data)
        except pa.ArrowInvalid:
            if self.options.replace_invalid:
                return split_lines(data.decode("utf-8", "replace").encode())
            for chunk in chunks:
                try:
                    split_lines(chunk.data)
                except pa.ArrowInvalid:
                    raise undecodable(chunk.path, self.options) from None
            raise


class LinesWriter(RowWriter):
    """Writes each value as a line, and NULL as an empty line."""

    def __init__(self, output: FileOutput) -> None:
        self._output = output
        self._end = scalar_of("\n", VARCHAR)
        self._nothing = scalar_of("", VARCHAR)

    def write(self, batch: pa.RecordBatch) -> None:
        lines = batch.column(0)
        if pc.any(pc.match_substring(lines, "\n")).as_py():
            raise DataError(
                "a text with a line feed can't be written as one line",
                hint="use format csv or json",
            )
        lines = pc.fill_null(lines, self._nothing)
        self._output.write(
            text_buffer(pc.binary_join_element_wise(lines, self._end, self._nothing))
        )


def _file_names(chunks: Sequence[LineChunk]) -> pa.Array:
    # Example: chunks of "a.txt" with 2 lines and of "b.txt" with 1 line. counts = [2, 1]; names =
    #     [b"a.txt", b"b.txt"], so offsets = [0, 5, 10] and distinct = ["a.txt", "b.txt"]; each
    #     index of `distinct` is repeated once per line, positions = [0, 0, 1]; the result is
    #     ["a.txt", "a.txt", "b.txt"].
    counts = [chunk.data.count(b"\n") for chunk in chunks]
    names = [chunk.path.encode("utf-8", "surrogateescape") for chunk in chunks]
    offsets = np.zeros(len(names) + 1, np.int32)
    np.cumsum([len(name) for name in names], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(names))]
    distinct = pa.Array.from_buffers(pa.binary(), len(names), buffers).cast(pa.string())
    positions = np.repeat(np.arange(len(chunks), dtype=np.int32), counts)
    indices = pa.Array.from_buffers(pa.int32(), len(positions), [None, pa.py_buffer(positions)])
    return distinct.take(indices)


def _line_numbers(chunks: Sequence[LineChunk]) -> pa.Array:
    # Example: chunks that start at line 1 with 2 lines and at line 7 with 1 line give [1, 2, 7].
    parts = [
        np.arange(chunk.first_line, chunk.first_line + chunk.data.count(b"\n")) for chunk in chunks
    ]
    numbers = np.concatenate(parts)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
