"""TYPE File: CSV, JSON, Parquet, Arrow, Avro and text files as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

from runnel.catalog import Table, TableColumn
from runnel.connector import ColumnDefinition, Connector, MappingDefinition
from runnel.connectors.debezium import HAS_SCHEMA, changing_table, envelope
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.format import FileFormat, discovered, files_now, format_name_of
from runnel.connectors.files.input import reading
from runnel.connectors.files.options import FileOptions, read_options
from runnel.connectors.files.paths import FilePath, file_path
from runnel.connectors.files.sniffing.sniff import Sniffed, sniffed, with_found
from runnel.connectors.files.storage import DataFile
from runnel.connectors.files.table import FileTable
from runnel.connectors.options import Options
from runnel.errors import NotSupportedError, ProgrammingError

_FORMATS = {
    "csv": ("files.csv.csv_format", "CsvFormat"),
    "json": ("files.json.json_format", "JsonFormat"),
    "parquet": ("files.columnar.parquet", "ParquetFormat"),
    "arrow": ("files.columnar.arrow_ipc", "ArrowFormat"),
    "avro": ("files.columnar.avro", "AvroFormat"),
    "lines": ("files.records.lines", "LinesFormat"),
}
"""The module and class of each format; imported on first use."""


class FileConnector(Connector):
    """Data files on the local disk or at a URL."""

    name = "File"
    keeps_bounds = True

    def open(self, definition: MappingDefinition) -> Table:
        if definition.external_name is not None:
            raise ProgrammingError(
                "a File mapping has no external name",
                hint="name the files in OPTIONS ('path' = '…')",
            )
        if definition.object_type is not None:
            raise NotSupportedError(f'connector File has no object type "{definition.object_type}"')
        options = read_options(definition.options, definition.access)
        if options.log is not None:
            return _log(definition, options, options.log)
        table = open_table(definition, options)
        if not options.file_columns:
            return table
        # Loaded on first use: few mappings have these columns.
        from runnel.connectors.files.hive.file_names import FILE_COLUMNS, FileNameTable

        return FileNameTable(table, FILE_COLUMNS)


def _log(definition: MappingDefinition, options: FileOptions, log: Options) -> Table:
    """The table whose changes are the records of the files."""
    if options.file_columns or options.partition_by or options.hive:
        raise NotSupportedError(
            "columns from the names of files are not supported for a log of changes",
            hint="leave fileColumns, hivePartitioning and partitionBy out",
        )
    has_schema = log.require(HAS_SCHEMA)
    events = open_table(envelope(definition, has_schema=has_schema), options)
    return changing_table(definition, log, events, f'mapping "{definition.name}"')


def open_table(
    definition: MappingDefinition,
    options: FileOptions,
    path: FilePath | None = None,
    expected: Sequence[ColumnDefinition] = (),
) -> FileTable:
    """The table of a mapping, with its format and its columns, declared or inferred.

    `path` has the files if the options alone do not name them. `expected` has columns that decide
    whether the first row of a CSV file is a header.
    """
    path = path or file_path(
        options.path,
        options.glob,
        ignore_missing=options.ignore_file_not_found,
        storage=dict(options.storage),
        access=options.access,
    )
    if options.follow and (options.hive or options.partition_by):
        raise NotSupportedError(
            "folders named key=value can't be followed",
            hint="leave hivePartitioning and partitionBy out, or follow",
        )
    if (
        options.hive
        or options.partition_by
        or (options.hive is None and not options.follow and _looks_partitioned(path))
    ):
        # Loaded on first use, because few mappings are partitioned.
        from runnel.connectors.files.hive.mapping import open_partitioned

        return open_partitioned(
            definition,
            options,
            path,
            lambda name, files: _format(name, files, options, definition, expected),
        )
    files = files_now(path) if definition.columns else path.files()
    name = options.format or format_name_of(path.text, files)
    make = FileTable
    if options.follow:
        from runnel.connectors.files.follow.table import FollowTable, without_last_lines

        make, files = FollowTable, without_last_lines(files, name, options.compression)
    file_format, found = _format(name, files, options, definition, expected)
    if definition.columns:
        columns = tuple(
            TableColumn(item.name, item.type, item.external_name) for item in definition.columns
        )
        file_format.check_declared(columns, files)
        names = {item.name.lower() for item in columns}
        columns += tuple(item for item in file_format.hidden_columns() if item.name not in names)
        return make(definition.name, columns, file_format, path, is_inferred=False).found(found)
    columns = discovered(definition, path, file_format, files)
    columns += file_format.hidden_columns()
    return make(definition.name, columns, file_format, path, is_inferred=True).found(found)


def _format(
    name: str,
    files: Sequence[DataFile],
    options: FileOptions,
    definition: MappingDefinition,
    expected: Sequence[ColumnDefinition],
) -> tuple[FileFormat, Sniffed | None]:
    """The format, with the options that the statement leaves out as the files have them, and what
    was found; None for a stored mapping."""
    if definition.is_stored:
        return format_named(name)(options), None
    found = sniffed(name, options, files, definition.columns or expected)
    return format_named(name)(with_found(options, found)), found


def _looks_partitioned(path: FilePath) -> bool:
    """Whether a folder contains folders named key=value."""
    with reading(path.text):
        if path.glob is not None or path.is_pattern or not path.is_folder():
            return False
        return any(
            "=" in name[1:] and name[0] not in "._" for name in file_system.subfolders(path.text)
        )


def format_named(name: str) -> Callable[[FileOptions], FileFormat]:
    module, class_name = _FORMATS[name]
    return cast(
        Callable[[FileOptions], FileFormat],
        getattr(import_module(f"runnel.connectors.{module}"), class_name),
    )
