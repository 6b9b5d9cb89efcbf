"""A table of a table format as a stream: the files of its first version, then those that each later
version adds.

The position is a version, a file of it, and the number of its rows that were emitted. Another
process can resume from it as long as the table's history contains that version.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.connector import (
    END,
    End,
    Pause,
    ScanRequest,
    Skipped,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.connectors.files.format import Batches, FileScanRequest
from runnel.connectors.lake.files import FileSet, LakeFile
from runnel.connectors.lake.table import LakeTable, read_files
from runnel.errors import ErrorCode, OperationalError, position_expired
from runnel.processor import ExpiredPosition, JobContext

LOGGER = logging.getLogger("runnel.connectors")
MILLISECOND = 1_000_000
LOOKING_SHARE = 10
"""The share of the time for looking for versions is at most about 1 / LOOKING_SHARE."""
ALL_FILES = 1 << 31
"""A number greater than every number of a file of a version."""


class FollowedLakeTable(LakeTable):
    """A table of a table format as an unbounded stream."""

    poll_millis: int
    on_change: str

    @property
    def is_unbounded(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    @abstractmethod
    def first_version(self) -> int:
        """The version whose rows come first."""

    @abstractmethod
    def version_after(self, version: int) -> int | None:
        """The next version; None if there is none yet.

        `position_expired` if the history begins later.
        """

    @abstractmethod
    def versions_left(self, after: int) -> tuple[int, int]:
        """The first version after `after` that the history still has, and the newest version."""

    @abstractmethod
    def added_in(self, version: int) -> FileSet:
        """The files that a version adds, always in the same order.

        If the version is not an append, it fails, or logs this and leaves the files out.
        """

    def reads_change(self, what: str, removed: str, unit: str) -> bool:
        """Whether to read the files that `what` adds, a version that is not an append.

        `removed` names what it deletes or replaces, `unit` the versions of the format in the
        plural.
        """
        if self.on_change == "fail":
            raise OperationalError(
                f"{what} isn't an append: {removed} were deleted or replaced",
                detail="a stream can't retract rows that it has emitted",
                hint=(
                    f"'onChange' = 'skip' leaves such {unit} out, 'additions' emits the rows of "
                    "their new files, some of which may have been emitted before"
                ),
            )
        is_read = self.on_change == "additions"
        outcome = "its new files are read" if is_read else "left out"
        LOGGER.warning("%s deletes or replaces %s: %s", what, removed, outcome)
        return is_read

    def scan(self, request: ScanRequest) -> Source:
        return LakeFollowSource(self, request)


class LakeFollowSource(Source):
    """A scan that follows. Blocking: it reads files."""

    cooperative = False
    traits = SourceTraits(is_repeatable=True)

    def __init__(self, table: FollowedLakeTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request
        self.kind = f'the mapping "{table.name}"'

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table, request = self._table, self._request
        asked = FileScanRequest(
            request.columns, table.columns, request.predicate, context.evaluation
        )
        return [LakeFollowPartition(table, asked, table.first_version(), context.clock)]


class LakeFollowPartition(SourcePartition):
    """Reads the versions of a table in order, without end."""

    def __init__(
        self,
        table: FollowedLakeTable,
        asked: FileScanRequest,
        version: int,
        clock: Callable[[], int],
    ) -> None:
        self._table = table
        self._asked = asked
        # Rows are counted in whole files, so that the count also holds for another predicate.
        self._whole = FileScanRequest(
            asked.columns, asked.table_columns, evaluation=asked.evaluation
        )
        self._from = version
        self._version = version
        self._is_first = True
        self._files: list[LakeFile] | None = None
        self._requested: set[str] = set()
        self._number = 0
        self._rows = 0
        self._to_skip = 0
        self._path: str | None = None
        self._batches: Batches | None = None
        self._clock = clock
        self._look_at: int | None = None
        self._stop: Token | None = None
        self._gone = False

    def read(self) -> pa.RecordBatch | Pause | End:
        while True:
            if self._files is None:
                self._list()
            assert self._files is not None
            while self._number < len(self._files) and not self._is_at_stop():
                batch = self._next(self._files[self._number])
                if batch is not None:
                    return batch
            if self._is_at_stop() or (self._stop is not None and self._is_in_last()):
                return END
            now = self._clock()
            if self._look_at is not None and now < self._look_at:
                return Pause(self._look_at, is_idle=True)
            following = self._table.version_after(self._version)
            if following is None:
                self._look_at = now + max(
                    self._table.poll_millis * MILLISECOND, LOOKING_SHARE * (self._clock() - now)
                )
                return Pause(self._look_at, is_idle=True)
            self._version, self._is_first, self._look_at = following, False, None
            self._files, self._number = None, 0

    def position(self) -> Token | None:
        files = self._files
        path = (
            self._path
            if files is None or self._number >= len(files)
            else files[self._number].file.path
        )
        return {
            "from": self._from,
            "version": self._version,
            "first": self._is_first,
            "file": self._number,
            "path": path,
            "rows": self._rows + self._to_skip,
        }

    def seek(self, token: Token) -> None:
        self._version, self._is_first = token["version"], token["first"]
        self._number, self._to_skip, self._path = token["file"], token["rows"], token["path"]
        self._from = token["from"]

    def stop_at(self, token: Token) -> None:
        self._stop = token
        self._from = self._version = token["from"]

    def _is_in_last(self) -> bool:
        """Whether the last position is in this version."""
        stop = self._stop
        return stop is not None and (self._version, self._is_first) == (
            stop["version"],
            stop["first"],
        )

    def _is_at_stop(self) -> bool:
        stop = self._stop
        if stop is None or not self._is_in_last():
            return False
        return bool((self._number, self._rows + self._to_skip) >= (stop["file"], stop["rows"]))

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        self.close()
        if self._gone and choice is ExpiredPosition.EARLIEST:
            self._number, self._rows, self._to_skip, self._gone = self._number + 1, 0, 0, False
            return Skipped(f"the next file of version {self._version}")
        self._gone = False
        earliest, newest = self._table.versions_left(self._version)
        self._is_first, self._number, self._rows, self._to_skip, self._path = False, 0, 0, 0, None
        self._look_at = None
        if choice is ExpiredPosition.EARLIEST:
            self._version, self._files = earliest, None
            return Skipped(f"the files that version {earliest} added")
        self._version, self._files, self._number = newest, [], ALL_FILES
        return Skipped(f"the versions after version {newest}")

    def close(self) -> None:
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()

    def _list(self) -> None:
        """Lists the files of the current version."""
        found = (
            self._table.files_at(self._version)
            if self._is_first
            else self._table.added_in(self._version)
        )
        path, number = self._path, self._number
        if self._to_skip and (number >= len(found.files) or found.files[number].file.path != path):
            raise position_expired(
                f'version {self._version} of the table of mapping "{self._table.name}" has no file '
                f'"{path}"',
                detail="it was read in part, and the rest of its rows is lost",
            )
        self._files = list(found.files)
        self._requested = {
            file.file.path for file in found.matching(self._asked.predicate, self._asked.evaluation)
        }
        self._path = None

    def _next(self, file: LakeFile) -> pa.RecordBatch | None:
        """The next rows of a file; None if it has no further rows."""
        if self._batches is None and file.file.path in self._requested:
            self._batches = read_files(self._table, [file], None, self._whole)
        while (batch := self._read_on(file)) is not None:
            rest = self._rest_of(batch)
            if rest.num_rows:
                return rest
            if self._is_at_stop():
                return None
        self.close()
        self._number, self._rows, self._to_skip = self._number + 1, 0, 0
        return None

    def _read_on(self, file: LakeFile) -> pa.RecordBatch | None:
        try:
            return None if self._batches is None else next(self._batches, None)
        except OperationalError as error:
            if error.code is not ErrorCode.OBJECT_NOT_FOUND:
                raise
            # The table's history is longer than its files are retained.
            self._gone = True
            raise position_expired(
                f'file "{file.file.path}" of version {self._version} of the table of mapping '
                f'"{self._table.name}" is gone',
                detail="the table was cleaned of files that its newest version doesn't need",
            ) from error

    def _rest_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows to emit of the next rows of a file: from where reading began, up to where it
        ends."""
        # Example: 3 of 10 rows were emitted before (to_skip = 3), and reading ends after row 8:
        # skipped = 3, rows = 10, more = 10 - 8 = 2; the result is batch.slice(3, 10 - 3 - 2): the
        # rows 3 to 7.
        skipped = min(self._to_skip, batch.num_rows)
        self._to_skip -= skipped
        self._rows += batch.num_rows
        more = 0
        if self._stop is not None and self._is_in_last() and self._number == self._stop["file"]:
            more = max(0, self._rows - self._stop["rows"])
            self._rows -= more
        return batch.slice(skipped, max(0, batch.num_rows - skipped - more))
