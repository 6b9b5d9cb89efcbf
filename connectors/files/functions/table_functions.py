"""The table of a call to a table function, or of a file in FROM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runnel.access import Access
from runnel.catalog import Table
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.connector import open_table
from runnel.connectors.files.format import format_name_of
from runnel.connectors.files.functions.columns import with_columns
from runnel.connectors.files.functions.copied_rows import copied_rows
from runnel.connectors.files.functions.listing import glob_table
from runnel.connectors.files.functions.opened_tables import OpenedTables
from runnel.connectors.files.functions.parquet_metadata import PARQUET_METADATA, parquet_metadata
from runnel.connectors.files.functions.queried_path import QueriedPath
from runnel.connectors.files.functions.reader_options import (
    ReaderOptions,
    read_reader_options,
)
from runnel.connectors.files.functions.sniffed_table import sniffed_table
from runnel.connectors.files.functions.whole_files import WHOLE_FILES, whole_files
from runnel.connectors.files.hive.paths import partition_keys
from runnel.connectors.files.options import FileOptions, format_of, read_options
from runnel.connectors.files.paths import FilePath, file_path
from runnel.connectors.files.storage import DataFile
from runnel.connectors.files.table import FileTable
from runnel.errors import NotSupportedError, OperationalError, ProgrammingError, suggest

FROM = "from"
"""The name of the function that reads `FROM 'f.csv'`: the extension determines the format."""

SNIFF_CSV = "sniff_csv"
"""The name of the function that returns what is found in CSV files."""

COPY_FROM = "copy from"
"""The name of the function that reads the files of COPY … FROM; no token has this text."""

TABLE_FUNCTIONS: Mapping[str, str] = {
    "csv_file": "csv",
    "read_csv": "csv",
    "read_csv_auto": "csv",
    "json_file": "json",
    "read_json": "json",
    "read_json_auto": "json",
    "read_ndjson": "json",
    "read_ndjson_auto": "json",
    "read_json_objects": "json",
    "read_json_objects_auto": "json",
    "read_ndjson_objects": "json",
    "json_flat_file": "json-flat",
    "parquet_file": "parquet",
    "read_parquet": "parquet",
    "parquet_scan": "parquet",
    "arrow_file": "arrow",
    "read_arrow": "arrow",
    "read_feather": "arrow",
    "avro_file": "avro",
    "read_avro": "avro",
    "lines_file": "lines",
    "read_lines": "lines",
}
"""The format that each table function reads."""

JSON_OBJECTS = frozenset({"read_json_objects", "read_json_objects_auto", "read_ndjson_objects"})
"""The functions that return each record of JSON as a value, in a column `json`."""


def file_table(
    function: str,
    positional: Sequence[Any],
    named: Mapping[str, Any],
    access: Access | None = None,
    opened: OpenedTables | None = None,
) -> Table:
    """The table of a call to a table function, or of a file in FROM.

    The arguments are a path or a list of paths, the glob, and options by name: DuckDB's, or the
    ones of a File mapping. The columns are found in the files. `access` restricts what may be
    opened. `opened` has the tables of earlier calls.
    """
    lower = function.lower()
    if lower == "glob":
        return glob_table(positional, named, access)
    if lower in PARQUET_METADATA:
        return parquet_metadata(lower, positional, named, access)
    if lower in WHOLE_FILES:
        return whole_files(lower, positional, named, access)
    if function == COPY_FROM:
        return copied_rows(positional[0], named["options"], named["target"], access)
    format_name = "csv" if lower == SNIFF_CSV else TABLE_FUNCTIONS.get(lower)
    if format_name is None and function != FROM:
        raise ProgrammingError(
            f'table function "{function}" not found',
            hint=suggest(function, [name.upper() for name in TABLE_FUNCTIONS]),
        )
    paths, glob, named = _paths(function, positional, named)
    asked = read_reader_options(function, format_name, named)
    texts = dict(asked.texts, path=paths[0])
    if glob is not None:
        texts["glob"] = glob
    if format_name is not None:
        texts["format"] = format_name
    options = replace(read_options(texts, access), in_query=True, is_merging=asked.is_merging)
    dialect = replace(options.dialect, more_nulls=asked.nulls[1:], not_null=asked.not_null)
    options = replace(options, dialect=dialect, whole_records=lower in JSON_OBJECTS)
    if options.whole_records and (asked.columns is not None or not options.on_error.fails):
        raise NotSupportedError(f"{function} has neither columns nor ignore_errors")
    path = QueriedPath.of([_path(options, text) for text in paths])
    if options.format is None:
        options = replace(options, format=_format_in_from(paths[0], path))
    options = _with_partitions(options, path)

    def make() -> FileTable:
        return _opened(function, paths[0], options, path, asked)

    if opened is None or options.follow:
        table = make()
    else:
        call = repr((lower, Path.cwd(), options, path, asked))
        table = opened.table(call, _direct_files(path), make)
    return sniffed_table(paths[0], table, asked) if lower == SNIFF_CSV else table


def _opened(
    function: str, text: str, options: FileOptions, path: QueriedPath, asked: ReaderOptions
) -> FileTable:
    name = text if function == FROM else function.lower()
    declared: tuple[ColumnDefinition, ...] = ()
    if asked.columns is not None and (options.format == "json" or not _has_data(path)):
        declared = tuple(ColumnDefinition(key, item) for key, item in asked.columns.items())
    definition = MappingDefinition(name, declared, {})
    return with_columns(function, open_table(definition, options, path), asked)


def _with_partitions(options: FileOptions, path: QueriedPath) -> FileOptions:
    """The options; a pattern or a list whose files are all in folders named key=value is
    partitioned by them. (`open_table` recognises folders.)"""
    if (
        options.hive
        and not options.partition_by
        and path.files()
        and not partition_keys(path, path.files())
    ):
        return replace(options, hive=False)  # as in DuckDB, the option has no effect then
    if options.hive is not None or options.follow or not (path.is_pattern or path.more):
        return options
    files = path.files()
    if not all("=" in file.path for file in files):
        return options
    try:
        return replace(options, hive=True) if partition_keys(path, files) else options
    except ProgrammingError:
        return options  # the files have different keys


def _direct_files(path: QueriedPath) -> Sequence[DataFile]:
    """The files that the paths name; () if they name none, as a folder of partitions does."""
    try:
        return path.files()
    except OperationalError:
        return ()


def _has_data(path: FilePath) -> bool:
    return any(file.size for file in path.files())


def _paths(
    function: str, positional: Sequence[Any], named: Mapping[str, Any]
) -> tuple[list[str], str | None, dict[str, Any]]:
    """The paths, the glob, and the other named arguments."""
    arguments = dict(zip(("path", "glob"), positional, strict=False))
    if len(positional) > len(arguments):
        raise ProgrammingError(
            f"{function} accepts at most 2 arguments by position (path, glob), not "
            f"{len(positional)}",
            hint="write further options by name, such as header = false",
        )
    others = {}
    for name, value in named.items():
        if name.lower() not in ("path", "glob"):
            others[name] = value
        elif name.lower() in arguments:
            raise ProgrammingError(f'argument "{name}" of {function} is given twice')
        else:
            arguments[name.lower()] = value
    path, glob = arguments.get("path"), arguments.get("glob")
    if path is None or path == []:
        raise ProgrammingError(
            f"{function} needs the path of a file or folder",
            hint=f"write {function}('file'), or {function}(['file', 'file'])",
        )
    paths = path if isinstance(path, list) else [path]
    if not all(isinstance(item, str) for item in paths):
        raise ProgrammingError(f"the path of {function} must be VARCHAR, or a list of VARCHAR")
    if glob is not None and not isinstance(glob, str):
        raise ProgrammingError(f"the glob of {function} must be VARCHAR")
    return paths, glob, others


def _path(options: FileOptions, text: str) -> FilePath:
    return file_path(
        text,
        options.glob,
        ignore_missing=options.ignore_file_not_found,
        storage=dict(options.storage),
        access=options.access,
    )


def _format_in_from(text: str, path: FilePath) -> str:
    """The format of a file that is read without a table function."""
    name = urlsplit(text).path if file_system.is_remote(text) else text
    found = format_of(name.rstrip("/"))
    if found is None:
        found = format_name_of(path.text, path.with_subfolders().files(), in_query=True)
    if found == "lines" and not name.lower().endswith(".log"):
        raise ProgrammingError(
            f'the format of "{text}" is not known: it may be any text',
            hint=f"name it: read_csv('{text}'), or read_lines('{text}') for one row per line",
        )
    return found
