"""The Parquet files of a table format.

The fields of a struct are identified by name in the table, but converted by position. A file in
which the names and positions differ from the table's is refused.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.connectors.files.columnar.parquet import ParquetFormat
from runnel.connectors.files.format import Batches, FileScanRequest, external_name, match_names
from runnel.connectors.files.options import FileOptions
from runnel.connectors.files.storage import DataFile
from runnel.errors import NotSupportedError
from runnel.sqltypes import SqlType, from_arrow

OPTIONS = FileOptions("", "parquet", None, "auto", False, False, None)  # type: ignore[arg-type]  # no CSV here


class LakeParquet(ParquetFormat):
    """Parquet files that a table format's metadata lists."""

    def __init__(self) -> None:
        super().__init__(OPTIONS)

    def _read_file(
        self,
        opened: pq.ParquetFile,
        what: tuple[DataFile, tuple[int, ...] | None],
        asked: FileScanRequest,
    ) -> Batches:
        check_fields(opened.schema_arrow, what[0], asked)
        return super()._read_file(opened, what, asked)


def check_fields(schema: pa.Schema, file: DataFile, asked: FileScanRequest) -> None:
    """Fails if a nested column has other fields in a file than in the table."""
    nested = [column for column in asked.requested if column.type.is_nested]
    positions = match_names([external_name(column) for column in nested], schema.names)
    for column, position in zip(nested, positions, strict=True):
        if position is not None and _names(from_arrow(schema.field(position).type)) != _names(
            column.type
        ):
            raise NotSupportedError(
                f'column "{column.name}" has other fields in file "{file.path}" than the table has '
                "now",
                detail=(
                    f"{from_arrow(schema.field(position).type)} in the file, "
                    f"{column.type} in the table"
                ),
                hint="rewrite the table's older files, or leave the column out of the query",
            )


def _names(kind: SqlType) -> object:
    """The names of all fields, by position."""
    inner = [item for item in (kind.key, kind.element) if item is not None]
    return tuple((name, _names(item)) for name, item in kind.fields) + tuple(
        _names(item) for item in inner
    )
