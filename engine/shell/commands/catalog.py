"""The commands that show what a connection has: tables, views, functions, jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from runnel import Cursor
from runnel.errors import as_written
from runnel.results.table_text import table_text
from runnel.shell.commands.call import CommandCall, matches
from runnel.shell.printing import counted, fields_of, print_rows
from runnel.shell.shell import Shell

TABLES = (
    "SELECT t.table_name AS name, CASE WHEN t.table_type = 'VIEW' THEN 'view' "
    "ELSE coalesce(m.mapping_type, 'table') END AS type "
    "FROM information_schema.tables t LEFT JOIN information_schema.mappings m "
    "ON m.table_name = t.table_name AND m.table_schema = t.table_schema "
    "WHERE t.table_schema = 'public' ORDER BY name"
)
"""Names and kinds of the tables and views."""


def describe(shell: Shell, call: CommandCall) -> None:
    """The columns of a table, or all tables."""
    if not call.rest:
        _list(shell, TABLES, lambda row: True)
        return
    name = call.rest if call.rest[0] in "\"'" or "." in call.rest else as_written(call.rest)
    shell.run_sql(f"DESCRIBE {name}")


def list_tables(shell: Shell, call: CommandCall) -> None:
    """The tables whose names match."""
    _list(shell, TABLES, lambda row: row[1] != "view" and matches(row[0], call.rest))


def list_views(shell: Shell, call: CommandCall) -> None:
    """The views whose names match."""
    _list(shell, "SHOW VIEWS", lambda row: matches(row[0], call.rest))


def list_functions(shell: Shell, call: CommandCall) -> None:
    """The functions whose names match."""
    _list(shell, "SHOW FUNCTIONS", lambda row: matches(row[0], call.rest))


def list_jobs(shell: Shell, call: CommandCall) -> None:
    """The jobs whose names match."""
    _list(shell, "SHOW JOBS", lambda row: matches(str(row[1]), call.rest))


def table_names(shell: Shell, call: CommandCall) -> None:
    """The names of tables and views, one in each line."""
    for name, _ in shell.connection.execute(TABLES):
        if matches(name, call.rest):
            shell.out.line(name)


def definitions(shell: Shell, call: CommandCall) -> None:
    """The definitions as SQL. Options of mappings are shown without secrets."""
    execute = shell.connection.execute
    columns: dict[str, list[str]] = {}
    for table, column, data_type in execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
    ):
        columns.setdefault(table, []).append(f"{as_written(column)} {data_type}")
    views: dict[str, str] = dict(
        execute("SELECT table_name, view_definition FROM information_schema.views")
    )
    mappings = {
        name: (kind, options)
        for name, kind, options in execute(
            "SELECT table_name, mapping_type, mapping_options FROM information_schema.mappings"
        )
    }
    for name, _ in execute(TABLES):
        if matches(name, call.rest):
            shell.out.line(_definition(name, columns.get(name, ()), views, mappings))


def _definition(
    name: str,
    columns: Sequence[str],
    views: dict[str, str],
    mappings: dict[str, tuple[str, str | None]],
) -> str:
    if name in views:
        return f"CREATE VIEW {as_written(name)} AS {views[name]};"
    listed = f"{as_written(name)} ({', '.join(columns)})"
    kind, options = mappings.get(name, (None, None))
    found = json.loads(options or "{}")
    if kind is None:
        return f"-- registered data: {listed}"
    if kind == "DuckDB" and not found:
        return f"CREATE TABLE {listed};"
    pairs = ", ".join(f"{_quoted(key)} = {_quoted(str(value))}" for key, value in found.items())
    return f"CREATE MAPPING {listed} TYPE {kind}{f' OPTIONS ({pairs})' if pairs else ''};"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _list(shell: Shell, sql: str, is_listed: Callable[[Sequence[Any]], bool]) -> None:
    """Prints the rows of a statement that are listed."""
    cursor: Cursor = shell.connection.execute(sql)
    fields = fields_of(cursor)
    rows = [row for row in cursor if is_listed(row)]
    if shell.display.mode == "table" and not shell.display.tuples_only:
        layout = shell.display.layout(shell.out, types=False)
        text = f"{table_text(fields, rows, layout)}\n{counted(len(rows))}"
        (shell.out.page if shell.display.is_paged else shell.out.line)(text)
    else:
        print_rows(fields, rows, shell.display, shell.out)
