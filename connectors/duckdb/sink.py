"""Writes to a DuckDB table: each statement, or each epoch of a job, is one transaction.

Rows are gathered in memory; large amounts go to a temporary table of DuckDB, which spills. A
statement's rows are inserted when it commits. Staged rows of a job must survive the process: they
are put into a separate table next to the target. The commit moves them and drops that table in one
transaction. Repeating the commit therefore does nothing: the absence of the table records the
commit. The names of a durable job's tables contain its mark, by which its next execution finds the
tables that no snapshot includes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from runnel.columns.write_modes import RowKind
from runnel.connector import Sink, SinkRequest, Token, WritableTable, WriteMode
from runnel.connectors.duckdb.location import ROW_ID, ChangedTable, DuckDBColumn
from runnel.connectors.duckdb.types import quoted
from runnel.errors import Error, ProgrammingError
from runnel.sqltypes import Kind

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GATHERED_BYTES = 64 << 20
"""The size in bytes from which the rows of a statement are stored by DuckDB."""

STAGED_PREFIX = "__runnel_staged_"
"""The prefix of the names of tables with staged rows."""

ADDED = {WriteMode.INSERT: 1, WriteMode.UPDATE: 0, WriteMode.DELETE: -1}
"""How many rows a table has more after the change of one row; unknown for other modes."""

_ROWS = "runnel_rows"
_SPILLED = "runnel_spilled"


class DuckDBSink(Sink):
    """Writes the rows of one execution. In DuckDB the columns of the batches are called c0, c1,
    …."""

    def __init__(self, table: ChangedTable, request: SinkRequest) -> None:
        self._table = table
        self._location = table.location
        self._request = request
        self._mark = (
            hashlib.sha256(request.owner.encode()).hexdigest()[:16] + "_" if request.owner else ""
        )
        addressed = request.mode in (WriteMode.UPDATE, WriteMode.DELETE)
        if any(i >= len(table.duck_columns) for i in request.columns[addressed:]):
            raise ProgrammingError(
                f'column "{ROW_ID}" can\'t be written: it is the position of a row'
            )
        self._gathered: list[pa.RecordBatch] = []
        self._bytes = 0
        self._has_spilled = False
        # Of a sink without an owner, which drops them when it closes.
        self._staged_tables: list[str] = []
        self._cursor: DuckDBPyConnection | None = None
        # Row numbers are stable while a transaction is open from before the scan until after the
        # change.
        self._pin = self._location.pinned() if addressed else None

    def recover(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self.commit(token)
        for name in self._staged_names() if self._mark else ():
            self._run(f"DROP TABLE IF EXISTS {self._staging_name(name)}")

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        names = [f"c{i}" for i in range(batch.num_columns)]
        self._gathered.append(pa.RecordBatch.from_arrays(batch.columns, names=names))
        self._bytes += batch.nbytes
        if self._bytes >= GATHERED_BYTES:
            self._spill()

    def stage(self, epoch: int) -> Token:
        if epoch == 0:
            # Only a light job has epoch 0: it commits next, or its rows are dropped.
            return {"table": None}
        if not (self._gathered or self._has_spilled):
            return {"table": ""}
        name = f"{STAGED_PREFIX}{self._mark}{uuid4().hex}"
        self._run(f"CREATE TABLE {self._staging_name(name)} AS SELECT * FROM {self._rows()}")
        self._forget()
        if not self._mark:
            self._staged_tables.append(name)
        return {"table": name}

    def commit(self, token: Token) -> None:
        name = token["table"]
        added = self._added() if name is None else None
        if name is None:
            if self._gathered or self._has_spilled:
                self._transact(*change_statements(self._table, self._request, self._rows()))
                self._gathered, self._bytes = [], 0  # `close` releases the rest
        elif name and self._exists(name):
            staged = self._staging_name(name)
            with self._between_statements():
                self._transact(
                    *change_statements(self._table, self._request, staged), f"DROP TABLE {staged}"
                )
        self._table.changed(added)

    def _added(self) -> int | None:
        """The number of rows that the gathered rows will add to the table; None: unknown."""
        added = ADDED.get(self._request.mode)
        if self._has_spilled or added is None:
            return None
        count: int = sum(batch.num_rows for batch in self._gathered)
        return added * count

    def _between_statements(self) -> AbstractContextManager[object]:
        """The lock to hold during a commit.

        A job's commit waits for a running statement that reads and writes, so that neither loses
        the other's change.
        """
        return self._table.exclusive() if self._mark else nullcontext()

    def abort(self, token: Token | None) -> None:
        if token is not None and token["table"]:
            self._run(f"DROP TABLE IF EXISTS {self._staging_name(token['table'])}")
        self._forget()

    def close(self) -> None:
        self._gathered = []
        with suppress(Error):
            for name in self._staged_tables:
                self._run(f"DROP TABLE IF EXISTS {self._staging_name(name)}")
        for cursor in (self._cursor, self._pin):
            if cursor is not None:
                with suppress(Exception):
                    cursor.close()
        self._cursor = self._pin = None

    def _rows(self) -> str:
        """The rows that are not staged yet, as a relation of the cursor."""
        if self._has_spilled:
            self._spill()
            return _SPILLED
        self._open().register(_ROWS, pa.Table.from_batches(self._gathered))
        return _ROWS

    def _spill(self) -> None:
        if self._gathered:
            self._open().register(_ROWS, pa.Table.from_batches(self._gathered))
            into = (
                f"INSERT INTO {_SPILLED}"
                if self._has_spilled
                else f"CREATE TEMP TABLE {_SPILLED} AS"
            )
            self._run(f"{into} SELECT * FROM {_ROWS}")
            self._has_spilled = True
        self._gathered, self._bytes = [], 0

    def _forget(self) -> None:
        self._gathered, self._bytes = [], 0
        if self._cursor is not None:
            self._cursor.unregister(_ROWS)
        if self._has_spilled:
            self._has_spilled = False
            self._run(f"DROP TABLE {_SPILLED}")

    def _staging_name(self, name: str) -> str:
        return f"{self._location.database}.{quoted(self._location.schema)}.{quoted(name)}"

    def _exists(self, name: str) -> bool:
        found = self._run(
            "SELECT count(*) FROM duckdb_tables() WHERE '\"' || database_name || '\"' = ? AND "
            "table_name = ?",
            [self._location.database, name],
        )
        row = found.fetchone()
        return row is not None and row[0] > 0

    def _staged_names(self) -> list[str]:
        """The tables that this owner has staged."""
        found = self._run(
            "SELECT table_name FROM duckdb_tables() "
            "WHERE '\"' || database_name || '\"' = ? AND schema_name = ? AND "
            "starts_with(table_name, ?)",
            [self._location.database, self._location.schema, STAGED_PREFIX + self._mark],
        )
        return [name for (name,) in found.fetchall()]

    def _open(self) -> DuckDBPyConnection:
        if self._cursor is None:
            self._cursor = self._location.cursor()
        return self._cursor

    def _run(self, statement: str, arguments: list[str] | None = None) -> DuckDBPyConnection:
        try:
            return self._open().execute(statement, arguments)
        except Exception as error:
            raise self._location.failure(error) from error

    def _transact(self, *statements: str) -> None:
        """Executes statements, all or none: a single one is a transaction of its own."""
        if len(statements) == 1:
            self._run(*statements)
            return
        cursor = self._open()
        try:
            cursor.execute("BEGIN TRANSACTION")
            for statement in statements:
                cursor.execute(statement)
            cursor.execute("COMMIT")
        except BaseException as error:
            with suppress(Exception):
                cursor.execute("ROLLBACK")
            if not isinstance(error, Exception):
                raise
            raise self._location.failure(error) from error


def change_statements(table: ChangedTable, request: SinkRequest, rows: str) -> list[str]:
    """DuckDB's statements that write `rows`; see `change_statement`. The rows of CHANGES, of which
    there is one for each key, have their kind as last column."""
    if request.mode is not WriteMode.CHANGES:
        return [change_statement(table, request, rows)]
    assert isinstance(table, WritableTable)
    kind = f"c{len(request.columns)}"
    equal = " AND ".join(
        f"{table.location.qualified}.{quoted(table.duck_columns[key].name)} = "
        f"{written_value(table.duck_columns[key], request.columns.index(key))}"
        for key in table.change_key or ()
    )
    written = f"(SELECT * FROM {rows} WHERE {kind} != {RowKind.DELETE.value})"
    return [
        f"DELETE FROM {table.location.qualified} USING {rows} AS s "
        f"WHERE s.{kind} = {RowKind.DELETE.value} AND {equal}",
        change_statement(table, replace(request, mode=WriteMode.SINK), written),
    ]


def change_statement(table: ChangedTable, request: SinkRequest, rows: str) -> str:
    """DuckDB's SQL that writes `rows`, a relation with the columns c0, c1, … in the order of the
    request."""
    target = table.location.qualified
    if request.mode is WriteMode.DELETE:
        return f"DELETE FROM {target} USING {rows} AS s WHERE {target}.{ROW_ID} = s.c0"
    if request.mode is WriteMode.UPDATE:
        columns = [table.duck_columns[i] for i in request.columns[1:]]
        values = [
            f"{quoted(column.name)} = {written_value(column, i)}"
            for i, column in enumerate(columns, 1)
        ]
        return (
            f"UPDATE {target} SET {', '.join(values)} FROM {rows} AS s "
            f"WHERE {target}.{ROW_ID} = s.c0"
        )
    columns = [table.duck_columns[i] for i in request.columns]
    verb = "INSERT OR REPLACE" if request.mode is WriteMode.SINK and table.has_key else "INSERT"
    names = ", ".join(quoted(column.name) for column in columns)
    values = [written_value(column, i) for i, column in enumerate(columns)]
    return f"{verb} INTO {target} ({names}) SELECT {', '.join(values)} FROM {rows} AS s"


def written_value(target: DuckDBColumn, index: int) -> str:
    """A column of the rows in the type of the table's column."""
    if target.column.type.kind is Kind.INTERVAL_MONTH:
        return f"to_months(s.c{index})"
    return f"CAST(s.c{index} AS {target.type})"
