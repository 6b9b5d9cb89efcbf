"""The definitions of tables within a transaction: `OwnTables` with the transaction's cursor.

A table that the transaction creates is one of DuckDB's transaction, as its rows are. A table that
it drops or replaces is dropped after COMMIT, when the catalog no longer names it: other statements
may still read it until then. In a DuckDB file, where names are the user's, it is dropped by the
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, cast

from runnel.connectors.duckdb.own_tables import OwnTables, TableCheck
from runnel.connectors.duckdb.table import DuckDBTable
from runnel.connectors.duckdb.transactions import DuckDBTransaction

if TYPE_CHECKING:
    from runnel.columns.table_definition import TableDefinition
    from runnel.connector import ColumnDefinition, MappingDefinition
    from runnel.connectors.duckdb.sequences import DuckDBSequences
    from runnel.duckdb.kernel import DuckDBKernel


class FetchedRows:
    """The rows of a statement, all of which are read: a cursor has one open result."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None


class TransactionCursor:
    """The cursor of a transaction. A failure aborts the transaction; closing does nothing."""

    def __init__(self, transaction: DuckDBTransaction) -> None:
        self._transaction = transaction

    def execute(self, statement: str, arguments: Any = None) -> Any:
        return FetchedRows(
            self._transaction.run(lambda cursor: cursor.execute(statement, arguments).fetchall())
        )

    def sql(self, statement: str) -> Any:
        return self._transaction.run(lambda cursor: cursor.sql(statement))

    def close(self) -> None:
        """The transaction closes its cursor."""

    def __enter__(self) -> TransactionCursor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class TransactionKernel:
    """The connection's DuckDB with the cursor of a transaction."""

    def __init__(self, kernel: DuckDBKernel, transaction: DuckDBTransaction) -> None:
        self._kernel = kernel
        self._cursor = TransactionCursor(transaction)

    def cursor(self) -> TransactionCursor:
        return self._cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


class TransactionSequences:
    """The sequences of the tables that a transaction creates and drops. Other statements may draw
    from one that it drops until COMMIT; the name of one that it creates is reserved until its end.
    """

    def __init__(self, base: DuckDBSequences, transaction: DuckDBTransaction) -> None:
        self._base = base
        self._transaction = transaction

    def create(self, name: str, start: int, increment: int, *, is_temporary: bool = False) -> None:
        self._base.create(name, start, increment, is_temporary=is_temporary)
        self._base.reserved.add(name.lower())
        self._transaction.at_end.append(lambda is_committed: self._end(name, is_committed))

    def _end(self, name: str, is_committed: bool) -> None:
        if not is_committed:
            self._base.drop(name)
        self._base.reserved.discard(name.lower())

    def drop(self, name: str) -> None:
        self._transaction.after_commit.append(lambda: self._base.drop(name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


class TransactionTables(OwnTables):
    """The tables of a schema as the transaction creates, opens and drops them."""

    def __init__(self, base: OwnTables, transaction: DuckDBTransaction) -> None:
        self.__dict__.update(base.__dict__)
        self._base = base
        self._transaction = transaction
        kernel = cast("DuckDBKernel", TransactionKernel(base.kernel, transaction))
        self._kernel: Callable[[], DuckDBKernel] = lambda: kernel
        sequences = TransactionSequences(base.sequences, transaction)
        self.sequences = cast("DuckDBSequences", sequences)

    def create(
        self,
        name: str,
        columns: Sequence[ColumnDefinition],
        definition: TableDefinition,
        checks: Sequence[TableCheck] = (),
        referenced: Mapping[str, str] = MappingProxyType({}),
    ) -> MappingDefinition:
        database = self._database(definition.is_temporary)
        self._transaction.check_database(database, f'table "{name}"')
        return super().create(name, columns, definition, checks, referenced)

    def drop(self, table: DuckDBTable) -> None:
        self._transaction.check_database(table.location.database, table.location.title)
        if self.is_file:
            super().drop(table)
        else:
            self._transaction.after_commit.append(lambda: self._base.drop(table))

    def clean(self, known: Collection[str]) -> None:
        """BEGIN has done it."""

    def _transact(self, location: Any, steps: Sequence[str]) -> None:
        with self._kernel().cursor() as cursor:
            for step in steps:
                try:
                    cursor.execute(step)
                except Exception as error:
                    raise location.failure(error) from error
