"""Commands of psql and of DuckDB's command line that do not exist here, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

_USERS = "there are no users and privileges: a token protects a server (docs/security.md)"
_MODES = ".mode selects how rows are printed"

ABSENT: Mapping[str, str] = {
    **dict.fromkeys(("\\du", "\\dg", "\\dp", "\\z", "\\password", "\\ddp", "\\drds"), _USERS),
    "\\dT": "docs/types.md lists the types; DESCRIBE shows the types of a table",
    "\\dD": "there are no domains: write CHECK in CREATE TABLE",
    "\\dm": "SHOW MATERIALIZED VIEWS lists the materialized views",
    "\\dx": "there are no extensions",
    "\\da": "\\df lists the aggregates, too",
    "\\sf": "\\df shows arguments and results of functions",
    "\\ef": "con.create_function of the Python API defines functions",
    "\\ev": "write CREATE OR REPLACE VIEW",
    "\\crosstabview": "write PIVOT",
    "\\bind": "write the values, or \\set name value and :'name'",
    "\\w": ".output FILE writes results, \\e edits the last statement",
    "\\s": "Ctrl-R searches the history",
    "\\C": _MODES,
    "\\T": _MODES,
    "\\setenv": "set the environment variable before runnel starts",
    ".width": "\\x prints each value on a line, .mode line as well",
    ".dump": "BACKUP TO 'folder' copies a directory; .mode insert prints rows as statements",
    ".save": "BACKUP TO 'folder' copies a directory",
    ".prompt": "the prompt has one form",
    ".show": ".mode, .headers, .timer and .maxrows without arguments print their values",
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
}
"""The remedy by the name of the command, in psql's case."""
