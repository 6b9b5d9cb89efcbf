"""One partition of a followed path: it reads the files that the listings assign to it, each as far
as possible, by name.

The position has an entry for each of its files that exists. So the position is bounded by the
number of existing files, and a file that was read to its end is recognized when it grows again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    EventTimeMark,
    MalformedRecord,
    Pause,
    Skipped,
    SourcePartition,
    Token,
)
from runnel.connectors.files.follow.file import (
    LOGGER,
    FollowedFile,
    GrowingFile,
    Mark,
    WholeFile,
    mark_of,
    number_of,
    progress,
)
from runnel.connectors.files.follow.listing import FollowedPath, FoundFile, Listing
from runnel.connectors.files.format import FileFormat, FileScanRequest, files_now
from runnel.connectors.files.options import compression_of
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.records.parsers import parser_of
from runnel.connectors.files.storage import DataFile, RemotePath, like, size_of
from runnel.errors import ErrorCode, OperationalError, position_expired
from runnel.processor import ExpiredPosition

RESUMED = EventTimeMark(-(1 << 63))
"""Returned before the first rows of a listing: the partition holds back the watermark again."""

BEGUN = EventTimeMark(-(1 << 63), has_other_data=True)
"""Returned in place of RESUMED if all earlier files of the partition were finished."""

_Files = Mapping[str, FoundFile]


class FollowPartition(SourcePartition):
    """Reads files without end.

    number: its number among the partitions of the path.
    path: the followed path.
    reader: the format, the requested columns, and the name of the mapping for messages.
    """

    def __init__(
        self,
        shared: FollowedPath,
        number: int,
        path: FilePath,
        reader: tuple[FileFormat, FileScanRequest, str],
    ) -> None:
        self.number = number
        # Number 0 has the name that the only partition of earlier versions has in snapshots.
        self.identity = f"files {number}" if number else ""
        self._shared = shared
        self._format, self._asked, name = reader
        self._path = path
        self._clock: Callable[[], int] = shared.context.clock
        self._is_durable = bool(shared.context.owner)
        self._malformed = Malformed(self._format.options.on_error, f'mapping "{name}"')
        self._files: dict[str, FollowedFile] = {}
        self._to_read: deque[FollowedFile] = deque()
        self._rest: pa.RecordBatch | None = None
        self._emitted_rows = 0
        self._looked = 0
        self._is_open = False
        self._has_resumed = False
        self._finished: frozenset[str] = frozenset()
        self._expired: dict[str, OperationalError] = {}
        self._has_end = False
        self._wake: Callable[[], None] | None = None
        shared.add(self)

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._shared.begin(self)

    def woken(self) -> None:
        if self._wake is not None:
            self._wake()

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        if self._rest is not None:
            return self._give(self._rest)
        self._shared.begin(self)
        if self._has_resumed:
            # The mark that it returned has been handled.
            self._has_resumed = False
            self._shared.arrived(self)
        if self._to_read and self._shared.is_divided and not self._has_end:
            now = self._clock()
            # New files are noticed while others are read.
            self._shared.refresh(now)
            until = self._shared.awaits_others(self, now)
            if until is not None:
                return Pause(until)
        while True:
            batch = self._next_batch()
            if batch is not None:
                return self._give(batch)
            if self._has_end:
                return END
            look_at = self._shared.refresh(self._clock())
            listing = self._shared.listing
            if listing is None or listing.number == self._looked:
                return self._pause(look_at)
            self._looked = listing.number
            was_open = self._is_open
            self._look(listing)
            if self._shared.is_divided and (self._to_read or self._is_open > was_open):
                self._has_resumed = True
                return RESUMED if was_open else BEGUN
            self._shared.arrived(self)

    def _next_batch(self) -> pa.RecordBatch | None:
        """The next rows of the files to read; None if there are none."""
        while self._to_read:
            file = self._to_read[0]
            batch = file.read()
            self.malformed = self._malformed.count
            if batch is None:
                self._to_read.popleft()
            elif batch.num_rows:
                self.data_name = file.path
                return batch
            else:
                file.confirm()
        return None

    def _pause(self, look_at: int) -> Pause:
        shared = self._shared
        if not shared.is_divided:
            return Pause(look_at, is_idle=True)
        if shared.listing is None or self._is_open:
            return Pause(look_at)
        # The next file may be in a partition that doesn't hold back the watermark yet.
        until = shared.awaits_others(self, self._clock())
        if until is not None:
            return Pause(until)
        # The listing wakes it when its files change; partition 0 sees to it that there is one.
        is_watching = not self.number or self.number >= shared.regular
        return Pause(look_at if is_watching else None, is_idle=True, is_finished=True)

    def take_malformed(self) -> Sequence[MalformedRecord]:
        return self._malformed.take()

    def position(self) -> Token | None:
        current = self._to_read[0].path if self._to_read and self._rest is not None else None
        files = {
            path: file.position(self._emitted_rows if path == current else 0)
            for path, file in sorted(self._files.items())
        }
        for path in self._finished & files.keys():
            files[path]["is_finished"] = True
        return {"files": files}

    def seek(self, token: Token) -> None:
        there = {file.path: file for file in files_now(self._path)}
        renamed = self._renamed_since(token["files"], there)
        taken = set(renamed.values())
        for path, position in token["files"].items():
            now = renamed.get(path, path)
            found = None if path in taken and path not in renamed else there.get(now)
            file = self._new(now)
            try:
                if file.seek(position, found):
                    assert found is not None
                    self._claim(now, file, position, found)
            except OperationalError as error:
                if error.code is not ErrorCode.POSITION_EXPIRED:
                    raise
                self._expired[path] = error
        self._raise_expired()

    def _claim(
        self, path: str, file: FollowedFile, position: Mapping[str, Any], found: DataFile
    ) -> bool:
        is_finished = bool(position.get("is_finished"))
        known = (int(position.get("size", -1)), number_of(mark_of(found)), is_finished)
        if not self._shared.claim(self, file, path, progress(position), known):
            return False
        # It has a watermark from the snapshot, unless all its files were finished.
        self._is_open |= not is_finished
        return True

    def adopt(self, path: str, file: FollowedFile) -> None:
        # Another thread may be saving the position.
        self._files = {**self._files, path: file}

    def drop(self, path: str) -> None:
        self._files = {name: file for name, file in self._files.items() if name != path}
        self._to_read = deque(file for file in self._to_read if file.path != path)

    def stop_at(self, token: Token) -> None:
        there = {file.path: file for file in files_now(self._path)}
        renamed = self._renamed_since(token["files"], there)
        for path, position in token["files"].items():
            now = renamed.get(path, path)
            if now not in there:
                raise position_expired(f'file "{path}" is gone, of which rows were read')
            self._new(now).seek(position, there[now])  # fails if it is another file
            file = self._new(now)
            file.stop_at(position, there[now])
            if self._claim(now, file, position, there[now]):
                self._to_read.append(file)
        self._has_end = True

    def _renamed_since(
        self, positions: Mapping[str, Any], there: Mapping[str, DataFile]
    ) -> dict[str, str]:
        """Maps old to new names of files that were renamed since a position, as by log rotation."""
        numbers = {
            number: path
            for path, file in there.items()
            if (number := number_of(mark_of(file))) is not None
        }
        found = {}
        for path, position in positions.items():
            now = numbers.get(position.get("number"))
            if now is None or now == path:
                continue
            if self._new(now).is_it(position, there[now]):
                LOGGER.info('file "%s" is called "%s" now', path, now)
                found[path] = now
        return found

    def _raise_expired(self) -> None:
        if self._expired:
            first, *others = self._expired.values()
            if others:
                first.detail = (
                    f"{first.detail}; {len(others)} more files are not what they were, or gone"
                )
            raise first

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        expired, self._expired = list(self._expired), {}
        if choice is ExpiredPosition.EARLIEST:
            # A file without a position is read from its beginning.
            for path in expired:
                self._shared.release(self, path)
            return Skipped(f"the beginning of {_listed(expired)}")
        there = {file.path: file for file in files_now(self._path)}
        for path in expired:
            if path not in there:
                self._shared.release(self, path)
                continue
            file = self._new(path)
            file.skip_all(there[path])
            self._claim(path, file, file.position(0), there[path])
        return Skipped(f"the end of {_listed(expired)}")

    def close(self) -> None:
        self._shared.close(self)
        for file in self._files.values():
            if isinstance(file, WholeFile):
                file.close()

    def _give(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Emits at most a full batch; the rest waits."""
        if batch.num_rows > BATCH_ROWS:
            self._rest = batch.slice(BATCH_ROWS)
            self._emitted_rows += BATCH_ROWS
            return batch.slice(0, BATCH_ROWS)
        self._rest, self._emitted_rows = None, 0
        self._to_read[0].confirm()
        return batch

    def _look(self, listing: Listing) -> None:
        """Handles its files in a listing, and queues those that may have rows to read."""
        there = listing.files.get(self.number, {})
        try:
            self._keep_renamed({path: item.mark for path, item in there.items()})
        except OperationalError as error:
            if error.code != ErrorCode.OBJECT_NOT_FOUND:
                raise
            return  # a file was renamed again since: the next listing has its name
        for path in self._files.keys() - there.keys():
            self._lost(path, self._files.pop(path))
            if path not in self._expired:
                self._shared.release(self, path)
        for path, item in there.items():
            now = self._mark_now(item.file, item.mark)
            if now is not None:
                self._look_at(path, item._replace(mark=now), path in listing.superseded)
        self._finished = frozenset(path for path, item in there.items() if item.listed.is_finished)
        self._is_open = self._has_open(there)
        self._raise_expired()

    def _mark_now(self, found: DataFile, mark: Mark) -> Mark | None:
        """The present mark of a listed file; None: by now another file has its name, or none.

        It may have been listed before the previous listing was handled, with a smaller size than
        was observed then.
        """
        file = self._files.get(found.path)
        if file is not None and mark == file.last_mark:
            return mark
        if isinstance(found.path, RemotePath):
            is_before = isinstance(file, GrowingFile) and file.start > mark[0]
            return (size_of(found.path),) if is_before else mark
        now = mark_of(found)
        return now if number_of(now) == number_of(mark) else None

    def _look_at(self, path: str, item: FoundFile, is_superseded: bool) -> None:
        """Handles one of its files in a listing."""
        found, mark, limit, listed = item
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._new(path)
        try:
            if self._is_durable and file.is_cut(mark):
                # Before the file is read again: its unread rows are lost.
                self._lost(path, self._files.pop(path))
                return
            if file.look(found, mark, limit):
                self._to_read.append(file)
                listed.is_finished = False
            elif file.is_complete or (file.is_at_end and is_superseded):
                listed.is_finished = True
        except OperationalError as error:
            if error.code != ErrorCode.OBJECT_NOT_FOUND:
                raise
            file.look_again()

    def _has_open(self, there: _Files) -> bool:
        """Whether more rows of one of its files are expected; names that file for SHOW JOBS."""
        for path, item in there.items():
            if not item.listed.is_finished:
                self.data_name = path
                return True
        self.data_name = ""
        return False

    def _lost(self, path: str, file: FollowedFile) -> None:
        """Handles a deleted file. Observed but unread bytes stop a durable job."""
        unread = file.unread if self._is_durable else None
        if unread is None:
            file.gone()
        else:
            self._expired[path] = position_expired(
                f'file "{path}" was removed, truncated or replaced before it was read to its end',
                detail=f"of {unread[1]} bytes {unread[0]} were read",
            )

    def _keep_renamed(self, marks: Mapping[str, Mark]) -> None:
        """Continues renamed files at their position instead of reading them again."""
        known = {
            number: path
            for path, file in self._files.items()
            if (number := number_of(file.last_mark)) is not None
        }
        renamed = {}
        for path, mark in marks.items():
            was = known.get(number_of(mark) or 0)
            if was is not None and was != path and number_of(marks.get(was)) != number_of(mark):
                renamed[path] = was
        files = [(path, self._new(path)) for path in renamed]
        continued = [
            (path, file)
            for path, file in files
            if file.takes_over(self._files[renamed[path]], marks[path])
        ]
        for path, _ in continued:
            LOGGER.info('file "%s" is called "%s" now', renamed[path], path)
            del self._files[renamed[path]]
        self._files.update(continued)

    def _new(self, path: str) -> FollowedFile:
        path = like(self._path.text, path)
        parser = None
        if compression_of(path, self._format.options.compression) is None:
            parser = parser_of(self._format, path, self._asked, self._malformed)
        if parser is None:
            return WholeFile(path, self._format, self._asked, self._malformed)
        return GrowingFile(parser)


def _listed(paths: Sequence[str]) -> str:
    return (
        f'file "{paths[0]}"'
        if len(paths) == 1
        else f'{len(paths)} files, "{paths[0]}" the first of them'
    )
