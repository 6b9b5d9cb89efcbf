"""Files of records that survive a crash: the write-ahead log and the checkpoints of a durable map.

A file is a header and a sequence of records: magic, CRC-32 of the payload, its length, the payload. A record is there when
`append` has returned, since it was flushed to the disk by then. A crash can leave the last record torn; it was never
acknowledged, so it is cut off. A broken record with sound ones behind it is damage, and is refused; so is a file without its
header, which is on the disk before the file has its name.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from runnel.disk import sync_file
from runnel.errors import OperationalError

logger = logging.getLogger("runnel.maps")

MAGIC = b"RNL1"
FILE_HEADER = b"RNLFILE1"
_HEADER = struct.Struct("<4sIQ")


def framed(payload: bytes) -> bytes:
    """A payload as a record."""
    return _HEADER.pack(MAGIC, zlib.crc32(payload), len(payload)) + payload


class RecordFile:
    """A file that records are appended to. Not safe for threads.

    An append that fails leaves the file as it was. If even that can't be done the file takes no more records, as it isn't
    known what is in it.
    """

    def __init__(self, path: Path) -> None:
        """Opens a file that `create_file` made."""
        self.path = path
        self._file = path.open("r+b", buffering=0)
        self.size = self._file.seek(0, os.SEEK_END)
        self._is_broken = False

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def append(self, payload: bytes) -> None:
        """Writes a record and waits until it is on disk; OperationalError if that fails."""
        if self._is_broken:
            raise OperationalError(
                f"the log {self.path} takes no more changes, as an earlier one failed", hint="connect anew when there is room"
            )
        record = framed(payload)
        try:
            self._write(record)
            sync_file(self._file.fileno())
        except OSError as error:
            self._undo()
            raise write_failed(self.path, error) from error
        self.size += len(record)

    def _write(self, record: bytes) -> None:
        self._file.seek(self.size)
        view = memoryview(record)
        while view:
            view = view[self._file.write(view) :]

    def _undo(self) -> None:
        try:
            self._file.truncate(self.size)
            sync_file(self._file.fileno())
        except OSError:
            self._is_broken = True

    def cut(self, size: int) -> None:
        """Drops everything from `size` on."""
        self._file.truncate(size)
        sync_file(self._file.fileno())
        self.size = size

    def close(self) -> None:
        self._file.close()


def create_file(path: Path, payloads: Iterable[bytes] = ()) -> int:
    """Makes a file of records, or replaces one, and gives its size. It has its name from the moment at which all of it is on
    the disk; the folder is still to be synced. OSError or OperationalError if that fails; then nothing has changed."""
    unfinished = path.with_name("." + path.name)
    try:
        unfinished.write_bytes(FILE_HEADER)
        file = RecordFile(unfinished)
        try:
            sync_file(file.descriptor)
            for payload in payloads:
                file.append(payload)
        finally:
            file.close()
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return file.size


def write_failed(path: Path, error: OSError) -> OperationalError:
    return OperationalError(
        f"writing to {path} failed; nothing was changed", detail=str(error), hint="make room on the disk and try again"
    )


def read_failed(path: Path, error: OSError) -> OperationalError:
    return OperationalError(f"reading {path} failed", detail=str(error))


def missing(path: Path) -> OperationalError:
    return OperationalError(f"the file {path} is missing", hint=RESTORE)


def damaged(path: Path, detail: str, at: int | None = None) -> OperationalError:
    where = "" if at is None else f" at byte {at}"
    return OperationalError(f"the file {path} is damaged{where}", detail=detail, hint=RESTORE)


RESTORE = "restore the directory from a backup"


def read_records(path: Path, *, may_be_torn: bool) -> Iterator[tuple[bytes, int]]:
    """The payloads of a file, each with the offset behind it. A torn end is left out and logged if `may_be_torn`;
    everything else that is broken or missing is an OperationalError."""
    try:
        data = memoryview(path.read_bytes())
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise read_failed(path, error) from error
    at = len(FILE_HEADER)
    if data[:at] != FILE_HEADER:
        raise damaged(path, f"its {len(data)} bytes don't begin with the header of a map's file", 0)
    while at < len(data):
        payload = _record_at(data, at)
        if payload is None:
            break
        at += _HEADER.size + len(payload)
        yield bytes(payload), at
    if at == len(data):
        return
    if not may_be_torn or _has_record_after(data, at + 1):
        raise damaged(path, f"there are {len(data) - at} bytes from there on", at)
    logger.warning("%s ends with a change that was not finished (%d bytes); it is left out", path, len(data) - at)


def _record_at(data: memoryview, at: int) -> memoryview | None:
    """The payload of the record at an offset; None if there is no sound one."""
    if at + _HEADER.size > len(data):
        return None
    magic, checksum, length = _HEADER.unpack_from(data, at)
    start = at + _HEADER.size
    if magic != MAGIC or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if zlib.crc32(payload) == checksum else None


def _has_record_after(data: memoryview, at: int) -> bool:
    rest = bytes(data[at:])
    found = rest.find(MAGIC)
    while found >= 0:
        if _record_at(data, at + found) is not None:
            return True
        found = rest.find(MAGIC, found + 1)
    return False
