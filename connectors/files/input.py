"""Opens data files: decompression, decoding of text, and errors with the system's message.

Reading a compressed file fails at the end of the data if the file was cut off, and also if the file
does not have the named compression.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from runnel.connectors.files.options import CODECS, compression_of
from runnel.connectors.files.paths import missing, unreadable
from runnel.connectors.files.storage import RemotePath, opened
from runnel.errors import DataError, Error

BLOCK_BYTES = 1 << 20
"""How many bytes are read at a time."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Converts exceptions of the system and of Arrow into errors that name the file."""
    try:
        yield
    except Error:
        raise
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, EOFError, pa.ArrowException) as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise not_utf8(path) from error
    except Exception as error:
        if isinstance(path, RemotePath):
            # Each remote file system has exception classes of its own.
            raise unreadable(path, error) from error
        raise


def not_utf8(path: str, line: int | None = None) -> DataError:
    """The error for bytes that are not UTF-8."""
    where = "" if line is None else f", line {line},"
    return DataError(
        f'file "{path}"{where} is not valid UTF-8',
        hint="convert the file, or read it with OPTIONS ('encodingErrors' = 'replace')",
    )


def open_bytes(path: str, compression: str) -> pa.NativeFile:
    """The bytes of a file, decompressed. The caller closes the stream."""
    kind = compression_of(path, compression)
    stream = opened(path)
    if kind is None:
        return stream
    try:
        return pa.CompressedInputStream(stream, CODECS[kind])
    except BaseException:
        stream.close()
        raise


class ReplacingStream(io.RawIOBase):
    """A stream whose invalid UTF-8 is replaced by U+FFFD. It owns the underlying stream."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            chunks = [self._left, self._text.read().encode()]
            self._left = b""
            return b"".join(chunks)
        if not self._left:
            self._left = self._text.read(max(size, 1)).encode()
        chunk, self._left = self._left[:size], self._left[size:]
        return chunk

    def close(self) -> None:
        if not self.closed:
            self._text.close()
        super().close()


class WatchedStream(io.RawIOBase):
    """A stream that passes each chunk to `watch` as it is read. It owns the underlying stream."""

    def __init__(
        self, stream: pa.NativeFile | io.RawIOBase, watch: Callable[[bytes], None]
    ) -> None:
        self._stream = stream
        self._watch = watch

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        chunk: bytes = self._stream.read(size)
        self._watch(chunk)
        return chunk

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def open_input(
    path: str,
    compression: str,
    *,
    replace_invalid: bool,
    watch: Callable[[bytes], None] | None = None,
) -> pa.NativeFile:
    """The bytes of a file, decompressed and, if requested, made valid UTF-8.

    `watch` is called with all of them. The caller closes the stream.
    """
    stream = open_bytes(path, compression)
    if replace_invalid:
        stream = ReplacingStream(stream)
    if watch is not None:
        stream = WatchedStream(stream, watch)
    return stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")


def open_text(path: str, compression: str, *, replace_invalid: bool) -> io.TextIOWrapper:
    """The text of a file, with its line ends but without a byte order mark. The caller closes
    it."""
    errors = "replace" if replace_invalid else "strict"
    return io.TextIOWrapper(
        open_bytes(path, compression), encoding="utf-8-sig", errors=errors, newline=""
    )


def undecodable(path: str, compression: str) -> DataError:
    """The error for a file that is not UTF-8, with the line. Reads the file again."""
    with open_bytes(path, compression) as stream:
        line = 1
        rest = b""
        while chunk := stream.read(BLOCK_BYTES):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            for item in lines:
                if not _is_utf8(item):
                    return not_utf8(path, line)
                line += 1
    return not_utf8(path, None if _is_utf8(rest) else line)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def split_lines(data: bytes) -> pa.Array:
    """Lines as a text array; each line must have its end. ArrowInvalid if the bytes are not
    UTF-8."""
    # Example, data = b"ab\nc\n\n": the line feeds are at ends = [2, 4, 5]. Without line feeds the
    # data are b"abc"; the line with index i ends i bytes earlier there, since i line feeds precede
    # it: ends - [0, 1, 2] = [2, 3, 3]. The offsets [0, 2, 3, 3] cut it into "ab", "c", "".
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    offsets = np.zeros(len(ends) + 1, np.int32)
    np.subtract(ends, np.arange(len(ends)), out=offsets[1:], casting="unsafe")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data.replace(b"\n", b""))]
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers).cast(pa.string())
