"""The commands that describe one relation, and lists of psql that read pg_catalog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runnel import Error
from runnel.errors import as_written
from runnel.shell.commands.call import CommandCall
from runnel.shell.printing import TABLES
from runnel.shell.shell import Shell

_INDEX = (
    "SELECT a.attname AS column_name, format_type(a.atttypid, a.atttypmod) AS column_type, "
    "pg_get_indexdef(a.attrelid, a.attnum, true) AS definition, i.indisunique AS is_unique, "
    "i.indisprimary AS is_primary, i.indrelid::regclass AS table_name "
    "FROM pg_attribute a JOIN pg_index i ON i.indexrelid = a.attrelid "
    "WHERE a.attrelid = {} ORDER BY a.attnum"
)
_SEQUENCE = (
    "SELECT format_type(seqtypid, NULL) AS type, seqstart AS start, seqmin AS minimum, "
    "seqmax AS maximum, seqincrement AS increment, seqcycle AS cycles, seqcache AS cache "
    "FROM pg_sequence WHERE seqrelid = {}"
)
_KEYS = (
    "SELECT c.relname, i.indisprimary, i.indisunique, con.oid IS NOT NULL AS is_key, "
    "pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "LEFT JOIN pg_constraint con ON con.conindid = i.indexrelid AND con.contype IN ('p', 'u') "
    "WHERE i.indrelid = {} ORDER BY i.indisprimary DESC, c.relname"
)
_OWN = (
    "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE conrelid = {} AND contype = '%s' ORDER BY conname"
)
_REFERENCES = (
    "SELECT conname, conrelid::regclass, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE confrelid = {} ORDER BY conname"
)
_KINDS = "SELECT oid, relkind FROM pg_class WHERE oid = to_regclass('{}')"


def describe_relation(shell: Shell, name: str) -> None:
    """The columns of a table, a view or a query's source, with the keys and constraints of a table;
    the columns of an index; the numbers of a sequence."""
    number, kind = _kind_of(shell, name)
    if kind in ("i", "S"):
        shell.run_sql((_INDEX if kind == "i" else _SEQUENCE).format(number))
        return
    shell.run_sql(f"DESCRIBE {name}")
    if kind == "r" and shell.display.mode in TABLES and not shell.display.tuples_only:
        for line in _footer(shell, number):
            shell.out.line(line)


def _kind_of(shell: Shell, name: str) -> tuple[int, str]:
    """The number and the kind of a relation; (0, "") for a name that pg_class does not have."""
    try:
        found = _rows(shell, _KINDS.format(name.replace("'", "''")))
    except Error:
        return 0, ""
    return (int(found[0][0]), str(found[0][1])) if found else (0, "")


def _footer(shell: Shell, number: int) -> Iterator[str]:
    """The keys, indexes and constraints of a table, as psql prints them below its columns."""
    indexes = []
    for name, is_primary, is_unique, is_key, text in _rows(shell, _KEYS.format(number)):
        kind = "PRIMARY KEY, " if is_primary else "UNIQUE CONSTRAINT, " if is_key else ""
        kind = kind or ("UNIQUE, " if is_unique else "")
        indexes.append(f"{as_written(name)} {kind}{text.partition(' USING ')[2]}")
    checks, foreign = (
        [f"{as_written(name)} {text}" for name, text in _rows(shell, (_OWN % kind).format(number))]
        for kind in ("c", "f")
    )
    others = [
        f"TABLE {table} CONSTRAINT {as_written(name)} {text}"
        for name, table, text in _rows(shell, _REFERENCES.format(number))
    ]
    for title, lines in (
        ("Indexes", indexes),
        ("Check constraints", checks),
        ("Foreign-key constraints", foreign),
        ("Referenced by", others),
    ):
        if lines:
            yield f"{title}:"
            yield from (f"    {line}" for line in lines)


def _rows(shell: Shell, sql: str) -> list[tuple[Any, ...]]:
    return shell.connection.execute(sql).fetchall()


def list_roles(shell: Shell, call: CommandCall) -> None:
    """The role of the connection: its owner."""
    shell.run_sql("SELECT rolname AS role, rolsuper AS is_superuser FROM pg_roles ORDER BY rolname")


def list_types(shell: Shell, call: CommandCall) -> None:
    """The names of types, each with the type that it stands for."""
    shell.run_sql("SELECT type_name AS name, logical_type AS type FROM duckdb_types() ORDER BY ALL")


def list_comments(shell: Shell, call: CommandCall) -> None:
    """The comments on tables, views and columns."""
    shell.run_sql(
        "SELECT d.objoid::regclass AS name, a.attname AS column_name, d.description "
        "FROM pg_description d LEFT JOIN pg_attribute a ON a.attrelid = d.objoid "
        "AND a.attnum = d.objsubid ORDER BY 1, d.objsubid"
    )
