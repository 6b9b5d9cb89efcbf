"""Text files as lines: a VARCHAR column `line`, and the hidden columns `file` and `line_number`.

Lines end with a line feed, with or without a carriage return before it; the last one needs no end.
The lines of many small files come in one batch.
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
    FileShare,
    Reading,
    batch_of,
    external_name,
)
from runnel.connectors.files.input import BLOCK_BYTES, open_bytes, reading, split_lines, undecodable
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
class Piece:
    """Whole lines of one file, each with its end, and the number of the first."""

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

    def read(self, share: FileShare, asked: Reading) -> Batches:
        waiting: list[Piece] = []
        size = 0
        for file in share.files:
            with reading(file.path):
                for piece in self._pieces(file):
                    waiting.append(piece)
                    size += len(piece.data)
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

    def _pieces(self, file: DataFile) -> Iterator[Piece]:
        with open_bytes(file.path, self.options.compression) as stream:
            rest: list[bytes] = []
            held = 0
            line = 1
            is_start = True
            while block := stream.read(BLOCK_BYTES):
                if is_start:
                    block = block.removeprefix(BYTE_ORDER_MARK)
                    is_start = False
                cut = block.rfind(b"\n") + 1
                if cut == 0:
                    rest.append(block)
                    held += len(block)
                    if held > LONGEST_LINE:
                        raise OperationalError(
                            f'line {line} of file "{file.path}" is longer than 1 GiB'
                        )
                    continue
                data = b"".join([*rest, block[:cut]])
                yield Piece(file.path, data, line)
                line += data.count(b"\n")
                rest, held = [block[cut:]], len(block) - cut
            data = b"".join(rest)
            if data:
                yield Piece(file.path, data + b"\n", line)

    def batch(self, pieces: Sequence[Piece], asked: Reading) -> pa.RecordBatch:
        """The lines of pieces, one after the other."""
        lines = self._lines(pieces)
        is_only = sum(1 for column in asked.table_columns if not column.hidden) == 1
        arrays = []
        for column in asked.wanted:
            name = "line" if is_only and not column.hidden else external_name(column).lower()
            if name == "line":
                arrays.append(lines)
            elif name == "file":
                arrays.append(_file_names(pieces))
            else:
                arrays.append(_line_numbers(pieces))
        return batch_of(arrays, asked.names, len(lines))

    def _lines(self, pieces: Sequence[Piece]) -> pa.Array:
        data = b"".join([piece.data for piece in pieces])
        try:
            return split_lines(data)
        except pa.ArrowInvalid:
            if self.options.replace_invalid:
                return split_lines(data.decode("utf-8", "replace").encode())
            for piece in pieces:
                try:
                    split_lines(piece.data)
                except pa.ArrowInvalid:
                    raise undecodable(piece.path, self.options.compression) from None
            raise


class LinesWriter(RowWriter):
    """Writes each value as a line; NULL as an empty one."""

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


def _file_names(pieces: Sequence[Piece]) -> pa.Array:
    counts = [piece.data.count(b"\n") for piece in pieces]
    names = [piece.path.encode("utf-8", "surrogateescape") for piece in pieces]
    offsets = np.zeros(len(names) + 1, np.int32)
    np.cumsum([len(name) for name in names], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(names))]
    distinct = pa.Array.from_buffers(pa.binary(), len(names), buffers).cast(pa.string())
    places = np.repeat(np.arange(len(pieces), dtype=np.int32), counts)
    indices = pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)])
    return distinct.take(indices)


def _line_numbers(pieces: Sequence[Piece]) -> pa.Array:
    parts = [
        np.arange(piece.first_line, piece.first_line + piece.data.count(b"\n")) for piece in pieces
    ]
    numbers = np.concatenate(parts)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
