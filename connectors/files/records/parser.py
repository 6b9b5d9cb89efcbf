"""Reading the records of a text file piece by piece, as they come, with a say in what becomes of
the malformed ones.

Used where a format's own reader of whole files can't be: for files that grow, and where malformed
records are left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from runnel.columns.batches import empty_columns
from runnel.connectors.files.format import Batches, Reading
from runnel.connectors.files.input import BLOCK_BYTES, not_utf8, open_bytes, reading
from runnel.connectors.files.options import FileOptions
from runnel.connectors.files.records.malformed import Malformed
from runnel.errors import DataError, OperationalError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_RECORD = 1 << 28


class RecordParser(ABC):
    """The records of one file. Pieces are given in order: first `begin`, then `whole` and `batch`
    for each."""

    def __init__(
        self, path: str, options: FileOptions, asked: Reading, malformed: Malformed
    ) -> None:
        self.path = path
        self.options = options
        self.asked = asked
        self.malformed = malformed
        self.left_out: list[int] = []
        """The lines of the records that were left out, as far as the caller didn't clear it."""

    def leave_out(self, error: DataError, line: int, record: str) -> None:
        """Raises the error, with its place, or leaves the record on that line out."""
        error.detail = (
            self.detail(line) if error.detail is None else f"{self.detail(line)}: {error.detail}"
        )
        self.malformed.leave_out(error, record)
        self.left_out.append(line)

    def begin(self, data: bytes, is_end: bool) -> int | None:
        """How many bytes at the file's start are no records; what they say is remembered. None:
        more of the file is needed."""
        if BYTE_ORDER_MARK.startswith(data) and data != BYTE_ORDER_MARK and not is_end:
            return None
        return len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0

    def whole(self, data: bytes) -> int:
        """How many bytes, from the first one on, are whole records, each with its end."""
        return data.rfind(b"\n") + 1

    def batch(self, data: bytes, line: int) -> pa.RecordBatch:
        """Whole records as a batch; the first one begins on that line."""
        batches = [self.records(piece, first) for piece, first in self._decodable(data, line)]
        if len(batches) == 1:
            return batches[0]
        if not self.asked.columns or not batches:
            return self._without_columns(sum(batch.num_rows for batch in batches))
        return pa.concat_batches(batches)

    @abstractmethod
    def records(self, data: bytes, line: int) -> pa.RecordBatch:
        """The same, of bytes that are UTF-8."""

    def detail(self, line: int) -> str:
        """Where a line is, as errors say it."""
        return f'file "{self.path}", line {line}'

    def _without_columns(self, rows: int) -> pa.RecordBatch:
        return empty_columns(rows) if rows else self.records(b"", 1)

    def _decodable(self, data: bytes, line: int) -> Iterator[tuple[bytes, int]]:
        """The data in pieces that are UTF-8, each with its first line."""
        try:
            data.decode()
        except UnicodeDecodeError:
            if self.options.replace_invalid:
                yield data.decode("utf-8", "replace").encode(), line
                return
        else:
            yield data, line
            return
        kept: list[bytes] = []
        for number, text in enumerate(lines_of(data), line):
            try:
                text.decode()
                kept.append(text)
            except UnicodeDecodeError:
                if kept:
                    yield b"".join(kept), number - len(kept)
                    kept = []
                error = DataError("a record is not valid UTF-8", hint=not_utf8(self.path).hint)
                self.leave_out(error, number, text.decode("utf-8", "backslashreplace"))
        if kept:
            yield b"".join(kept), number - len(kept) + 1


def lines_of(data: bytes) -> list[bytes]:
    """The lines of whole records, each with its end."""
    return [text + b"\n" for text in data.split(b"\n")[:-1]]


def batches_of_file(parser: RecordParser) -> Batches:
    """All records of a file that doesn't grow; the last one needs no end."""
    with reading(parser.path), open_bytes(parser.path, parser.options.compression) as stream:
        held, line, has_begun = b"", 1, False
        while True:
            block = stream.read(BLOCK_BYTES * (1 if len(held) < BLOCK_BYTES else 4))
            held += block
            if not has_begun:
                skipped = parser.begin(held, not block)
                if skipped is not None:
                    line += held.count(b"\n", 0, skipped)
                    held, has_begun = held[skipped:], True
            if not block and held and not held.endswith(b"\n"):
                held += b"\n"
            size = parser.whole(held) if has_begun else 0
            if size:
                batch = parser.batch(held[:size], line)
                parser.malformed.log()
                yield batch
                line += held.count(b"\n", 0, size)
                held = held[size:]
            elif len(held) > LONGEST_RECORD:
                raise too_long(parser, line)
            if not block:
                if held.strip():
                    parser.leave_out(_cut_off(), line, held.decode("utf-8", "backslashreplace"))
                    parser.malformed.log()
                return


def _cut_off() -> DataError:
    return DataError(
        "the file ends in the middle of a record", hint="it was cut off, or a quote is never closed"
    )


def too_long(parser: RecordParser, line: int) -> OperationalError:
    return OperationalError(
        "a record is longer than 256 MiB",
        detail=parser.detail(line),
        hint="a quote that is never closed makes one record",
    )
