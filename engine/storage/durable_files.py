"""Making files safe on the disk: what these functions have returned for survives a loss of
power."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from runnel.errors import ErrorCode, OperationalError

OWN_FILE, OWN_FOLDER = 0o600, 0o700
"""The modes of what only its owner may read: options of mappings and arguments of jobs may hold
passwords."""


def own_file(path: str, flags: int) -> int:
    """An `opener` of files that only their owner can read."""
    return os.open(path, flags, OWN_FILE)


class Held:
    """A file that is kept open, to tell whether its path still leads to it. `what` names to the
    user what is gone otherwise."""

    __slots__ = ("_identity", "_path", "_what")

    def __init__(self, path: Path, descriptor: int, what: str) -> None:
        self._path = path
        self._what = what
        status = os.fstat(descriptor)
        # No other file has these numbers while it is open.
        self._identity = (status.st_dev, status.st_ino)

    def check(self) -> None:
        """OperationalError where it was removed, renamed or replaced: what is written to it would
        be lost."""
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
    """Waits until a file's content is on the disk."""
    if sys.platform == "darwin":
        import fcntl

        # On macOS fsync leaves the data in the drive's cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        # Where there is one, it spares writing the time stamps.
        getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_folder(path: str | Path) -> None:
    """Waits until created, renamed and removed names in a folder are on the disk."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, text: str) -> None:
    """Has a file, which only its owner can read, hold a text: all of it, or what it held before,
    whatever is cut short."""
    unfinished = path.with_name(f".{path.name}.new")
    with open(unfinished, "w", encoding="utf-8", opener=own_file) as file:
        file.write(text)
        file.flush()
        sync_file(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)
