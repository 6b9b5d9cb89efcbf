"""Dying at a file operation: this process kills itself right before the n-th one below a folder."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

CHANGES = frozenset(
    {
        "os.rename",
        "os.link",
        "os.remove",
        "os.mkdir",
        "os.rmdir",
        "os.truncate",
        "os.symlink",
        "os.chmod",
    }
)
SYNCS = ("fsync", "fdatasync")


def die_at(number: int, folder: Path) -> None:
    """From now on each change of a name, each opening of a file to write it, and each sync
    counts."""
    root = str(folder)
    numbers = count(1)

    def happens() -> None:
        if next(numbers) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and isinstance(path, str) and path.startswith(root):
                happens()
        elif event in CHANGES and str(arguments[0]).startswith(root):
            happens()

    sys.addaudithook(hook)
    for name in SYNCS:
        if hasattr(os, name):
            setattr(os, name, _counted(getattr(os, name), happens))


def _counted(function: Callable[[Any], None], happens: Callable[[], None]) -> Callable[[Any], None]:
    def sync(descriptor: Any) -> None:
        happens()
        function(descriptor)

    return sync
