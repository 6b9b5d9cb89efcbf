"""The commands that show what a connection has: tables, views, functions, jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from runnel import Cursor
from runnel.errors import as_written
from runnel.results.table_text import table_text
from runnel.shell.commands.call import CommandCall, matches
from runnel.shell.commands.relations import describe_relation
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
    """The columns of a relation with its keys, or all tables."""
    if not call.rest:
        _list(shell, TABLES, lambda row: True)
        return
    name = call.rest if call.rest[0] in "\"'" or "." in call.rest else as_written(call.rest)
    describe_relation(shell, name)


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
    """The definitions as SQL, with constraints and indexes. Options of mappings are shown without
    secrets."""
    execute = shell.connection.execute
    columns: dict[str, list[str]] = {}
    for table, column, data_type in execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
    ):
        columns.setdefault(table, []).append(f"{as_written(column)} {data_type}")
    known = dict(execute("SELECT table_name, view_definition FROM information_schema.views"))
    views = {name: f"CREATE VIEW {as_written(name)} AS {text};" for name, text in known.items()}
    mappings = {
        name: (kind, options)
        for name, kind, options in execute(
            "SELECT table_name, mapping_type, mapping_options FROM information_schema.mappings"
        )
    }
    tables = dict(
        execute(
            "SELECT table_name, sql FROM duckdb_tables() WHERE database_name = 'runnel' "
            "AND schema_name = 'public' AND regexp_matches(sql, '^CREATE (TABLE|MATERIALIZED)')"
        )
    )
    late = {name for name, text in tables.items() if text.startswith("CREATE MATERIALIZED")}
    for name in _in_order(shell, [name for name, _ in execute(TABLES)], late | views.keys()):
        if not matches(name, call.rest):
            continue
        if name in tables:
            shell.out.line(f"{tables[name]};")
        else:
            shell.out.line(
                views.get(name) or _definition(name, columns.get(name, ()), mappings.get(name))
            )
    for table, text in execute(
        "SELECT table_name, sql FROM duckdb_indexes() WHERE schema_name = 'public' ORDER BY 1, 2"
    ):
        if matches(table, call.rest):
            shell.out.line(f"{text};")


def _in_order(shell: Shell, names: list[str], views: Collection[str]) -> list[str]:
    """The names in an order in which their definitions run: a table after the tables to which it
    refers, views last."""
    references: dict[str, list[str]] = {}
    for table, other in shell.connection.execute(
        "SELECT c.relname, o.relname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid "
        "JOIN pg_class o ON o.oid = k.confrelid WHERE k.contype = 'f' ORDER BY 1, 2"
    ):
        references.setdefault(table, []).append(other)
    found: dict[str, None] = {}

    def add(name: str, waiting: tuple[str, ...]) -> None:
        for other in references.get(name, ()):
            if other not in waiting:
                add(other, (*waiting, name))
        found.setdefault(name)

    for name in sorted(names, key=lambda name: name in views):
        add(name, (name,))
    return [name for name in found if name in names]


def _definition(name: str, columns: Sequence[str], mapping: tuple[str, str | None] | None) -> str:
    """The statement that makes a mapping; a comment for registered data."""
    listed = f"{as_written(name)} ({', '.join(columns)})"
    if mapping is None:
        return f"-- registered data: {listed}"
    kind, options = mapping
    found = json.loads(options or "{}")
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
