"""The tables and views of the DuckDB file that a connection is opened to.

The file is the connection's own database: CREATE TABLE makes a table of that name in its schema
main, and the connection has all tables of the file, with their constraints. Its views can be
read. The rest of the catalog (views, mappings, jobs) is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runnel.catalog import NamedText
from runnel.columns.table_definition import TableDefinition, TableKey
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.duckdb.connector import DuckDBConnector, cannot_open
from runnel.connectors.duckdb.types import sql_type_of
from runnel.errors import ErrorCode, NotSupportedError, OperationalError
from runnel.sqltypes import VARCHAR

MAIN = "main"
"""The schema whose tables and views a connection has."""

_MAGIC = b"DUCK"
_MAGIC_AT = 8
_EXTENSION = ".duckdb"


def is_database_file(path: str | Path) -> bool:
    """Whether a connection to the path is one to a DuckDB file: the file exists, or is new and has
    the extension .duckdb. OperationalError for an existing file of another kind."""
    file = Path(path)
    if not file.is_file():
        return not file.exists() and file.suffix.lower() == _EXTENSION
    try:
        with file.open("rb") as opened:
            head = opened.read(_MAGIC_AT + len(_MAGIC))
    except OSError as error:
        raise OperationalError(
            f'database file "{path}" can\'t be opened',
            code=ErrorCode.CONNECTION_PROBLEM,
            detail=error.strerror,
        ) from error
    if head[_MAGIC_AT:] != _MAGIC and not (not head and file.suffix.lower() == _EXTENSION):
        raise OperationalError(
            f'"{path}" can\'t be used: it is a file, but not a DuckDB database',
            code=ErrorCode.CONNECTION_PROBLEM,
            hint=f"connect to a directory, or in memory, and query the file: FROM '{file.name}'",
        )
    return True


def definitions_in_file(
    connector: DuckDBConnector, path: str | Path
) -> Iterator[MappingDefinition]:
    """The tables and views of the connection's own database, which is that file. OperationalError
    if it can't be opened."""
    connector.own_tables.use_file()
    kernel = connector.own_tables.kernel
    try:
        database = kernel.attach(None)[1:-1].replace('""', '"')
        with kernel.cursor() as cursor:
            tables = cursor.execute(_TABLES, [database]).fetchall()
            columns = cursor.execute(_COLUMNS, [database]).fetchall()
            constraints = cursor.execute(_CONSTRAINTS, [database]).fetchall()
            comments = cursor.execute(_COMMENTS, [database, database]).fetchall()
            types = {
                name: _types(cursor, database, name) for name, kind in tables if kind != "VIEW"
            }
    except Exception as error:
        raise cannot_open(str(path), error) from error
    for name, kind in tables:
        if kind == "VIEW":
            yield MappingDefinition(name, (), {}, f"{MAIN}.{name}")
            continue
        yield MappingDefinition(
            name,
            tuple(ColumnDefinition(column, _type(duck)) for column, duck in types[name]),
            {},
            f"{MAIN}.{name}",
            table=_definition(
                [item[1:] for item in columns if item[0] == name],
                [item[1:] for item in constraints if item[0] == name],
                {column.lower(): text for table, column, text in comments if table == name},
            ),
        )


def sequences_in_file(connector: DuckDBConnector) -> dict[tuple[str, str], NamedText]:
    """The sequences of the file, as definitions of the catalog."""
    kernel = connector.own_tables.kernel
    database = kernel.attach(None)[1:-1].replace('""', '"')
    with kernel.cursor() as cursor:
        rows = cursor.execute(_SEQUENCES, [database]).fetchall()
    items = (
        NamedText("sequence", name, f"START {start} INCREMENT {increment}")
        for name, start, increment in rows
    )
    return {item.key: item for item in items}


def _types(cursor: Any, database: str, name: str) -> list[tuple[str, Any]]:
    table = ".".join('"' + item.replace('"', '""') + '"' for item in (database, MAIN, name))
    relation = cursor.sql(f"SELECT * FROM {table} LIMIT 0")
    return list(zip(relation.columns, relation.types, strict=True))


def _type(duck: Any) -> Any:
    """The SQL type of a column. A type that is not supported is refused when the table is
    opened, which keeps the name of the table."""
    try:
        return sql_type_of(duck)
    except NotSupportedError:
        return VARCHAR


def _definition(
    columns: list[tuple[str, str | None, bool]],
    constraints: list[tuple[str, str, list[str]]],
    comments: dict[str, str],
) -> TableDefinition:
    """The constraints of one table, with the texts of DuckDB."""
    return TableDefinition(
        defaults={
            name.lower(): default
            for name, default, _ in columns
            if default is not None and default.upper() != "NULL"
        },
        not_null=frozenset(name.lower() for name, _, is_nullable in columns if not is_nullable),
        keys=tuple(
            TableKey(tuple(names), is_primary=kind == "PRIMARY KEY")
            for kind, _, names in constraints
            if kind in ("PRIMARY KEY", "UNIQUE")
        ),
        checks=tuple(text for kind, text, _ in constraints if kind == "CHECK"),
        comments=comments,
    )


_TABLES = (
    "SELECT table_name, table_type FROM information_schema.tables "
    "WHERE table_catalog = ? AND table_schema = 'main' ORDER BY table_name"
)
_COLUMNS = (
    "SELECT table_name, column_name, column_default, is_nullable FROM duckdb_columns() "
    "WHERE database_name = ? AND schema_name = 'main' ORDER BY table_name, column_index"
)
_COMMENTS = (
    "SELECT table_name, '', comment FROM duckdb_tables() WHERE comment IS NOT NULL "
    "AND database_name = ? AND schema_name = 'main' "
    "UNION ALL SELECT table_name, column_name, comment FROM duckdb_columns() "
    "WHERE comment IS NOT NULL AND database_name = ? AND schema_name = 'main'"
)
_SEQUENCES = (
    "SELECT sequence_name, start_value, increment_by FROM duckdb_sequences() "
    "WHERE database_name = ? AND schema_name = 'main' ORDER BY sequence_name"
)
_CONSTRAINTS = (
    "SELECT table_name, constraint_type, expression, constraint_column_names "
    "FROM duckdb_constraints() WHERE database_name = ? AND schema_name = 'main' "
    "ORDER BY table_name, constraint_index"
)
