"""The file operations of the snapshot store, in one class, so that tests can make each of them
fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from xxhash import xxh3_64

from runnel.storage.durable_files import sync_file, sync_folder
from runnel.storage.write_gate import durable_writes

ALIGNMENT = 64
"""Sections of a file begin at multiples of this number of bytes, the preferred alignment of Arrow's
buffers."""


class SectionFile:
    """A file that is being written, section by section; usable as an output stream of Arrow.

    start: offset of the current section.
    end: number of bytes written.
    """

    closed = False

    def __init__(self, disk: Disk, file: BinaryIO) -> None:
        self._disk = disk
        self._file = file
        self.end = 0
        self.start = 0
        self._hash = xxh3_64()

    @property
    def checksum(self) -> int:
        """The XXH3 checksum (64 bits) of the section so far."""
        return self._hash.intdigest()

    def begin(self) -> None:
        """Begins a section at the end of the file."""
        padding = -self.end % ALIGNMENT
        if padding:
            self.write(bytes(padding))
        self.start = self.end
        self._hash.reset()

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        self._disk.write(self._file, view)
        self._hash.update(view)
        self.end += len(view)
        return len(view)

    def flush(self) -> None:
        """Does nothing: there is no buffer."""

    def finish(self) -> None:
        """Closes the file after all of it was written to the disk."""
        try:
            self._disk.sync(self._file)
        finally:
            self._file.close()

    def close(self) -> None:
        """Closes the file without syncing it."""
        self._file.close()


class Disk:
    """The file operations of the store. Each may fail with an OSError, and the process may be
    killed before and after each. `check` raises if the store's directory was removed."""

    _check: Callable[[], None] | None = None

    def __init__(self, check: Callable[[], None] | None = None) -> None:
        self._check = check

    def make_folder(self, path: Path) -> None:
        if self._check is not None:
            self._check()
        path.mkdir(parents=True)

    def create(self, path: Path) -> SectionFile:
        return SectionFile(self, path.open("xb", buffering=0))

    def write(self, file: BinaryIO, data: memoryview) -> None:
        """Writes all of the data: an unbuffered file may accept less at a time."""
        while data:
            data = data[file.write(data) :]

    def sync(self, file: BinaryIO) -> None:
        sync_file(file.fileno())

    def link(self, source: Path, target: Path) -> None:
        """Links `target` to a file; copies the file if the file system has no links."""
        try:
            target.hardlink_to(source)
        except OSError:
            with source.open("rb") as old, target.open("xb") as new:
                shutil.copyfileobj(old, new, 1 << 20)
                new.flush()
                sync_file(new.fileno())

    def sync_folder(self, path: Path) -> None:
        sync_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        with durable_writes:
            source.rename(target)

    def remove(self, path: Path) -> None:
        """Removes a folder with its content."""
        shutil.rmtree(path)
