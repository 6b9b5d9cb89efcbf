"""The location of a DuckDB table and its columns, for reading and writing it."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from runnel.catalog import TableColumn
from runnel.connectors.duckdb.types import canonical_expression, quoted
from runnel.deadline import DeadlineLock
from runnel.duckdb.errors import translated
from runnel.duckdb.kernel import DuckDBKernel
from runnel.errors import Error, ErrorCode, IntegrityError, OperationalError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROW_ID = "rowid"
"""The hidden column that addresses the rows of a table."""


_QUOTE = '"'
_NOT_NULL = re.compile(r'NOT NULL constraint failed: .*?\.("(?:[^"]|"")*"|\w+)$')
_DOUBLE = re.compile(r'Duplicate key "(.*)" violates (\w+ \w+)', re.DOTALL)
_ORPHAN = re.compile(r'because key "(.*)" does not exist in the referenced table', re.DOTALL)
_REFERRED = re.compile(r'because key "(.*)" is still referenced by a foreign key', re.DOTALL)
_CHECK = re.compile(
    r"CHECK constraint failed on table .*? with expression CHECK\((.*)\)", re.DOTALL
)
_CHECKS = (
    "SELECT constraint_text[7:-2] FROM duckdb_constraints() "
    "WHERE '\"' || database_name || '\"' = ? AND schema_name = ? AND table_name = ? "
    "AND constraint_type = 'CHECK' ORDER BY constraint_index"
)


@dataclass(frozen=True, slots=True)
class DuckDBColumn:
    """A column of a mapping over DuckDB.

    column: the column of the mapping.
    name: its name in DuckDB.
    type: its type in DuckDB (a DuckDBPyType).
    """

    column: TableColumn
    name: str
    type: Any

    @property
    def expression(self) -> str:
        """DuckDB's SQL for the column in its canonical type."""
        return canonical_expression(self.name, self.type, self.column.type)


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The location of a table.

    kernel: the connection's DuckDB.
    database: the name of the database, in quotes.
    schema: the schema.
    table: the name of the table.
    title: its name in errors.
    lock: locked by the thread that runs a statement which changes the table.
    checks: the conditions of CHECK as the user wrote them, in the order of DuckDB's constraints.
    """

    kernel: DuckDBKernel
    database: str
    schema: str
    table: str
    title: str
    lock: DeadlineLock
    checks: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        return f"{self.qualified_schema}.{quoted(self.table)}"

    @property
    def qualified_schema(self) -> str:
        return f"{self.database}.{quoted(self.schema)}"

    def cursor(self) -> DuckDBPyConnection:
        """A cursor of the database, which the caller closes. All access to the table's rows by a
        statement uses it, except a fragment's query."""
        return self.kernel.cursor()

    def pinned(self) -> DuckDBPyConnection:
        """A cursor in a transaction that sees the database as it is now."""
        cursor = self.cursor()
        try:
            cursor.execute("BEGIN TRANSACTION")
            cursor.execute(f"SELECT 1 FROM {self.qualified} LIMIT 0").fetchall()
        except Exception as error:
            cursor.close()
            raise self.failure(error) from error
        return cursor

    def failure(self, error: Exception) -> Error:
        """Converts an error of DuckDB."""
        is_missing = "does not exist" in str(error) and self.table in str(error)
        if is_missing and not str(error).startswith("Constraint Error"):
            return OperationalError(
                f"{self.title} is gone",
                code=ErrorCode.OBJECT_NOT_FOUND,
                detail=str(error).partition("\n")[0],
                hint="it was dropped by other means; create it again, or drop the mapping",
            )
        found = translated(error)
        if isinstance(found, IntegrityError):
            found.message = f"a constraint of {self.title} is violated"
            found.detail, found.hint = self._violated(found.detail or "")
        return found

    def _violated(self, text: str) -> tuple[str, str | None]:
        """DuckDB's words for the constraint that a row violates, in the user's terms; and the hint
        for a foreign key."""
        text = text.removeprefix("Constraint Error: ").strip()
        orphan = _ORPHAN.search(text)
        if orphan is not None:
            return (
                f"no row has the key {orphan[1]}, to which a FOREIGN KEY refers",
                "insert the row of the other table before, in a statement of its own",
            )
        referred = _REFERRED.search(text)
        if referred is not None:
            return (
                f"rows with {referred[1]} refer to the row by a FOREIGN KEY",
                "DELETE or UPDATE these rows before, and COMMIT; a list column of a row to which "
                "others refer isn't changed either",
            )
        return self._plain(text), None

    def _plain(self, text: str) -> str:
        null = _NOT_NULL.search(text)
        if null is not None:
            return f"column {null[1].strip(_QUOTE)!a} must not be NULL".replace("'", _QUOTE)
        double = _DOUBLE.search(text)
        if double is not None:
            return f"the {double[2]} has {double[1]} already"
        check = _CHECK.search(text)
        return self._check(check[1]) if check is not None else text

    def _check(self, expression: str) -> str:
        """CHECK as the user wrote it, from DuckDB's text of its expression."""
        if len(self.checks) > 1:
            try:
                with self.kernel.cursor() as cursor:
                    rows = cursor.execute(_CHECKS, [self.database, self.schema, self.table])
                    own = [text for (text,) in rows.fetchall()]
                if len(own) == len(self.checks) and own.count(expression) == 1:
                    return f"CHECK ({self.checks[own.index(expression)]}) is false"
            except Exception:  # only the message is less exact
                pass
        if self.checks:
            found = " or ".join(f"CHECK ({item})" for item in self.checks)
            return f"{found} is false"
        return f"CHECK ({expression}) is false"


class ChangedTable(Protocol):
    """A table whose rows are written; see `DuckDBTable`.

    duck_columns: the columns in DuckDB, in the order of `columns`; none for `row_id`.
    row_id: the index of the hidden column of row numbers.
    has_key: whether it has a primary key.
    """

    location: TableLocation
    duck_columns: tuple[DuckDBColumn, ...]
    columns: tuple[TableColumn, ...]
    row_id: int
    has_key: bool

    def expression(self, index: int) -> str: ...
    def outgoing(self, index: int) -> str: ...
    def exclusive(self) -> AbstractContextManager[object]: ...
    def changed(self, added: int | None = None) -> None: ...
