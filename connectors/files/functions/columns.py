"""The columns of a queried file: the found ones with other names and types, and the column with the
path of a row's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.catalog import TableColumn
from runnel.connectors.files.csv.csv_reader import distinct_names
from runnel.connectors.files.format import external_name
from runnel.connectors.files.functions.normalized_names import normalized
from runnel.connectors.files.functions.reader_options import ReaderOptions
from runnel.connectors.files.hive.file_names import FileNameTable
from runnel.connectors.files.hive.table import HiveTable
from runnel.connectors.files.table import FileTable
from runnel.errors import ProgrammingError, suggest
from runnel.sqltypes import JSON, VARBINARY, VARCHAR, Kind, SqlType, array, row

FILENAME = "filename"


def with_columns(function: str, table: FileTable, asked: ReaderOptions) -> FileTable:
    """The table with the names and types that a call requests, and with the column for the path,
    which is hidden unless the call requests it."""
    if asked.columns is not None and table.is_inferred:
        _check_count(function, table, len(asked.columns), "columns")
        names, types = tuple(asked.columns), tuple(asked.columns.values())
        _change(table, _renamed(table.columns, names))
        _change(table, _typed(function, table, types))
    if asked.names:
        _check_count(function, table, len(asked.names), "names", may_be_fewer=True)
        _change(table, _renamed(table.columns, asked.names))
    if asked.normalizes:
        found = [column.name for column in table.columns if not column.hidden]
        _change(table, _renamed(table.columns, distinct_names(normalized(found))))
    if isinstance(table, HiveTable):
        keys = {key.lower() for key in table.partitioning.keys}
        _change(table, tuple(_hive_typed(item, keys, asked) for item in table.columns))
    if asked.all_varchar:
        _change(table, tuple(replace(item, type=VARCHAR) for item in table.columns))
    if asked.most_depth > 0:
        _change(table, tuple(_cut(item, asked.most_depth) for item in table.columns))
    if asked.reads_binary_as_text:
        _change(
            table,
            tuple(
                replace(item, type=VARCHAR) if item.type == VARBINARY else item
                for item in table.columns
            ),
        )
    if asked.types is not None:
        _change(table, _typed(function, table, asked.types))
    return _with_filename(function, table, asked.filename)


def _cut(column: TableColumn, depth: int) -> TableColumn:
    """The column with JSON in place of the types that are nested deeper."""

    def cut(kind: SqlType, left: int) -> SqlType:
        if not kind.is_nested:
            return kind
        if left == 1:
            return JSON
        if kind.kind is Kind.ARRAY and kind.element is not None:
            return array(cut(kind.element, left - 1))
        if kind.kind is Kind.ROW:
            return row(*((name, cut(item, left - 1)) for name, item in kind.fields))
        return kind

    return replace(column, type=cut(column.type, depth))


def _hive_typed(column: TableColumn, keys: set[str], asked: ReaderOptions) -> TableColumn:
    """A column of a folder with the requested type."""
    name = external_name(column).lower()
    if name not in keys:
        return column
    default = column.type if asked.casts_hive else VARCHAR
    return replace(column, type=asked.hive_types.get(name, default))


def _change(table: FileTable, columns: tuple[TableColumn, ...]) -> None:
    """Replaces the columns of a new table, which no statement has read yet."""
    if columns != table.columns:
        table.columns = columns
        table.is_inferred = False


def _shown(table: FileTable) -> list[TableColumn]:
    return [column for column in table.columns if not column.hidden]


def _check_count(
    function: str, table: FileTable, count: int, option: str, *, may_be_fewer: bool = False
) -> None:
    found = [column.name for column in _shown(table)]
    if count == len(found) or (may_be_fewer and count < len(found)):
        return
    raise ProgrammingError(
        f"{option} of {function} lists {count} columns, but the files have {len(found)}",
        detail=f"the columns of the files are {', '.join(found)}",
    )


def _renamed(columns: Sequence[TableColumn], names: Sequence[str]) -> tuple[TableColumn, ...]:
    """The columns, the first ones with new names."""
    new = [
        replace(column, name=name, external_name=external_name(column))
        for column, name in zip(columns, names, strict=False)
    ]
    return _distinct((*new, *columns[len(new) :]))


def _distinct(columns: tuple[TableColumn, ...]) -> tuple[TableColumn, ...]:
    used: set[str] = set()
    for column in columns:
        if column.name.lower() in used:
            raise ProgrammingError(
                f'two columns would be called "{column.name}"', hint="choose other names"
            )
        used.add(column.name.lower())
    return columns


def _typed(
    function: str, table: FileTable, types: dict[str, SqlType] | Sequence[SqlType] | object
) -> tuple[TableColumn, ...]:
    columns = table.columns
    if isinstance(types, tuple):
        _check_count(function, table, len(types), "types", may_be_fewer=True)
        new = [replace(c, type=item) for c, item in zip(columns, types, strict=False)]
        return (*new, *columns[len(new) :])
    assert isinstance(types, dict)
    names = {column.name.lower() for column in _shown(table)}
    for name in types:
        if name.lower() not in names:
            found = [column.name for column in _shown(table)]
            raise ProgrammingError(
                f'types of {function} names a column "{name}" that the files do not have',
                hint=suggest(name, found, f"the columns are {', '.join(found)}"),
            )
    by_name = {name.lower(): item for name, item in types.items()}
    return tuple(replace(c, type=by_name.get(c.name.lower(), c.type)) for c in columns)


def _with_filename(function: str, table: FileTable, name: str) -> FileTable:
    if table.is_unbounded:
        if name:
            raise ProgrammingError(
                f"{function} can't follow files with a column for their names",
                hint="leave filename out",
            )
        return table
    has_column = any(item.name.lower() == (name or FILENAME).lower() for item in table.columns)
    if has_column and name:
        raise ProgrammingError(
            f'the files have a column "{name}" already',
            hint="choose another name: filename = 'file_path'",
        )
    if has_column:
        return table
    return FileNameTable(table, [TableColumn(name or FILENAME, VARCHAR, hidden=not name)])
