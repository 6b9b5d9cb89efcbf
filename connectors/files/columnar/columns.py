"""Columns of files that declare types: checks of declared columns, and conversion to their
types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connectors.files.conversion import ValueLocation, convert_arrow, convert_or_fail, unfit
from runnel.connectors.files.format import FileColumn, external_name, match_names
from runnel.connectors.files.storage import DataFile
from runnel.errors import DataError, NotSupportedError, ProgrammingError, suggest
from runnel.sqltypes import SqlType, can_cast, from_arrow, to_arrow


def columns_of(schema: pa.Schema, file: DataFile) -> list[FileColumn]:
    """The columns of a file by its schema; NotSupportedError for a type without an SQL
    equivalent."""
    columns = []
    for field in schema:
        try:
            columns.append(FileColumn(field.name, from_arrow(field.type)))
        except NotSupportedError as error:
            raise NotSupportedError(
                f'column "{field.name}" of file "{file.path}": {error.message}'
            ) from None
    return columns


def check_columns(
    columns: Sequence[TableColumn], found: Sequence[FileColumn], file: DataFile
) -> None:
    """Fails if a declared column is missing in a file, or if its values cannot be cast."""
    names = [item.name for item in found]
    names_in_files = [external_name(column) for column in columns]
    for column, index in zip(columns, match_names(names_in_files, names), strict=True):
        if index is None:
            raise ProgrammingError(
                f'column "{external_name(column)}" is not in file "{file.path}"',
                hint=suggest(external_name(column), names, "its columns are " + ", ".join(names)),
            )
        if not can_cast(found[index].type, column.type):
            raise ProgrammingError(
                f'column "{column.name}" is declared as {column.type}, but is {found[index].type} '
                f'in file "{file.path}"'
            )


def typed(
    array: pa.Array,
    column: TableColumn,
    origin: tuple[DataFile, int],
    *,
    is_inferred: bool,
    kind: SqlType | None = None,
) -> pa.Array:
    """A column of a file in the type of the table's column.

    origin: the file, and the number of its rows before the array.
    kind: the SQL type of the array, if its Arrow type does not determine it.
    """
    file, row = origin
    if array.type == to_arrow(column.type) if kind is None else kind == column.type:
        return array
    actual = from_arrow(array.type) if kind is None else kind
    if not can_cast(actual, column.type):
        raise DataError(
            f'column "{column.name}" is {column.type}, but {actual} in file "{file.path}"',
            hint="declare the column with a type that the values of all files can be cast to",
        )

    def fault(index: int) -> DataError:
        location = ValueLocation(file.path, f"row {row + index + 1}")
        return unfit(
            array[index].as_py(), column.name, column.type, location, is_inferred=is_inferred
        )

    return convert_or_fail(array, lambda part: convert_arrow(part, column.type), fault)
