"""A pipe as a file: `/dev/stdin`, a named pipe, and `<(command)` of a Unix shell.

Readers open a file several times and at any offset, to recognise its format, columns and types.
The bytes of a pipe can be read once, so that they are copied to a temporary file first.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import IO

_COPIES: dict[tuple[int, int], IO[bytes]] = {}
"""The copy of each pipe by the device and inode of the pipe. A copy is deleted when the process
ends; until then the pipe has the same rows in each statement."""
_LOCK = Lock()
_INPUTS = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


def is_pipe(path: str) -> bool:
    """Whether a local path leads to a pipe, a socket, or the terminal of the standard input."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (path in _INPUTS and os.isatty(0))


def copied(path: str) -> str:
    """The path of a file with all bytes of the pipe. Waits for the end of the pipe."""
    known = Path(path).stat()
    key = (known.st_dev, known.st_ino)
    with _LOCK:
        if key not in _COPIES:
            # The descriptor itself: a socket cannot be opened by its path.
            with os.fdopen(os.dup(0), "rb") if path in _INPUTS else Path(path).open("rb") as source:
                target = NamedTemporaryFile(prefix="runnel-pipe-")  # noqa: SIM115
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
            _COPIES[key] = target
        return _COPIES[key].name
