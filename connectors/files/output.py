"""Writes one data file: the contract of a format's writer, and the file that it writes to."""

from __future__ import annotations

import codecs
import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from runnel.connectors.files.options import CODECS
from runnel.connectors.files.sniffing.encoding import UTF_8
from runnel.connectors.files.storage import (
    RemotePath,
    created,
    local,
    opened_device,
    remove,
)
from runnel.errors import DataError, Error, IOException
from runnel.storage.durable_files import sync_file


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Converts exceptions of the system into an error that names the file or folder."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Error) or not isinstance(error, OSError | _remote_errors(path)):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise IOException(
            f'file "{path}" can\'t be written',
            detail=reason,
            hint="free some space, or write elsewhere" if full else None,
        ) from error


def _remote_errors(path: str) -> type[Exception]:
    """The base class of the errors of a file system: each remote one has exceptions of its own."""
    return Exception if isinstance(path, RemotePath) else OSError


class FileOutput:
    """A new file, compressed if requested. `finish` makes it durable; `discard` removes it.

    Text is passed as UTF-8, and written in `encoding`. With `in_place`, `path` is a pipe or another
    device, which is neither created nor removed, and can't be made durable.
    """

    def __init__(
        self, path: str, compression: str | None, encoding: str = UTF_8, *, in_place: bool = False
    ) -> None:
        self.path = path
        self._in_place = in_place
        self._encoder = None if encoding == UTF_8 else codecs.getincrementalencoder(encoding)()
        with writing(path):
            # `finish` or `discard` closes it
            self._raw = opened_device(path) if in_place else created(path)
        self.stream = pa.PythonFile(self._raw, mode="w")
        if compression is not None:
            self.stream = pa.CompressedOutputStream(self.stream, CODECS[compression])

    def write(self, data: bytes | pa.Buffer) -> None:
        if self._encoder is not None:
            data = self._encoded(data, self._encoder)
        with writing(self.path):
            self.stream.write(data)

    def _encoded(self, data: bytes | pa.Buffer, encoder: codecs.IncrementalEncoder) -> bytes:
        try:
            return encoder.encode(bytes(data).decode())
        except UnicodeEncodeError as error:
            raise DataError(
                f"the character '{error.object[error.start]}' can't be written in {error.encoding}",
                detail=f'file "{self.path}"',
                hint="write the file in UTF-8",
            ) from error

    def finish(self) -> None:
        """Makes all bytes durable."""
        with writing(self.path):
            if isinstance(self.stream, pa.CompressedOutputStream):
                self.stream.close()
            if isinstance(self.path, RemotePath) or self._in_place:
                self._raw.close()
            elif self._raw.closed:
                # Closing the compression closed the file too. Any descriptor of the file serves to
                # sync it.
                descriptor = os.open(local(self.path), os.O_RDONLY)
                try:
                    sync_file(descriptor)
                finally:
                    os.close(descriptor)
            else:
                self._raw.flush()
                sync_file(self._raw.fileno())
                self._raw.close()

    def discard(self) -> None:
        # The stream may still buffer bytes that cannot be written, which no longer matters.
        with suppress(OSError, ValueError):
            self.stream.close()
        with suppress(OSError):
            self._raw.close()
        if not self._in_place:
            with suppress(OSError):
                remove(self.path)


class JsonArrayOutput(FileOutput):
    """A file that gets JSON, an object on each line, and has the objects as one array.

    `{"a":1}\\n{"a":2}\\n` becomes `[\\n\\t{"a":1},\\n\\t{"a":2}\\n]\\n`: line breaks of texts are
    escaped, so a line break ends an object.
    """

    _separator = b"[\n\t"

    def write(self, data: bytes | pa.Buffer) -> None:
        lines = bytes(data).removesuffix(b"\n")
        if lines:
            super().write(self._separator + lines.replace(b"\n", b",\n\t"))
            self._separator = b",\n\t"

    def finish(self) -> None:
        super().write(b"[\n]\n" if self._separator == b"[\n\t" else b"\n]\n")
        super().finish()


class RowWriter(ABC):
    """Writes batches of the table's visible columns in one format."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows; DataError if the format cannot represent a value."""

    def finish(self) -> None:
        """Writes what follows the rows. The caller finishes the output."""


def text_buffer(text: pa.Array) -> pa.Buffer:
    """The bytes of all values of a VARCHAR array, concatenated."""
    _, offsets, data = text.buffers()
    positions = memoryview(offsets).cast("i")
    start, end = positions[text.offset], positions[text.offset + len(text)]
    return data.slice(start, end - start)
