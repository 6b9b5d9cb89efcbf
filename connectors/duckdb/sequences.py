"""The sequences of a connection: each is one of its DuckDB, in the file of the tables.

DuckDB's log has the numbers of a transaction when it is committed. Numbers are drawn in
transactions of their own, which are committed before a number is used: no number is returned twice,
neither after a crash nor after a ROLLBACK, which leave gaps.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from runnel.duckdb.errors import translated
from runnel.duckdb.kernel import DuckDBKernel
from runnel.errors import NotSupportedError, ProgrammingError

_SCHEMA = "sequences"


class DuckDBSequences:
    """Creates, drops and advances sequences. Thread-safe, except that the caller serialises changes
    of the catalog.

    reserved: the names, in lower case, of sequences that open transactions have created.
    """

    def __init__(self, kernel: Callable[[], DuckDBKernel]) -> None:
        self._kernel = kernel
        self._schema = _SCHEMA
        self._temporary: set[str] = set()
        self.reserved: set[str] = set()

    def use_file(self) -> None:
        """The sequences are in the schema main of a DuckDB file, in which DEFAULT names them."""
        self._schema = "main"

    def create(self, name: str, start: int, increment: int, *, is_temporary: bool = False) -> None:
        """Creates a sequence that the catalog does not name yet; one that a crash has left is
        replaced."""
        if is_temporary:
            self._temporary.add(name.lower())
        bounds = (
            f"MINVALUE {min(start, 1)} MAXVALUE 9223372036854775807"
            if increment > 0
            else f"MINVALUE -9223372036854775807 MAXVALUE {max(start, -1)}"
        )
        self._execute(f"CREATE SCHEMA IF NOT EXISTS {self._database(name)}.{self._schema}")
        self._execute(
            f"CREATE OR REPLACE SEQUENCE {self._qualified(name)} "
            f"INCREMENT BY {increment} {bounds} START WITH {start}"
        )

    def drop(self, name: str) -> None:
        """Drops a sequence that the catalog no longer names."""
        self._execute(f"DROP SEQUENCE IF EXISTS {self._qualified(name)}")
        self._temporary.discard(name.lower())

    def restart(self, name: str, start: int) -> None:
        """Sets the next number."""
        is_temporary = name.lower() in self._temporary
        if self._schema != _SCHEMA and not is_temporary:
            raise NotSupportedError(
                "SETVAL is not supported in a DuckDB file",
                hint=f"draw numbers up to the new one: SELECT max(nextval('{name}')) FROM range(9)",
            )
        self.create(name, start, self.increment(name), is_temporary=is_temporary)

    def increment(self, name: str) -> int:
        """The difference between two numbers."""
        with self._kernel().cursor() as cursor:
            rows = cursor.execute(
                "SELECT increment_by FROM duckdb_sequences() "
                "WHERE '\"' || database_name || '\"' = ? AND schema_name = ? "
                "AND lower(sequence_name) = ?",
                [self._database(name), self._schema, name.lower()],
            ).fetchall()
        return int(rows[0][0]) if rows else 1

    def upcoming(self, name: str) -> int | None:
        """The number that is drawn next, without drawing it; None if the sequence does not
        exist."""
        with self._kernel().cursor() as cursor:
            rows = cursor.execute(
                "SELECT coalesce(last_value + increment_by, start_value) FROM duckdb_sequences() "
                "WHERE '\"' || database_name || '\"' = ? AND schema_name = ? "
                "AND lower(sequence_name) = ?",
                [self._database(name), self._schema, name.lower()],
            ).fetchall()
        return int(rows[0][0]) if rows else None

    def next_numbers(self, name: str, count: int) -> pa.Array:
        """The next numbers, as BIGINTs."""
        return self._numbers("nextval", name, count)

    def current_numbers(self, name: str, count: int) -> pa.Array:
        """The last number that this process has drawn, repeated."""
        return self._numbers("currval", name, count)

    def _numbers(self, function: str, name: str, count: int) -> pa.Array:
        sql = f"SELECT {function}(?) AS n FROM range(?)"
        with self._kernel().cursor() as cursor:
            try:
                rows = cursor.execute(sql, [self._qualified(name), count]).fetchnumpy()
            except Exception as error:
                if "not yet defined" in str(error):
                    raise ProgrammingError(
                        f'sequence "{name}" has returned no number to this process yet',
                        hint=f"call nextval('{name}') first",
                    ) from error
                raise translated(error) from error
        return pa.array(rows["n"], pa.int64())

    def _execute(self, sql: str) -> None:
        with self._kernel().cursor() as cursor:
            try:
                cursor.execute(sql)
            except Exception as error:
                raise translated(error) from error

    def _qualified(self, name: str) -> str:
        return f"{self._database(name)}.{self._schema}.{quoted_name(name)}"

    def _database(self, name: str) -> str:
        kernel = self._kernel()
        is_temporary = name.lower() in self._temporary
        return kernel.attach_temporary() if is_temporary else kernel.attach(None)


def quoted_name(name: str) -> str:
    """The name in double quotes; names are compared in lower case."""
    return '"' + name.lower().replace('"', '""') + '"'
