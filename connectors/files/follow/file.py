"""One file of a followed path: how far it is read, and what became of it meanwhile.

A text file may grow; its last line is read when it has its end. How far it is read is told in
bytes, and the last bytes before that place are kept, to tell a file that grew from another one in
its place. Files of other formats, and compressed ones, are read as a whole, when they have stayed
the same from one look to the next.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa

from runnel.connector import position_expired
from runnel.connectors.files.format import Batches, FileFormat, FileShare, Reading
from runnel.connectors.files.input import open_bytes, reading
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.records.parser import LONGEST_RECORD, RecordParser, too_long
from runnel.connectors.files.storage import DataFile, RemotePath, local
from runnel.errors import DataError, Error, ErrorCode, OperationalError

BLOCK_BYTES = 4 << 20
"""How much of a file is read at a time."""

REMEMBERED_BYTES = 32
"""How many bytes before the place where reading goes on are kept."""

LOGGER = logging.getLogger("runnel.connectors")

Mark = tuple[int, ...]
"""What tells cheaply that a file changed: its size and, on the disk, its number and the time of its
last change."""


def mark_of(file: DataFile) -> Mark | None:
    """What the file looks like now; None where it is gone."""
    if isinstance(file.path, RemotePath):
        return (file.size,)
    try:
        status = Path(local(file.path)).stat()
    except FileNotFoundError:
        return None
    return (status.st_size, status.st_ino, status.st_mtime_ns)


def number_of(mark: Mark | None) -> int | None:
    """The number of the file on its disk, which it keeps under another name; a file that is removed
    leaves it to others."""
    return None if mark is None or len(mark) < 3 else mark[1]


class GrowingFile:
    """A text file that is read as it grows. `start` and `line` are the place up to which its rows
    were given."""

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
        self.seen: Mark | None = None
        self._size = 0
        self._last: int | None = None
        self._last_rows = 0

    def look(self, file: DataFile, mark: Mark) -> bool:
        """Whether there may be something to read."""
        if mark == self.seen:
            return False
        self.seen = mark
        self._size = mark[0]
        if self.start:
            self._check(mark[0])
        return mark[0] > self.start

    def read(self) -> pa.RecordBatch | None:
        """The next rows; None where there is no further whole record. `given` says when they were
        handed on."""
        if self._last is not None:
            return self._read_limited(self._last)
        try:
            return self._read() if self.start < self._size else None
        except OperationalError as error:
            if error.code == ErrorCode.OBJECT_NOT_FOUND:
                return None
            raise

    def _read(self) -> pa.RecordBatch | None:
        with reading(self.path), open_bytes(self.path, "none") as stream:
            if not self._has_begun and not self._begin(stream):
                return None
            size = BLOCK_BYTES
            while True:
                stream.seek(self.start)
                size = (
                    size
                    if self._last is None or self.start >= self._last
                    else min(size, self._last - self.start)
                )
                data = stream.read(size)
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
        """The rows up to the last place, then those behind it that were read too."""
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
        """Reads no further than to a position."""
        self._last, self._last_rows, self._size = token["start"], token["rows"], file.size

    def given(self) -> None:
        """All rows of the last `read` were handed on."""
        self._skipped = 0
        self.start, self.line = self._after
        self._before = self._after_bytes

    @property
    def unread(self) -> tuple[int, int] | None:
        """How many bytes were read, and how many were seen, where these are more."""
        return (self.start, self._size) if self.start < self._size else None

    def is_cut(self, mark: Mark) -> bool:
        """Whether it is now shorter than what was read, or another one, and some of it was not
        read."""
        if self.unread is None or mark == self.seen:
            return False
        return (
            mark[0] < self._size
            or self._bytes_before(self.start, len(self._before)) != self._before
        )

    def gone(self) -> None:
        """The file isn't there any more."""
        LOGGER.warning(
            'file "%s" was removed after %d of its bytes were read', self.path, self.start
        )

    def takes_over(self, other: FollowedFile, mark: Mark) -> bool:
        """Goes on where another one is, if this is the same file under another name: unchanged, or
        with more behind what was read."""
        if (
            not isinstance(other, GrowingFile)
            or other.seen is None
            or not (mark == other.seen or mark[0] > other.seen[0])
        ):
            return False
        if self._bytes_before(other.start, len(other._before)) != other._before:
            return False
        self.seen, self._size = other.seen, other._size
        self.start, self.line, self.to_skip = other.start, other.line, other.to_skip
        self._after, self._before, self._after_bytes = (
            (self.start, self.line),
            other._before,
            other._before,
        )
        return True

    def position(self, rows: int) -> dict[str, Any]:
        """How far it is read; `rows` of those after `start` were given too."""
        return {
            "start": self.start,
            "line": self.line,
            "rows": rows + self._skipped + self.to_skip,
            "before": self._before.hex(),
            "size": self._size,
            "number": number_of(self.seen),
        }

    def is_it(self, token: dict[str, Any], file: DataFile) -> bool:
        """Whether a file that has the number of that in a position is that one, with perhaps more
        behind."""
        before = bytes.fromhex(token.get("before", ""))
        return (
            bool(before)
            and file.size >= token["start"]
            and self._bytes_before(token["start"], len(before)) == before
        )

    def seek(self, token: dict[str, Any], file: DataFile | None) -> bool:
        """Goes on from a position; False where the file is gone, but was read to its end."""
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
        return True

    def skip_all(self, file: DataFile) -> None:
        """Reads only what comes behind the records that there are now."""
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
        """Starts anew where the file isn't the one that was read."""
        if size >= self.start and self._bytes_before(self.start, len(self._before)) == self._before:
            return
        what = "was truncated" if size < self.start else "was replaced"
        LOGGER.warning(
            'file "%s" %s after %d of its bytes were read: it is read from its beginning; what may '
            'have been added before '
            "that is lost",
            self.path, what, self.start,
        )  # fmt: skip
        self.start, self.line, self.to_skip, self._before = 0, 1, 0, b""
        self._after, self._after_bytes, self._has_begun = (0, 1), b"", False

    def _bytes_before(self, place: int, count: int) -> bytes:
        with reading(self.path), open_bytes(self.path, "none") as stream:
            stream.seek(place - count)
            found: bytes = stream.read(count)
            return found


class WholeFile:
    """A file that is read when it is complete: when it looks the same twice."""

    def __init__(
        self, path: str, file_format: FileFormat, asked: Reading, malformed: Malformed
    ) -> None:
        self.path = path
        self._format = file_format
        self._asked = asked
        self._malformed = malformed
        self.seen: Mark | None = None
        self._batches: Batches | None = None
        self._is_done = False
        self._rows = 0
        self._waiting = 0
        self.to_skip = 0
        self._most: int | None = None

    def look(self, file: DataFile, mark: Mark) -> bool:
        if self._is_done and self.seen is None:
            self.seen = mark
        was, self.seen = self.seen, mark
        if self._is_done and mark != was:
            LOGGER.warning(
                'file "%s" was changed after it was read; the changes are not read', self.path
            )
        if mark != was or self._is_done:
            return False
        self._batches = self._format.read(FileShare((file,)), self._asked)
        return True

    def read(self) -> pa.RecordBatch | None:
        if self._batches is None:
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
            told = DataError(
                error.message, detail=error.detail or f'file "{self.path}"', hint=error.hint
            )
            self._malformed.leave_out(error if self._malformed.fails else told, self.path)
            self._malformed.log()
        self._batches, self._is_done = None, True
        return None

    def _first(self, batch: pa.RecordBatch, most: int) -> pa.RecordBatch:
        """So many rows of it at most; when there have been enough no more are read."""
        self._most = max(0, most - batch.num_rows)
        if not self._most:
            self.close()
        return batch.slice(0, most)

    def stop_at(self, token: dict[str, Any], file: DataFile) -> None:
        """Reads no further than to a position."""
        self._most = None if token["done"] else token["rows"]
        if token["done"] or token["rows"]:
            self._batches = self._format.read(FileShare((file,)), self._asked)

    def given(self) -> None:
        self._rows += self._waiting
        self._waiting = 0

    @property
    def unread(self) -> tuple[int, int] | None:
        return None if self._is_done or self.seen is None else (0, self.seen[0])

    def is_cut(self, mark: Mark) -> bool:
        return self._rows > 0 and not self._is_done and mark != self.seen

    def gone(self) -> None:
        if not self._is_done:
            LOGGER.warning('file "%s" was removed before it was read', self.path)

    def takes_over(self, other: FollowedFile, mark: Mark) -> bool:
        if not isinstance(other, WholeFile) or not other._is_done or mark != other.seen:
            return False
        self.seen, self._rows, self._is_done = mark, other._rows, True
        return True

    def position(self, rows: int) -> dict[str, Any]:
        return {
            "rows": self._rows + rows + self.to_skip,
            "done": self._is_done,
            "mark": None if self.seen is None else list(self.seen),
            "number": number_of(self.seen),
        }

    def is_it(self, token: dict[str, Any], file: DataFile) -> bool:
        return mark_of(file) == tuple(token["mark"])

    def seek(self, token: dict[str, Any], file: DataFile | None) -> bool:
        if token["done"]:
            self._is_done = True
            self.seen = None if token.get("mark") is None else tuple(token["mark"])
            return file is not None
        if token["rows"]:
            was, now = token.get("mark"), None if file is None else mark_of(file)
            if file is None or now is None:
                raise self._gap(token, "is gone")
            # Its number may differ where a directory was copied or brought back.
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
        self._is_done, self.seen = True, mark_of(file)

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()


FollowedFile = GrowingFile | WholeFile


def _gap(path: str, token: dict[str, Any], what: str) -> OperationalError:
    return position_expired(
        f'file "{path}" {what}, and {token["start"]} of its bytes were read',
        detail=f"the query was to go on at byte {token['start']}, line {token['line']}",
        hint="put the file back",
    )
