"""Commands of psql and of DuckDB's command line that do not exist here, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

_USERS = "there are no users and privileges: a token protects a server (docs/security.md)"
_COLOURS = "the prompt has its colours; none with NO_COLOR=1 in the environment"
_NUMBERS = "write format('{:,}', x), or to_char(x, '9G999D99')"
_MODES = ".mode selects how rows are printed"

ABSENT: Mapping[str, str] = {
    **dict.fromkeys(("\\dp", "\\z", "\\password", "\\ddp", "\\drds"), _USERS),
    "\\dD": "there are no domains: write CHECK in CREATE TABLE",
    "\\dm": "SHOW MATERIALIZED VIEWS lists the materialized views",
    "\\dx": "there are no extensions",
    "\\da": "\\df lists the aggregates, too",
    "\\sf": "\\df shows arguments and results of functions",
    "\\ef": "con.create_function of the Python API defines functions",
    "\\ev": "write CREATE OR REPLACE VIEW",
    "\\crosstabview": "write PIVOT",
    "\\bind": "write the values, or \\set name value and :'name'",
    "\\r": "Ctrl-C discards the input at the prompt",
    "\\errverbose": "an error shows all that is known: its detail, its hint and its position",
    "\\dE": "mappings are listed by \\dt",
    "\\db": "there are no tablespaces: a connection has one directory or file",
    **dict.fromkeys(("\\dC", "\\do", "\\dF", "\\dO", "\\dA"), "docs/functions.md has the lists"),
    **dict.fromkeys(("\\lo_list", "\\lo_import", "\\lo_export"), "use columns of VARBINARY"),
    "\\copyright": "the license is in the file LICENSE",
    "\\s": "Ctrl-R searches the history",
    "\\C": _MODES,
    "\\T": _MODES,
    "\\setenv": "set the environment variable before runnel starts",
    ".width": "\\x prints each value on a line, .mode line as well",
    ".dump": "BACKUP TO 'folder' copies a directory; .mode insert prints rows as statements",
    ".save": "BACKUP TO 'folder' copies a directory",
    ".prompt": "the prompt has one form",
    ".log": ".output FILE writes results to a file",
    ".excel": ".export file.csv query writes a file for Excel",
    ".version": "SELECT version() returns it",
    ".eqp": "EXPLAIN shows the plan of a statement",
    ".stats": "EXPLAIN ANALYZE shows rows and times",
    ".fullschema": ".schema prints the definitions",
    ".backup": "BACKUP TO 'folder' copies a directory",
    ".restore": ".open FOLDER opens a copy that BACKUP TO made",
    ".clone": "BACKUP TO 'folder' copies a directory",
    ".parameter": "\\set name value, and :'name' in a statement",
    ".maxwidth": "a table has the width of the terminal",
    ".changes": "outcomes have the number of rows",
    ".columns": "\\x prints each value on a line",
    ".rows": "rows are printed as rows; \\x prints each value on a line",
    ".sniff": "write FROM sniff_csv('file.csv')",
    ".last": "\\g runs the last statement again",
    ".safe_mode": "runnel.connect(path, allowed_paths=[…]) bounds the files that statements reach",
    **dict.fromkeys((".thousand_sep", ".decimal_sep", ".large_number_rendering"), _NUMBERS),
    **dict.fromkeys((".highlight", ".highlight_colors", ".highlight_results"), _COLOURS),
    **dict.fromkeys((".highlight_errors", ".display_colors"), _COLOURS),
    **dict.fromkeys((".constant", ".keyword", ".comment", ".error"), _COLOURS),
    **dict.fromkeys((".multiline", ".singleline", ".render_errors"), "the prompt has one form"),
    **dict.fromkeys((".render_completion", ".startup_text"), "the prompt has one form"),
    ".progress_bar": "it is shown after a second, at the prompt",
    ".binary": "VARBINARY is printed in hexadecimal digits",
}
"""The remedy by the name of the command, in psql's case."""

ABSENT_MODES: Mapping[str, str] = {
    "latex": "markdown and html are the nearest",
    "trash": "write .output /dev/null, or EXPLAIN ANALYZE",
    "quote": "write .mode insert",
    "tcl": "write .mode list",
}
"""Modes of DuckDB that do not exist here, and what is near."""
