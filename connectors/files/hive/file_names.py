"""File mappings with columns about the file of a row: its path, name, size and time of change.

Such a mapping reads its files as a mapping without these columns would, unless a query uses one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import ScanRequest, Sink, SinkRequest, Source, WritableTable
from runnel.connectors.files.hive.paths import selects_files
from runnel.connectors.files.hive.table import HivePartitioning, HiveSource, HiveTable
from runnel.connectors.files.input import modified
from runnel.connectors.files.storage import DataFile
from runnel.connectors.files.table import FileTable
from runnel.expressions.nodes import Expression, columns_of, conjuncts
from runnel.sqltypes import BIGINT, TIMESTAMP_TZ, VARCHAR, to_arrow

FILE_COLUMNS = tuple(
    TableColumn(name, kind, hidden=True)
    for name, kind in (
        ("__file_path", VARCHAR),
        ("__file_name", VARCHAR),
        ("__file_size", BIGINT),
        ("__file_modified", TIMESTAMP_TZ),
    )
)
"""The columns of option 'fileColumns'."""


_VALUES: Mapping[str, Callable[[DataFile], Any]] = {
    "__file_path": lambda file: str(file.path),
    "__file_name": lambda file: PurePosixPath(file.path).name,
    "__file_size": lambda file: file.size,
    "__file_modified": lambda file: modified(file.path),
}
"""The value of each column for a file; of another column, its path as the query writes it."""


class FileNameTable(HiveTable):
    """A table with more columns, which have one value for each file, like partition keys, so that a
    condition selects files. They are not written."""

    def __init__(self, inner: FileTable, columns: Sequence[TableColumn]) -> None:
        own = inner.partitioning if isinstance(inner, HiveTable) else HivePartitioning((), {})
        at, keys = len(inner.columns), len(own.keys)
        added = {at + i: keys + i for i in range(len(columns))}
        super().__init__(
            inner.name,
            (*inner.columns, *columns),
            inner.format,
            inner.path,
            is_inferred=inner.is_inferred,
            partitioning=HivePartitioning(
                (*own.keys, *(column.name for column in columns)), {**own.columns, **added}
            ),
        )
        self.inner = inner
        self.sniffed, self.found_options = inner.sniffed, inner.found_options
        self._added = added

    def scan(self, request: ScanRequest) -> Source:
        if self._uses_added(request.columns, request.predicate):
            return HiveSource(self, request)
        return self.inner.scan(request)

    def evaluated(self, request: ScanRequest) -> tuple[Expression, ...]:
        columns = self.partitioning.columns
        if not self._uses_added(request.columns, request.predicate):
            return self.inner.evaluated(request)
        return tuple(part for part in conjuncts(request.predicate) if selects_files(part, columns))

    def file_values(self, files: Sequence[DataFile]) -> list[pa.Array]:
        inner = self.inner.file_values(files) if isinstance(self.inner, HiveTable) else []
        for index in self._added:
            column = self.columns[index]
            value = _VALUES.get(column.name, self.path.shown)
            inner.append(pa.array([value(file) for file in files], to_arrow(column.type)))
        return inner

    def sink(self, request: SinkRequest) -> Sink:
        return self.inner.sink(request)

    def partitions(self) -> list[str] | None:
        return self.inner.partitions()

    def replacing(self, partition: Mapping[str, str]) -> WritableTable:
        return self.inner.replacing(partition)

    def check_written(self) -> None:
        self.inner.check_written()

    def _uses_added(self, columns: Sequence[int], predicate: Expression | None) -> bool:
        used = set(columns).union(*(columns_of(part) for part in conjuncts(predicate)))
        return not used.isdisjoint(self._added)
