"""The tables of TYPE Iceberg: one that is read and appended to, and one that is followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runnel.connector import ColumnDefinition, Sink, SinkRequest, WritableTable, WriteMode
from runnel.connectors.files.format import external_name
from runnel.connectors.lake.files import FileSet, LakeFile
from runnel.connectors.lake.follow import FollowedLakeTable
from runnel.connectors.lake.iceberg.catalog import Catalogs, IcebergLocation, arrow_schema, ids_of
from runnel.connectors.lake.iceberg.commit import IcebergTarget
from runnel.connectors.lake.iceberg.files import added_in, files_of, row_filter
from runnel.connectors.lake.iceberg.parquet import IcebergParquet
from runnel.connectors.lake.options import LakeSchema
from runnel.connectors.lake.sink import LakeSink
from runnel.connectors.lake.table import LakeTable
from runnel.errors import OperationalError, ProgrammingError, position_expired
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Expression
from runnel.processor import Guarantee


class ReadIcebergTable(LakeTable):
    """An Iceberg table, at the snapshot that the mapping names or at its current snapshot."""

    connector = "Iceberg"

    def __init__(
        self,
        name: str,
        location: IcebergLocation,
        catalogs: Catalogs,
        declared: Sequence[ColumnDefinition],
        opened: tuple[Any, int | None],
    ) -> None:
        """`opened` is the current table, and the snapshot to read (None: the current one)."""
        table, self.snapshot = opened
        self.name = name
        self.location = location
        self.catalogs = catalogs
        schema = arrow_schema(self._schema_of(table))
        self.schema = LakeSchema(schema, location.what)
        self.columns = self.schema.columns(declared)
        self._ids = ids_of(schema)
        self.format = IcebergParquet(schema, _name_mapping(table))

    def row_count(self) -> int | None:
        try:
            table = self.catalogs.load(self.location)
        except OperationalError:
            return None  # only the plan's quality depends on it; reading will report the error
        found = table.snapshot_by_id(self.snapshot) if self.snapshot else table.current_snapshot()
        if found is None or found.summary is None:
            return 0 if found is None else None
        count = found.summary.additional_properties.get("total-records")
        return None if count is None else int(count)

    def files_at(self, version: int | None) -> FileSet:
        table, snapshot = self._now(version)
        return files_of(self.location, table, snapshot, self.columns)

    def files_for(
        self, predicate: Expression | None, context: EvaluationContext
    ) -> tuple[int, Sequence[LakeFile]]:
        table, snapshot = self._now(None)
        requested = row_filter(predicate, context, self.columns, self.schema.schema)
        found = files_of(self.location, table, snapshot, self.columns, requested)
        return found.version, found.matching(predicate, context)

    def _now(self, version: int | None) -> tuple[Any, int]:
        """The table, checked, and the snapshot to read; 0 if it has none."""
        table = self.loaded()
        snapshot = self.snapshot if version is None else version
        if snapshot is None:
            current = table.current_snapshot()
            snapshot = 0 if current is None else int(current.snapshot_id)
        if snapshot and table.snapshot_by_id(snapshot) is None:
            raise position_expired(f"{self.location.what} has no snapshot {snapshot}, or no longer")
        return table, snapshot

    def loaded(self) -> Any:
        """The current table; OperationalError if the mapping's columns have changed."""
        table = self.catalogs.load(self.location)
        now = arrow_schema(self._schema_of(table))
        self.schema.check_unchanged(now, self.columns)
        numbers = ids_of(now)
        for column in self.columns:
            name = external_name(column)
            if numbers[name] != self._ids[name]:
                raise OperationalError(
                    f"the columns of {self.location.what} were changed since CREATE MAPPING",
                    detail=f'column "{name}" was dropped, and added again',
                    hint="CREATE OR REPLACE MAPPING adopts the current columns",
                )
        return table

    def _schema_of(self, table: Any) -> Any:
        found = None if self.snapshot is None else table.snapshot_by_id(self.snapshot)
        return (
            table.schema()
            if found is None or found.schema_id is None
            else table.schemas()[found.schema_id]
        )


class IcebergTable(ReadIcebergTable, WritableTable):
    """An Iceberg table whose rows are read, and appended to."""

    guarantee = Guarantee.EXACTLY_ONCE

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset({WriteMode.INSERT, WriteMode.SINK})

    def sink(self, request: SinkRequest) -> Sink:
        if self.snapshot is not None:
            raise ProgrammingError(
                f"rows can't be written to snapshot {self.snapshot} of {self.location.what}",
                hint="write through a mapping without the options snapshot, timestamp and ref",
            )
        if self.location.is_static:
            raise ProgrammingError(
                f"rows can't be written to {self.location.what} without its catalog",
                hint="name it: OPTIONS ('table' = 'space.name', 'uri' = '…')",
            )
        return LakeSink(IcebergTarget(self), request)


class FollowedIcebergTable(FollowedLakeTable, ReadIcebergTable):
    """An Iceberg table as a stream: its rows, then those that each later snapshot adds."""

    def first_version(self) -> int:
        return self._now(None)[1]

    def version_after(self, version: int) -> int | None:
        table = self.loaded()
        current = table.current_snapshot()
        following = None
        while current is not None and current.snapshot_id != version:
            following = int(current.snapshot_id)
            parent = current.parent_snapshot_id
            if parent is None and not version and not _had_rows_before(current):
                return following
            current = None if parent is None else table.snapshot_by_id(parent)
        if current is None and (version or following is not None):
            lost = f"snapshot {version}" if version else f"the snapshots before {following}"
            raise position_expired(
                f"the history of {self.location.what} no longer has {lost}",
                detail="it was expired, or the table was rolled back to an earlier one",
                hint="keep snapshots for longer",
            )
        return following

    def versions_left(self, after: int) -> tuple[int, int]:
        table = self.loaded()
        current = table.current_snapshot()
        newest = earliest = 0 if current is None else int(current.snapshot_id)
        while current is not None:
            earliest = int(current.snapshot_id)
            parent = current.parent_snapshot_id
            current = None if parent is None else table.snapshot_by_id(parent)
        return earliest, newest

    def added_in(self, version: int) -> FileSet:
        from pyiceberg.table.snapshots import Operation

        table, snapshot = self._now(version)
        found = table.snapshot_by_id(snapshot)
        operation = None if found.summary is None else found.summary.operation
        if operation == Operation.REPLACE:
            return FileSet(version, ())  # other files, the same rows
        if operation != Operation.APPEND and not self._is_read(version, operation):
            return FileSet(version, ())
        return added_in(self.location, table, snapshot, self.columns)

    def _is_read(self, version: int, operation: Any) -> bool:
        """Whether to read the files of a snapshot that also removes rows."""
        name = "of an unknown operation" if operation is None else operation.value
        what = f"snapshot {version} of {self.location.what} ({name})"
        return self.reads_change(what, "rows", "snapshots")


def _had_rows_before(snapshot: Any) -> bool:
    """Whether there were snapshots before one without a parent: expiring them removes its
    parent."""
    totals = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return int(totals.get("total-records", 0)) > int(totals.get("added-records", 0))


def _name_mapping(table: Any) -> dict[int, list[str]] | None:
    found = table.name_mapping()
    return (
        None
        if found is None
        else {field.field_id: list(field.names) for field in found if field.field_id is not None}
    )
