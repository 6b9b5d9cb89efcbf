"""The files of a directory at one instant, and a copy of them in another folder.

`add` is called while the gate of durable writes is closed, and is fast: it links a file that never
changes, reads a small file, and opens a large one. `write` is called when the gate is open again,
and copies the rest. Meanwhile a file may be replaced or removed, which does not affect the open
file. A log may grow; its length was noted.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runnel.storage.durable_files import OWN_FOLDER, own_file, sync_file, sync_folder

SMALL = 64 << 10
"""Size in bytes up to which a file is read at once."""
MOST_READ = 64 << 20
"""Bytes that are read at once in total; further files are opened."""
CHUNK = 4 << 20

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of a file system that cannot link the file into the target."""


@dataclass(frozen=True, slots=True)
class CutFile:
    """A file of the cut.

    name: path relative to the directory.
    size: its length in bytes at the instant of the cut.
    content: its bytes; or its open descriptor; or the name of an earlier file of the cut with the
        same content; None: it is in the target already.
    """

    name: str
    size: int
    content: bytes | int | str | None


class DirectoryCut:
    """The files of `source` that `add` has found, for the folder `target`, which exists and is
    empty. To be closed. Methods raise OSError."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source = source
        self._target = target
        self._files: list[CutFile] = []
        self._folders: list[Path] = [target]
        self._may_link = True
        self._read = 0
        self._names: dict[tuple[int, int], str] = {}

    @property
    def files(self) -> int:
        """The number of files."""
        return len(self._files)

    @property
    def size(self) -> int:
        """The total size of the files in bytes."""
        return sum(file.size for file in self._files)

    @property
    def size_to_write(self) -> int:
        """The number of bytes that `write` copies."""
        return sum(file.size for file in self._files if isinstance(file.content, bytes | int))

    def add(
        self, name: str, *, is_left_out: Callable[[str], bool], is_changed: Callable[[str], bool]
    ) -> None:
        """Adds a file, or a folder with all its files; nothing if it does not exist.

        is_left_out: whether a path relative to the directory is not part of the cut.
        is_changed: whether the file of that path is changed in place, so that it must not be
            linked.
        """
        path = self._source / name
        if is_left_out(name):
            return
        if not path.is_dir():
            self._add_file(name, may_link=not is_changed(name) and not path.is_symlink())
            return
        try:
            found = [item.name for item in path.iterdir()]
        except FileNotFoundError:  # removed now; it was obsolete
            return
        target = self._target / name
        target.mkdir(OWN_FOLDER)
        self._folders.append(target)
        for item in found:
            self.add(f"{name}/{item}", is_left_out=is_left_out, is_changed=is_changed)

    def _add_file(self, name: str, *, may_link: bool) -> None:
        path = self._source / name
        try:
            if may_link and self._is_linked(name):
                return
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        try:
            status = os.fstat(descriptor)
            known = self._names.setdefault((status.st_dev, status.st_ino), name)
            content: bytes | int | str = descriptor
            if known != name:
                content = known
            elif status.st_size <= min(SMALL, MOST_READ - self._read):
                content = _read(descriptor, status.st_size)
                self._read += len(content)
        except BaseException:
            os.close(descriptor)
            raise
        if content is not descriptor:
            os.close(descriptor)
        self._files.append(CutFile(name, status.st_size, content))

    def _is_linked(self, name: str) -> bool:
        """Links a file into the target; False if that is not possible."""
        if not self._may_link:
            return False
        target = self._target / name
        try:
            target.hardlink_to(self._source / name)
        except OSError as error:
            if error.errno == errno.EMLINK:
                return False
            if error.errno not in _NO_LINKS:
                raise
            self._may_link = False
            return False
        self._files.append(CutFile(name, target.stat().st_size, None))
        return True

    def write(self, on_bytes: Callable[[int], None]) -> None:
        """Copies the files that are not in the target yet; all of them are durable when it returns.

        `on_bytes` receives the number of bytes after each chunk, and may raise to end early.
        """
        for file in self._files:
            target = self._target / file.name
            if isinstance(file.content, str):
                self._repeat(self._target / file.content, target)
            elif file.content is not None:
                with open(target, "xb", buffering=0, opener=own_file) as output:
                    for chunk in _chunks(file.content, file.size):
                        view = memoryview(chunk)
                        while view:
                            view = view[output.write(view) :]
                        on_bytes(len(chunk))
                    sync_file(output.fileno())
        for folder in reversed(self._folders):
            sync_folder(folder)

    def _repeat(self, first: Path, target: Path) -> None:
        try:
            target.hardlink_to(first)
        except OSError:
            shutil.copyfile(first, target)
            with target.open("rb") as file:
                sync_file(file.fileno())

    def close(self) -> None:
        """Closes the open files."""
        files, self._files = self._files, []
        for file in files:
            if isinstance(file.content, int):
                os.close(file.content)


def _read(descriptor: int, size: int) -> bytes:
    return b"".join(_chunks(descriptor, size))


def _chunks(content: bytes | int, size: int) -> Iterator[bytes]:
    """The first `size` bytes of an open file, or all of some bytes."""
    if isinstance(content, bytes):
        yield content
        return
    offset = 0
    while offset < size:
        chunk = os.pread(content, min(CHUNK, size - offset), offset)
        if not chunk:
            raise OSError(errno.EIO, "the file was truncated while it was copied")
        offset += len(chunk)
        yield chunk
