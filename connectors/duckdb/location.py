"""The location of a DuckDB table and its columns, for reading and writing it."""

from __future__ import annotations

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
    """

    kernel: DuckDBKernel
    database: str
    schema: str
    table: str
    title: str
    lock: DeadlineLock

    @property
    def qualified(self) -> str:
        return f"{self.database}.{quoted(self.schema)}.{quoted(self.table)}"

    def pinned(self) -> DuckDBPyConnection:
        """A cursor in a transaction that sees the database as it is now."""
        cursor = self.kernel.cursor()
        try:
            cursor.execute("BEGIN TRANSACTION")
            cursor.execute(f"SELECT 1 FROM {self.qualified} LIMIT 0").fetchall()
        except Exception as error:
            cursor.close()
            raise self.failure(error) from error
        return cursor

    def failure(self, error: Exception) -> Error:
        """Converts an error of DuckDB."""
        if "does not exist" in str(error) and self.table in str(error):
            return OperationalError(
                f"{self.title} is gone",
                code=ErrorCode.OBJECT_NOT_FOUND,
                detail=str(error).partition("\n")[0],
                hint="it was dropped by other means; create it again, or drop the mapping",
            )
        found = translated(error)
        if isinstance(found, IntegrityError):
            found.message = f"a constraint of {self.title} is violated"
        return found


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
    def exclusive(self) -> AbstractContextManager[object]: ...
    def changed(self) -> None: ...
