"""The schemas, tables and views of a DuckDB file, to which a connection is opened or that it has
attached.

A file that a connection is opened to is its own database: CREATE TABLE makes a table of that name
in its schema main, and the connection has all tables of the file, with their constraints. Its views
can be read. The rest of the catalog (views, mappings, jobs) is in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runnel.base.schemas import MAIN
from runnel.catalog import Index, NamedText
from runnel.columns.table_definition import ForeignKey, TableDefinition, TableKey
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.duckdb.connector import DuckDBConnector, cannot_open
from runnel.connectors.duckdb.own_tables import OwnTables
from runnel.connectors.duckdb.types import quoted, sql_type_of
from runnel.errors import ErrorCode, NotSupportedError, OperationalError
from runnel.sqltypes import VARCHAR

logger = logging.getLogger("runnel.connectors.duckdb")

_MAGIC = b"DUCK"
_MAGIC_AT = 8
_EXTENSIONS = (".duckdb", ".db", ".ddb")


def is_database_file(path: str | Path) -> bool:
    """Whether a connection to the path is one to a DuckDB file: the file exists, or is new and has
    an extension of such files: .duckdb, .db or .ddb. OperationalError for an existing file of
    another kind."""
    file = Path(path)
    if not file.is_file():
        return not file.exists() and file.suffix.lower() in _EXTENSIONS
    try:
        with file.open("rb") as opened:
            head = opened.read(_MAGIC_AT + len(_MAGIC))
    except OSError as error:
        raise OperationalError(
            f'database file "{path}" can\'t be opened',
            code=ErrorCode.CONNECTION_PROBLEM,
            detail=error.strerror,
        ) from error
    if head[_MAGIC_AT:] != _MAGIC and not (not head and file.suffix.lower() in _EXTENSIONS):
        raise OperationalError(
            f'"{path}" can\'t be used: it is a file, but not a DuckDB database',
            code=ErrorCode.CONNECTION_PROBLEM,
            hint=f"connect to a directory, or in memory, and query the file: FROM '{file.name}'",
        )
    return True


def schemas_in(connector: DuckDBConnector, alias: str) -> list[str]:
    """The schemas of a database whose name in DuckDB is `alias`, in quotes; `main` first. A schema
    whose name has a dot, or is another one's in another case, can't be named in SQL."""
    with connector.own_tables.kernel.cursor() as cursor:
        rows = cursor.execute(_SCHEMAS, [_unquoted(alias)]).fetchall()
    names = [name for (name,) in rows if name != MAIN and "." not in name]
    return [MAIN, *_distinct(names)]


def _distinct(names: Iterable[str]) -> list[str]:
    """The names without the ones that Runnel, but not DuckDB, takes for the same as an earlier one:
    DuckDB folds the case of ASCII letters only."""
    found: dict[str, str] = {}
    for name in names:
        if found.setdefault(name.lower(), name) != name:
            logger.warning(
                '"%s" of a DuckDB file is left out: "%s" has its name', name, found[name.lower()]
            )
    return list(found.values())


def open_file(connector: DuckDBConnector, path: str | Path) -> list[str]:
    """The connection's own database is that file; returns the keys of its schemas, "" first.
    OperationalError if it can't be opened."""
    own = connector.own_tables
    own.use_file()
    try:
        names = schemas_in(connector, own.alias)[1:]
    except Exception as error:
        raise cannot_open(str(path), error) from error
    for name in names:
        connector.schemas[name.lower()] = OwnTables(lambda: own.kernel, key=name, alias=own.alias)
    return ["", *names]


def definitions_in_schema(
    own: OwnTables, options: Mapping[str, str] = MappingProxyType({})
) -> Iterator[MappingDefinition]:
    """The tables and views of a schema of a DuckDB file. `options`: by which a view is opened."""
    schema, where = own.schema, [_unquoted(own.alias), own.schema]
    before = f"{own.key}." if own.key else ""
    with own.kernel.cursor() as cursor:
        kinds = dict(cursor.execute(_TABLES, where).fetchall())
        tables = [(name, kinds[name]) for name in _distinct(kinds)]
        columns = cursor.execute(_COLUMNS, where).fetchall()
        constraints = cursor.execute(_CONSTRAINTS, where).fetchall()
        comments = cursor.execute(_COMMENTS, where * 2).fetchall()
        types = {name: _types(cursor, own, name) for name, kind in tables if kind != "VIEW"}
        sequences = own.foreign_sequences(cursor)
    for name, kind in tables:
        if kind == "VIEW":
            yield MappingDefinition(before + name, (), options, f"{schema}.{name}", schema=own.key)
            continue
        yield MappingDefinition(
            before + name,
            tuple(ColumnDefinition(column, _type(duck)) for column, duck in types[name]),
            {},
            f"{schema}.{name}",
            table=_definition(
                [item[1:] for item in columns if item[0] == name],
                [
                    (*item[1:4], before + item[4], item[5])
                    for item in constraints
                    if item[0] == name
                ],
                {column.lower(): text for table, column, text in comments if table == name},
                sequences,
            ),
            schema=own.key,
        )


def indexes_in_schema(own: OwnTables) -> list[Index]:
    """The indexes of the tables of a schema of a DuckDB file."""
    before = f"{own.key}." if own.key else ""
    with own.kernel.cursor() as cursor:
        rows = cursor.execute(_INDEXES, [_unquoted(own.alias), own.schema]).fetchall()
    return [
        Index(
            before + name,
            before + table,
            tuple(item.strip().strip("\"'") for item in expressions[1:-1].split(", ")),
            "unique" if is_unique else "art",
        )
        for name, table, is_unique, expressions in rows
    ]


def sequences_in_file(connector: DuckDBConnector) -> dict[tuple[str, str], NamedText]:
    """The sequences of the file, as definitions of the catalog."""
    kernel = connector.own_tables.kernel
    with kernel.cursor() as cursor:
        rows = cursor.execute(_SEQUENCES, [_unquoted(kernel.attach(None))]).fetchall()
    items = (
        NamedText("sequence", name, f"START {start} INCREMENT {increment}")
        for name, start, increment in rows
    )
    return {item.key: item for item in items}


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"')


def _types(cursor: Any, own: OwnTables, name: str) -> list[tuple[str, Any]]:
    table = f"{own.alias}.{quoted(own.schema)}.{quoted(name)}"
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
    columns: list[tuple[str, str | None, bool, str | None]],
    constraints: list[tuple[str, str, list[str], str, list[str]]],
    comments: dict[str, str],
    sequences: frozenset[str],
) -> TableDefinition:
    """The constraints of one table, with the texts of DuckDB."""
    computed = {name.lower(): text for name, _, _, text in columns if text is not None}
    return TableDefinition(
        defaults={
            name.lower(): default
            for name, default, _, generated in columns
            if default is not None and generated is None and default.upper() != "NULL"
        },
        not_null=frozenset(name.lower() for name, _, is_nullable, _ in columns if not is_nullable),
        keys=tuple(
            TableKey(tuple(names), is_primary=kind == "PRIMARY KEY")
            for kind, _, names, _, _ in constraints
            if kind in ("PRIMARY KEY", "UNIQUE")
        ),
        checks=tuple(text for kind, text, *_ in constraints if kind == "CHECK"),
        foreign_keys=tuple(
            ForeignKey(tuple(names), table, tuple(other))
            for kind, _, names, table, other in constraints
            if kind == "FOREIGN KEY"
        ),
        comments=comments,
        computed=computed,
        computed_by_database=bool(computed),
        file_sequences=sequences,
    )


_SCHEMAS = (
    "SELECT schema_name FROM duckdb_schemas() WHERE database_name = ? "
    "AND schema_name NOT IN ('information_schema', 'pg_catalog') ORDER BY schema_name"
)
_TABLES = (
    "SELECT table_name, table_type FROM information_schema.tables "
    "WHERE table_catalog = ? AND table_schema = ? ORDER BY table_name"
)
_COLUMNS = (
    "SELECT table_name, column_name, column_default, is_nullable, generation_expression "
    "FROM duckdb_columns() "
    "WHERE database_name = ? AND schema_name = ? ORDER BY table_name, column_index"
)
_COMMENTS = (
    "SELECT table_name, '', comment FROM duckdb_tables() WHERE comment IS NOT NULL "
    "AND database_name = ? AND schema_name = ? "
    "UNION ALL SELECT table_name, column_name, comment FROM duckdb_columns() "
    "WHERE comment IS NOT NULL AND database_name = ? AND schema_name = ?"
)
_SEQUENCES = (
    "SELECT sequence_name, start_value, increment_by FROM duckdb_sequences() "
    "WHERE database_name = ? AND schema_name = 'main' ORDER BY sequence_name"
)
_INDEXES = (
    "SELECT index_name, table_name, is_unique, expressions FROM duckdb_indexes() "
    "WHERE database_name = ? AND schema_name = ? ORDER BY index_name"
)
_CONSTRAINTS = (
    "SELECT table_name, constraint_type, expression, constraint_column_names, "
    "coalesce(referenced_table, ''), referenced_column_names "
    "FROM duckdb_constraints() WHERE database_name = ? AND schema_name = ? "
    "ORDER BY table_name, constraint_index"
)
