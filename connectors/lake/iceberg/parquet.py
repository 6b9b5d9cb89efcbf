"""The Parquet files of an Iceberg table: their columns are identified by field ids, not by
names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.catalog import TableColumn
from runnel.connectors.files.columnar.parquet import ParquetRows
from runnel.connectors.files.format import Batches, FileScanRequest, external_name
from runnel.connectors.files.output import FileOutput, RowWriter
from runnel.connectors.files.storage import DataFile
from runnel.connectors.lake.parquet import LakeParquet, check_fields
from runnel.errors import NotSupportedError

ID = b"PARQUET:field_id"
_NOWHERE = "\0"
"""A name that no column of a file has."""


class IcebergParquet(LakeParquet):
    """Files with the columns of an Arrow schema that has field ids.

    `mapped` has the names by which files without field ids have the columns.
    """

    def __init__(self, schema: pa.Schema, mapped: Mapping[int, Sequence[str]] | None) -> None:
        super().__init__()
        self.schema = schema
        self._mapped = mapped

    def _read_file(
        self,
        opened: pq.ParquetFile,
        what: tuple[DataFile, tuple[int, ...] | None],
        asked: FileScanRequest,
    ) -> Batches:
        schema = opened.schema_arrow
        names = self._names_in(schema, what[0])
        columns = tuple(self._called(column, names) for column in asked.table_columns)
        inner = replace(asked, table_columns=columns)
        for column in inner.requested:
            name = external_name(column)
            if column.type.is_nested and name != _NOWHERE:
                own = next(field for field in self.schema if names.get(_id(field)) == name)
                found = schema.field(name)
                if _id_or_none(found) is None:
                    check_fields(
                        schema,
                        what[0],
                        replace(inner, columns=(inner.table_columns.index(column),)),
                    )
                elif _inner_ids(found.type) != _inner_ids(own.type):
                    raise NotSupportedError(
                        f'column "{column.name}" has other fields in file "{what[0].path}" than '
                        "the table has now",
                        detail=f"{found.type} in the file, {own.type} in the table",
                        hint=(
                            "rewrite the table's older files, or leave the column out of the query"
                        ),
                    )
        # The superclass's check compares names.
        return super(LakeParquet, self)._read_file(opened, what, inner)

    def _names_in(self, schema: pa.Schema, file: DataFile) -> dict[int, str]:
        """The names of the columns that a file has, by field id."""
        found = {
            number: field.name for field in schema if (number := _id_or_none(field)) is not None
        }
        if found or not len(schema):
            return found
        if self._mapped is None:
            raise NotSupportedError(
                f'file "{file.path}" doesn\'t identify its columns',
                detail="it has no field ids, and the table has no name mapping",
                hint="set the table's property schema.name-mapping.default",
            )
        return {
            number: name
            for number, names in self._mapped.items()
            for name in names
            if name in schema.names
        }

    def _called(self, column: TableColumn, names: Mapping[int, str]) -> TableColumn:
        number = _id(self.schema.field(external_name(column)))
        return replace(column, external_name=names.get(number, _NOWHERE))

    def writer(self, output: FileOutput, columns: Sequence[TableColumn]) -> RowWriter:
        return IcebergRows(output, columns, self.schema)


def _id(field: pa.Field) -> int:
    return int(field.metadata[ID])


def _id_or_none(field: pa.Field) -> int | None:
    return int(field.metadata[ID]) if field.metadata is not None and ID in field.metadata else None


def _inner_ids(kind: pa.DataType) -> tuple[Any, ...]:
    """The ids of all fields within a type, by position."""
    if pa.types.is_map(kind):
        fields = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        fields = [kind.value_field]
    elif pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
    else:
        return ()
    return tuple((_id_or_none(field), _inner_ids(field.type)) for field in fields)


class IcebergRows(ParquetRows):
    """Writes files with the table's field ids."""

    def __init__(
        self, output: FileOutput, columns: Sequence[TableColumn], schema: pa.Schema
    ) -> None:
        fields = [schema.field(external_name(column)) for column in columns]
        self._types = [_plain(field.type) for field in fields]
        self._own = pa.schema(
            [field.with_type(kind) for field, kind in zip(fields, self._types, strict=True)]
        )
        super().__init__(output, columns, "zstd", self._own)

    def write(self, batch: pa.RecordBatch) -> None:
        arrays = [array.cast(kind) for array, kind in zip(batch.columns, self._types, strict=True)]
        super().write(pa.RecordBatch.from_arrays(arrays, schema=self._own))


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without Arrow's types for large data, which Parquet does not have."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_plain(kind.key_type)),
            kind.item_field.with_type(_plain(kind.item_type)),
        )
    if pa.types.is_struct(kind):
        return pa.struct(
            [kind.field(i).with_type(_plain(kind.field(i).type)) for i in range(kind.num_fields)]
        )
    return kind
