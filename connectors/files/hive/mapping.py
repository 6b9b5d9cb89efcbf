"""Opens a File mapping with Hive partitions: finds the partition keys and their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runnel.catalog import TableColumn
from runnel.connector import MappingDefinition
from runnel.connectors.files.format import (
    FileFormat,
    discovered,
    external_name,
    files_now,
    format_name_of,
)
from runnel.connectors.files.hive.paths import partition_keys, partition_types
from runnel.connectors.files.hive.table import HivePartitioning, HiveTable
from runnel.connectors.files.options import FileOptions
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.sniffing.sniff import Sniffed
from runnel.connectors.files.storage import DataFile
from runnel.connectors.files.table import FileTable
from runnel.errors import ProgrammingError, suggest


def open_partitioned(
    definition: MappingDefinition,
    options: FileOptions,
    file_path: FilePath,
    format_named: Callable[[str, Sequence[DataFile]], tuple[FileFormat, Sniffed | None]],
) -> FileTable:
    """The table of a mapping whose files are, or will be, in folders named key=value."""
    path = file_path.with_subfolders()
    files = files_now(path) if definition.columns else path.files()
    file_format, sniffed = format_named(options.format or format_name_of(path.text, files), files)
    keys = _keys(path, files, options)
    if definition.columns:
        columns = tuple(
            TableColumn(item.name, item.type, item.external_name) for item in definition.columns
        )
        _check_partition_by(columns, options.partition_by)
        key_columns = _positions(columns, keys)
        own = [column for i, column in enumerate(columns) if i not in key_columns]
        _check_own(path, own, columns)
        file_format.check_declared(own, files)
    else:
        lower = {key.lower() for key in keys}
        found = discovered(definition, path, file_format, files)
        own = [column for column in found if column.name.lower() not in lower]
        types = partition_types(path, files, keys)
        columns = (*own, *(TableColumn(key, item) for key, item in zip(keys, types, strict=True)))
        key_columns = {len(own) + number: number for number in range(len(keys))}
    names = {item.name.lower() for item in columns}
    columns += tuple(item for item in file_format.hidden_columns() if item.name not in names)
    return HiveTable(
        definition.name,
        columns,
        file_format,
        path,
        is_inferred=not definition.columns,
        partitioning=HivePartitioning(tuple(keys), key_columns),
    ).found(sniffed)


def _keys(path: FilePath, files: Sequence[DataFile], options: FileOptions) -> list[str]:
    found = partition_keys(path, files)
    requested = list(options.partition_by)
    if requested and files and [key.lower() for key in found] != [key.lower() for key in requested]:
        there = ", ".join(found) or "none"
        raise ProgrammingError(
            f'the partition keys of "{path.text}" are {there}, not {", ".join(requested)}',
            hint="correct the option partitionBy, or write to another folder",
        )
    if not found and not requested and options.hive:
        if files:
            raise ProgrammingError(
                f'the files of "{path.text}" are not in folders named key=value',
                detail=f'for instance file "{files[0].path}"',
                hint="leave the option hivePartitioning out, or correct the path",
            )
        raise ProgrammingError(
            f'the partition keys of "{path.text}" can\'t be inferred: there are no files',
            hint="name them: OPTIONS ('partitionBy' = 'column, …')",
        )
    return found or requested


def _positions(columns: Sequence[TableColumn], keys: Sequence[str]) -> dict[int, int]:
    """Maps the index of each column that is a partition key to the index of the key."""
    by_name = {external_name(column).lower(): i for i, column in enumerate(columns)}
    key_columns = {}
    for number, key in enumerate(keys):
        index = by_name.get(key.lower())
        if index is not None:
            key_columns[index] = number
    return key_columns


def _check_own(path: FilePath, own: Sequence[TableColumn], columns: Sequence[TableColumn]) -> None:
    if not own:
        names = ", ".join(column.name for column in columns)
        raise ProgrammingError(
            f'all columns of the mapping on "{path.text}" are partition keys: {names}',
            hint="declare a column of the files, too",
        )


def _check_partition_by(columns: Sequence[TableColumn], keys: Sequence[str]) -> None:
    """Fails if a partition key has no column."""
    names = [external_name(column) for column in columns]
    for key in keys:
        if key.lower() not in {name.lower() for name in names}:
            raise ProgrammingError(
                f'partition key "{key}" is not a column',
                hint=suggest(key, names, f"the columns are {', '.join(names)}"),
            )
