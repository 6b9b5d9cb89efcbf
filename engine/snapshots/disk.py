"""The file operations of the snapshot store, in one place, so that tests can have each of them
fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from xxhash import xxh3_64

from runnel.storage.durable_files import sync_file, sync_folder

ALIGNMENT = 64
"""Sections of a file begin at multiples of this, as Arrow likes its buffers best."""


class SectionFile:
    """A file that is being written, section by section; a sink of Arrow's."""

    closed = False

    def __init__(self, disk: Disk, file: BinaryIO) -> None:
        self._disk = disk
        self._file = file
        self.end = 0
        self.start = 0
        self._hash = xxh3_64()

    @property
    def checksum(self) -> int:
        """The XXH3 (64 bits) of the section so far."""
        return self._hash.intdigest()

    def begin(self) -> None:
        """Begins a section at the end of what was written."""
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
        """Nothing to do: there is no buffer."""

    def finish(self) -> None:
        """Closes the file, with all of it on the disk."""
        try:
            self._disk.sync(self._file)
        finally:
            self._file.close()

    def close(self) -> None:
        """Closes the file as it is."""
        self._file.close()


class Disk:
    """What the store does to files. Each method may fail with an OSError, and a process may be
    killed before and after. `check` raises where the directory in which all of it is was
    removed."""

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
        """All of it: an unbuffered file may take less at a time."""
        while data:
            data = data[file.write(data) :]

    def sync(self, file: BinaryIO) -> None:
        sync_file(file.fileno())

    def link(self, source: Path, target: Path) -> None:
        """The file under another name too; a copy where the file system has no links."""
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
        source.rename(target)

    def remove(self, path: Path) -> None:
        """A folder with all that is in it."""
        shutil.rmtree(path)
