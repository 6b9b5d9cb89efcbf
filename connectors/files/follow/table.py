"""File mappings in follow mode: new and growing files as a stream."""

from __future__ import annotations

import io
from collections.abc import Sequence
from weakref import WeakValueDictionary

from runnel.connector import ScanRequest, Source, SourcePartition, SourceTraits, Token
from runnel.connectors.files.follow.listing import MILLISECOND, FollowedPath
from runnel.connectors.files.follow.partition import FollowPartition
from runnel.connectors.files.format import SMALL_BYTES, FileFormat, FileScanRequest
from runnel.connectors.files.input import open_bytes, reading
from runnel.connectors.files.options import compression_of
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.records.parsers import has_parser
from runnel.connectors.files.storage import DataFile, RemotePath, exists
from runnel.connectors.files.table import FileSource, FileTable
from runnel.processor import JobContext


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
    """A scan that follows. Blocking: it reads files.

    A folder or a pattern has as many partitions as the option says, so that each file that grows
    has one of its own; a single file has one partition.
    """

    cooperative = False
    traits = SourceTraits(is_repeatable=True, may_grow=True, moves_data=True)

    def __init__(self, table: FollowTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request
        self.kind = f'the mapping "{table.name}"'
        self._paths: WeakValueDictionary[int, FollowedPath] = WeakValueDictionary()

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        options, path = self._table.format.options, self._table.path
        regular = 1 if _is_one_file(path) else options.partitions
        shared = FollowedPath(path, context, options.poll_millis * MILLISECOND, regular)
        # The context outlives this entry, as the object refers to it.
        self._paths[id(context)] = shared
        reader = self._reader(context)
        return [FollowPartition(shared, number, path, reader) for number in range(regular)]

    def split_so_far(self, context: JobContext) -> Sequence[SourcePartition]:
        return FileSource(self._table, self._request).split_so_far(context)

    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        """A partition beyond the number that the option says now: it reads its files further, but
        receives no new ones."""
        shared = self._paths.get(id(context))
        if shared is None:
            return super().reopen(identity, token, context)
        reader = self._reader(context)
        partition = FollowPartition(shared, shared.next_number(), self._table.path, reader)
        partition.identity = identity
        return partition

    def _reader(self, context: JobContext) -> tuple[FileFormat, FileScanRequest, str]:
        table = self._table
        asked = FileScanRequest(
            self._request.columns,
            table.columns,
            self._request.predicate,
            context.evaluation,
            is_inferred=table.is_inferred,
        )
        return table.format, asked, table.name


def _is_one_file(path: FilePath) -> bool:
    """Whether the path is an existing file, so that there are never several."""
    return not path.is_pattern and exists(path.text) and not path.is_folder()


class WholeLines:
    """Acts as a file system, to infer columns from a file that is being written.

    It opens a file up to its last whole line, and at most the size of a sample.
    """

    def open(self, path: str, mode: str) -> io.BytesIO:
        with reading(path), open_bytes(path, "none") as stream:
            data = stream.read(SMALL_BYTES)
        return io.BytesIO(data[: data.rfind(b"\n") + 1])


def without_last_lines(
    files: Sequence[DataFile], format_name: str, compression: str
) -> list[DataFile]:
    """The files; text files without a last line that may be incomplete."""
    found = []
    for file in files:
        is_plain = compression_of(file.path, compression) is None
        if is_plain and has_parser(format_name) and not isinstance(file.path, RemotePath):
            path = RemotePath(file.path)
            path.system, path.inner, path.access = WholeLines(), file.path, None
            found.append(DataFile(path, file.size))
        else:
            found.append(file)
    return found
