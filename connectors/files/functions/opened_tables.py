"""The tables of files that queries have named: an unchanged file is not sniffed again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from time import time_ns

from runnel.connectors.files.storage import DataFile, RemotePath, local
from runnel.connectors.files.table import FileTable

MOST_TABLES = 64
MOST_FILES = 256
"""A table of more files is not stored: each use would read the status of all of them."""
SETTLED_NANOSECONDS = 2_000_000_000
"""How long ago a file was changed at least: a file system may not distinguish two changes in less
time."""

Status = tuple[tuple[str, int, int, int], ...]


class OpenedTables:
    """Tables by the call that opened them, of local files that have not changed since then."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, tuple[Status, FileTable]] = OrderedDict()
        self._lock = Lock()

    def table(
        self, call: str, files: Sequence[DataFile], opened: Callable[[], FileTable]
    ) -> FileTable:
        """The stored table of a call, or a new one if a file has changed.

        call: the function, the options and the paths.
        """
        status = _status(files)
        if status is None:
            return opened()
        with self._lock:
            known = self._tables.get(call)
            if known is not None and known[0] == status:
                self._tables.move_to_end(call)
                return known[1]
        now = time_ns()
        table = opened()
        if all(changed < now - SETTLED_NANOSECONDS for *_, changed in status):
            with self._lock:
                self._tables[call] = (status, table)
                self._tables.move_to_end(call)
                while len(self._tables) > MOST_TABLES:
                    self._tables.popitem(last=False)
        return table


def _status(files: Sequence[DataFile]) -> Status | None:
    """The size, the inode and the time of the last change of each file; None if it is unknown."""
    if not files or len(files) > MOST_FILES:
        return None
    found = []
    for file in files:
        if isinstance(file.path, RemotePath):
            return None
        try:
            status = Path(local(file.path)).stat()
        except OSError:
            return None
        found.append((file.path, status.st_size, status.st_ino, status.st_mtime_ns))
    return tuple(found)
