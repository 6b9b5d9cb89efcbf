"""The position of a share of files, from which another process can resume reading.

It consists of the files with marks that identify their version, and the number of rows read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

from runnel.connectors.files.format import FileShare
from runnel.connectors.files.storage import DataFile, RemotePath, exists, like, local, size_of
from runnel.errors import position_expired

_ROW_GROUPS = "parts"
"""A word in the names of shares, which snapshots store; it never changes."""

Marks = list[list[Any]]
"""For each file its path, and values that change with the file: the size and, on the disk, the time
of the last change in nanoseconds."""


def share_name(share: FileShare) -> str:
    """A name that no other share has."""
    paths = [str(file.path) for file in share.files]
    name = (
        paths[0]
        if len(paths) == 1
        else f"{paths[0]} and {len(paths) - 1} more [{crc32('|'.join(paths).encode()):08x}]"
    )
    return (
        name
        if share.parts is None
        else f"{name}, {_ROW_GROUPS} {share.parts[0]} to {share.parts[-1]}"
    )


def marks_of(share: FileShare) -> Marks:
    return [[str(file.path), *_mark(file)] for file in share.files]


def _mark(file: DataFile) -> list[int]:
    if isinstance(file.path, RemotePath):
        return [file.size]
    status = Path(local(file.path)).stat()
    return [status.st_size, status.st_mtime_ns]


def check_marks(share: FileShare, marks: Marks) -> None:
    """Fails if a file has changed."""
    for file, (path, *was) in zip(share.files, marks, strict=True):
        try:
            now = _mark(file)
        except FileNotFoundError:
            raise position_expired(
                f'file "{path}" is gone, which a job has read in part',
                hint="bring it back as it was",
            ) from None
        if now != was:
            raise position_expired(
                f'file "{path}" was changed after a job has read it in part',
                detail=f"it has {now[0]} bytes, and had {was[0]}"
                if now[0] != was[0]
                else "it was written again",
                hint="bring it back as it was",
            )


def still_there(share: FileShare) -> FileShare:
    """The share with the current sizes of its files, without the deleted ones."""
    files = []
    for file in share.files:
        if isinstance(file.path, RemotePath):
            files.append(file)
        elif exists(file.path):
            files.append(DataFile(file.path, size_of(file.path)))
    return FileShare(tuple(files), share.parts)


def share_of_marks(marks: Marks, parts: list[int] | None, base: str = "") -> FileShare | None:
    """The share of a position; None if its files are not on the disk.

    `base` is the path whose access rules apply to the files.
    """
    if any("://" in path for path, *_ in marks):
        return None
    return FileShare(
        tuple(DataFile(like(base, path), size) for path, size, *_ in marks),
        None if parts is None else tuple(parts),
    )
