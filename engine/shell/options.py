"""The options of `runnel`: its own, and the ones of DuckDB's command line and of psql."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runnel.base.frozen import frozen


@frozen
class ShellOption:
    """An option.

    names: its names; the first one is shown in the help.
    field: the field of Arguments that it sets, or to which it appends.
    value: the value, unless the option has an argument.
    argument: name of its argument in the help; None: it has none.
    summary: its sentence in the help.
    """

    names: tuple[str, ...]
    field: str
    value: Any = True
    argument: str | None = None
    summary: str = ""


_MODE_NAMES = {
    "csv": ("--csv",),
    "tsv": ("--tsv",),
    "json": ("--json",),
    "jsonlines": ("--jsonlines",),
    "markdown": ("--markdown",),
    "line": ("--line", "-x", "--expanded"),
    "table": ("--table", "--duckbox"),
    "box": ("--box",),
    "ascii": ("--ascii",),
    "column": ("--column",),
    "list": ("--list", "-A", "--no-align"),
    "html": ("--html", "-H"),
    "insert": ("--insert",),
}
_MODES = tuple(
    ShellOption(names, "mode", mode, summary=f"print rows as {mode}")
    for mode, names in _MODE_NAMES.items()
)

OPTIONS: tuple[ShellOption, ...] = (
    ShellOption(("-c", "--command", "-s"), "scripts", "sql", "SQL", "run statements and exit"),
    ShellOption(
        ("-f", "--file"), "scripts", "file", "FILE", "run a file and exit; -: standard input"
    ),
    ShellOption(("--cmd",), "before", "sql", "SQL", "run statements first, and continue"),
    ShellOption(("--init",), "before", "file", "FILE", "run a file first, and continue"),
    ShellOption(("-d", "--dbname"), "directory", None, "DIR", "directory, file or address to open"),
    *_MODES,
    ShellOption(("--parquet",), "parquet", None, "OUT", "write the rows of the query to this file"),
    ShellOption(("-o", "--output"), "output", None, "FILE", "write results to this file"),
    ShellOption(("-t", "--tuples-only"), "tuples_only", summary="print rows alone"),
    ShellOption(("--noheader",), "header", False, summary="print no names of columns"),
    ShellOption(("--header",), "header", summary="print the names of columns (default)"),
    ShellOption(
        ("-F", "--separator", "--field-separator"),
        "separator",
        None,
        "TEXT",
        "text between two values in list, csv and tsv; \\t is a tab",
    ),
    ShellOption(("--nullvalue",), "null", None, "TEXT", "print NULL as this text"),
    ShellOption(("-P", "--pset"), "print_options", None, "NAME=VALUE", "an option of \\pset"),
    ShellOption(
        ("-q", "--quiet"), "is_quiet", summary='print no outcomes such as "2 rows inserted"'
    ),
    ShellOption(
        ("--echo", "-a", "--echo-all", "-e", "--echo-queries"),
        "echoes",
        summary="print each statement before it runs",
    ),
    ShellOption(("--bail",), "stops_at_error", summary="end at the first error (default)"),
    ShellOption(("--batch",), "is_batch", summary="read the standard input without a prompt"),
    ShellOption(("--no-stdin",), "is_input_read", False, summary="do not read the standard input"),
    ShellOption(
        ("-1", "--single-transaction"), "is_transaction", summary="run -c and -f in one transaction"
    ),
    ShellOption(
        ("-l", "--list-databases"), "lists_databases", summary="list the databases and exit"
    ),
    ShellOption(
        ("--set",),
        "settings",
        None,
        "NAME=VALUE",
        "a setting, written as in SET; of a server: token or root_certificate",
    ),
    ShellOption(
        ("-v", "--variable"), "variables", None, "NAME=VALUE", "a variable, as \\set sets it"
    ),
    ShellOption(
        ("-X", "--no-psqlrc", "--no-init"), "ignored", summary="no effect: no file is read"
    ),
    ShellOption(("-V", "--version"), "shows_version", summary="print the version and exit"),
    ShellOption(("-h", "--help", "-?"), "shows_help", summary="print this list and exit"),
)
"""All options, in the order of the help."""

_ROWS = "--csv, --json, --markdown, --list and --html select how rows are printed"
_LINES = "rows end with a line feed"
_SERVER = (
    "no PostgreSQL server is used: name a directory, a DuckDB file, or runnel://host:port "
    "with --set token=…"
)
REFUSED: Mapping[str, str] = {
    "--readonly": "a file is opened for writing: copy it, and open the copy",
    "--safe": "runnel.connect(path, allowed_paths=[…]) bounds the files that statements reach",
    "--interactive": "without -c, -f and a pipe there is a prompt",
    "--unsigned": "there are no extensions",
    "--unredacted": "options with secrets are never shown",
    "--ui": "without -c, -f and a pipe there is a prompt",
    "--stats": "EXPLAIN ANALYZE shows the work of a statement",
    "--storage-version": "a new file has the version of the installed DuckDB",
    "--encoding": "text is UTF-8",
    "--newline": _LINES,
    **dict.fromkeys(("--quote", "--latex", "--trash"), _ROWS),
    **dict.fromkeys(("-p", "--port", "-U", "--username", "--host"), _SERVER),
    **dict.fromkeys(("-W", "--password", "-w", "--no-password"), _SERVER),
    **dict.fromkeys(("-R", "--record-separator", "-0", "--record-separator-zero"), _LINES),
    **dict.fromkeys(("-z", "--field-separator-zero"), "write -F with a character"),
    **dict.fromkeys(("-T", "--table-attr"), "the tables of --html have no attributes"),
    **dict.fromkeys(("-L", "--log-file"), "-o FILE writes results to a file"),
    **dict.fromkeys(("-E", "--echo-hidden"), "SHOW and information_schema have the same rows"),
    **dict.fromkeys(("-S", "--single-line"), "a statement ends with a semicolon"),
    **dict.fromkeys(("-n", "--no-readline"), "--batch reads statements without a prompt"),
    **dict.fromkeys(("-b", "--echo-errors"), "an error shows the line of its statement"),
    "--single-step": "-s SQL runs statements, as in DuckDB",
}
"""Options of DuckDB and psql that are not supported, and what to do instead."""
