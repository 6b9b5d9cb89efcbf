"""Local paths that are confined: checked and opened only if the access rules allow it at that
time."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa

from runnel.access import Access

_DESCRIPTORS = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"


class ConfinedPath(str):
    """An absolute path with the access rules for whatever is opened through it.

    Paths derived from it have the same rules.
    """

    __slots__ = ("access",)

    access: Access

    def sibling(self, path: str) -> ConfinedPath:
        """Another path under the same access rules."""
        return confined(path, self.access)

    def real(self) -> str:
        """The real path, with links resolved now; ProgrammingError if the access rules forbid
        it."""
        return self.access.resolve(self)

    def opened(self) -> pa.NativeFile:
        """Opens the file for reading."""
        descriptor = self.access.open(self, os.O_RDONLY)
        try:
            # Arrow reads a file that it opened by path without calling Python. This path names the
            # descriptor, hence the very file that was checked.
            return pa.OSFile(f"{_DESCRIPTORS}/{descriptor}", "rb")
        finally:
            os.close(descriptor)

    def created(self) -> io.IOBase:
        """Creates the file and opens it for writing; FileExistsError if it exists."""
        return os.fdopen(self.access.open(self, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")


def confined(path: str, access: Access) -> ConfinedPath:
    """A path under the given access rules."""
    made = ConfinedPath(path)
    made.access = access
    return made
