"""Writing one data file: what a format's writer looks like, and where its bytes go."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from runnel.connectors.files.options import CODECS
from runnel.connectors.files.storage import RemotePath, created, local, remove
from runnel.errors import Error, OperationalError
from runnel.storage.durable_files import sync_file


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turns what the system raises inside into an error that names the file or folder."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Error) or not isinstance(error, OSError | _remote_errors(path)):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise OperationalError(
            f'file "{path}" can\'t be written',
            detail=reason,
            hint="free some space, or write elsewhere" if full else None,
        ) from error


def _remote_errors(path: str) -> type[Exception]:
    """Each remote file system has exceptions of its own."""
    return Exception if isinstance(path, RemotePath) else OSError


class FileOutput:
    """A new file, written through a compression if asked for. `finish` makes it safe on the disk;
    `discard` removes it."""

    def __init__(self, path: str, compression: str | None) -> None:
        self.path = path
        with writing(path):
            self._raw = created(path)  # `finish` or `discard` closes it
        self.stream = pa.PythonFile(self._raw, mode="w")
        if compression is not None:
            self.stream = pa.CompressedOutputStream(self.stream, CODECS[compression])

    def write(self, data: bytes | pa.Buffer) -> None:
        with writing(self.path):
            self.stream.write(data)

    def finish(self) -> None:
        """All bytes are on the disk when it returns."""
        with writing(self.path):
            if isinstance(self.stream, pa.CompressedOutputStream):
                self.stream.close()
            if isinstance(self.path, RemotePath):
                self._raw.close()
            elif self._raw.closed:
                # Closing the compression closed the file too: any descriptor of it will do to make
                # it safe.
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
        # The stream may still hold bytes that can't be written: that is no news here.
        with suppress(OSError, ValueError):
            self.stream.close()
        with suppress(OSError):
            self._raw.close()
        with suppress(OSError):
            remove(self.path)


class RowWriter(ABC):
    """Writes batches of the table's visible columns in one format."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows; DataError where the format can't hold a value."""

    def finish(self) -> None:
        """Writes what comes after the rows. The output is finished by its owner."""


def text_buffer(text: pa.Array) -> pa.Buffer:
    """The bytes of all values of a VARCHAR array, one after the other."""
    _, offsets, data = text.buffers()
    places = memoryview(offsets).cast("i")
    start, end = places[text.offset], places[text.offset + len(text)]
    return data.slice(start, end - start)
