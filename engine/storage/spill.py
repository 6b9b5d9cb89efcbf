"""Temporary files for rows that exceed the memory limit.

A file has no name: it disappears when it is closed, also when the process is killed. A `SpillFile`
is written batch by batch and read from the first row on. Rows that need random access are `mapped`
instead: the result is an ordinary batch whose columns lie in a memory-mapped file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile, gettempdir, mkdtemp
from typing import IO, Any, Protocol

import pyarrow as pa

from runnel.base.forks import watch
from runnel.columns.batches import slices
from runnel.errors import OperationalError

SPILLED_ROWS = 1 << 14
"""Maximum number of rows of a batch in a file, so that reading a file needs little memory."""

SPILLED_BYTES = 1 << 20
"""Maximum size of a batch in a file, in bytes, approximately."""


class SpillSpace(Protocol):
    """The folder of spill files, and the count of their bytes.

    directory: the folder of the files; None: the temporary folder of the system.
    owned: whether the folder is created on first use.
    """

    directory: str | None
    owned: bool

    def spilled(self, count: int) -> None:
        """Counts bytes that were written to a file."""


class SpillFile:
    """Batches of one schema on disk: first written, then read any number of times, in order.

    rows: the number of rows written.
    bytes: the size of these rows in memory.
    """

    def __init__(self, space: SpillSpace) -> None:
        self._space = space
        self._file: IO[bytes] | None = None
        self._writer: Any = None
        self.rows = 0
        self.bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch, in slices of at most SPILLED_ROWS rows."""
        if not batch.num_rows:
            return
        size = batch.nbytes
        rows = min(SPILLED_ROWS, max(1, batch.num_rows * SPILLED_BYTES // max(size, 1)))
        try:
            if self._file is None:
                self._file = _opened(self._space)
                self._writer = pa.ipc.new_stream(self._file, batch.schema)
            for part in slices(batch, rows):
                self._writer.write_batch(part)
        except OSError as error:
            self.close()
            raise _unwritable(self._space, error) from error
        self.rows += batch.num_rows
        self.bytes += size
        self._space.spilled(size)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches from the first one on; one reader at a time.

        After the first call nothing can be written.
        """
        if self._file is None:
            return
        try:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
                self._file.flush()
            self._file.seek(0)
            reader = pa.ipc.open_stream(self._file)
            while True:
                try:
                    yield reader.read_next_batch()
                except StopIteration:
                    return
        except OSError as error:
            raise _unwritable(self._space, error) from error

    def close(self) -> None:
        """Delete the file; further calls have no effect."""
        self._writer = None
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


def mapped(batch: pa.RecordBatch, space: SpillSpace) -> pa.RecordBatch:
    """Copy the rows to a memory-mapped file, and return a batch of them there.

    The operating system reads only the pages that are accessed. The file disappears when
    nothing refers to the batch. The columns can't be changed in place.
    """
    size = batch.nbytes
    try:
        with _opened(space) as file:
            with pa.ipc.new_stream(file, batch.schema) as writer:
                writer.write_batch(batch)
            file.flush()
            found = pa.ipc.open_stream(_mapping(file.fileno())).read_next_batch()
    except OSError as error:
        raise _unwritable(space, error) from error
    space.spilled(size)
    return found


def _mapping(descriptor: int) -> pa.Buffer:
    """Map the content of a file into memory; the mapping remains when the file is closed."""
    path = Path(f"/proc/self/fd/{descriptor}")
    if path.exists():
        # Arrow's mapping keeps no descriptor open; Python's mmap keeps one as long as it exists.
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()
    import mmap

    return pa.py_buffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))


def _opened(space: SpillSpace) -> IO[bytes]:
    if space.owned and space.directory is not None:
        Path(space.directory).mkdir(parents=True, exist_ok=True)
    return TemporaryFile(prefix="runnel-", dir=space.directory, buffering=1 << 16)


class PrivateFolder:
    """A temporary folder of this process, for users that need named files.

    `close` removes the folder. The folder of a killed process is removed when the next folder in
    the same base folder is made.

    base: the folder in which it is made; None: the temporary folder of the system.
    path: the path of the folder.
    """

    def __init__(self, base: str | None) -> None:
        self.path = mkdtemp(prefix=_PREFIX, dir=base)
        self._lock = _locked(Path(self.path))
        _remove_stale(Path(self.path))
        watch(self)

    def leave(self) -> None:
        """In a forked child: leave the folder to the parent, and close the copy of its lock."""
        self._give_up_lock()

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._give_up_lock()

    def _give_up_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


_PREFIX = "runnel-spill-"
_LOCK = "owner.lock"


def _locked(folder: Path) -> int | None:
    """Acquire the lock of a folder, which ends with the process; None if another process has it."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # Windows doesn't remove open files
        return descriptor
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_stale(own: Path) -> None:
    for folder in own.parent.glob(f"{_PREFIX}*"):
        # A folder without a lock file is just being made.
        if folder == own or not (folder / _LOCK).exists():
            continue
        with suppress(OSError):
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _unwritable(space: SpillSpace, error: OSError) -> OperationalError:
    folder = space.directory or gettempdir()
    return OperationalError(
        f'rows beyond memory_limit can\'t be written to "{folder}"',
        detail=os.strerror(error.errno) if error.errno else str(error),
        hint="free space there, set temp_directory to another folder, or raise memory_limit",
    )
