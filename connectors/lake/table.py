"""Tables of a table format, and reading them.

The format's metadata lists the Parquet files of a version; they are read like the files of a File
mapping. A query sees the version that is the newest when the query starts (or the version that the
mapping names).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from runnel.columns.batches import make_batch
from runnel.connector import (
    ReadableTable,
    ScanRequest,
    Source,
    SourcePartition,
    SourceTraits,
    Token,
)
from runnel.connectors.files.format import Batches, FileFormat, FileScanRequest, FileShare
from runnel.connectors.files.hive.table import columns_over
from runnel.connectors.files.position import share_of_marks
from runnel.connectors.files.table import FilePartition, divide
from runnel.connectors.lake.files import FileSet, LakeFile, first_files
from runnel.errors import OperationalError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Expression
from runnel.processor import JobContext
from runnel.sqltypes import to_arrow


class LakeTable(ReadableTable):
    """A table whose metadata lists its Parquet files."""

    format: FileFormat
    """The format of its files."""

    @abstractmethod
    def files_at(self, version: int | None) -> FileSet:
        """The files of a version; None: of the version for a query that starts now.

        OperationalError if that version was deleted, or if the table's columns changed since CREATE
        MAPPING.
        """

    def files_for(
        self, predicate: Expression | None, context: EvaluationContext
    ) -> tuple[int, Sequence[LakeFile]]:
        """The version for a query that starts now, and its files that may have rows for a
        predicate."""
        found = self.files_at(None)
        return found.version, found.matching(predicate, context)

    def scan(self, request: ScanRequest) -> Source:
        return LakeSource(self, request)


class LakeSource(Source):
    """A scan of the files of one version. Blocking, like scans of files."""

    cooperative = False
    traits = SourceTraits(is_repeatable=True)

    def __init__(self, table: LakeTable, request: ScanRequest) -> None:
        self._table = table
        self._request = request
        self.kind = f'the mapping "{table.name}"'

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        request = self._request
        version, found = self._table.files_for(request.predicate, context.evaluation)
        files = list(first_files(found, request.limit if request.predicate is None else None))
        whole = [file.file for file in files if file.live_rows is None]
        # Deleted rows are identified by their numbers in the file, so such a file is not divided.
        shares = divide(self._table.format, whole) + [
            FileShare((file.file,)) for file in files if file.live_rows is not None
        ]
        by_path = {file.file.path: file for file in files}
        return [self._partition(share, by_path, version, context) for share in shares]

    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        share = None if token is None else share_of_marks(token["files"], token["parts"])
        if token is None or share is None:
            return super().reopen(identity, token, context)
        by_path = {file.file.path: file for file in self._table.files_at(token["version"]).files}
        if not all(file.path in by_path for file in share.files):
            raise OperationalError(
                f"{self.kind} has no longer the files that a job was reading",
                detail=f"version {token['version']} has no {identity}",
                hint="create the job again",
            )
        return self._partition(share, by_path, token["version"], context)

    def _partition(
        self, share: FileShare, by_path: Mapping[str, LakeFile], version: int, context: JobContext
    ) -> SourcePartition:
        request = self._request
        limit = request.limit if request.predicate is None else None
        asked = FileScanRequest(
            request.columns, self._table.columns, request.predicate, context.evaluation, limit
        )

        def read_share(share: FileShare) -> Batches:
            return read_files(
                self._table, [by_path[file.path] for file in share.files], share.parts, asked
            )

        return LakePartition(read_share, asked, share, version)


class LakePartition(FilePartition):
    """Reads one share of the files of a version."""

    def __init__(
        self,
        read_share: Callable[[FileShare], Batches],
        asked: FileScanRequest,
        share: FileShare,
        version: int,
    ) -> None:
        super().__init__(read_share(share), asked, share, read_share)
        self._version = version

    def position(self) -> Token | None:
        token = super().position()
        return None if token is None else {**token, "version": self._version}


def read_files(
    table: LakeTable,
    files: Sequence[LakeFile],
    parts: tuple[int, ...] | None,
    asked: FileScanRequest,
) -> Batches:
    """The rows of some files, or of some row groups of one file. A generator, like
    `FileFormat.read`."""
    schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in asked.requested])
    for file in files:
        constants = file.constants
        own = [i for i in range(len(table.columns)) if i not in constants]
        positions = {index: position for position, index in enumerate(own)}
        requested = [i for i in asked.columns if i not in constants]
        inner = FileScanRequest(
            tuple(positions[i] for i in requested),
            tuple(table.columns[i] for i in own),
            None if file.live_rows is not None else columns_over(asked.predicate, positions),
            asked.evaluation,
        )
        row = 0
        for batch in table.format.read(FileShare((file.file,), parts), inner):
            rows = batch.num_rows
            arrays = dict(zip(requested, batch.columns, strict=True))
            columns = [
                arrays[i] if i in arrays else _repeated(constants[i], rows) for i in asked.columns
            ]
            result = make_batch(columns, schema, rows)
            if file.live_rows is not None:
                result = _live(result, file.live_rows.slice(row, rows))
            row += rows
            yield result


def _repeated(value: pa.Array, rows: int) -> pa.Array:
    return pa.repeat(value[0], rows) if value[0].is_valid else pa.nulls(rows, value.type)


def _live(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    """The rows of a batch that the mask selects, and all rows after its end.

    Example: 4 rows and the mask [False, True] give the rows 1, 2 and 3.
    """
    if len(mask) < batch.num_rows:
        more = pa.array([True] * (batch.num_rows - len(mask)))
        mask = pa.concat_arrays([mask, more])
    if batch.num_columns:
        return batch.filter(mask)
    return make_batch([], batch.schema, mask.true_count)
