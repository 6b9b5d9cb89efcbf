"""Paths of the disk that are used within bounds: looked at, opened and made only where these allow
it at that moment."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa

from runnel.access import Access

_DESCRIPTORS = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"


class ConfinedPath(str):
    """An absolute path, and the bounds of what is opened by it. What is derived from it has the
    same ones."""

    __slots__ = ("access",)

    access: Access

    def beside(self, path: str) -> ConfinedPath:
        """Another path within the same bounds."""
        return confined(path, self.access)

    def real(self) -> str:
        """The real path that it leads to now; ProgrammingError where that is out of bounds."""
        return self.access.resolve(self)

    def opened(self) -> pa.NativeFile:
        """The bytes of the file."""
        descriptor = self.access.open(self, os.O_RDONLY)
        try:
            # Arrow reads without Python what it opens by a path, and this one names the very file
            # that was looked at.
            return pa.OSFile(f"{_DESCRIPTORS}/{descriptor}", "rb")
        finally:
            os.close(descriptor)

    def created(self) -> io.IOBase:
        """A new file; FileExistsError where there is one."""
        return os.fdopen(self.access.open(self, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")


def confined(path: str, access: Access) -> ConfinedPath:
    """A path within bounds."""
    made = ConfinedPath(path)
    made.access = access
    return made
