"""TYPE DuckDB: tables and views of a DuckDB database file, and tables of the connection's own
database.

Without a `path` the table lives in the connection's own database (a file in its directory if the
connection is durable, else in memory); with a `path` it lives in that database file. A table that
does not exist is created from the declared columns, in a file only with OPTIONS ('create' =
'true'). It is a plain table: columns may be NULL, rows may be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from runnel.access import Access, refused
from runnel.catalog import Table, TableColumn
from runnel.connector import ColumnDefinition, DataConnector, MappingDefinition
from runnel.connectors.duckdb.location import DuckDBColumn, TableLocation
from runnel.connectors.duckdb.own_tables import SCHEMA, OwnTables
from runnel.connectors.duckdb.sink import STAGED_PREFIX
from runnel.connectors.duckdb.table import DuckDBRelation, DuckDBTable
from runnel.connectors.duckdb.types import quoted, sql_type_of, type_text
from runnel.connectors.options import Options, OptionSet, boolean, text
from runnel.deadline import DeadlineLock
from runnel.duckdb.errors import translated
from runnel.duckdb.kernel import DuckDBKernel
from runnel.errors import (
    ErrorCode,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    as_written,
    suggest,
)
from runnel.sqltypes import Kind, SqlType, common_type

PATH = text("path")
TABLE = text("table")
READ_ONLY = boolean("readOnly", False)
CREATE = boolean("create", False)
OPTIONS = OptionSet("DuckDB", PATH, TABLE, READ_ONLY, CREATE)


class DuckDBConnector(DataConnector):
    """Tables of DuckDB databases that the connection's kernel has attached.

    own_tables: the tables of CREATE TABLE.
    schemas: the tables of the schemas that are schemas in DuckDB, by key in lower case: the ones of
        attached databases, and in the DuckDB file of the connection all besides main.
    """

    name = "DuckDB"
    keeps_bounds = True
    connection_options = ("path", "readOnly", "create")
    resource_types = ("TABLE", "VIEW")

    def __init__(self, kernel: Callable[[], DuckDBKernel]) -> None:
        self._kernel = kernel
        self.own_tables = OwnTables(kernel)
        self.schemas: dict[str, OwnTables] = {}
        self._locks: dict[str, DeadlineLock] = {}
        self._lock = Lock()
        self._read_only: dict[str, bool] = {}

    def open(self, definition: MappingDefinition) -> Table:
        if definition.object_type is not None:
            raise NotSupportedError(
                f'connector DuckDB has no object type "{definition.object_type}"'
            )
        if definition.table is not None:
            return self.tables_of(definition.schema).open(definition)
        options = OPTIONS.read(definition.options)
        location = self._location(definition, options)
        kind = _kind(location)
        may_create = options.get(PATH) is None or options.require(CREATE)
        if kind is None and may_create and definition.columns and not self._is_read_only(options):
            _create(location, definition.columns)
            kind = "table"
        if kind is None:
            raise _missing(location, definition, may_create)
        columns = _columns(location, definition.columns)
        if options.get(PATH) is not None and not definition.is_granted("path"):
            _check_bounds(location, kind)
        if kind == "view":
            return DuckDBRelation(definition.name, location, columns)
        has_key = _has_key(location)
        return DuckDBTable(
            definition.name,
            location,
            columns,
            has_key=has_key,
            is_read_only=self._is_read_only(options),
        )

    def tables_of(self, key: str, *, is_temporary: bool = False) -> OwnTables:
        """The tables of CREATE TABLE in the schema of that key."""
        return self.own_tables if is_temporary else self.schemas.get(key.lower(), self.own_tables)

    def attach_file(self, path: str, *, is_read_only: bool) -> str:
        """Attaches a file, which is created if it does not exist; returns its name in DuckDB."""
        flags = {READ_ONLY.name: str(is_read_only).lower(), CREATE.name: "true"}
        return self._attach(OPTIONS.read({PATH.name: path, **flags}), None)

    def detach_file(self, path: str) -> None:
        """Closes a file; nothing may read it."""
        file = Path(path).expanduser()
        self._kernel().detach(file)
        with self._lock:
            self._read_only.pop(str(file.resolve()), None)

    def check_connection(self, options: Mapping[str, str]) -> None:
        self._attach(OPTIONS.read(options), None)

    def resources(self, options: Mapping[str, str]) -> Sequence[tuple[str, str]]:
        database = self._attach(OPTIONS.read(options), None)
        query = (
            "SELECT table_schema, table_name, table_type FROM information_schema.tables "
            "WHERE table_catalog = ? "
            "ORDER BY table_schema, table_name"
        )
        found = _query(self._kernel(), query, [_unquoted(database)])
        return [
            (f"{quoted(schema)}.{quoted(table)}", "VIEW" if kind == "VIEW" else "TABLE")
            for schema, table, kind in found
            if not table.startswith(STAGED_PREFIX)
        ]

    def _location(self, definition: MappingDefinition, options: Options) -> TableLocation:
        schema, table = _name(definition, options)
        database = self._attach(
            options, None if definition.is_granted("path") else definition.access
        )
        file = options.get(PATH)
        title = f'table "{table}" of the connection\'s own database'
        if file is not None:
            title = f'table "{table}" of database file "{file}"'
        if schema != "main":
            title = title.replace(f'"{table}"', f'"{schema}.{table}"', 1)
        with self._lock:
            lock = self._locks.setdefault(
                f"{database}.{schema}.{table}".lower(), DeadlineLock(title)
            )
        return TableLocation(self._kernel(), database, schema, table, title, lock)

    def _attach(self, options: Options, access: Access | None) -> str:
        path = options.get(PATH)
        kernel = self._kernel()
        if path is None:
            return kernel.attach(None)
        file = Path(path).expanduser() if access is None else Path(path).absolute()
        read_only = self._is_read_only(options)
        if "\0" in path:
            raise ProgrammingError('option "path" of connector DuckDB has a NUL character')
        if access is not None:
            file = _within(access, file)
        _check_file(file, path, may_create=options.require(CREATE) and not read_only, access=access)
        key = str(file.resolve())
        with self._lock:
            if self._read_only.get(key, read_only) and not read_only:
                raise ProgrammingError(
                    f'database file "{path}" is open for reading only',
                    hint=(
                        "another mapping has 'readOnly' = 'true' for it; "
                        "drop that one and connect again"
                    ),
                )
            try:
                alias = kernel.attach(file, read_only=read_only)
            except Exception as error:
                raise cannot_open(path, error) from error
            self._read_only.setdefault(key, read_only)
        return alias

    @staticmethod
    def _is_read_only(options: Options) -> bool:
        return options.require(READ_ONLY)


def _name(definition: MappingDefinition, options: Options) -> tuple[str, str]:
    """Schema and table: from EXTERNAL NAME, from the option, or else from the mapping's own
    name."""
    option_table = options.get(TABLE)
    external = definition.external_name
    if option_table is not None and external is not None:
        raise ProgrammingError(
            'a DuckDB mapping has either EXTERNAL NAME or the option "table"',
            hint="leave one of them out",
        )
    if external is None:
        return "main", option_table or definition.name
    schema, dot, table = external.rpartition(".")
    if "." in schema:
        raise ProgrammingError(
            f'external name "{external}" has too many components',
            hint="it is a table, or schema.table; the file is the option path",
        )
    if schema.lower() == SCHEMA and options.get(PATH) is None:
        raise ProgrammingError(
            f'external name "{external}" is in a schema of Runnel',
            hint="it has the rows of tables: CREATE TABLE",
        )
    return (schema if dot else "main"), table


def _within(access: Access, file: Path) -> Path:
    """The real path of a database file.

    ProgrammingError if the access rules forbid it or the log that DuckDB writes next to it. Rules
    that name the file also allow its log.
    """
    real = access.resolve(str(file))
    log = f"{real}.wal"
    bounds = replace(access, roots=(*access.roots, log)) if real in access.roots else access
    bounds.resolve(log)
    return Path(real)


def _check_file(file: Path, path: str, *, may_create: bool, access: Access | None) -> None:
    if file.is_dir():
        raise OperationalError(f'"{path}" is a folder, not a database file')
    if not file.exists():
        if may_create and file.parent.is_dir():
            return
        if access is not None and not access.covers(str(file.parent)):
            raise OperationalError(
                f'database file "{path}" not found', code=ErrorCode.OBJECT_NOT_FOUND
            )
        near = [item.name for item in file.parent.iterdir()] if file.parent.is_dir() else []
        otherwise = "to create it, add 'create' = 'true' to the OPTIONS"
        if not file.parent.is_dir():
            otherwise = f'there is no folder "{file.parent}" either'
        raise OperationalError(
            f'database file "{path}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(file.name, near, otherwise),
        )


def cannot_open(path: str, error: Exception) -> OperationalError:
    """The error for an existing file that cannot be attached."""
    cause = error.__cause__ or error
    said = str(cause).partition("\n")[0].strip()
    message, hint = f'database file "{path}" can\'t be opened', None
    if "Conflicting lock" in said or "lock on file" in said:
        message = f'database file "{path}" is in use by another process'
        hint = "close it there, or let both open it with OPTIONS ('readOnly' = 'true')"
    elif "file handle conflict" in said or "already attached" in said:
        message = f'database file "{path}" is open elsewhere in this process'
        hint = (
            "only one connection at a time can open it; close that connection, "
            "or register its relations instead"
        )
    elif "not a valid DuckDB" in said or "checksum" in said.lower() or "Serialization" in said:
        message, hint = (
            f'"{path}" is not a sound DuckDB database file',
            "was it cut off, or written by something else?",
        )
    elif "ermission denied" in said or "Read-only file system" in said:
        hint = "open it with OPTIONS ('readOnly' = 'true')"
    return OperationalError(message, code=ErrorCode.CONNECTION_PROBLEM, detail=said, hint=hint)


def _query(kernel: DuckDBKernel, query: str, arguments: list[str]) -> list[tuple[Any, ...]]:
    try:
        with kernel.cursor() as cursor:
            return list(cursor.execute(query, arguments).fetchall())
    except Exception as error:
        raise translated(error) from error


def _kind(location: TableLocation) -> str | None:
    """ "table" or "view"; None if neither exists."""
    found = _query(
        location.kernel,
        "SELECT table_type FROM information_schema.tables "
        "WHERE table_catalog = ? AND lower(table_schema) = lower(?) "
        "AND lower(table_name) = lower(?)",
        [_unquoted(location.database), location.schema, location.table],
    )
    return None if not found else "view" if found[0][0] == "VIEW" else "table"


def _check_bounds(location: TableLocation, kind: str | None) -> None:
    """ProgrammingError if the content of a database file can open other files: a view by its
    query, a trigger by its statement."""
    triggers = "SELECT trigger_name FROM duckdb_triggers() WHERE database_name = ?"
    found = "a view" if kind == "view" else None
    if found is None and _query(location.kernel, triggers, [_unquoted(location.database)]):
        found = "in a file with triggers"
    if found is not None:
        raise refused(
            f"{location.title}, which is {found},",
            "DuckDB also opens the files that it names; let the owner define the mapping",
        )


def _has_key(location: TableLocation) -> bool:
    found = _query(
        location.kernel,
        "SELECT count(*) FROM duckdb_constraints() "
        "WHERE database_name = ? AND lower(schema_name) = lower(?) "
        "AND lower(table_name) = lower(?) AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')",
        [_unquoted(location.database), location.schema, location.table],
    )
    return bool(found[0][0])


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"')


def _create(location: TableLocation, columns: Sequence[ColumnDefinition]) -> None:
    items = ", ".join(
        f"{quoted(item.external_name or item.name)} {type_text(item.type)}" for item in columns
    )
    try:
        with location.kernel.cursor() as cursor:
            cursor.execute(
                f"CREATE SCHEMA IF NOT EXISTS {location.database}.{quoted(location.schema)}"
            )
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {location.qualified} ({items})")
    except Exception as error:
        raise translated(error) from error


def _missing(
    location: TableLocation, definition: MappingDefinition, may_create: bool
) -> ProgrammingError:
    found = _query(
        location.kernel,
        "SELECT table_name FROM information_schema.tables WHERE table_catalog = ?",
        [_unquoted(location.database)],
    )
    otherwise = (
        f"declare its columns to create it: CREATE MAPPING {as_written(definition.name)} (column "
        "type, …) TYPE DuckDB"
    )
    if not may_create:
        otherwise = "to create it, add OPTIONS ('create' = 'true') and declare the columns"
    return ProgrammingError(
        f"{location.title} not found",
        code=ErrorCode.OBJECT_NOT_FOUND,
        hint=suggest(location.table, [name for (name,) in found], otherwise),
    )


def _columns(location: TableLocation, declared: Sequence[ColumnDefinition]) -> list[DuckDBColumn]:
    try:
        with location.kernel.cursor() as cursor:
            relation = cursor.sql(f"SELECT * FROM {location.qualified} LIMIT 0")
            found = list(zip(relation.columns, relation.types, strict=True))
            del relation
    except Exception as error:
        raise location.failure(error) from error
    if not declared:
        return [_natural(location, name, item) for name, item in found]
    return [_declared(location, item, found) for item in declared]


def _natural(location: TableLocation, name: str, duck: Any) -> DuckDBColumn:
    try:
        return DuckDBColumn(TableColumn(name, sql_type_of(duck)), name, duck)
    except NotSupportedError as error:
        raise NotSupportedError(
            f'column "{name}" of {location.title} has a type that is not supported: {duck}',
            detail=error.message,
            hint=(
                "declare the columns that you need: CREATE MAPPING name (column type, …) "
                "TYPE DuckDB …"
            ),
        ) from None


def _declared(
    location: TableLocation, item: ColumnDefinition, found: Sequence[tuple[str, Any]]
) -> DuckDBColumn:
    requested = item.external_name or item.name
    matches = [pair for pair in found if pair[0] == requested] or [
        pair for pair in found if pair[0].lower() == requested.lower()
    ]
    if not matches:
        names = [name for name, _ in found]
        raise ProgrammingError(
            f'column "{requested}" is not in {location.title}',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(requested, names, f"its columns are {', '.join(names[:20])}"),
        )
    name, duck = matches[0]
    natural = _natural(location, name, duck).column.type
    if not _fits(item.type, natural):
        raise ProgrammingError(
            f'column "{name}" of {location.title} is of type {natural}, not {item.type}',
            hint=f"declare it as {natural}, or leave the columns out",
        )
    return DuckDBColumn(TableColumn(item.name, item.type, item.external_name), name, duck)


def _fits(declared: SqlType, natural: SqlType) -> bool:
    """Whether every value of DuckDB's column is a value of the declared type."""
    if {declared.kind, natural.kind} == {Kind.JSON, Kind.VARCHAR} or (
        declared.is_interval and natural.is_interval
    ):
        return True
    if declared.is_temporal and declared != natural:
        return False
    return common_type(declared, natural) == declared
