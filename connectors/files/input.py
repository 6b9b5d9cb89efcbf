"""Opens data files: decompression, decoding of text, and errors with the system's message.

Reading a compressed file fails at the end of the data if the file was cut off, and also if the file
does not have the named compression.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from runnel.connectors.files.csv.rewritten import RewrittenText
from runnel.connectors.files.options import CODECS, FileOptions, compression_of
from runnel.connectors.files.paths import missing, unreadable
from runnel.connectors.files.sniffing.encoding import (
    MARKED,
    UTF_8,
    likely_encodings,
    marked_encoding,
)
from runnel.connectors.files.storage import RemotePath, local, opened
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
        raise not_decodable(path, error.encoding, data=error.object[error.start :][:64]) from error
    except Exception as error:
        if isinstance(path, RemotePath):
            # Each remote file system has exception classes of its own.
            raise unreadable(path, error) from error
        raise


def not_decodable(
    path: str, encoding: str, line: int | None = None, data: bytes = b""
) -> DataError:
    """The error for bytes that are no text of the encoding. `data` has some of them."""
    where = "" if line is None else f", line {line},"
    named = "UTF-8" if encoding == UTF_8 else encoding
    likely = [item for item in likely_encodings(data) if item != encoding]
    shown = f"'{likely[0]}'" + "".join(f" or '{item}'" for item in likely[1:])
    return DataError(
        f'file "{path}"{where} is not valid {named}',
        hint=f"name its encoding, OPTIONS ('encoding' = …), most likely {shown}; or replace such "
        "bytes with 'encodingErrors' = 'replace', or leave records out with 'onError' = 'skip'",
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


class DecodedStream(io.RawIOBase):
    """A stream of UTF-8 whose text comes from another encoding, or is invalid UTF-8 that is
    replaced by U+FFFD. It owns the underlying stream."""

    def __init__(self, stream: pa.NativeFile, encoding: str, errors: str) -> None:
        self._text = io.TextIOWrapper(stream, encoding=encoding, errors=errors, newline="")
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
    path: str, options: FileOptions, watch: Callable[[bytes], None] | None = None
) -> pa.NativeFile:
    """The text of a file as UTF-8: decompressed, decoded, and if requested made valid.

    `watch` is called with all of its bytes. The caller closes the stream.
    """
    stream = open_bytes(path, options.compression)
    if options.replace_invalid or options.encoding != UTF_8:
        try:
            encoding = _ordered(stream, path, options.encoding)
        except BaseException:
            stream.close()
            raise
        errors = "replace" if options.replace_invalid else "strict"
        stream = DecodedStream(stream, encoding, errors)
    if options.dialect.is_rewritten:
        stream = RewrittenText(stream, options.dialect)
    if watch is not None:
        stream = WatchedStream(stream, watch)
    return stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")


def _ordered(stream: pa.NativeFile, path: str, encoding: str) -> str:
    """The encoding with its byte order, which the mark at the start of the stream has."""
    if encoding not in MARKED:
        return encoding
    found = marked_encoding(stream.read(2 if encoding == "utf-16" else 4))
    if found is None or found[0] != encoding:
        raise DataError(
            f'file "{path}" does not begin with the byte order mark of {encoding}',
            hint=f"name its encoding: 'encoding' = '{encoding}-le', '{encoding}-be' or 'utf-8'",
        )
    return found[1]


def open_text(
    path: str, options: FileOptions, *, replace_invalid: bool | None = None
) -> io.TextIOWrapper:
    """The text of a file, with its line ends but without a byte order mark. The caller closes
    it.

    `replace_invalid`: overrides the option.
    """
    is_replaced = options.replace_invalid if replace_invalid is None else replace_invalid
    if options.dialect.is_rewritten:
        rewritten = open_input(path, replace(options, replace_invalid=is_replaced))
        return io.TextIOWrapper(rewritten, encoding="utf-8-sig", newline="")
    stream = open_bytes(path, options.compression)
    encoding = (
        "utf-8-sig" if options.encoding == UTF_8 else _ordered(stream, path, options.encoding)
    )
    errors = "replace" if is_replaced else "strict"
    return io.TextIOWrapper(stream, encoding=encoding, errors=errors, newline="")


def undecodable(path: str, options: FileOptions) -> DataError:
    """The error for a file that can't be decoded, with the line for UTF-8. Reads the file again."""
    if options.encoding != UTF_8:
        return not_decodable(path, options.encoding)
    with open_bytes(path, options.compression) as stream:
        line = 1
        rest = b""
        while chunk := stream.read(BLOCK_BYTES):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            for item in lines:
                if not _is_utf8(item):
                    return not_decodable(path, UTF_8, line, item)
                line += 1
    return not_decodable(path, UTF_8, None if _is_utf8(rest) else line, rest)


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


def modified(path: str) -> datetime | None:
    """The time of the last change; None if the file system of a URL does not report it."""
    if not isinstance(path, RemotePath):
        with reading(path):
            return datetime.fromtimestamp(Path(local(path)).stat().st_mtime, UTC)
    try:
        found: datetime | None = path.system.modified(path.inner)
    except (NotImplementedError, KeyError):
        return None
    return found
