"""Files as items of FROM: `FROM 'f.csv'`, and the table functions that read files.

Imported only by statements that name a file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from runnel.catalog import Table
from runnel.errors import DatabaseError, Position
from runnel.planner.bind.tables.file_arguments import constant_arguments
from runnel.planner.parse.query.allow_list import position_of

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

FROM = "from"
"""The name that `Environment.file_table` receives for a file without a table function. FROM is a
keyword, so no function has this name."""

COPY_FROM = "copy from"
"""The name that it receives for the files of COPY … FROM."""

_EXTENSION = re.compile(
    r"\.(csv|tsv|json|jsonl|ndjson|parquet|arrow|arrows|feather|ipc|avro|txt|log)"
    r"(\.(gz|bz2|zst|lz4))?$",
    re.IGNORECASE,
)
_PATH = re.compile(r"[/*?\\\[]")


def is_data_file(name: str) -> bool:
    """Whether a name has the extension of a data file."""
    return _EXTENSION.search(name) is not None


def file_in_from(binder: StatementBinder, tree: Any, name: str) -> Table | None:
    """The table of the file that an item of FROM names.

    None if the name is no file: it is a file if it has the extension of a data file, and, in single
    quotes, also if it has a slash or a wildcard.
    """
    start = tree.this.meta_get("start")
    if start is None or not tree.this.args.get("quoted") or tree.text("db"):
        return None
    is_string = binder.sql[start] not in ('"', "`")
    if not is_data_file(name) and not (is_string and _PATH.search(name) is not None):
        return None
    return open_file(binder, FROM, ([name], {}), position_of(tree.this, binder.sql))


def alias_of_file(name: str) -> str:
    """The qualifier of the columns of a file: its name, up to the first dot."""
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    return last.partition(".")[0] or last


def opened_by(
    binder: StatementBinder, function: str, arguments: list[Any], position: Position | None
) -> Table:
    """The table that a call of a table function opens."""
    values = constant_arguments(binder, function, arguments)
    return open_file(binder, function, values, position)


def open_file(
    binder: StatementBinder,
    function: str,
    arguments: tuple[list[Any], dict[str, Any]],
    position: Position | None,
) -> Table:
    """The table that a table function opens for these positional and named arguments."""
    environment = binder.environment
    try:
        return environment.file_table(function, *arguments, environment.is_confined)
    except DatabaseError as error:
        error.position = error.position or position
        raise
