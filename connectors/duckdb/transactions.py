"""Transactions of several statements over the tables of CREATE TABLE.

A transaction has one cursor of DuckDB. The tables that its statements name are `TransactionTable`s,
which read and write with that cursor; all other statements use the tables of the catalog, which
know nothing of it. DuckDB has at most one open result per cursor, so a scan reads all of its rows
when it is split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from runnel.catalog import CatalogObject, Mapping, Snapshot
from runnel.connector import (
    BATCH_ROWS,
    END,
    End,
    RowAddressedTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    SourcePartition,
    Token,
    WriteMode,
)
from runnel.connectors.comparisons import constant_comparison
from runnel.connectors.duckdb.changed_rows import apply_changes, unique_keys
from runnel.connectors.duckdb.sink import change_statement
from runnel.connectors.duckdb.table import DuckDBSource, DuckDBTable
from runnel.duckdb.errors import translated
from runnel.errors import (
    Error,
    ErrorCode,
    NotSupportedError,
    OperationalError,
    TransactionException,
)
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Expression, conjuncts
from runnel.foreign.fragment import Unrenderable
from runnel.processor import Guarantee, JobContext
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.render import Rendering, RenderingContext

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from runnel.columns.table_definition import TableDefinition
    from runnel.duckdb.kernel import DuckDBKernel

AGAIN = "run the transaction again, from BEGIN"
_ROWS = "runnel_rows"
_Result = TypeVar("_Result")


class DuckDBTransaction:
    """A transaction of DuckDB. Several threads of one statement may use it.

    is_aborted: whether a failure has undone it; only `roll_back` may follow.
    is_read_only: whether its statements may only read.
    after_commit: called after COMMIT, when the catalog has its changes.
    at_end: called when DuckDB has committed the transaction (True) or undone it (False).
    """

    def __init__(self, kernel: DuckDBKernel, *, is_read_only: bool = False) -> None:
        # A database that is attached later is not part of the transaction.
        kernel.attach(None)
        self._cursor = kernel.cursor()
        self._cursor.execute("BEGIN TRANSACTION")
        self._lock = Lock()
        self.is_aborted = False
        self.is_read_only = is_read_only
        self.after_commit: list[Callable[[], None]] = []
        self.at_end: list[Callable[[bool], None]] = []
        self._database: str | None = None
        self._written: dict[str, DuckDBTable] = {}
        self._tables: dict[DuckDBTable, TransactionTable] = {}
        self._seen: tuple[Snapshot, Snapshot] | None = None

    def catalog(self, snapshot: Snapshot) -> Snapshot:
        """The catalog as the statements of the transaction see it."""
        if self._seen is None or self._seen[0] is not snapshot:
            objects = {name: self._joined(item) for name, item in snapshot.objects.items()}
            self._seen = snapshot, replace(snapshot, objects=objects)
        return self._seen[1]

    def _joined(self, item: CatalogObject) -> CatalogObject:
        """The object with a table of this transaction, if it is a table of CREATE TABLE."""
        if not isinstance(item, Mapping) or item.definition is None:
            return item
        if not isinstance(item.table, DuckDBTable):
            return item
        return replace(item, table=self.joined(item.table))

    def joined(self, table: DuckDBTable) -> TransactionTable:
        """The table as statements of the transaction read and write it."""
        known = self._tables.get(table)
        if known is None:
            known = self._tables[table] = TransactionTable(table, self)
            # The transaction may see an earlier state of a table that it meets later.
            known.changes = table.changes if self._seen is None else -1
        return known

    def check_unchanged(self, table: DuckDBTable) -> None:
        """OperationalError if others have changed the rows of a table, which the transaction has
        copied or dropped, since it began."""
        known = self._tables.get(table)
        if known is None or known.changes != table.changes:
            raise TransactionException(
                f"rows of {table.location.title} were changed by another statement",
                detail="the transaction, which has altered or dropped the table, was rolled back",
                hint=AGAIN,
            )

    def parted(self, item: CatalogObject) -> CatalogObject:
        """The object with the table that the catalog has; the inverse of `catalog`."""
        table = getattr(item, "table", None)
        if isinstance(item, Mapping) and isinstance(table, TransactionTable):
            return replace(item, table=table.base)
        return item

    def run(self, work: Callable[[DuckDBPyConnection], _Result]) -> _Result:
        """`read` with DuckDB's own errors, of no table."""
        with self._lock:
            if self.is_aborted:
                raise aborted_error()
            try:
                return work(self._cursor)
            except BaseException:
                self._abort()
                raise

    @property
    def written_database(self) -> str | None:
        """The name in DuckDB, in quotes, of the database that it has written; None: none."""
        return self._database

    def read(self, table: DuckDBTable, work: Callable[[DuckDBPyConnection], _Result]) -> _Result:
        """The result of `work` with the cursor, which must leave no open result."""
        with self._lock:
            if self.is_aborted:
                raise aborted_error()
            try:
                return work(self._cursor)
            except BaseException as error:
                self._abort()
                if not isinstance(error, Exception):
                    raise
                raise _explained(table.location.failure(error)) from error

    def write(self, table: DuckDBTable, work: Callable[[DuckDBPyConnection], _Result]) -> _Result:
        """`read` for work that changes the table."""
        self.check_write(table)
        self._written[table.location.qualified] = table
        try:
            return self.read(table, work)
        finally:
            table.forget_count()

    def check_write(self, table: DuckDBTable) -> None:
        """NotSupportedError if the transaction can't write the table: it is read only, or has
        written tables of another database. The transaction stays open."""
        self.check_database(table.location.database, table.location.title)

    def check_database(self, database: str, title: str) -> None:
        """`check_write` for a table of a database, which the transaction writes from then on."""
        if self.is_read_only:
            raise NotSupportedError(
                f"{title} can't be written in a transaction that is READ ONLY",
                hint="end it with COMMIT, and begin another one",
            )
        if self._database is None:
            self._database, self._first = database, title
        elif self._database != database:
            raise NotSupportedError(
                f"{title} can't be written in the transaction that has written {self._first}",
                detail="a transaction writes tables of one database: the connection's own, an "
                "attached one, or the temporary tables",
                hint="COMMIT first",
            )

    def _abort(self) -> None:
        self.is_aborted = True
        with suppress(Exception):
            self._cursor.execute("ROLLBACK")

    def commit(self) -> None:
        """Makes the changes visible to all and durable; or undoes them and raises."""
        is_committed = False
        try:
            if self.is_aborted:
                raise OperationalError(
                    "the transaction was rolled back",
                    detail="one of its statements has failed",
                    hint=AGAIN,
                )
            try:
                self._cursor.execute("COMMIT")
                is_committed = True
            except Exception as error:
                tables = list(self._written.values())
                failure = (
                    tables[0].location.failure(error) if len(tables) == 1 else translated(error)
                )
                raise _explained(failure) from error
        finally:
            self._end(is_committed)

    def roll_back(self) -> None:
        """Undoes the changes."""
        if not self.is_aborted:
            self._abort()
        self._end(False)

    def _end(self, is_committed: bool) -> None:
        self.is_aborted = True
        with suppress(Exception):  # closed with its database
            self._cursor.close()
        for step in self.at_end:
            with suppress(Error):
                step(is_committed)
        for table in self._written.values():
            table.changed()


def _explained(error: Error) -> Error:
    """The error of a statement that has undone its transaction."""
    if error.message == "the transaction failed":  # another one has changed the same rows
        error.hint = f"its changes are undone: ROLLBACK, then {AGAIN}"
    elif error.hint is None:
        error.hint = "the changes of the whole transaction are undone: ROLLBACK"
    return error


def aborted_error() -> OperationalError:
    """The error for a statement in a transaction that has failed."""
    return OperationalError(
        "the transaction is aborted",
        code=ErrorCode.GENERIC,
        detail="one of its statements has failed, which has undone all of them",
        hint=f"ROLLBACK, then {AGAIN}",
    )


class TransactionTable(RowAddressedTable):
    """A table of CREATE TABLE within a transaction. It is read as rows from outside of DuckDB:
    fragments run with cursors of their own, which do not see the transaction.

    changes: the number of changes of the table when the transaction began; -1: unknown.
    """

    connector = "DuckDB"
    guarantee = Guarantee.NONE

    def __init__(self, table: DuckDBTable, transaction: DuckDBTransaction) -> None:
        self.base = table
        self.changes = -1
        self.transaction = transaction
        self.name = table.name
        self.location = table.location
        self.duck_columns = table.duck_columns
        self.columns = table.columns
        self.row_id = table.row_id
        self.has_key = table.has_key
        self.definition: TableDefinition | None = table.definition
        self.expression = table.expression
        self.outgoing = table.outgoing

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return self.base.write_modes

    def row_count(self) -> int | None:
        return self.base.row_count()

    def scan(self, request: ScanRequest) -> Source:
        return TransactionSource(self, request)

    def sink(self, request: SinkRequest) -> Sink:
        self.transaction.check_write(self.base)
        return TransactionSink(self, request)

    def unique_keys(self) -> Sequence[tuple[str, ...]]:
        """The columns of each key; the primary key first."""
        return unique_keys(self.base)

    def pinned(self) -> AbstractContextManager[object]:
        """Row numbers do not change within a transaction."""
        return nullcontext()

    def exclusive(self) -> AbstractContextManager[object]:
        return nullcontext()

    def changed(self, added: int | None = None) -> None:
        self.base.forget_count()

    def change(
        self, rows: pa.Table, columns: tuple[int, ...], inserts: str, key: tuple[str, ...]
    ) -> pa.Table:
        """Changes rows; see `changed_rows.change_rows`."""
        rule = (inserts, tuple(key))
        return self.transaction.write(
            self.base,
            lambda cursor: apply_changes(cursor, self.base, rows, columns, rule, is_narrow=True),
        )

    def clear(self) -> int:
        def work(cursor: DuckDBPyConnection) -> int:
            found = cursor.execute(f"DELETE FROM {self.location.qualified}").fetchall()
            return int(found[0][0])

        return self.transaction.write(self.base, work)


class TransactionSource(Source):
    """A scan, which reads all rows when it is split."""

    cooperative = False

    def __init__(self, table: TransactionTable, request: ScanRequest) -> None:
        self._table = table
        self._source = DuckDBSource(table.base, request)
        self._predicate = request.predicate

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        table = self._table
        query = self._source.query + _where(table, self._predicate, context.evaluation)
        rows = table.transaction.read(table.base, lambda cursor: cursor.sql(query).to_arrow_table())
        return [TransactionPartition(self._source, rows)]


def _where(
    table: TransactionTable, predicate: Expression | None, evaluation: EvaluationContext
) -> str:
    """WHERE with the comparisons of columns with constants, which cannot fail: a failure would
    abort DuckDB's transaction."""
    plain = [part for part in conjuncts(predicate) if constant_comparison(part) is not None]
    if not plain:
        return ""
    arguments = tuple(value.as_py() for value in evaluation.arguments)
    session = RenderingContext(arguments=arguments, zone=evaluation.zone, now=evaluation.now)
    rendering = Rendering(DUCKDB, session)
    columns = [table.outgoing(i) for i in range(len(table.columns))]
    found = []
    for part in plain:
        with suppress(Unrenderable):
            found.append(rendering.condition(part, columns))
    return f" WHERE {' AND '.join(found)}" if found else ""


class TransactionPartition(SourcePartition):
    """The rows of a scan, in memory."""

    def __init__(self, source: DuckDBSource, rows: pa.Table) -> None:
        self._source = source
        self._batches = iter(rows.to_batches(max_chunksize=BATCH_ROWS))

    def read(self) -> pa.RecordBatch | End:
        for batch in self._batches:
            if batch.num_rows:
                return self._source.canonical(batch)
        return END

    def close(self) -> None:
        self._batches = iter(())


class TransactionSink(Sink):
    """Gathers the rows of a statement in memory; its commit adds them to the transaction."""

    def __init__(self, table: TransactionTable, request: SinkRequest) -> None:
        self._table = table
        self._request = request
        self._gathered: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        names = [f"c{i}" for i in range(batch.num_columns)]
        self._gathered.append(pa.RecordBatch.from_arrays(batch.columns, names=names))

    def stage(self, epoch: int) -> Token:
        return {}

    def commit(self, token: Token) -> None:
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        table = self._table
        statement = change_statement(table.base, self._request, _ROWS)

        def work(cursor: DuckDBPyConnection) -> None:
            cursor.register(_ROWS, pa.Table.from_batches(gathered))
            cursor.execute(statement).fetchall()
            cursor.unregister(_ROWS)

        table.transaction.write(table.base, work)

    def abort(self, token: Token | None) -> None:
        self._gathered = []
