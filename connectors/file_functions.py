"""Files as table functions: a table for one query, whose columns are found out when the query is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runnel.connector import MappingDefinition, ReadableTable
from runnel.connectors.file import open_table
from runnel.connectors.file_options import read_options
from runnel.errors import ProgrammingError, suggest

TABLE_FUNCTIONS: Mapping[str, str] = {
    "csv_file": "csv",
    "json_file": "json",
    "json_flat_file": "json-flat",
    "parquet_file": "parquet",
    "lines_file": "lines",
}
"""The formats that the table functions read."""


def file_table(function: str, positional: Sequence[Any], named: Mapping[str, Any]) -> ReadableTable:
    """The table of a table function: CSV_FILE, JSON_FILE, JSON_FLAT_FILE, PARQUET_FILE or LINES_FILE with a path, a glob and
    further options of a File mapping, by position (path, glob) or by name. Its columns are found out from the files."""
    format_name = TABLE_FUNCTIONS.get(function.lower())
    if format_name is None:
        raise ProgrammingError(
            f'table function "{function}" not found', hint=suggest(function, [name.upper() for name in TABLE_FUNCTIONS])
        )
    options = dict(zip(("path", "glob"), positional, strict=False))
    if len(positional) > len(options):
        raise ProgrammingError(
            f"{function.upper()} takes at most 2 arguments by position (path, glob), not {len(positional)}",
            hint="give further options by name, such as header => false",
        )
    for name, value in named.items():
        if name.lower() in options:
            raise ProgrammingError(f'argument "{name}" of {function.upper()} is given twice')
        options[name.lower()] = value
    if options.get("path") is None:
        raise ProgrammingError(f"{function.upper()} needs the path of a file or folder")
    texts = {name: _option_text(function, name, value) for name, value in options.items() if value is not None}
    if "format" in texts:
        raise ProgrammingError(f'{function.upper()} has no argument "format"')
    definition = MappingDefinition(function.lower(), (), texts | {"format": format_name})
    return open_table(definition, read_options(definition.options))


def _option_text(function: str, name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise ProgrammingError(f'argument "{name}" of {function.upper()} must be text, not {type(value).__name__}')
