"""The data files of an Iceberg table: of a snapshot, pruned by a predicate, or added by a snapshot.

The library prunes manifests and partitions by the comparisons for which it has the same semantics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connectors.comparisons import Comparison, comparisons
from runnel.connectors.files.conversion import convert_arrow
from runnel.connectors.files.format import external_name
from runnel.connectors.files.storage import DataFile
from runnel.connectors.lake.files import FileSet, LakeFile
from runnel.connectors.lake.iceberg.catalog import IcebergLocation, calling, local_path
from runnel.errors import NotSupportedError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Expression
from runnel.sqltypes import Kind, from_arrow

_PUSHED = frozenset(
    {
        *(
            Kind.BOOLEAN,
            Kind.INTEGER,
            Kind.BIGINT,
            Kind.VARCHAR,
            Kind.DATE,
            Kind.TIMESTAMP,
            Kind.TIMESTAMP_TZ,
            Kind.DECIMAL,
        ),
    }
)
"""Without floating-point numbers, since Iceberg ignores NaN in their bounds."""

_AS_NUMBER = {Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64(), Kind.TIMESTAMP_TZ: pa.int64()}
_AS_IS = (Kind.BOOLEAN, Kind.INTEGER, Kind.BIGINT, Kind.VARCHAR)


def row_filter(
    predicate: Expression | None,
    context: EvaluationContext,
    columns: Sequence[TableColumn],
    schema: pa.Schema,
) -> Any:
    """The part of a predicate that the library can evaluate."""
    expressions: Any = import_module("pyiceberg.expressions")
    found = expressions.AlwaysTrue()
    for test in comparisons(predicate, context):
        column = columns[test.column.index]
        name = external_name(column)
        if column.type.kind in _PUSHED and from_arrow(schema.field(name).type) == column.type:
            part = _condition(name, test)
            found = found if part is None else expressions.And(found, part)
    return found


def _condition(name: str, test: Comparison) -> Any:
    expressions: Any = import_module("pyiceberg.expressions")
    values = [value for value in test.values if value is not None]
    if not values:
        return expressions.AlwaysFalse()
    if test.operation == "eq":
        return (
            expressions.EqualTo(name, values[0])
            if len(values) == 1
            else expressions.In(name, values)
        )
    kinds = {
        "lt": "LessThan",
        "le": "LessThanOrEqual",
        "gt": "GreaterThan",
        "ge": "GreaterThanOrEqual",
    }
    return getattr(expressions, kinds[test.operation])(name, values[0])


def files_of(
    location: IcebergLocation,
    table: Any,
    snapshot: int,
    columns: Sequence[TableColumn],
    requested: Any = None,
) -> FileSet:
    """The files of a snapshot (0: there is none), in a stable order."""
    if not snapshot:
        return FileSet(0, ())
    tasks = _planned(location, table, snapshot, requested)
    deletes = _Deletes(location, table)
    files = []
    for task in tasks:
        file = _lake_file(location, table, task.file, columns)
        if task.delete_files:
            file = LakeFile(file.file, file.rows, file.constants, deletes.live_rows(task))
        files.append(file)
    # The library plans manifests in parallel, so their order varies.
    files.sort(key=lambda file: file.file.path)
    return FileSet(snapshot, files)


def _planned(location: IcebergLocation, table: Any, snapshot: int, requested: Any) -> list[Any]:
    if requested is not None:
        try:
            with calling("the predicate can't be pushed down"):
                return list(
                    table.scan(
                        row_filter=requested, snapshot_id=snapshot, case_sensitive=True
                    ).plan_files()
                )
        except Exception:
            # The library cannot convert a constant to the column's type. The query filters the rows
            # anyway.
            pass
    with calling(f"the files of {location.what} can't be listed"):
        return list(table.scan(snapshot_id=snapshot).plan_files())


def added_in(
    location: IcebergLocation, table: Any, snapshot: int, columns: Sequence[TableColumn]
) -> FileSet:
    """The files that a snapshot added."""
    from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus

    files = []
    with calling(f"the files of snapshot {snapshot} of {location.what} can't be listed"):
        for manifest in table.snapshot_by_id(snapshot).manifests(table.io):
            if manifest.added_snapshot_id != snapshot or manifest.content != ManifestContent.DATA:
                continue
            files += [
                _lake_file(location, table, entry.data_file, columns)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                if entry.status == ManifestEntryStatus.ADDED
                and entry.data_file.content == DataFileContent.DATA
            ]
    files.sort(key=lambda file: file.file.path)
    return FileSet(snapshot, files)


def _lake_file(
    location: IcebergLocation, table: Any, file: Any, columns: Sequence[TableColumn]
) -> LakeFile:
    from pyiceberg.manifest import FileFormat

    if file.file_format != FileFormat.PARQUET:
        raise NotSupportedError(f'file "{file.file_path}" of {location.what} is not a Parquet file')
    if file.key_metadata:
        raise NotSupportedError(f'file "{file.file_path}" of {location.what} is encrypted')
    found = DataFile(local_path(file.file_path, location.what), file.file_size_in_bytes)
    return LakeFile(found, file.record_count, _constants(table, file, columns))


def _constants(table: Any, file: Any, columns: Sequence[TableColumn]) -> Mapping[int, pa.Array]:
    """The values of the columns that partition a file without a transformation."""
    from pyiceberg.transforms import IdentityTransform

    constants = {}
    schema = table.schema()
    for position, field in enumerate(table.specs()[file.spec_id].fields):
        if not isinstance(field.transform, IdentityTransform):
            continue
        name = schema.find_column_name(field.source_id)
        index = next((i for i, column in enumerate(columns) if external_name(column) == name), None)
        if index is None:
            continue
        array = _array(file.partition[position], _type_in(schema, field.source_id))
        if array is not None:
            constants[index] = convert_arrow(array, columns[index].type)
    return constants


def _type_in(schema: Any, number: int) -> pa.DataType:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(schema.find_type(number))


def _array(value: Any, kind: pa.DataType) -> pa.Array | None:
    """An array with one value of a manifest; None if the manifest stores it in a complex form."""
    if value is None:
        return pa.nulls(1, kind)
    sql_kind = from_arrow(kind).kind
    if sql_kind in _AS_NUMBER and isinstance(value, int):
        return pa.array([value], _AS_NUMBER[sql_kind]).cast(kind)
    return pa.array([value], kind) if sql_kind in _AS_IS else None


class _Deletes:
    """The positions of rows in data files that delete files delete."""

    def __init__(self, location: IcebergLocation, table: Any) -> None:
        self._location = location
        self._io = table.io
        self._read: dict[str, Mapping[str, pa.ChunkedArray]] = {}

    def live_rows(self, task: Any) -> pa.Array:
        """For each row of a data file, whether it still exists."""
        from pyiceberg.io.pyarrow import _read_deletes
        from pyiceberg.manifest import DataFileContent

        mask = np.ones(task.file.record_count, np.bool_)
        for file in task.delete_files:
            if file.content != DataFileContent.POSITION_DELETES:
                raise NotSupportedError(
                    f"{self._location.what} has rows that are deleted by their values (equality "
                    "deletes), which isn't read",
                    hint="compact the table, or read it through Spark (TYPE Spark)",
                )
            positions = self._read.get(file.file_path)
            if positions is None:
                with calling(f'file "{file.file_path}" of {self._location.what} can\'t be read'):
                    positions = self._read[file.file_path] = _read_deletes(self._io, file)
            found = positions.get(task.file.file_path)
            if found is not None:
                mask[np.asarray(found)] = False
        return pa.array(mask)
