"""Durable files: once a function of this module has returned, its effect survives a power loss.

A JSON file is sealed by a checksum as its last member, so that a disk fault is detected on reading.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from runnel.errors import ErrorCode, OperationalError
from runnel.storage.write_gate import durable_writes

OWN_FILE, OWN_FOLDER = 0o600, 0o700
"""The modes of files and folders that only their owner may read.

Options of mappings and arguments of jobs may contain passwords.
"""

_CHECKSUM = "checksum"
_SEAL = re.compile(rb',\n "checksum": "([0-9a-f]{8})"\n}\Z')


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
    with durable_writes:
        unfinished.replace(path)
        sync_folder(path.parent)


def sealed(content: Mapping[str, Any]) -> str:
    """Encode a JSON object, which must not be empty, as text with its checksum."""
    text = json.dumps(content, ensure_ascii=False, indent=1).removesuffix("\n}")
    return f'{text},\n "{_CHECKSUM}": "{crc32(text.encode()):08x}"\n}}'


def unsealed(data: bytes, *formats: int) -> Any:
    """Decode a text; raises ValueError if it differs from the text that was written.

    formats: the values of "format" of objects that must have a checksum. Objects of earlier formats
        have none. The caller decides which formats it can read.
    """
    seal = _SEAL.search(data)
    if seal is not None and seal[1] != b"%08x" % crc32(data[: seal.start()]):
        raise ValueError("its checksum is wrong: it was changed or cut short")
    try:
        content = json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(content, dict):
        if seal is None and content.get("format") in formats:
            raise ValueError("its checksum is missing: it was changed, or cut short")
        content.pop(_CHECKSUM, None)
    return content
