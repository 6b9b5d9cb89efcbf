"""Reads the records of a text file chunk by chunk, with a policy for malformed records.

It replaces a format's reader of whole files for files that grow, and if malformed records are to be
left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from runnel.columns.batches import empty_columns
from runnel.connectors.files.format import Batches, FileScanRequest
from runnel.connectors.files.input import BLOCK_BYTES, not_decodable, open_input, reading
from runnel.connectors.files.options import FileOptions
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.sniffing.encoding import UTF_8
from runnel.errors import DataError, OperationalError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_RECORD = 1 << 28


class RecordParser(ABC):
    """The records of one file.

    Chunks are passed in the order of the file: first `begin`, then `whole` and `batch` for each.
    """

    def __init__(
        self, path: str, options: FileOptions, asked: FileScanRequest, malformed: Malformed
    ) -> None:
        self.path = path
        self.options = options
        self.asked = asked
        self.malformed = malformed
        self.encoding = options.encoding
        """The encoding of the chunks."""
        self.left_out: list[int] = []
        """The lines of the records that were left out since the caller last cleared the list."""

    def leave_out(self, error: DataError, line: int, record: str) -> None:
        """Raises the error with its location, or leaves out the record on that line."""
        error.detail = (
            self.detail(line) if error.detail is None else f"{self.detail(line)}: {error.detail}"
        )
        self.malformed.leave_out(error, record)
        self.left_out.append(line)

    def begin(self, data: bytes, is_end: bool) -> int | None:
        """The number of bytes at the start of the file that are not records, such as a header.

        The parser retains their information. None: more of the file is needed.
        """
        if BYTE_ORDER_MARK.startswith(data) and data != BYTE_ORDER_MARK and not is_end:
            return None
        return len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0

    def whole(self, data: bytes) -> int:
        """The number of bytes, from the first, that are whole records, each with its end."""
        return data.rfind(b"\n") + 1

    def batch(self, data: bytes, line: int) -> pa.RecordBatch:
        """Whole records as a batch; the first one begins on `line`."""
        batches = [self.records(chunk, first) for chunk, first in self._decodable(data, line)]
        if len(batches) == 1:
            return batches[0]
        if not self.asked.columns or not batches:
            return self._without_columns(sum(batch.num_rows for batch in batches))
        return pa.concat_batches(batches)

    @abstractmethod
    def records(self, data: bytes, line: int) -> pa.RecordBatch:
        """As `batch`, for bytes that are valid UTF-8."""

    def detail(self, line: int) -> str:
        """The location of a line, for errors."""
        return f'file "{self.path}", line {line}'

    def _without_columns(self, rows: int) -> pa.RecordBatch:
        return empty_columns(rows) if rows else self.records(b"", 1)

    def _decodable(self, data: bytes, line: int) -> Iterator[tuple[bytes, int]]:
        """The data in chunks of valid UTF-8, each with the number of its first line."""
        # Example: of the lines b"a\n", b"\xff\n", b"b\n", the first of which is line 5, the result
        # is (b"a\n", 5), (b"b\n", 7). Line 6 is left out.
        if self.encoding != UTF_8:
            errors = "replace" if self.options.replace_invalid else "strict"
            yield data.decode(self.encoding, errors).encode(), line
            return
        try:
            data.decode()
        except UnicodeDecodeError:
            if self.options.replace_invalid:
                yield data.decode("utf-8", "replace").encode(), line
                return
        else:
            yield data, line
            return
        retained: list[bytes] = []
        for number, text in enumerate(lines_of(data), line):
            try:
                text.decode()
                retained.append(text)
            except UnicodeDecodeError:
                if retained:
                    yield b"".join(retained), number - len(retained)
                    retained = []
                hint = not_decodable(self.path, UTF_8, data=text).hint
                error = DataError("a record is not valid UTF-8", hint=hint)
                self.leave_out(error, number, text.decode("utf-8", "backslashreplace"))
        if retained:
            yield b"".join(retained), number - len(retained) + 1


def lines_of(data: bytes) -> list[bytes]:
    """The lines of whole records, each with its end."""
    return [text + b"\n" for text in data.split(b"\n")[:-1]]


def batches_of_file(parser: RecordParser) -> Batches:
    """All records of a file that does not grow; the last one needs no end."""
    parser.encoding = UTF_8  # of the chunks that `open_input` returns
    with reading(parser.path), open_input(parser.path, parser.options) as stream:
        buffered, line, has_begun = b"", 1, False
        while True:
            block = stream.read(BLOCK_BYTES * (1 if len(buffered) < BLOCK_BYTES else 4))
            buffered += block
            if not has_begun:
                skipped = parser.begin(buffered, not block)
                if skipped is not None:
                    line += buffered.count(b"\n", 0, skipped)
                    buffered, has_begun = buffered[skipped:], True
            if not block and buffered and not buffered.endswith(b"\n"):
                buffered += b"\n"
            size = parser.whole(buffered) if has_begun else 0
            if size:
                batch = parser.batch(buffered[:size], line)
                parser.malformed.log()
                yield batch
                line += buffered.count(b"\n", 0, size)
                buffered = buffered[size:]
            elif len(buffered) > LONGEST_RECORD:
                raise too_long(parser, line)
            if not block:
                if buffered.strip():
                    parser.leave_out(_cut_off(), line, buffered.decode("utf-8", "backslashreplace"))
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
