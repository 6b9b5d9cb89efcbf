"""File mappings in follow mode: new and growing files as a stream.

One partition reads all files. It lists the path, and then reads the files by name, each as far as
possible. If there is nothing new, it is idle until the poll interval has passed by the job's clock.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    MalformedRecord,
    Pause,
    ScanRequest,
    Skipped,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
    position_expired,
)
from runnel.connectors.files.follow.file import (
    LOGGER,
    FollowedFile,
    GrowingFile,
    Mark,
    WholeFile,
    mark_of,
    number_of,
)
from runnel.connectors.files.format import SMALL_BYTES, FileFormat, FileScanRequest, files_now
from runnel.connectors.files.input import open_bytes, reading
from runnel.connectors.files.options import compression_of
from runnel.connectors.files.records.malformed import Malformed
from runnel.connectors.files.records.parsers import has_parser, parser_of
from runnel.connectors.files.storage import DataFile, RemotePath, like
from runnel.connectors.files.table import FileSource, FileTable
from runnel.errors import ErrorCode, OperationalError
from runnel.processor import ExpiredPosition, JobContext

MILLISECOND = 1_000_000
LOOKING_SHARE = 10
"""The share of the time for listing is at most about 1 / LOOKING_SHARE, however many files there
are."""


class FollowTable(FileTable):
    """Files as an unbounded stream."""

    @property
    def is_unbounded(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return FollowSource(self, request)


class FollowSource(Source):
    """A scan that follows. Blocking: it reads files."""

    cooperative = False
    traits = SourceTraits(is_repeatable=True)

    def __init__(self, table: FollowTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table = self._table
        asked = FileScanRequest(
            self._request.columns,
            table.columns,
            self._request.predicate,
            context.evaluation,
            is_inferred=table.is_inferred,
        )
        return [FollowPartition(table, asked, context.clock, is_durable=bool(context.owner))]

    def split_so_far(self, context: JobContext) -> Sequence[SourcePartition]:
        return FileSource(self._table, self._request).split_so_far(context)


class FollowPartition(SourcePartition):
    """Reads the files of a path without end.

    `is_durable`: a file that is removed before it was read stops the job; otherwise this is only
        logged.
    """

    def __init__(
        self,
        table: FollowTable,
        asked: FileScanRequest,
        clock: Callable[[], int],
        *,
        is_durable: bool = False,
    ) -> None:
        options = table.format.options
        self._format = table.format
        self._path = table.path
        self._asked = asked
        self._clock = clock
        self._interval = options.poll_millis * MILLISECOND
        self._malformed = Malformed(options.on_error, f'mapping "{table.name}"')
        self._files: dict[str, FollowedFile] = {}
        self._to_read: deque[FollowedFile] = deque()
        self._rest: pa.RecordBatch | None = None
        self._emitted_rows = 0
        self._look_at: int | None = None
        self._is_durable = is_durable
        self._expired: dict[str, OperationalError] = {}
        self._has_end = False

    def read(self) -> pa.RecordBatch | Pause | End:
        if self._rest is not None:
            return self._give(self._rest)
        while True:
            while self._to_read:
                batch = self._to_read[0].read()
                self.malformed = self._malformed.count
                if batch is None:
                    self._to_read.popleft()
                elif batch.num_rows:
                    return self._give(batch)
                else:
                    self._to_read[0].confirm()
            if self._has_end:
                return END
            now = self._clock()
            if self._look_at is not None and now < self._look_at:
                return Pause(self._look_at, is_idle=True)
            self._look()
            self._look_at = now + max(self._interval, LOOKING_SHARE * (self._clock() - now))
            if not self._to_read:
                return Pause(self._look_at, is_idle=True)

    def take_malformed(self) -> Sequence[MalformedRecord]:
        return self._malformed.take()

    def position(self) -> Token | None:
        current = self._to_read[0].path if self._to_read and self._rest is not None else None
        files = {
            path: file.position(self._emitted_rows if path == current else 0)
            for path, file in sorted(self._files.items())
        }
        return {"files": files}

    def seek(self, token: Token) -> None:
        there = {file.path: file for file in files_now(self._path)}
        renamed = self._renamed_since(token["files"], there)
        for path, position in token["files"].items():
            now = renamed.get(path, path)
            file = self._new(now)
            try:
                if file.seek(position, there.get(now)):
                    self._files[now] = file
            except OperationalError as error:
                if error.code is not ErrorCode.POSITION_EXPIRED:
                    raise
                self._expired[path] = error
        self._raise_expired()

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
            self._to_read.append(file)
            self._files[now] = file
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
            if now is None or now in positions:
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
            return Skipped(f"the beginning of {_listed(expired)}")
        there = {file.path: file for file in files_now(self._path)}
        for path in expired:
            if path in there:
                self._files[path] = self._new(path)
                self._files[path].skip_all(there[path])
        return Skipped(f"the end of {_listed(expired)}")

    def close(self) -> None:
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

    def _look(self) -> None:
        """Lists the path, and queues the files that may have rows to read."""
        there = {
            file.path: (file, mark)
            for file in files_now(self._path)
            if (mark := mark_of(file)) is not None
        }
        self._keep_renamed({path: mark for path, (_, mark) in there.items()})
        for path in self._files.keys() - there.keys():
            self._lost(path, self._files.pop(path))
        for path, (found, mark) in there.items():
            file = self._files.get(path)
            if file is not None and self._is_durable and file.is_cut(mark):
                # Before the file is read again: its unread rows are lost.
                self._lost(path, self._files.pop(path))
                continue
            if file is None:
                file = self._files[path] = self._new(path)
            try:
                if file.look(found, mark):
                    self._to_read.append(file)
            except OperationalError as error:
                if error.code != ErrorCode.OBJECT_NOT_FOUND:
                    raise
                self._lost(path, self._files.pop(path))
        self._raise_expired()

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


class WholeLines:
    """Acts as a file system, to infer columns from a file that is being written.

    It opens a file up to its last whole line, and at most the size of a sample.
    """

    def open(self, path: str, mode: str) -> io.BytesIO:
        with reading(path), open_bytes(path, "none") as stream:
            data = stream.read(SMALL_BYTES)
        return io.BytesIO(data[: data.rfind(b"\n") + 1])


def without_last_lines(files: Sequence[DataFile], file_format: FileFormat) -> list[DataFile]:
    """The files; text files without a last line that may be incomplete."""
    found = []
    for file in files:
        is_plain = compression_of(file.path, file_format.options.compression) is None
        if is_plain and has_parser(file_format) and not isinstance(file.path, RemotePath):
            path = RemotePath(file.path)
            path.system, path.inner, path.access = WholeLines(), file.path, None
            found.append(DataFile(path, file.size))
        else:
            found.append(file)
    return found
