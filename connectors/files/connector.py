"""TYPE File: CSV, JSON, Parquet, Arrow, Avro and text files as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from runnel.access import Access
from runnel.catalog import Table, TableColumn
from runnel.connector import Connector, MappingDefinition, ReadableTable
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.format import FileFormat, discovered, files_now, format_name_of
from runnel.connectors.files.input import reading
from runnel.connectors.files.options import FileOptions, read_options
from runnel.connectors.files.paths import FilePath, file_path
from runnel.connectors.files.table import FileTable
from runnel.errors import NotSupportedError, ProgrammingError, suggest

_FORMATS = {
    "csv": ("files.csv.csv_format", "CsvFormat"),
    "json": ("files.json.json_format", "JsonFormat"),
    "parquet": ("files.columnar.parquet", "ParquetFormat"),
    "arrow": ("files.columnar.arrow_ipc", "ArrowFormat"),
    "avro": ("files.columnar.avro", "AvroFormat"),
    "lines": ("files.records.lines", "LinesFormat"),
}
"""The module and class of each format; imported on first use."""

TABLE_FUNCTIONS: Mapping[str, str] = {
    "csv_file": "csv",
    "json_file": "json",
    "json_flat_file": "json-flat",
    "parquet_file": "parquet",
    "arrow_file": "arrow",
    "avro_file": "avro",
    "lines_file": "lines",
}
"""The format that each table function reads."""


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
        return open_table(definition, read_options(definition.options, definition.access))


def file_table(
    function: str, positional: Sequence[Any], named: Mapping[str, Any], access: Access | None = None
) -> ReadableTable:
    """The table of a call to a table function.

    The functions are CSV_FILE, JSON_FILE, JSON_FLAT_FILE, PARQUET_FILE, ARROW_FILE, AVRO_FILE and
    LINES_FILE. Their arguments are the path and the glob, by position or by name, and further
    options of a File mapping by name. The columns are found in the files. `access` restricts what
    may be opened.
    """
    format_name = TABLE_FUNCTIONS.get(function.lower())
    if format_name is None:
        raise ProgrammingError(
            f'table function "{function}" not found',
            hint=suggest(function, [name.upper() for name in TABLE_FUNCTIONS]),
        )
    options = dict(zip(("path", "glob"), positional, strict=False))
    if len(positional) > len(options):
        raise ProgrammingError(
            f"{function.upper()} accepts at most 2 arguments by position (path, glob), not "
            f"{len(positional)}",
            hint="give further options by name, such as header => false",
        )
    for name, value in named.items():
        if name.lower() in options:
            raise ProgrammingError(f'argument "{name}" of {function.upper()} is given twice')
        options[name.lower()] = value
    if options.get("path") is None:
        raise ProgrammingError(f"{function.upper()} needs the path of a file or folder")
    for name in ("path", "glob"):
        if not isinstance(options.get(name, ""), str | None):
            raise ProgrammingError(f"the {name} of {function.upper()} must be VARCHAR")
    texts = {
        name: _option_text(function, name, value)
        for name, value in options.items()
        if value is not None
    }
    if "format" in texts:
        raise ProgrammingError(f'{function.upper()} has no argument "format"')
    definition = MappingDefinition(function.lower(), (), texts | {"format": format_name})
    return open_table(definition, read_options(definition.options, access))


def _option_text(function: str, name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise ProgrammingError(
        f'argument "{name}" of {function.upper()} must be text, not {type(value).__name__}'
    )


def open_table(definition: MappingDefinition, options: FileOptions) -> FileTable:
    """The table of a mapping, with its format and its columns, declared or inferred."""
    path = file_path(
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
            definition, options, path, lambda name: _format_named(name)(options)
        )
    files = files_now(path) if definition.columns else path.files()
    name = options.format or format_name_of(path.text, files)
    file_format = _format_named(name)(options)
    make = FileTable
    if options.follow:
        from runnel.connectors.files.follow.table import FollowTable, without_last_lines

        make, files = FollowTable, without_last_lines(files, file_format)
    if definition.columns:
        columns = tuple(
            TableColumn(item.name, item.type, item.external_name) for item in definition.columns
        )
        file_format.check_declared(columns, files)
        names = {item.name.lower() for item in columns}
        columns += tuple(item for item in file_format.hidden_columns() if item.name not in names)
        return make(definition.name, columns, file_format, path, is_inferred=False)
    columns = discovered(definition, path, file_format, files)
    return make(
        definition.name, columns + file_format.hidden_columns(), file_format, path, is_inferred=True
    )


def _looks_partitioned(path: FilePath) -> bool:
    """Whether a folder contains folders named key=value."""
    with reading(path.text):
        if path.glob is not None or path.is_pattern or not path.is_folder():
            return False
        return any(
            "=" in name[1:] and name[0] not in "._" for name in file_system.subfolders(path.text)
        )


def _format_named(name: str) -> Callable[[FileOptions], FileFormat]:
    module, class_name = _FORMATS[name]
    return cast(
        Callable[[FileOptions], FileFormat],
        getattr(import_module(f"runnel.connectors.{module}"), class_name),
    )
