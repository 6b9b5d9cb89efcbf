"""Durable files: once a function of this module has returned, its effect survives a power loss."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from runnel.errors import ErrorCode, OperationalError

OWN_FILE, OWN_FOLDER = 0o600, 0o700
"""The modes of files and folders that only their owner may read.

Options of mappings and arguments of jobs may contain passwords.
"""


def own_file(path: str, flags: int) -> int:
    """The `opener` argument of `open` for files that only their owner can read."""
    return os.open(path, flags, OWN_FILE)


class PinnedFile:
    """Checks that the path of an open file still leads to this file.

    path: the path by which the file was opened.
    descriptor: the open file.
    `what`: the name of the file in the error.
    """

    __slots__ = ("_identity", "_path", "_what")

    def __init__(self, path: Path, descriptor: int, what: str) -> None:
        self._path = path
        self._what = what
        status = os.fstat(descriptor)
        # No other file has the same device and inode numbers while this one is open.
        self._identity = (status.st_dev, status.st_ino)

    def check(self) -> None:
        """Raise OperationalError if the file was removed, renamed or replaced.

        Anything that is written to it would be lost.
        """
        try:
            status = self._path.stat()
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            raise OperationalError(
                f"{self._what} was removed, renamed or replaced while it was open; "
                "nothing was written",
                code=ErrorCode.GENERIC,
                hint="put it back where it was, or close the connection",
            )


def sync_file(descriptor: int) -> None:
    """Wait until the content of a file is on the disk."""
    if sys.platform == "darwin":
        import fcntl

        # On macOS fsync leaves the data in the drive's cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        # fdatasync, where it exists, doesn't write the file's timestamps.
        getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_folder(path: str | Path) -> None:
    """Wait until created, renamed and removed names in a folder are on the disk."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, text: str) -> None:
    """Replace the content of a file atomically; only its owner can read the file.

    After a crash the file has either the new text or its old content, never a mixture.
    """
    unfinished = path.with_name(f".{path.name}.new")
    with open(unfinished, "w", encoding="utf-8", opener=own_file) as file:
        file.write(text)
        file.flush()
        sync_file(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)
