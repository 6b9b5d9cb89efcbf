"""Columns of files that have types of their own: what a table declares of them, and bringing them
to its types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connectors.files.conversion import Place, convert_arrow, convert_or_fail, unfit
from runnel.connectors.files.format import FileColumn, external_name, match_names
from runnel.connectors.files.storage import DataFile
from runnel.errors import DataError, NotSupportedError, ProgrammingError, suggest
from runnel.sqltypes import SqlType, can_cast, from_arrow, to_arrow


def columns_of(schema: pa.Schema, file: DataFile) -> list[FileColumn]:
    """The columns of a file by its schema; NotSupportedError for a type that SQL hasn't."""
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
    """Fails where a declared column isn't in a file, or can't be made of what is."""
    names = [item.name for item in found]
    wanted = [external_name(column) for column in columns]
    for column, place in zip(columns, match_names(wanted, names), strict=True):
        if place is None:
            raise ProgrammingError(
                f'column "{external_name(column)}" is not in file "{file.path}"',
                hint=suggest(external_name(column), names, "its columns are " + ", ".join(names)),
            )
        if not can_cast(found[place].type, column.type):
            raise ProgrammingError(
                f'column "{column.name}" is declared as {column.type}, but is {found[place].type} '
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
    """A column of a file, from row `origin[1]` on, in the type of the table's column. `kind` is its
    SQL type where its Arrow type doesn't tell."""
    file, row = origin
    if array.type == to_arrow(column.type) if kind is None else kind == column.type:
        return array
    given = from_arrow(array.type) if kind is None else kind
    if not can_cast(given, column.type):
        raise DataError(
            f'column "{column.name}" is {column.type}, but {given} in file "{file.path}"',
            hint="declare the column with a type that the values of all files can be cast to",
        )

    def fault(index: int) -> DataError:
        place = Place(file.path, f"row {row + index + 1}")
        return unfit(array[index].as_py(), column.name, column.type, place, is_inferred=is_inferred)

    return convert_or_fail(array, lambda part: convert_arrow(part, column.type), fault)
