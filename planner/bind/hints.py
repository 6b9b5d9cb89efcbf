"""Hints for unknown names: names that other engines have, or that exist but are not visible where
they are used.

Imported only when a statement has failed.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from runnel.errors import Error, suggest
from runnel.planner.bind.grouping.aggregate import is_aggregate
from runnel.planner.bind.scope import Scope
from runnel.planner.parse.query.allow_list import function_call
from runnel.planner.parse.query.table_arguments import FUNCTIONS

_READERS = {
    **dict.fromkeys(("READ_CSV", "READ_CSV_AUTO"), "CSV_FILE"),
    **dict.fromkeys(
        ("READ_JSON", "READ_JSON_AUTO", "READ_NDJSON", "READ_NDJSON_AUTO", "READ_JSON_OBJECTS"),
        "JSON_FILE",
    ),
    **dict.fromkeys(("READ_PARQUET", "PARQUET_SCAN"), "PARQUET_FILE"),
    **dict.fromkeys(("READ_ARROW", "ARROW_SCAN", "READ_FEATHER"), "ARROW_FILE"),
    "READ_AVRO": "AVRO_FILE",
    "READ_TEXT": "LINES_FILE",
    "RANGE": "GENERATE_SERIES",
    "SEQUENCE": "GENERATE_SERIES",
}
_EXTENSIONS = {
    **dict.fromkeys(("csv", "tsv"), "CSV_FILE"),
    **dict.fromkeys(("json", "jsonl", "ndjson"), "JSON_FILE"),
    **dict.fromkeys(("arrow", "feather", "ipc"), "ARROW_FILE"),
    "parquet": "PARQUET_FILE",
    "avro": "AVRO_FILE",
    **dict.fromkeys(("txt", "log"), "LINES_FILE"),
}
TABLE_FUNCTIONS = (
    *("GENERATE_SERIES", "GENERATE_STREAM", "JOB_STATE", "SNAPSHOT_STATE"),
    *("CSV_FILE", "JSON_FILE", "PARQUET_FILE", "ARROW_FILE", "AVRO_FILE", "LINES_FILE"),
    *sorted(FUNCTIONS),
)
_COLUMN = re.compile(r'column "(.+)" does not exist')
_TABLE = re.compile(r'table "(.+)" is not in the FROM clause')


def table_function_hint(name: str) -> str | None:
    """The hint for a table function that does not exist."""
    reader = _READERS.get(name.upper())
    if reader is not None:
        return f"use {reader}(…)"
    listed = ", ".join(TABLE_FUNCTIONS[:-1])
    return suggest(name, TABLE_FUNCTIONS, f"there are {listed} and {TABLE_FUNCTIONS[-1]}")


def file_hint(name: str) -> str | None:
    """The hint for an unknown name in FROM; None if the name does not look like the name of a
    file."""
    stem = re.sub(r"\.(gz|bz2|zst|lz4)$", "", name.lower())
    reader = _EXTENSIONS.get(stem.rpartition(".")[2]) if "." in stem else None
    return None if reader is None else f"to read a file, write SELECT * FROM {reader}('{name}')"


def alias_hint(error: Error, select: Any) -> str | None:
    """The hint for an error in WHERE: the name may be an alias of the select list."""
    match = _COLUMN.fullmatch(error.message)
    if match is None:
        return None
    for item in select.expressions:
        if isinstance(item, exp.Alias) and item.alias.lower() == match[1].lower():
            if item.this.find(exp.Window) is not None:
                return (
                    f'"{item.alias}" is the value of a window function: filter by it with QUALIFY '
                    "instead of WHERE"
                )
            if any(is_aggregate((function_call(node) or ("", []))[0]) for node in item.this.walk()):
                return (
                    f'"{item.alias}" is the value of an aggregate: filter by it with HAVING '
                    "instead of WHERE"
                )
            return (
                f'WHERE can\'t see "{item.alias}" of the select list: repeat its expression, or '
                "filter a subquery"
            )
    return None


def lateral_hint(error: Error, left: Scope) -> str | None:
    """The hint for an error in a subquery in FROM: the name may belong to a table before it."""
    column, table = _COLUMN.fullmatch(error.message), _TABLE.fullmatch(error.message)
    names = (
        {item.name.lower() for item in left.columns}
        if column
        else {(item.qualifier or "").lower() for item in left.columns}
    )
    match = column or table
    if match is None or match[1].lower() not in names:
        return None
    return (
        "to refer to tables before it, write LATERAL in front of the subquery: …, "
        "LATERAL (SELECT …) AS x"
    )
