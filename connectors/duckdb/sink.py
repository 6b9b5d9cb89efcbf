"""Writing to a DuckDB table: each statement, or each epoch of a job, is one transaction.

Rows are gathered in memory, many of them in a temporary table of DuckDB's, which spills. A
statement's rows go into the table when it commits. What a job stages must outlive the process: it
is put in a table of its own beside the target, and the commit moves it and drops that table in one
transaction, so that repeating the commit finds nothing to do: that there is no such table is the
record of the commit. The names of a durable job's tables have its mark, by which its next execution
finds those that no snapshot counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from runnel.connector import Sink, SinkRequest, Token, WriteMode
from runnel.connectors.duckdb.location import ROW_ID, ChangedTable, DuckDBColumn
from runnel.connectors.duckdb.types import quoted
from runnel.errors import ProgrammingError
from runnel.sqltypes import Kind

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GATHERED_BYTES = 64 << 20
"""From so many bytes on, the rows of a statement are kept by DuckDB."""

STAGED_PREFIX = "__runnel_staged_"
"""How the names of tables with staged rows begin."""

_ROWS = "runnel_rows"
_SPILLED = "runnel_spilled"


class DuckDBSink(Sink):
    """Writes the rows of one execution. The batches' columns are called c0, c1, … within DuckDB."""

    def __init__(self, table: ChangedTable, request: SinkRequest) -> None:
        self._table = table
        self._place = table.place
        self._request = request
        self._mark = (
            hashlib.sha256(request.owner.encode()).hexdigest()[:16] + "_" if request.owner else ""
        )
        addressed = request.mode in (WriteMode.UPDATE, WriteMode.DELETE)
        if any(i >= len(table.parts) for i in request.columns[addressed:]):
            raise ProgrammingError(f'column "{ROW_ID}" can\'t be written: it tells where a row is')
        self._gathered: list[pa.RecordBatch] = []
        self._bytes = 0
        self._has_spilled = False
        self._cursor: DuckDBPyConnection | None = None
        # Row numbers keep their meaning while a transaction is open from before the scan until
        # after the change.
        self._pin = self._place.pinned() if addressed else None

    def recover(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self.commit(token)
        for name in self._staged_names() if self._mark else ():
            self._run(f"DROP TABLE IF EXISTS {self._beside(name)}")

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
            # Only a light job has epoch 0: it commits next, or is forgotten.
            return {"table": None}
        if not (self._gathered or self._has_spilled):
            return {"table": ""}
        name = f"{STAGED_PREFIX}{self._mark}{uuid4().hex}"
        self._run(f"CREATE TABLE {self._beside(name)} AS SELECT * FROM {self._rows()}")
        self._forget()
        return {"table": name}

    def commit(self, token: Token) -> None:
        name = token["table"]
        if name is None:
            if self._gathered or self._has_spilled:
                self._transact(change_statement(self._table, self._request, self._rows()))
                self._forget()
        elif name and self._exists(name):
            staged = self._beside(name)
            with self._between_statements():
                self._transact(
                    change_statement(self._table, self._request, staged), f"DROP TABLE {staged}"
                )
        self._table.changed()

    def _between_statements(self) -> AbstractContextManager[object]:
        """A job's commit waits for a statement that reads and writes, so that neither loses the
        other's change."""
        return self._table.exclusive() if self._mark else nullcontext()

    def abort(self, token: Token | None) -> None:
        if token is not None and token["table"]:
            self._run(f"DROP TABLE IF EXISTS {self._beside(token['table'])}")
        self._forget()

    def close(self) -> None:
        self._gathered = []
        for cursor in (self._cursor, self._pin):
            if cursor is not None:
                with suppress(Exception):
                    cursor.close()
        self._cursor = self._pin = None

    def _rows(self) -> str:
        """The rows not yet staged, as a relation of the cursor's."""
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

    def _beside(self, name: str) -> str:
        return f"{self._place.database}.{quoted(self._place.schema)}.{quoted(name)}"

    def _exists(self, name: str) -> bool:
        found = self._run(
            "SELECT count(*) FROM duckdb_tables() WHERE '\"' || database_name || '\"' = ? AND "
            "table_name = ?",
            [self._place.database, name],
        )
        row = found.fetchone()
        return row is not None and row[0] > 0

    def _staged_names(self) -> list[str]:
        """The tables that this owner has staged."""
        found = self._run(
            "SELECT table_name FROM duckdb_tables() "
            "WHERE '\"' || database_name || '\"' = ? AND schema_name = ? AND "
            "starts_with(table_name, ?)",
            [self._place.database, self._place.schema, STAGED_PREFIX + self._mark],
        )
        return [name for (name,) in found.fetchall()]

    def _open(self) -> DuckDBPyConnection:
        if self._cursor is None:
            self._cursor = self._place.kernel.cursor()
        return self._cursor

    def _run(self, statement: str, arguments: list[str] | None = None) -> DuckDBPyConnection:
        try:
            return self._open().execute(statement, arguments)
        except Exception as error:
            raise self._place.failure(error) from error

    def _transact(self, *statements: str) -> None:
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
            raise self._place.failure(error) from error


def change_statement(table: ChangedTable, request: SinkRequest, rows: str) -> str:
    """DuckDB's SQL that writes `rows`, a relation with the columns c0, c1, … in the order of the
    request's."""
    target = table.place.qualified
    if request.mode is WriteMode.DELETE:
        return f"DELETE FROM {target} USING {rows} AS s WHERE {target}.{ROW_ID} = s.c0"
    if request.mode is WriteMode.UPDATE:
        parts = [table.parts[i] for i in request.columns[1:]]
        values = [f"{quoted(part.name)} = {_value(part, i)}" for i, part in enumerate(parts, 1)]
        return (
            f"UPDATE {target} SET {', '.join(values)} FROM {rows} AS s "
            f"WHERE {target}.{ROW_ID} = s.c0"
        )
    parts = [table.parts[i] for i in request.columns]
    verb = "INSERT OR REPLACE" if request.mode is WriteMode.SINK and table.has_key else "INSERT"
    names = ", ".join(quoted(part.name) for part in parts)
    return (
        f"{verb} INTO {target} ({names}) SELECT "
        f"{', '.join(_value(part, i) for i, part in enumerate(parts))} FROM {rows} AS s"
    )


def _value(part: DuckDBColumn, index: int) -> str:
    """A column of the rows in the type of the table's column."""
    if part.column.type.kind is Kind.INTERVAL_MONTH:
        return f"to_months(s.c{index})"
    return f"CAST(s.c{index} AS {part.type})"
