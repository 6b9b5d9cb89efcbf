"""The tables of CREATE TABLE: their DuckDB tables, in the connection's own database.

The catalog has the name, the columns and the constraints of each table. Its rows are in a DuckDB
table in the schema SCHEMA, whose name the catalog stores. A statement creates a DuckDB table
before the catalog names it, and drops one after the catalog no longer names it. A crash in
between leaves a DuckDB table without a name, which the next `clean` drops. A statement that changes
the columns of a table makes another DuckDB table, which the catalog then names instead.

DuckDB enforces NOT NULL, keys and CHECK. Runnel computes DEFAULT.

If the connection is one to a DuckDB file, the tables are in its schema main under their own names,
so that other programs find them, and DuckDB's table has the DEFAULTs as well. A table that is made
to replace another one first has another name, and gets its own name when the old table is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.base.schemas import database_of, local_name
from runnel.catalog import TableColumn
from runnel.columns.table_definition import ForeignKey, TableDefinition, drawn_sequences
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.duckdb.location import ROW_ID, DuckDBColumn, TableLocation
from runnel.connectors.duckdb.sequences import DuckDBSequences
from runnel.connectors.duckdb.sink import STAGED_PREFIX
from runnel.connectors.duckdb.table import DuckDBTable
from runnel.connectors.duckdb.types import is_canonical, quoted, sql_type_of, type_text
from runnel.deadline import DeadlineLock
from runnel.errors import ErrorCode, NotSupportedError, OperationalError, ProgrammingError
from runnel.expressions.nodes import Expression
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.render import Rendering, RenderingContext
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from runnel.duckdb.kernel import DuckDBKernel

SCHEMA = "runnel_tables"
"""The schema of the DuckDB tables."""


_SEQUENCES = (
    "SELECT sequence_name FROM duckdb_sequences() "
    "WHERE database_name = ? AND schema_name = coalesce(?, schema_name)"
)
_NOT_COPIED = """
SELECT 'it has the index ' || index_name FROM duckdb_indexes()
WHERE database_name = ? AND schema_name = ? AND table_name = ?
UNION ALL SELECT 'it has a generated column' FROM duckdb_tables()
WHERE database_name = ? AND schema_name = ? AND table_name = ? AND sql LIKE '%GENERATED ALWAYS%'
"""
"""The properties of a table that a copy would not have."""


@frozen
class TableCheck:
    """A condition that every row satisfies.

    text: as the user wrote it.
    condition: over the columns of the table.
    """

    text: str
    condition: Expression


class OwnTables:
    """Creates, opens and drops the DuckDB tables of one connection. Thread-safe, except that the
    caller serialises changes of the catalog.

    sequences: the sequences of the connection.
    is_read_only: whether the tables may not be changed.
    """

    def __init__(
        self,
        kernel: Callable[[], DuckDBKernel],
        *,
        key: str = "",
        alias: str = "",
        is_read_only: bool = False,
    ) -> None:
        """`key`, `alias`: of a schema that is one in DuckDB the key, and the name of its database
        in DuckDB in quotes; ("", ""): of the connection's own database."""
        self._kernel = kernel
        self._is_clean = self._is_prepared = False
        self._schema = key.rpartition(".")[2] if alias else SCHEMA
        self._key = key
        self._alias = alias
        self.is_read_only = is_read_only
        self.sequences = DuckDBSequences(kernel)

    @property
    def is_file(self) -> bool:
        """Whether the database is a DuckDB file of the user."""
        return self._schema != SCHEMA

    @property
    def kernel(self) -> DuckDBKernel:
        """The connection's DuckDB."""
        return self._kernel()

    def use_file(self) -> None:
        """The database is a DuckDB file of the user: its tables are in its schema main, and none
        is dropped that the catalog does not name."""
        self._is_clean = True
        self._schema = "main"
        self.sequences.use_file()

    @property
    def alias(self) -> str:
        """The name of the database in DuckDB, in quotes."""
        return self._alias or self._kernel().attach(None)

    @property
    def key(self) -> str:
        """The key of the schema; "": public, and the schemas that are none in DuckDB."""
        return self._key

    @property
    def schema(self) -> str:
        """The schema in DuckDB."""
        return self._schema

    def create(
        self,
        name: str,
        columns: Sequence[ColumnDefinition],
        definition: TableDefinition,
        checks: Sequence[TableCheck] = (),
        referenced: Mapping[str, str] = MappingProxyType({}),
    ) -> MappingDefinition:
        """Creates an empty DuckDB table for a table that the catalog does not name yet.
        `referenced`: the tables to which foreign keys refer in DuckDB, by the names in the catalog
        in lower case; the table itself is left out."""
        for column in columns:
            _check_column(column)
        _check_keys(columns, definition)
        if self.is_file and not definition.is_temporary:
            _check_storable(definition, self._key)
            self.check_sequences(definition, TableDefinition())
        kernel = self._kernel()
        database = self._database(definition.is_temporary)
        self.check_writable(f'table "{name}"', "created")
        local = local_name(name, self._key)
        with kernel.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {database}.{quoted(self._schema)}")
            used = _names(cursor, database, self._schema)
            is_own_name = self._schema != SCHEMA and local.lower() not in used
            physical = local if is_own_name else _free_name(local, used)
            location = self._location(name, physical, definition)
            items = [*self._columns(columns, definition), *_keys(definition)]
            items += [f"CHECK ({_check(check, columns)})" for check in checks]
            for foreign in definition.foreign_keys:
                target = referenced.get(foreign.table.lower(), location.qualified)
                items.append(_foreign_key(foreign, target))
            try:
                cursor.execute(f"CREATE TABLE {location.qualified} ({', '.join(items)})")
            except Exception as error:
                raise location.failure(error) from error
        external_name = f"{self._schema}.{physical}"
        return MappingDefinition(
            name, tuple(columns), {}, external_name, table=definition, schema=self._key
        )

    def foreign_sequences(self, cursor: Any) -> frozenset[str]:
        """The names of sequences by which a DEFAULT of these tables means one that the connection
        does not have: in an attached file any, in the connection's own file one of this schema."""
        if not self._key:
            return frozenset()
        schema = None if database_of(self._key) else self._schema
        where = [self.alias[1:-1].replace('""', '"'), schema]
        rows = cursor.execute(_SEQUENCES, where).fetchall()
        return frozenset(name.lower() for (name,) in rows)

    def check_sequences(self, definition: TableDefinition, old: TableDefinition) -> None:
        """NotSupportedError if a DEFAULT that is not one of `old` draws from a sequence that would
        be another one in DuckDB."""
        for column, text in definition.defaults.items():
            drawn = drawn_sequences(text) if self._key and self.is_file else []
            if not drawn or old.defaults.get(column) == text:
                continue
            with self.kernel.cursor() as cursor:
                foreign = self.foreign_sequences(cursor)
            if database_of(self._key) or not foreign.isdisjoint(drawn):
                raise NotSupportedError(
                    f'DEFAULT {text} of column "{column}" is not supported in schema "{self._key}"',
                    detail="in the file it would draw from a sequence of the file",
                    hint="connect to the file, and create the table in its schema main",
                )

    def check_copyable(self, table: DuckDBTable) -> None:
        """NotSupportedError for a table of a file that a copy, which ALTER TABLE makes, would
        change: its types, indexes or generated columns."""
        if not self.is_file:
            return
        location = table.location
        reason = next(
            (
                f'column "{item.name}" is of type {item.type}'
                for item in table.duck_columns
                if not is_canonical(item.type)
            ),
            None,
        )
        if reason is None:
            names = [location.database[1:-1], location.schema, location.table]
            with location.cursor() as cursor:
                row = cursor.execute(_NOT_COPIED, names * 2).fetchone()
            reason = None if row is None else row[0]
        if reason is not None:
            raise NotSupportedError(
                f"this change of {location.title} is not supported",
                detail=f"it copies the rows, and the copy would lose that {reason}",
                hint="change the table in DuckDB",
            )

    def settled(
        self, definition: MappingDefinition, replaced: DuckDBTable | None
    ) -> MappingDefinition:
        """In a file of the user: drops the table that another one has replaced, and sets the name
        and the DEFAULTs of the new one as in the catalog. Returns the definition with its name."""
        constraints = definition.table
        assert constraints is not None
        if constraints.is_temporary:
            return definition
        physical = (definition.external_name or "").partition(".")[2]
        location = self._location(definition.name, physical, constraints)
        steps = [] if replaced is None else [f"DROP TABLE IF EXISTS {replaced.location.qualified}"]
        for column in definition.columns:
            default = constraints.defaults.get(column.name.lower())
            action = "DROP DEFAULT" if default is None else f"SET DEFAULT ({default})"
            steps.append(
                f"ALTER TABLE {location.qualified} ALTER COLUMN {quoted(column.name)} {action}"
            )
        for commented, text in constraints.comments.items():
            steps.append(_comment(location.qualified, commented, text))
        local = local_name(definition.name, self._key)
        if physical != local:
            steps.append(f"ALTER TABLE {location.qualified} RENAME TO {quoted(local)}")
        self._transact(location, steps)
        return replace(definition, external_name=f"{self._schema}.{local}")

    def _transact(self, location: TableLocation, steps: Sequence[str]) -> None:
        """Executes statements, all or none."""
        with location.cursor() as cursor:
            try:
                cursor.execute("BEGIN TRANSACTION")
                for step in steps:
                    cursor.execute(step)
                cursor.execute("COMMIT")
            except Exception as error:
                cursor.execute("ROLLBACK")
                raise location.failure(error) from error

    def open(self, definition: MappingDefinition) -> DuckDBTable:
        """The table; OperationalError if its DuckDB table does not exist."""
        constraints = definition.table
        assert constraints is not None and definition.external_name is not None
        physical = definition.external_name.partition(".")[2]
        location = self._location(definition.name, physical, constraints)
        types = self._types(location)
        missing = [c.name for c in definition.columns if c.name.lower() not in types]
        if missing:
            raise OperationalError(
                f"{location.title} can't be opened",
                code=ErrorCode.OBJECT_NOT_FOUND,
                detail=f'its rows in DuckDB have no column "{missing[0]}"'
                if types
                else "its rows in DuckDB do not exist",
                hint="was tables.duckdb changed or replaced? Restore it, or drop the table",
            )
        for name, kind in types.values():
            _check_type(location, name, kind)
        columns = [
            DuckDBColumn(TableColumn(c.name, c.type), *types[c.name.lower()])
            for c in definition.columns
        ]
        table = DuckDBTable(
            definition.name,
            location,
            columns,
            has_key=bool(constraints.keys),
            is_read_only=self.is_read_only,
        )
        table.definition = constraints
        return table

    def comment(self, table: DuckDBTable, column: str, text: str | None) -> None:
        """Stores a comment with a table of a DuckDB file, or on a column of it; None removes it."""
        location = table.location
        with self._kernel().cursor() as cursor:
            try:
                cursor.execute(_comment(location.qualified, column, text))
            except Exception as error:
                raise location.failure(error) from error

    def check_writable(self, what: str, action: str) -> None:
        """NotSupportedError if the tables may not be changed: `what` can't be `action`."""
        if self.is_read_only:
            raise NotSupportedError(
                f"{what} can't be {action}: the database is attached READ_ONLY",
                hint="DETACH it, and ATTACH it without READ_ONLY",
            )

    def drop(self, table: DuckDBTable) -> None:
        """Drops the rows of a table that the catalog no longer names."""
        location = table.location
        with self._kernel().cursor() as cursor:
            try:
                cursor.execute(f"DROP TABLE IF EXISTS {location.qualified}")
            except Exception as error:
                raise location.failure(error) from error

    def prepare(self, known: Collection[str]) -> None:
        """Makes what transactions share: the schema of the tables."""
        self.clean(known)
        if not self.is_file and not self._is_prepared:
            with self._kernel().cursor() as cursor:
                cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {self._database(False)}.{SCHEMA}")
            self._is_prepared = True

    def clean(self, known: Collection[str]) -> None:
        """Drops, once for a connection, the DuckDB tables that no table of the catalog has: a crash
        has left them. `known`: the external names of the tables."""
        if self._is_clean:
            return
        database = self._database(False)
        used = {name.partition(".")[2].lower() for name in known}
        with self._kernel().cursor() as cursor:
            lost = [
                name
                for name in _names(cursor, database, SCHEMA)
                if name not in used and not name.startswith(STAGED_PREFIX)
            ]
            _drop_all(cursor, [f"{database}.{SCHEMA}.{quoted(name)}" for name in lost])
        self._is_clean = True

    def _database(self, is_temporary: bool) -> str:
        kernel = self._kernel()
        return kernel.attach_temporary() if is_temporary else self.alias

    def _location(self, name: str, physical: str, definition: TableDefinition) -> TableLocation:
        title = f'table "{name}"'
        database = self._database(definition.is_temporary)
        return TableLocation(
            self._kernel(),
            database,
            self._schema,
            physical,
            title,
            DeadlineLock(title),
            definition.checks,
        )

    def _columns(
        self, columns: Sequence[ColumnDefinition], definition: TableDefinition
    ) -> list[str]:
        found = []
        for column in columns:
            suffix = " NOT NULL" if column.name.lower() in definition.not_null else ""
            default = definition.defaults.get(column.name.lower())
            if default is not None and self._schema != SCHEMA and not definition.is_temporary:
                suffix += f" DEFAULT ({default})"
            found.append(f"{quoted(column.name)} {type_text(column.type)}{suffix}")
        return found

    @staticmethod
    def _types(location: TableLocation) -> dict[str, tuple[str, object]]:
        """Name and type of each column in DuckDB, by name in lower case; empty if there is no such
        table."""
        with location.cursor() as cursor:
            try:
                relation = cursor.sql(f"SELECT * FROM {location.qualified} LIMIT 0")
            except Exception as error:
                if "does not exist" in str(error):
                    return {}
                raise location.failure(error) from error
            return {
                name.lower(): (name, kind)
                for name, kind in zip(relation.columns, relation.types, strict=True)
            }


def _comment(table: str, column: str, text: str | None) -> str:
    """DuckDB's COMMENT ON a table, or on a column of it."""
    literal = "NULL" if text is None else "'" + text.replace("'", "''") + "'"
    subject = f"COLUMN {table}.{quoted(column)}" if column else f"TABLE {table}"
    return f"COMMENT ON {subject} IS {literal}"


def _check_storable(definition: TableDefinition, key: str) -> None:
    """NotSupportedError for columns whose rules a DuckDB file can't have, or a schema in it."""
    for name in definition.identities if key else ():
        raise NotSupportedError(
            f'the numbers of column "{name}" are not supported in schema "{key}"',
            detail="sequences are in the schema public",
            hint="write DEFAULT without SERIAL and IDENTITY, or create the table in public",
        )
    always = [name for name, item in definition.identities.items() if item.is_always]
    for name in definition.computed:
        raise NotSupportedError(
            f'the computed column "{name}" is not supported in a DuckDB file',
            detail="other programs would write rows without its value",
            hint="compute it in a view, or connect to a directory",
        )
    for name in always:
        raise NotSupportedError(
            f'GENERATED ALWAYS of column "{name}" is not supported in a DuckDB file',
            detail="other programs would write other values",
            hint="write GENERATED BY DEFAULT AS IDENTITY, or connect to a directory",
        )


def _check_type(location: TableLocation, name: str, kind: object) -> None:
    """NotSupportedError for a column of DuckDB whose type has no SQL type."""
    try:
        sql_type_of(kind)
    except NotSupportedError as error:
        raise NotSupportedError(
            f'column "{name}" of {location.title} has a type that is not supported: {kind}',
            hint="in DuckDB, change the type of the column, or create a view without it",
        ) from error


def _check_column(column: ColumnDefinition) -> None:
    """An error for a column that DuckDB can't have: one called rowid, and one of a type whose
    values it can't return as they were."""
    if column.name.lower() == ROW_ID:
        raise ProgrammingError(
            f'a column of a table can\'t be called "{column.name}"',
            hint="DuckDB calls the number of a row so: take another name",
        )
    if _has_fixed_interval(column.type) and not column.type.is_interval:
        raise NotSupportedError(
            f'column "{column.name}" can\'t be of type {column.type}',
            detail="DuckDB has no INTERVAL of fixed length within another type",
            hint="use INTERVAL without YEAR TO MONTH or DAY TO SECOND",
        )


def _check_keys(columns: Sequence[ColumnDefinition], definition: TableDefinition) -> None:
    """An error for a key with an interval, which DuckDB can't have."""
    kinds = {column.name.lower(): column.type for column in columns}
    for key in definition.keys:
        for name in key.columns:
            if kinds[name.lower()].is_interval:
                raise NotSupportedError(
                    f'the key column "{name}" can\'t be of type {kinds[name.lower()]}',
                    hint="use a number of seconds, or of months",
                )


def _has_fixed_interval(sql_type: SqlType) -> bool:
    inner = [item for item in (sql_type.element, sql_type.key) if item is not None]
    inner += [item for _, item in sql_type.fields]
    return sql_type.kind in (Kind.INTERVAL, Kind.INTERVAL_MONTH) or any(
        map(_has_fixed_interval, inner)
    )


def _names(cursor: DuckDBPyConnection, database: str, schema: str) -> set[str]:
    """The names of the tables in the schema, in lower case."""
    rows = cursor.execute(
        "SELECT lower(table_name) FROM duckdb_tables() "
        "WHERE '\"' || database_name || '\"' = ? AND schema_name = ?",
        [database, schema],
    ).fetchall()
    return {name for (name,) in rows}


def _free_name(name: str, used: Collection[str]) -> str:
    """A name for the DuckDB table: the table's name, and a number if it is in use."""
    base = re.sub(r"\W", "_", name.lower(), flags=re.ASCII) or "t"
    number, found = 1, base
    while found in used or found.startswith(STAGED_PREFIX):
        number += 1
        found = f"t_{base}_{number}" if base.startswith("__") else f"{base}_{number}"
    return found


def _keys(definition: TableDefinition) -> list[str]:
    return [
        f"{'PRIMARY KEY' if key.is_primary else 'UNIQUE'} ({', '.join(map(quoted, key.columns))})"
        for key in definition.keys
    ]


def _foreign_key(key: ForeignKey, table: str) -> str:
    own, other = (", ".join(map(quoted, names)) for names in (key.columns, key.referenced))
    return f"FOREIGN KEY ({own}) REFERENCES {table} ({other})"


def _drop_all(cursor: DuckDBPyConnection, tables: list[str]) -> None:
    """Drops tables: one to which another one refers after that one."""
    refused: list[str] = []
    for table in tables:
        try:
            cursor.execute(f"DROP TABLE {table}")
        except Exception:
            refused.append(table)
            if len(refused) == len(tables):
                raise
    if refused:
        _drop_all(cursor, refused)


def _check(check: TableCheck, columns: Sequence[ColumnDefinition]) -> str:
    """DuckDB's SQL for a condition; NotSupportedError if DuckDB can't evaluate it as Runnel
    does."""
    plain = [quoted(column.name) for column in columns]
    contexts = (RenderingContext(), RenderingContext(zone="Asia/Tokyo", now=10**15))
    try:
        found = {
            Rendering(DUCKDB, context).expression(check.condition, plain) for context in contexts
        }
    except Unrenderable as error:
        raise NotSupportedError(
            f"CHECK ({check.text}) is not supported",
            detail=str(error),
            hint="compare columns by operators and by the functions that DuckDB evaluates",
        ) from None
    if len(found) > 1:
        raise ProgrammingError(
            f"CHECK ({check.text}) depends on the time or the time zone of the statement",
            hint="compare columns of a row with each other, and with constants",
        )
    return found.pop()
