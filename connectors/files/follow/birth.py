"""When a file was created, which the file systems of Linux store but `os.stat` doesn't report."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_MASK = struct.Struct("=I")
_TIME = struct.Struct("=qI")
_BTIME_OFFSET = 80


def birth_of(path: str) -> int | None:
    """The time at which a local file was created, in nanoseconds of the clock of its time of last
    change; None if the file system doesn't store it, or the file was deleted."""
    if sys.platform.startswith("linux"):
        return _by_statx(path)
    try:
        created = getattr(Path(path).stat(), "st_birthtime", None)
    except OSError:
        return None
    return None if created is None else int(created * 1_000_000_000)


def _by_statx(path: str) -> int | None:
    statx = _statx()
    if statx is None:
        return None
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, found):
        return None
    (mask,) = _MASK.unpack_from(found.raw)
    if not mask & _STATX_BTIME:
        return None
    seconds, nanoseconds = _TIME.unpack_from(found.raw, _BTIME_OFFSET)
    return int(seconds * 1_000_000_000 + nanoseconds)


@cache
def _statx() -> Any:
    """The function of the C library; None in an old one."""
    try:
        function = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None
    function.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_char_p,
    )
    function.restype = ctypes.c_int
    return function
