"""Files with a column that has the path of each row's file."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import ScanRequest, Source
from runnel.connectors.files.hive.paths import selects_files
from runnel.connectors.files.hive.table import HivePartitioning, HiveSource, HiveTable
from runnel.connectors.files.storage import DataFile
from runnel.connectors.files.table import FileTable
from runnel.expressions.nodes import Expression, columns_of, conjuncts
from runnel.sqltypes import VARCHAR, to_arrow


class FileNameTable(HiveTable):
    """A table with one more column, the path of the file. Like a partition key, it has one value
    for each file, so a condition selects files."""

    def __init__(self, inner: FileTable, column: TableColumn) -> None:
        own = inner.partitioning if isinstance(inner, HiveTable) else HivePartitioning((), {})
        self._at = len(inner.columns)
        super().__init__(
            inner.name,
            (*inner.columns, column),
            inner.format,
            inner.path,
            is_inferred=inner.is_inferred,
            partitioning=HivePartitioning(
                (*own.keys, column.name), {**own.columns, self._at: len(own.keys)}
            ),
        )
        self.inner = inner

    def scan(self, request: ScanRequest) -> Source:
        if self._uses_name(request.columns, request.predicate):
            return HiveSource(self, request)
        return self.inner.scan(request)

    def evaluated(self, request: ScanRequest) -> tuple[Expression, ...]:
        columns = self.partitioning.columns
        if not self._uses_name(request.columns, request.predicate):
            return self.inner.evaluated(request)
        return tuple(part for part in conjuncts(request.predicate) if selects_files(part, columns))

    def file_values(self, files: Sequence[DataFile]) -> list[pa.Array]:
        inner = self.inner.file_values(files) if isinstance(self.inner, HiveTable) else []
        return [*inner, pa.array([str(file.path) for file in files], to_arrow(VARCHAR))]

    def _uses_name(self, columns: Sequence[int], predicate: Expression | None) -> bool:
        return self._at in columns or any(
            self._at in columns_of(part) for part in conjuncts(predicate)
        )
