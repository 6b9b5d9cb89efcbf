"""A consistent copy of the connection's own DuckDB tables in another file.

The copy is read in one transaction. It contains the commits before `pin`, and none after it,
however long the copying takes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING
from uuid import uuid4

from runnel.deadline import LONGEST_WAIT, current
from runnel.duckdb.errors import translated
from runnel.duckdb.kernel import DuckDBKernel, quoted
from runnel.errors import Error

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class TablesCopy:
    """A copy of the own tables of `kernel` in `file`, which must not exist. To be closed."""

    def __init__(self, kernel: DuckDBKernel, file: Path) -> None:
        self._source = kernel.attach(None)
        self._copy = f'"runnel_backup_{uuid4().hex}"'
        self._cursor = kernel.cursor()
        self._is_attached = False
        try:
            self._run(f"ATTACH {quoted(str(file))} AS {self._copy} (TYPE duckdb)")
            self._is_attached = True
        except BaseException:
            self.close()
            raise

    def pin(self) -> None:
        """Begins the transaction: the copy will have the tables as they are now."""
        self._run("BEGIN TRANSACTION")
        # DuckDB begins a transaction of a database when the database is first read.
        self._run(
            f"SELECT count(*) FROM duckdb_tables() WHERE '\"' || database_name || '\"' = "
            f"{quoted(self._source)}"
        ).fetchall()

    def write(self) -> None:
        """Copies all schemas, tables and views. Ends early with the statement of this thread."""
        deadline = current()
        timer = Timer(deadline.left(LONGEST_WAIT), self._cursor.interrupt)
        timer.daemon = True
        if deadline.deadline is not None:
            timer.start()
        try:
            with deadline.on_cancel(self._cursor.interrupt):
                deadline.check()
                self._run(f"COPY FROM DATABASE {self._source} TO {self._copy}")
                self._run("COMMIT")
                self._detach()
        except Error:
            deadline.check()
            deadline.check_time()
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        """Ends the transaction, and closes the copy."""
        with suppress(Exception):
            self._cursor.execute("ROLLBACK")
        with suppress(Exception):
            self._detach()
        with suppress(Exception):
            self._cursor.close()

    def _detach(self) -> None:
        if self._is_attached:
            self._run(f"DETACH {self._copy}")  # which writes a checkpoint
            self._is_attached = False

    def _run(self, statement: str) -> DuckDBPyConnection:
        try:
            return self._cursor.execute(statement)
        except Exception as error:
            raise translated(error) from error
