"""Opening data files: compression, text decoding, and errors in the words of the system.

A compressed file that was cut off fails when its end is reached; so does one that isn't of the
compression named.
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
"""How much is read at a time."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns what the system and Arrow raise inside into errors that name the file."""
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
            # Each file system has exceptions of its own.
            raise unreadable(path, error) from error
        raise


def not_utf8(path: str, line: int | None = None) -> DataError:
    """The error for bytes that are no UTF-8."""
    where = "" if line is None else f", line {line},"
    return DataError(
        f'file "{path}"{where} is not valid UTF-8',
        hint="convert the file, or read it with OPTIONS ('encodingErrors' = 'replace')",
    )


def open_bytes(path: str, compression: str) -> pa.NativeFile:
    """The bytes of a file, decompressed. The caller closes it."""
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
    """A stream whose invalid UTF-8 is replaced by U+FFFD. It owns the stream below."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            parts = [self._left, self._text.read().encode()]
            self._left = b""
            return b"".join(parts)
        if not self._left:
            self._left = self._text.read(max(size, 1)).encode()
        piece, self._left = self._left[:size], self._left[size:]
        return piece

    def close(self) -> None:
        if not self.closed:
            self._text.close()
        super().close()


class WatchedStream(io.RawIOBase):
    """A stream that shows `watch` every piece that is read. It owns the stream below."""

    def __init__(
        self, stream: pa.NativeFile | io.RawIOBase, watch: Callable[[bytes], None]
    ) -> None:
        self._stream = stream
        self._watch = watch

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece: bytes = self._stream.read(size)
        self._watch(piece)
        return piece

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
    """The bytes of a file, decompressed and, if asked for, made valid UTF-8; `watch` sees all of
    them. The caller closes it."""
    stream = open_bytes(path, compression)
    if replace_invalid:
        stream = ReplacingStream(stream)
    if watch is not None:
        stream = WatchedStream(stream, watch)
    return stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")


def open_text(path: str, compression: str, *, replace_invalid: bool) -> io.TextIOWrapper:
    """The text of a file with its line ends kept, without a byte order mark. The caller closes
    it."""
    errors = "replace" if replace_invalid else "strict"
    return io.TextIOWrapper(
        open_bytes(path, compression), encoding="utf-8-sig", errors=errors, newline=""
    )


def undecodable(path: str, compression: str) -> DataError:
    """The error for a file that isn't UTF-8, with the line. Reads the file again."""
    with open_bytes(path, compression) as stream:
        line = 1
        rest = b""
        while piece := stream.read(BLOCK_BYTES):
            lines = (rest + piece).split(b"\n")
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
    """Bytes in which every line has its end, as a text array of the lines; ArrowInvalid where they
    aren't UTF-8."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    offsets = np.zeros(len(ends) + 1, np.int32)
    # Without the line feeds, each line ends earlier by as many bytes as there were line feeds
    # before its own.
    np.subtract(ends, np.arange(len(ends)), out=offsets[1:], casting="unsafe")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data.replace(b"\n", b""))]
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers).cast(pa.string())
