"""The tables of TYPE Delta: one that is read and appended to, and one that is followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import Sink, SinkRequest, WritableTable, WriteMode
from runnel.connectors.files.conversion import convert_or_fail, converter
from runnel.connectors.files.format import external_name
from runnel.connectors.files.storage import DataFile
from runnel.connectors.lake.delta.commit import DeltaTarget
from runnel.connectors.lake.delta.log import (
    actions_in,
    file_path,
    files_of,
    has_version,
    load,
    schema_in,
    schema_of,
    versions_in,
)
from runnel.connectors.lake.files import FileSet, LakeFile
from runnel.connectors.lake.follow import FollowedLakeTable
from runnel.connectors.lake.options import LakeSchema
from runnel.connectors.lake.parquet import LakeParquet
from runnel.connectors.lake.sink import LakeSink
from runnel.connectors.lake.table import LakeTable
from runnel.errors import DataError, OperationalError, ProgrammingError, position_expired
from runnel.expressions.kernels.values import array_of
from runnel.processor import Guarantee
from runnel.sqltypes import VARCHAR, from_arrow


class ReadDeltaTable(LakeTable):
    """A Delta table, at the version that the mapping names or at its newest version."""

    connector = "Delta"

    def __init__(
        self,
        name: str,
        path: str,
        columns: tuple[TableColumn, ...],
        schema: LakeSchema,
        version: int | None,
    ) -> None:
        self.name = name
        self.path = path
        self.columns = columns
        self.schema = schema
        self.version = version
        self.format = LakeParquet()

    def row_count(self) -> int | None:
        try:
            files = self.files_at(None).files
        except OperationalError:
            return None  # only the plan's quality depends on it; reading will report the error
        counts = [file.rows for file in files]
        return sum(count for count in counts if count is not None) if None not in counts else None

    def files_at(self, version: int | None) -> FileSet:
        table = load(self.path, self.version if version is None else version)
        self.schema.check_unchanged(schema_of(table), self.columns)
        return files_of(self.path, table, self.columns)


class DeltaTable(ReadDeltaTable, WritableTable):
    """A Delta table whose rows are read, and appended to."""

    guarantee = Guarantee.EXACTLY_ONCE

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset({WriteMode.INSERT, WriteMode.SINK})

    def sink(self, request: SinkRequest) -> Sink:
        if self.version is not None:
            raise ProgrammingError(
                f"rows can't be written to version {self.version} of the Delta table "
                f'"{self.path}"',
                hint="write through a mapping without the options version and timestamp",
            )
        return LakeSink(DeltaTarget(self.path, self.columns, self.schema), request)


class FollowedDeltaTable(FollowedLakeTable, ReadDeltaTable):
    """A Delta table as a stream: its rows, then those that each later version adds."""

    def first_version(self) -> int:
        return int(load(self.path, self.version).version())

    def version_after(self, version: int) -> int | None:
        if has_version(self.path, version + 1):
            return version + 1
        if has_version(self.path, version):
            return None  # old versions are removed from the start of the log
        newest = load(self.path).version()
        if newest <= version:
            return None
        raise position_expired(
            f'the log of the Delta table "{self.path}" no longer has version {version + 1}',
            detail=f"reading was at version {version}, and the newest one is {newest}",
            hint="keep the log for longer (delta.logRetentionDuration)",
        )

    def versions_left(self, after: int) -> tuple[int, int]:
        newest = int(load(self.path).version())
        return min(
            (found for found in versions_in(self.path) if found > after), default=newest
        ), newest

    def added_in(self, version: int) -> FileSet:
        actions = actions_in(self.path, version)
        if actions is None:
            raise position_expired(
                f'the log of the Delta table "{self.path}" no longer has version {version}'
            )
        table = load(self.path)
        for action in actions:
            if "metaData" in action:
                self.schema.check_unchanged(schema_in(action["metaData"]), self.columns)
        added = [
            action["add"]
            for action in actions
            if "add" in action and action["add"].get("dataChange", True)
        ]
        removed = [
            action["remove"]
            for action in actions
            if "remove" in action and action["remove"].get("dataChange", True)
        ]
        if removed and not self._is_read(version, actions, len(removed)):
            return FileSet(version, ())
        if any(action.get("deletionVector") for action in added):
            raise OperationalError(
                f'version {version} of the Delta table "{self.path}" marks rows of a file as '
                "deleted",
                detail="a stream can't retract rows that it has emitted",
                hint="'onChange' = 'skip' leaves such versions out",
            )
        partitions = table.metadata().partition_columns
        return FileSet(version, [self._file(action, partitions) for action in added])

    def _is_read(self, version: int, actions: Sequence[Mapping[str, Any]], removed: int) -> bool:
        """Whether to read the files of a version that also removes rows."""
        operation = next(
            (action["commitInfo"].get("operation") for action in actions if "commitInfo" in action),
            None,
        )
        what = (
            f'version {version} of the Delta table "{self.path}" '
            f"({operation or 'of an unknown operation'})"
        )
        return self.reads_change(what, f"{removed} files", "versions")

    def _file(self, action: Mapping[str, Any], partitions: Sequence[str]) -> LakeFile:
        path = file_path(self.path, action["path"])
        values = action.get("partitionValues") or {}
        constants = {}
        for index, column in enumerate(self.columns):
            name = external_name(column)
            if name in partitions:
                constants[index] = self._constant(path, column, values.get(name))
        return LakeFile(DataFile(path, action["size"]), None, constants)

    def _constant(self, path: str, column: TableColumn, text: str | None) -> pa.Array:
        """The value of a partition column, which is text in the log."""

        def fault(index: int) -> DataError:
            return DataError(
                f"value '{text}' of partition column \"{column.name}\" can't be read",
                detail=f'file "{path}"',
            )

        own = from_arrow(self.schema.schema.field(external_name(column)).type)
        array = array_of([text or None], VARCHAR)
        for source, target in ((VARCHAR, own), (own, column.type)):
            convert = converter(source, target)
            if convert is not None:
                array = convert_or_fail(array, convert, fault)
        return array
