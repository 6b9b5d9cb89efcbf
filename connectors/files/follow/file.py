"""One followed file: how far it has been read, and how it changed in the meantime.

A text file may grow; its last line is read once the line has its end. The position is an offset in
bytes. The last bytes before it are stored, to distinguish a file that grew from a file that
replaced it. Files of other formats and compressed files are read as a whole, when they are
unchanged from one listing to the next.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from runnel.connectors.files.format import Batches, FileFormat, FileScanRequest, FileShare
from runnel.connectors.files.input import open_bytes, reading
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.records.parser import LONGEST_RECORD, RecordParser, too_long
from runnel.connectors.files.storage import DataFile, RemotePath, local
from runnel.errors import DataError, Error, ErrorCode, OperationalError, position_expired

BLOCK_BYTES = 4 << 20
"""How many bytes of a file are read at a time."""

REMEMBERED_BYTES = 32
"""How many bytes before the position are stored."""

LOGGER = logging.getLogger("runnel.connectors")

Mark = tuple[int, ...]
"""Values that change with the file and are cheap to read: its size in bytes and, on the disk,
its inode number and the time of its last change."""


def mark_of(file: DataFile) -> Mark | None:
    """The current mark of the file; None if it was deleted."""
    if isinstance(file.path, RemotePath):
        return (file.size,)
    try:
        status = Path(local(file.path)).stat()
    except FileNotFoundError:
        return None
    return (status.st_size, status.st_ino, status.st_mtime_ns)


def number_of(mark: Mark | None) -> int | None:
    """The inode number of the file, which survives a rename; another file may get it after a
    deletion."""
    return None if mark is None or len(mark) < 3 else mark[1]


class GrowingFile:
    """A text file that is read as it grows.

    `start` and `line` are the position (offset in bytes, line number) up to which its rows were
    emitted.
    """

    def __init__(self, parser: RecordParser) -> None:
        self._parser = parser
        self.path = parser.path
        self.start = 0
        self.line = 1
        self.to_skip = 0
        self._skipped = 0
        self._after = (0, 1)
        self._before = b""
        self._after_bytes = b""
        self._has_begun = False
        self.last_mark: Mark | None = None
        self._size = self._limit = 0
        self._last: int | None = None
        self._last_rows = 0

    def look(self, file: DataFile, mark: Mark, limit: int) -> bool:
        """Whether there may be rows to read, by the mark of a new listing and the size in bytes up
        to which it may be read."""
        limit = min(limit, mark[0])
        if mark == self.last_mark and limit == self._limit:
            return False
        self.last_mark = mark
        self._size, self._limit = mark[0], limit
        if self.start:
            self._check(mark[0])
        return limit > self.start

    def read(self) -> pa.RecordBatch | None:
        """The next rows; None if there is no further whole record.

        The caller calls `confirm` when the rows were emitted.
        """
        if self._last is not None:
            return self._read_limited(self._last)
        try:
            return self._read() if self.start < self._limit else None
        except OperationalError as error:
            if error.code == ErrorCode.OBJECT_NOT_FOUND:
                self.look_again()
                return None
            raise

    def look_again(self) -> None:
        """It was renamed or deleted after it was listed: the next listing counts as a change."""
        if self.last_mark is not None:
            self.last_mark = (-1, *self.last_mark[1:])

    def _read(self) -> pa.RecordBatch | None:
        with reading(self.path), self._opened() as stream:
            if not self._has_begun and not self._begin(stream):
                return None
            size = BLOCK_BYTES
            last = self._last
            end = self._limit if last is None or self.start >= last else last
            while True:
                stream.seek(self.start)
                data = stream.read(max(0, min(size, end - self.start)))
                whole = self._parser.whole(data)
                if whole:
                    break
                if len(data) < size:
                    return None
                if size > LONGEST_RECORD:
                    raise too_long(self._parser, self.line)
                size *= 4
        data = data[:whole]
        batch = self._parser.batch(data, self.line)
        self._parser.malformed.log()
        self._after = (self.start + whole, self.line + data.count(b"\n"))
        self._after_bytes = data[-REMEMBERED_BYTES:]
        self._skipped = min(self.to_skip, batch.num_rows)
        self.to_skip -= self._skipped
        return batch.slice(self._skipped)

    def _read_limited(self, last: int) -> pa.RecordBatch | None:
        """The rows up to the last position, then those after it that had been read too."""
        if not self._has_begun:
            with reading(self.path), open_bytes(self.path, "none") as stream:
                if not self._begin(stream):
                    return None
        if self.start < last:
            return self._read()
        rows, self._last_rows = self._last_rows, 0
        batch = self._read() if rows else None
        return None if batch is None else batch.slice(0, rows)

    def stop_at(self, token: dict[str, Any], file: DataFile) -> None:
        """Limits reading to the rows before a position."""
        self._last, self._last_rows = token["start"], token["rows"]
        self._size = self._limit = file.size

    def confirm(self) -> None:
        """Confirms that all rows of the last `read` were emitted."""
        self._skipped = 0
        self.start, self.line = self._after
        self._before = self._after_bytes

    @property
    def unread(self) -> tuple[int, int] | None:
        """The bytes read and the bytes observed, if there are unread bytes; else None."""
        return (self.start, self._size) if self.start < self._size else None

    @property
    def is_at_end(self) -> bool:
        """Whether all bytes that were observed have been read."""
        return self.last_mark is not None and self.unread is None

    @property
    def is_complete(self) -> bool:
        """Whether it is never read further: any text file may grow."""
        return False

    def is_cut(self, mark: Mark) -> bool:
        """Whether it is shorter now than was observed, or replaced, before all of it was read."""
        if self.unread is None or mark == self.last_mark:
            return False
        if mark[0] < self._size:
            return True
        if not self._before and number_of(mark) != number_of(self.last_mark):
            return True
        return self._bytes_before(self.start, len(self._before), mark) != self._before

    def gone(self) -> None:
        """Logs that the file was deleted."""
        LOGGER.warning(
            'file "%s" was removed after %d of its bytes were read', self.path, self.start
        )

    def takes_over(self, other: FollowedFile, mark: Mark) -> bool:
        """Adopts the position of another entry, if both are the same file under two names.

        The file is the same if it is unchanged, or has additional bytes after those that were read.
        """
        if (
            not isinstance(other, GrowingFile)
            or other.last_mark is None
            or not (mark == other.last_mark or mark[0] > other.last_mark[0])
        ):
            return False
        self.last_mark = mark
        if self._bytes_before(other.start, len(other._before)) != other._before:
            return False
        self.last_mark, self._size, self._limit = other.last_mark, other._size, other._limit
        self.start, self.line, self.to_skip = other.start, other.line, other.to_skip
        self._after, self._before, self._after_bytes = (
            (self.start, self.line),
            other._before,
            other._before,
        )
        return True

    def position(self, rows: int) -> dict[str, Any]:
        """The position, for a snapshot; `rows` is the number of rows after `start` that were
        emitted too."""
        return {
            "start": self.start,
            "line": self.line,
            "rows": rows + self._skipped + self.to_skip,
            "before": self._before.hex(),
            "size": self._size,
            "number": number_of(self.last_mark),
        }

    def is_it(self, token: dict[str, Any], file: DataFile) -> bool:
        """Whether a file with the inode number of a position is that file, perhaps with more
        bytes after it."""
        before = bytes.fromhex(token.get("before", ""))
        return (
            bool(before)
            and file.size >= token["start"]
            and self._bytes_before(token["start"], len(before)) == before
        )

    def seek(self, token: dict[str, Any], file: DataFile | None) -> bool:
        """Resumes from a position. False: the file was deleted, but had been read to its end."""
        before = bytes.fromhex(token["before"])
        if file is None:
            if token["start"] < token["size"]:
                raise _gap(self.path, token, "is gone")
            return False
        if file.size < token["start"]:
            raise _gap(self.path, token, f"has only {file.size} bytes now")
        if self._bytes_before(token["start"], len(before)) != before:
            raise _gap(self.path, token, "has other contents now")
        self.start, self.line, self.to_skip = token["start"], token["line"], token["rows"]
        self._after, self._before, self._after_bytes = (self.start, self.line), before, before
        # A renamed file is found by its number, also if that comes before the first listing.
        self._size, self.last_mark = token["size"], mark_of(file)
        self.look_again()
        return True

    def skip_all(self, file: DataFile) -> None:
        """Skips the records that exist now."""
        self._size = file.size
        with reading(self.path), open_bytes(self.path, "none") as stream:
            if not self._begin(stream):
                return
            while True:
                stream.seek(self.start)
                data = stream.read(BLOCK_BYTES)
                whole = self._parser.whole(data)
                if not whole:
                    break
                self.start, self.line = self.start + whole, self.line + data.count(b"\n", 0, whole)
                self._before = data[:whole][-REMEMBERED_BYTES:]
        self._after, self._after_bytes = (self.start, self.line), self._before

    def _begin(self, stream: pa.NativeFile) -> bool:
        data = stream.read(BLOCK_BYTES)
        skipped = self._parser.begin(data, False)
        if skipped is None:
            return False
        self._has_begun = True
        if not self.start:
            self.start, self.line = skipped, 1 + data.count(b"\n", 0, skipped)
            self._before = self._after_bytes = data[:skipped][-REMEMBERED_BYTES:]
            self._after = (self.start, self.line)
        return True

    def _check(self, size: int) -> None:
        """Restarts from the beginning if the file is not the one that was read."""
        if size >= self.start and self._bytes_before(self.start, len(self._before)) == self._before:
            return
        what = "was truncated" if size < self.start else "was replaced"
        LOGGER.warning(
            'file "%s" %s after %d of its bytes were read: it is read from its beginning; bytes '
            "that were added before that may be lost",
            self.path,
            what,
            self.start,
        )
        self.start, self.line, self.to_skip, self._before = 0, 1, 0, b""
        self._after, self._after_bytes, self._has_begun = (0, 1), b"", False

    def _bytes_before(self, position: int, count: int, mark: Mark | None = None) -> bytes:
        with reading(self.path), self._opened(mark) as stream:
            stream.seek(position - count)
            found: bytes = stream.read(count)
            return found

    def _opened(self, mark: Mark | None = None) -> pa.NativeFile:
        """The opened file. FileNotFoundError if its inode number is not the one in `mark`, by
        default the last mark: another file has its name."""
        stream = open_bytes(self.path, "none")
        number = number_of(mark or self.last_mark)
        if number is not None and os.fstat(stream.fileno()).st_ino != number:
            stream.close()
            raise FileNotFoundError(self.path)
        return stream


class WholeFile:
    """A file that is read when it is complete: when two listings in a row show the same mark."""

    def __init__(
        self, path: str, file_format: FileFormat, asked: FileScanRequest, malformed: Malformed
    ) -> None:
        self.path = path
        self._format = file_format
        self._asked = asked
        self._malformed = malformed
        self.last_mark: Mark | None = None
        self._batches: Batches | None = None
        self._is_done = self._has_begun = False
        self._rows = 0
        self._waiting = 0
        self.to_skip = 0
        self._most: int | None = None

    def look(self, file: DataFile, mark: Mark, limit: int) -> bool:
        if self._is_done and self.last_mark is None:
            self.last_mark = mark
        was, self.last_mark = self.last_mark, mark
        if self._is_done and mark != was:
            LOGGER.warning(
                'file "%s" was changed after it was read; the changes are not read', self.path
            )
        if mark != was or self._is_done:
            return False
        self._batches = self._format.read(FileShare((file,)), self._asked)
        return True

    def look_again(self) -> None:
        """It was renamed or deleted after it was listed: the next listing counts as a change."""
        if self.last_mark is not None:
            self.last_mark = (-1, *self.last_mark[1:])

    def read(self) -> pa.RecordBatch | None:
        if self._batches is None:
            return None
        if not self._has_begun and self.last_mark is not None:
            self._has_begun = True
            if mark_of(DataFile(self.path, self.last_mark[0])) != self.last_mark:
                self.close()
                self._batches, self._has_begun = None, False
                self.look_again()
                return None
        try:
            for whole in self._batches:
                batch = whole if self._most is None else self._first(whole, self._most)
                skipped = min(self.to_skip, batch.num_rows)
                self.to_skip -= skipped
                self._rows += skipped
                if batch.num_rows > skipped:
                    self._waiting = batch.num_rows - skipped
                    return batch.slice(skipped)
        except Error as error:
            located = DataError(
                error.message, detail=error.detail or f'file "{self.path}"', hint=error.hint
            )
            self._malformed.leave_out(error if self._malformed.fails else located, self.path)
            self._malformed.log()
        self._batches, self._is_done = None, True
        return None

    def _first(self, batch: pa.RecordBatch, most: int) -> pa.RecordBatch:
        """At most `most` rows of the batch; after the last one, the file is closed."""
        self._most = max(0, most - batch.num_rows)
        if not self._most:
            self.close()
        return batch.slice(0, most)

    def stop_at(self, token: dict[str, Any], file: DataFile) -> None:
        """Limits reading to the rows before a position."""
        self._most = None if token["done"] else token["rows"]
        if token["done"] or token["rows"]:
            self._batches = self._format.read(FileShare((file,)), self._asked)

    def confirm(self) -> None:
        self._rows += self._waiting
        self._waiting = 0

    @property
    def unread(self) -> tuple[int, int] | None:
        return None if self._is_done or self.last_mark is None else (0, self.last_mark[0])

    @property
    def is_at_end(self) -> bool:
        return self._is_done

    @property
    def is_complete(self) -> bool:
        return self._is_done

    def is_cut(self, mark: Mark) -> bool:
        return self._rows > 0 and not self._is_done and mark != self.last_mark

    def gone(self) -> None:
        if not self._is_done:
            LOGGER.warning('file "%s" was removed before it was read', self.path)

    def takes_over(self, other: FollowedFile, mark: Mark) -> bool:
        if not isinstance(other, WholeFile) or not other._is_done or mark != other.last_mark:
            return False
        self.last_mark, self._rows, self._is_done = mark, other._rows, True
        return True

    def position(self, rows: int) -> dict[str, Any]:
        return {
            "rows": self._rows + rows + self.to_skip,
            "done": self._is_done,
            "mark": None if self.last_mark is None else list(self.last_mark),
            "number": number_of(self.last_mark),
        }

    def is_it(self, token: dict[str, Any], file: DataFile) -> bool:
        return mark_of(file) == tuple(token["mark"])

    def seek(self, token: dict[str, Any], file: DataFile | None) -> bool:
        if token["done"]:
            self._is_done = True
            self.last_mark = None if token.get("mark") is None else tuple(token["mark"])
            return file is not None
        if token["rows"]:
            was, now = token.get("mark"), None if file is None else mark_of(file)
            if file is None or now is None:
                raise self._gap(token, "is gone")
            # The inode number may differ if a directory was copied or restored.
            if was is not None and (was[0], was[2:]) != (now[0], list(now[2:])):
                raise self._gap(token, "was changed")
        self.to_skip = token["rows"]
        return file is not None

    def _gap(self, token: dict[str, Any], what: str) -> OperationalError:
        return position_expired(
            f'file "{self.path}" {what} after {token["rows"]} of its rows were read',
            detail="the rest of its rows is lost",
            hint="put the file back as it was",
        )

    def skip_all(self, file: DataFile) -> None:
        self._is_done, self.last_mark = True, mark_of(file)

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()


FollowedFile = GrowingFile | WholeFile


def progress(token: Mapping[str, Any]) -> tuple[int, int]:
    """How far a file was read at a position, for comparison with other positions in it."""
    if "done" in token:
        return (int(token["done"]), token["rows"])
    return (token["start"], token["rows"])


def _gap(path: str, token: dict[str, Any], what: str) -> OperationalError:
    return position_expired(
        f'file "{path}" {what}, but {token["start"]} of its bytes were read',
        detail=f"the query was to resume at byte {token['start']}, line {token['line']}",
        hint="put the file back",
    )
