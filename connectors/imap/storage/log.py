"""Files of records that survive a crash: the write-ahead log and the checkpoints of a durable map.

A file has a header and a sequence of records. A record has magic bytes, the CRC-32 of the payload,
its length, the CRC-32 of these three, the payload and a trailer. A record is durable when `append`
has returned. A crash can leave the last record torn: truncated, or with zeros at its end, from
which the trailer differs. Such a record was never acknowledged, so it is removed. Any other defect
is damage, and the file is refused. So is a file without its header, which is durable before the
file gets its name.

Files of the first format have neither the second checksum nor trailers, so damage to the last
record cannot be distinguished from a torn one. They are still read, and continued in that format
until a checkpoint replaces them.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from runnel.errors import OperationalError
from runnel.storage.durable_files import PinnedFile, sync_file
from runnel.storage.write_gate import durable_writes

logger = logging.getLogger("runnel.maps")

FILE_HEADER = b"RNLFILE2"


class Framing:
    """The layout of records in a file of one format."""

    def __init__(self, number: int, trailer: bytes) -> None:
        self.file_header = b"RNLFILE%d" % number
        self.magic = b"RNL%d" % number
        self.trailer = trailer
        self._fields = struct.Struct("<4sIQ")
        self.header_size = self._fields.size + (4 if trailer else 0)

    def framed(self, payload: bytes) -> bytes:
        """A payload as a record."""
        header = self._fields.pack(self.magic, zlib.crc32(payload), len(payload))
        if self.trailer:
            header += zlib.crc32(header).to_bytes(4, "little")
        return header + payload + self.trailer

    def size(self, payload: bytes | memoryview) -> int:
        """The size of a record in bytes."""
        return self.header_size + len(payload) + len(self.trailer)

    def record_at(self, data: memoryview, at: int) -> memoryview | None:
        """The payload of the record at an offset; None if there is no intact one."""
        start, fields = at + self.header_size, self._fields_at(data, at)
        if fields is None:
            return None
        _, checksum, length = fields
        end = start + length
        if (
            end + len(self.trailer) > len(data)
            or data[end : end + len(self.trailer)] != self.trailer
        ):
            return None
        payload = data[start:end]
        return payload if zlib.crc32(payload) == checksum else None

    def is_torn(self, data: memoryview, at: int) -> bool:
        """Whether the bytes at an offset, which are no intact record, can be one that was not
        written completely."""
        if (
            not self.trailer
            or at + self.header_size > len(data)
            or not any(data[-len(self.trailer) :])
        ):
            return True
        fields = self._fields_at(data, at)
        return fields is not None and at + self.header_size + fields[2] + len(self.trailer) > len(
            data
        )

    def _fields_at(self, data: memoryview, at: int) -> tuple[bytes, int, int] | None:
        """The fields of an intact header at an offset; None if there is none."""
        if at + self.header_size > len(data):
            return None
        fields: tuple[bytes, int, int] = self._fields.unpack_from(data, at)
        end = at + self._fields.size
        if fields[0] != self.magic:
            return None
        if self.trailer and data[end : end + 4] != zlib.crc32(data[at:end]).to_bytes(4, "little"):
            return None
        return fields


_CURRENT = Framing(2, b"END\n")
_FRAMINGS = {framing.file_header: framing for framing in (Framing(1, b""), _CURRENT)}


class RecordFile:
    """A file that records are appended to. Not safe for threads.

    A failed append leaves the file unchanged. If the file cannot be restored, it accepts no further
    records, since its content is unknown.
    """

    def __init__(self, path: Path) -> None:
        """Opens a file that `create_file` created."""
        self.path = path
        self._file = path.open("r+b", buffering=0)
        self._framing = _FRAMINGS.get(self._file.read(len(FILE_HEADER)), _CURRENT)
        self.size = self._file.seek(0, os.SEEK_END)
        self._is_broken = False
        self._pinned = PinnedFile(path, self._file.fileno(), f"the file {path}")

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def check(self) -> None:
        """OperationalError if the file, or the directory that contains it, was removed or
        renamed."""
        self._pinned.check()

    def append(self, payload: bytes) -> None:
        """Writes a record durably; OperationalError if that fails."""
        if self._is_broken:
            raise OperationalError(
                f"the log {self.path} accepts no further changes, as an earlier one failed",
                hint="connect again when there is room",
            )
        self.check()
        record = self._framing.framed(payload)
        with durable_writes:
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
        with durable_writes:
            self._file.truncate(size)
            sync_file(self._file.fileno())
            self.size = size

    def close(self) -> None:
        self._file.close()


def create_file(path: Path, payloads: Iterable[bytes] = ()) -> int:
    """Creates a file of records, or replaces one, and returns its size.

    The file gets its name when its content is durable; the caller still has to sync the folder.
    OSError or OperationalError if it fails; then nothing has changed.
    """
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
        with durable_writes:
            unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return file.size


def write_failed(path: Path, error: OSError) -> OperationalError:
    return OperationalError(
        f"writing to {path} failed; nothing was changed",
        detail=str(error),
        hint="make room on the disk and try again",
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
    """The payloads of a file, each with the offset after its record.

    With `may_be_torn` a torn end is skipped and logged. Any other defect is an OperationalError.
    """
    try:
        data = memoryview(path.read_bytes())
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise read_failed(path, error) from error
    at = len(FILE_HEADER)
    framing = _FRAMINGS.get(bytes(data[:at]))
    if framing is None:
        raise damaged(path, f"its {len(data)} bytes don't begin with the header of a map's file", 0)
    while at < len(data):
        payload = framing.record_at(data, at)
        if payload is None:
            break
        at += framing.size(payload)
        yield bytes(payload), at
    if at == len(data):
        return
    if not may_be_torn or not framing.is_torn(data, at) or _has_record_after(data, at + 1, framing):
        raise damaged(path, f"there are {len(data) - at} bytes from there to the end", at)
    logger.warning(
        "%s ends with a change that was not finished (%d bytes); it is left out",
        path,
        len(data) - at,
    )


def _has_record_after(data: memoryview, at: int, framing: Framing) -> bool:
    rest = bytes(data[at:])
    found = rest.find(framing.magic)
    while found >= 0:
        if framing.record_at(data, at + found) is not None:
            return True
        found = rest.find(framing.magic, found + 1)
    return False
