"""CSV text that is brought to a form that Arrow reads: without comments, with one character as the
delimiter, and with the same number of fields in each row.

The text is read line by line in Python, only for files with these options.
"""

from __future__ import annotations

import io
import re
from typing import Protocol

from runnel.connectors.files.options import CsvDialect
from runnel.errors import DataError

SAMPLE_BYTES = 1 << 16
"""How many bytes decide the number of fields to which rows are padded."""
_BLOCK_BYTES = 1 << 18


class ByteStream(Protocol):
    """The text of a file as UTF-8."""

    def read(self, size: int) -> bytes: ...

    def close(self) -> None: ...


class RewrittenText(io.RawIOBase):
    """A stream of the rewritten text. It owns the underlying stream.

    A line that is only a comment becomes a blank one, so that the numbers of lines in errors stay
    right, except in a file with one column, where a blank line would be a row.
    """

    def __init__(self, stream: ByteStream, dialect: CsvDialect) -> None:
        self._stream = stream
        self._lines = _Lines(dialect)
        self._is_padded = dialect.pads
        self._rest, self._done, self._is_end = b"", b"", False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._is_end and (size < 0 or len(self._done) < size):
            self._fill()
        taken = len(self._done) if size < 0 else size
        chunk, self._done = self._done[:taken], self._done[taken:]
        return chunk

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        chunk = self.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()

    def _fill(self) -> None:
        """Rewrites the whole lines of the next block; the first one is a sample of the rows."""
        size = SAMPLE_BYTES if self._is_padded else _BLOCK_BYTES
        block = self._stream.read(size)
        data = self._rest + block
        self._is_end = not block
        end = len(data) if self._is_end else data.rfind(b"\n") + 1
        whole, self._rest = data[:end], data[end:]
        if self._is_padded and whole:
            self._lines.width = self._lines.widest(whole)
            self._is_padded = False
        self._done += b"".join(map(self._lines.rewritten, whole.splitlines(keepends=True)))


class _Lines:
    """The lines of a file, one after the other.

    width: the number of fields of each row; 0: rows are not padded.
    """

    def __init__(self, dialect: CsvDialect) -> None:
        self.width = 0
        self._dialect = dialect
        self._comment = dialect.comment.encode()
        self._quote = dialect.quote.encode()
        self._delimiter = dialect.delimiter.encode()
        self._separator = dialect.separator.encode()
        self._escaped = None
        if dialect.escape:
            self._escaped = re.compile(re.escape(dialect.escape.encode()) + rb".", re.DOTALL)
        self._is_quoted = False
        self._fields = 0
        self._has_fields = False
        self._has_rows = False

    def widest(self, data: bytes) -> int:
        """The largest number of fields of a row."""
        other = _Lines(self._dialect)
        most = 1
        for line in data.splitlines(keepends=True):
            other.rewritten(line)
            most = max(most, other._fields + 1)
        return most

    def rewritten(self, line: bytes) -> bytes:
        """A line, which may begin or end within a quoted value."""
        is_start = not self._is_quoted
        if is_start:
            self._fields = 0
        plain = self._outside(line)
        cut = plain.find(self._comment) if self._comment else -1
        if cut >= 0:
            text = line.rstrip(b"\r\n")
            end = line[len(text) :]
            line = line[:cut]
            if is_start and not line.strip():
                return end if self._may_be_blank() else b""
            if self._quote and line.rstrip(b" ").endswith(self._quote):
                line = line.rstrip(b" ")  # blanks between a quoted value and the comment
            line, plain = line + end, plain[: len(line)] + end
        self._has_rows = self._has_rows or bool(line.strip())
        self._is_quoted ^= bool(self._quote) and plain.count(self._quote) % 2 == 1
        if self._separator:
            line, plain = self._separated(line, plain)
        self._fields += plain.count(self._delimiter)
        self._has_fields = self._has_fields or self._fields > 0
        if self._is_quoted or self._fields + 1 >= self.width or not line.strip():
            return line
        text = line.rstrip(b"\r\n")
        return text + self._delimiter * (self.width - 1 - self._fields) + line[len(text) :]

    def _may_be_blank(self) -> bool:
        """Whether a blank line is no row here."""
        return self._has_fields or (self._dialect.header and not self._has_rows)

    def _outside(self, line: bytes) -> bytes:
        """The line with a zero for each byte that is escaped or within quotes."""
        # Example: `1,"a,b"` becomes `1,"000"`, where 0 is a zero byte.
        if self._escaped is not None:
            line = self._escaped.sub(b"\0\0", line)
        if not self._quote:
            return line
        parts = line.split(self._quote)
        first = 0 if self._is_quoted else 1
        for i in range(first, len(parts), 2):
            parts[i] = b"\0" * len(parts[i])
        return self._quote.join(parts)

    def _separated(self, line: bytes, plain: bytes) -> tuple[bytes, bytes]:
        """The line and its plain form with the delimiter in the place of the separator."""
        if self._delimiter in line:
            raise DataError(
                f"the text has the control character {self._delimiter!r}, which can't be read "
                f"with the delimiter '{self._dialect.separator}'",
                hint="name a delimiter of one character, or remove the character from the file",
            )
        while (at := plain.find(self._separator)) >= 0:
            after = at + len(self._separator)
            line = line[:at] + self._delimiter + line[after:]
            plain = plain[:at] + self._delimiter + plain[after:]
        return line, plain
