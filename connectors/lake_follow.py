"""A table of a table format as a stream: the files of the version at which it begins, then those that each later version adds.

The place is a version, a file of it, and how many of its rows were given; so reading goes on in another process as long as the
table's history reaches back to there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.connector import Pause, ScanRequest, Source, SourcePartition, Token
from runnel.connectors.file_format import Batches, Reading
from runnel.connectors.lake_files import FileSet, LakeFile
from runnel.connectors.lake_table import LakeTable, read_files
from runnel.errors import OperationalError
from runnel.processor import JobContext

MILLISECOND = 1_000_000
LOOKING_SHARE = 10
"""Looking takes at most about one part in so many of the time."""


class FollowedLakeTable(LakeTable):
    """A table of a table format as a stream without end."""

    poll_millis: int

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
        """The version that follows; None where there is none yet. OperationalError where the history begins later."""

    @abstractmethod
    def added_in(self, version: int) -> FileSet:
        """The files that a version adds, always in the same order; fails, or tells it in the log and leaves them out, where the
        version isn't an append."""

    def scan(self, request: ScanRequest) -> Source:
        return LakeFollowSource(self, request)


class LakeFollowSource(Source):
    """A scan that follows. Blocking: it reads files."""

    cooperative = False
    is_repeatable = True

    def __init__(self, table: FollowedLakeTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request
        self.kind = f'the mapping "{table.name}"'

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table, request = self._table, self._request
        asked = Reading(request.columns, table.columns, request.predicate, context.evaluation)
        return [LakeFollowPartition(table, asked, table.first_version(), context.clock)]


class LakeFollowPartition(SourcePartition):
    """Reads the versions of a table in order, for ever."""

    def __init__(self, table: FollowedLakeTable, asked: Reading, version: int, clock: Callable[[], int]) -> None:
        self._table = table
        self._asked = asked
        # Rows are counted in whole files, so that the count also holds for another predicate.
        self._whole = Reading(asked.columns, asked.table_columns, evaluation=asked.evaluation)
        self._version = version
        self._is_first = True
        self._files: list[LakeFile] | None = None
        self._wanted: set[str] = set()
        self._number = 0
        self._rows = 0
        self._to_skip = 0
        self._path: str | None = None
        self._batches: Batches | None = None
        self._clock = clock
        self._look_at: int | None = None

    def read(self) -> pa.RecordBatch | Pause:
        while True:
            if self._files is None:
                self._list()
            assert self._files is not None
            while self._number < len(self._files):
                batch = self._next(self._files[self._number])
                if batch is not None:
                    return batch
            now = self._clock()
            if self._look_at is not None and now < self._look_at:
                return Pause(self._look_at, is_idle=True)
            following = self._table.version_after(self._version)
            if following is None:
                self._look_at = now + max(self._table.poll_millis * MILLISECOND, LOOKING_SHARE * (self._clock() - now))
                return Pause(self._look_at, is_idle=True)
            self._version, self._is_first, self._look_at = following, False, None
            self._files, self._number = None, 0

    def position(self) -> Token | None:
        files = self._files
        path = self._path if files is None or self._number >= len(files) else files[self._number].file.path
        return {
            "version": self._version,
            "first": self._is_first,
            "file": self._number,
            "path": path,
            "rows": self._rows + self._to_skip,
        }

    def seek(self, token: Token) -> None:
        self._version, self._is_first = token["version"], token["first"]
        self._number, self._to_skip, self._path = token["file"], token["rows"], token["path"]

    def close(self) -> None:
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()

    def _list(self) -> None:
        """Finds out the files of the current version."""
        found = self._table.files_at(self._version) if self._is_first else self._table.added_in(self._version)
        path, number = self._path, self._number
        if self._to_skip and (number >= len(found.files) or found.files[number].file.path != path):
            raise OperationalError(
                f'version {self._version} of the table of mapping "{self._table.name}" has no file "{path}"',
                detail="it was read in part",
                hint="the rest of its rows is lost; create the job anew",
            )
        self._files = list(found.files)
        self._wanted = {file.file.path for file in found.matching(self._asked.predicate, self._asked.evaluation)}
        self._path = None

    def _next(self, file: LakeFile) -> pa.RecordBatch | None:
        """The next rows of a file; None where it has no more."""
        if self._batches is None and file.file.path in self._wanted:
            self._batches = read_files(self._table, [file], None, self._whole)
        for batch in self._batches or ():
            skipped = min(self._to_skip, batch.num_rows)
            self._to_skip -= skipped
            self._rows += batch.num_rows
            if batch.num_rows > skipped:
                return batch.slice(skipped)
        self.close()
        self._number, self._rows, self._to_skip = self._number + 1, 0, 0
        return None
