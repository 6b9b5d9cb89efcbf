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

_SCHEMA = "sequences"


class DuckDBSequences:
    """Creates, drops and advances sequences. Thread-safe, except that the caller serialises changes
    of the catalog."""

    def __init__(self, kernel: Callable[[], DuckDBKernel]) -> None:
        self._kernel = kernel

    def create(self, name: str, start: int, increment: int) -> None:
        """Creates a sequence that the catalog does not name yet; one that a crash has left is
        replaced."""
        bounds = (
            f"MINVALUE {min(start, 1)} MAXVALUE 9223372036854775807"
            if increment > 0
            else f"MINVALUE -9223372036854775807 MAXVALUE {max(start, -1)}"
        )
        database = self._kernel().attach(None)
        self._execute(f"CREATE SCHEMA IF NOT EXISTS {database}.{_SCHEMA}")
        self._execute(
            f"CREATE OR REPLACE SEQUENCE {self._qualified(name)} "
            f"INCREMENT BY {increment} {bounds} START WITH {start}"
        )

    def drop(self, name: str) -> None:
        """Drops a sequence that the catalog no longer names."""
        self._execute(f"DROP SEQUENCE IF EXISTS {self._qualified(name)}")

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
                raise translated(error) from error
        return pa.array(rows["n"], pa.int64())

    def _execute(self, sql: str) -> None:
        with self._kernel().cursor() as cursor:
            try:
                cursor.execute(sql)
            except Exception as error:
                raise translated(error) from error

    def _qualified(self, name: str) -> str:
        return f"{self._kernel().attach(None)}.{_SCHEMA}.{quoted_name(name)}"


def quoted_name(name: str) -> str:
    """The name in double quotes; names are compared in lower case."""
    return '"' + name.lower().replace('"', '""') + '"'
