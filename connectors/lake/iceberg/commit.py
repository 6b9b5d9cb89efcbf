"""Appends to an Iceberg table: values of partition fields, manifest entries of files, and the
commit.

The commit records a job's epoch in the table's properties, in the same change, and in the summary
of the snapshot.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.catalog import TableColumn
from runnel.connector import Token
from runnel.connectors.files.format import FileFormat, external_name
from runnel.connectors.lake.iceberg.catalog import Catalogs, IcebergLocation, calling, local_path
from runnel.connectors.lake.options import LakeSchema
from runnel.connectors.lake.sink import LakeTarget
from runnel.errors import NotSupportedError, OperationalError

ATTEMPTS = 10
"""How many times a commit is tried while other writers commit to the table, and the library has
given up."""

_COMMIT = "runnel.commit"
_COMMITTED = "runnel.committed."
"""The prefix of the table properties that record the last commit of a job."""

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


class IcebergCommitTarget(Protocol):
    """A mapping whose table is appended to."""

    location: IcebergLocation
    catalogs: Catalogs
    schema: LakeSchema
    columns: tuple[TableColumn, ...]
    format: FileFormat

    def loaded(self) -> Any:
        """The current table."""


class IcebergTarget(LakeTarget):
    """An Iceberg table that is appended to."""

    def __init__(self, mapping: IcebergCommitTarget) -> None:
        self._mapping = mapping
        self._what = mapping.location.what
        self.format = mapping.format
        self.columns = mapping.columns
        table = self._table()
        self._spec = table.spec()
        self._schema = table.schema()
        self._metadata = table.metadata
        location = table.properties.get("write.data.path") or table.location().rstrip("/") + "/data"
        self._location = location.rstrip("/")
        self.folder = local_path(self._location, self._what)
        by_name = {external_name(column): i for i, column in enumerate(self.columns)}
        self.in_files = tuple(range(len(self.columns)))
        self.required = self._required(by_name)
        self._sources = []
        for field in self._spec.fields:
            name = self._schema.find_column_name(field.source_id)
            if name not in by_name:
                raise NotSupportedError(
                    f'rows can\'t be written to {self._what}: the mapping has no column "{name}", '
                    "by which it is partitioned",
                    hint="declare it, too",
                )
            self._sources.append(by_name[name])

    def _table(self) -> Any:
        """The current table, if rows of the mapping fit it."""
        table = self._mapping.loaded()
        self._mapping.schema.check_writable(self.columns, widens=True)
        for field in table.schema().fields:
            kind = str(field.field_type)
            is_mapped = any(external_name(column) == field.name for column in self.columns)
            if is_mapped and any(
                word in kind for word in ("uuid", "fixed", "timestamp_ns", "timestamptz_ns")
            ):
                raise NotSupportedError(
                    f"rows can't be written to {self._what}: "
                    f'column "{field.name}" is of type {kind}'
                )
            if not is_mapped and getattr(field, "write_default", None) is not None:
                raise NotSupportedError(
                    f"rows can't be written to {self._what}: "
                    f'its column "{field.name}" has a default',
                    hint="declare it, too",
                )
        return table

    def _required(self, by_name: Mapping[str, int]) -> tuple[int, ...]:
        needed = [field.name for field in self._schema.fields if field.required]
        for name in needed:
            if name not in by_name:
                raise NotSupportedError(
                    f"rows can't be written to {self._what}: its column \"{name}\" can't be NULL",
                    hint="declare it, too",
                )
        return tuple(by_name[name] for name in needed)

    def partition_of(self, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        arrays = []
        for field, source in zip(self._spec.fields, self._sources, strict=True):
            kind = self._schema.find_type(field.source_id)
            arrow = self._mapping.schema.schema.field(external_name(self.columns[source])).type
            if pa.types.is_large_binary(arrow):
                arrow = pa.binary()  # truncation accepts no other type
            with calling(
                f'the values of partition field "{field.name}" of {self._what} can\'t be computed'
            ):
                arrays.append(field.transform.pyarrow_transform(kind)(columns[source].cast(arrow)))
        return [_combined(array) for array in arrays]

    def folder_of(self, values: Sequence[Any]) -> str:
        if not self._spec.fields:
            return ""
        return str(self._spec.partition_to_path(self._record(values), self._schema))

    def _record(self, values: Sequence[Any]) -> Any:
        from pyiceberg.partitioning import partition_record_value
        from pyiceberg.typedef import Record

        return Record(
            *(
                partition_record_value(partition_field=field, value=value, schema=self._schema)
                for field, value in zip(self._spec.fields, values, strict=True)
            )
        )

    def describe(self, path: str, values: Sequence[Any]) -> Mapping[str, Any]:
        from pyiceberg.io.pyarrow import (
            compute_statistics_plan,
            data_file_statistics_from_parquet_metadata,
            parquet_path_to_id_mapping,
        )

        with calling(f'file "{path}" can\'t be read'):
            found = data_file_statistics_from_parquet_metadata(
                parquet_metadata=pq.read_metadata(path),
                stats_columns=compute_statistics_plan(self._schema, self._metadata.properties),
                parquet_column_mapping=parquet_path_to_id_mapping(self._schema),
            ).to_serialized_dict()
        record = self._record(values)
        return {
            "size": Path(path).stat().st_size,
            "spec": self._spec.spec_id,
            "partition": [_packed(record[i]) for i in range(len(self._spec.fields))],
            "rows": found["record_count"],
            "splits": list(found["split_offsets"] or ()),
            **{name: list(dict(found[name] or {}).items()) for name in _COUNTS},
            **{
                name: [[key, _packed(value)] for key, value in (found[name] or {}).items()]
                for name in _BOUNDS
            },
        }

    def version(self) -> int | None:
        current = self._mapping.catalogs.load(self._mapping.location).current_snapshot()
        return None if current is None else int(current.snapshot_id)

    def committed(self, application: str) -> int:
        properties = self._mapping.catalogs.load(self._mapping.location).properties
        return int(properties.get(_COMMITTED + application, 0))

    def has_commit(self, identity: str, since: int | None) -> bool:
        table = self._mapping.catalogs.load(self._mapping.location)
        current = table.current_snapshot()
        while current is not None and current.snapshot_id != since:
            if (
                current.summary is not None
                and current.summary.additional_properties.get(_COMMIT) == identity
            ):
                return True
            parent = current.parent_snapshot_id
            current = None if parent is None else table.snapshot_by_id(parent)
        return False

    def commit(self, files: Sequence[tuple[str, Mapping[str, Any]]], token: Token) -> None:
        with self._mapping.catalogs.commits(self._mapping.location):
            for attempt in range(ATTEMPTS):
                try:
                    self._commit(files, token)
                    return
                except OperationalError as error:
                    # The error does not show whether the commit became visible all the same.
                    if self._is_committed(token):
                        return
                    if "has changed" not in (error.detail or ""):
                        raise
                    if attempt == ATTEMPTS - 1:
                        error.hint = (
                            "other writers commit to the table all the time: "
                            "run the statement again"
                        )
                        raise

    def _commit(self, files: Sequence[tuple[str, Mapping[str, Any]]], token: Token) -> None:
        application, number = token["application"], token["number"]
        notes = {_COMMIT: token["id"]}
        if application:
            notes |= {"runnel.job": application, "runnel.epoch": str(number)}
        table = self._table()
        if any(said["spec"] != table.spec().spec_id for _, said in files):
            raise OperationalError(
                f"{self._what} is partitioned in another way now", hint="run the statement again"
            )
        # The library retries a few times if other writers commit to the table in the meantime.
        with calling(f"{self._what} can't be written to"), table.transaction() as change:
            if application:
                change.set_properties({_COMMITTED + application: str(number)})
            with change.update_snapshot(snapshot_properties=notes).fast_append() as append:
                for path, said in files:
                    append.append_data_file(self._data_file(path, said))

    def _is_committed(self, token: Token) -> bool:
        if token["application"]:
            return bool(self.committed(token["application"]) >= token["number"])
        return self.has_commit(token["id"], token["since"])

    def _data_file(self, path: str, said: Mapping[str, Any]) -> Any:
        from pyiceberg.typedef import Record

        manifest: Any = import_module("pyiceberg.manifest")
        inner = Path(path).relative_to(self.folder).as_posix()
        return manifest.DataFile.from_args(
            content=manifest.DataFileContent.DATA,
            file_path=f"{self._location}/{inner}",
            file_format=manifest.FileFormat.PARQUET,
            partition=Record(*map(_unpacked, said["partition"])),
            file_size_in_bytes=said["size"],
            record_count=said["rows"],
            split_offsets=said["splits"] or None,
            sort_order_id=None,
            spec_id=said["spec"],
            equality_ids=None,
            key_metadata=None,
            **{name: {int(key): value for key, value in said[name]} for name in _COUNTS},
            **{name: {int(key): _unpacked(value) for key, value in said[name]} for name in _BOUNDS},
        )


def _combined(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _packed(value: Any) -> Any:
    """A value in JSON."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, UUID):
        return {"uuid": str(value)}
    return value


def _unpacked(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    [(kind, text)] = value.items()
    if kind == "bytes":
        return base64.b64decode(text)
    return Decimal(text) if kind == "decimal" else UUID(text)
