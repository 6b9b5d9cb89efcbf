"""What DuckDB binds at planning takes no longer than the statement has, and isn't longer than it
must be."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

import runnel
from runnel.connectors.duckdb import fragments as duckdb_engine
from runnel.deadline import within_time
from runnel.duckdb import binding as duckdb_binding
from runnel.duckdb.kernel import DuckDBKernel
from runnel.errors import OperationalError


class _SlowKernel:
    """One cursor, which binds for as long as the test wants, deaf to everything."""

    def __init__(self) -> None:
        self.watched: list[Any] = []
        self.binds, self.goes_on, self.closed = Event(), Event(), Event()

    def cursor(self) -> _SlowKernel:
        return self

    def watch(self, binding: Any) -> None:
        self.watched.append(binding)

    def sql(self, text: str) -> None:
        self.binds.set()
        assert self.goes_on.wait(60)

    def __enter__(self) -> _SlowKernel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.closed.set()


def test_a_statement_leaves_a_long_text_that_duckdb_still_binds() -> None:
    kernel: Any = _SlowKernel()

    def check() -> None:
        if kernel.binds.is_set():
            raise OperationalError("it took too long")

    with within_time(check), pytest.raises(OperationalError, match="it took too long"):
        duckdb_binding.bind(kernel, lambda cursor: " " * duckdb_binding.LONG)
    assert not kernel.closed.is_set()
    kernel.goes_on.set()
    for binding in kernel.watched:
        binding.close()
        binding.join()
    assert kernel.closed.is_set()


@pytest.mark.parametrize("length", [0, duckdb_binding.LONG])
def test_what_duckdb_refuses_is_raised(length: int) -> None:
    kernel = DuckDBKernel(1)
    with pytest.raises(Exception, match="no_such_table"):
        duckdb_binding.bind(kernel, lambda cursor: "SELECT * FROM no_such_table" + " " * length)
    duckdb_binding.bind(kernel, lambda cursor: "SELECT 1" + " " * length)
    kernel.close()


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.execute("CREATE MAPPING t (v BIGINT) TYPE DuckDB")
        connection.execute("INSERT INTO t VALUES (1), (2)")
        yield connection


def _grouping_sets(number: int) -> str:
    return (
        "SELECT COUNT(*) FROM t GROUP BY GROUPING SETS "
        f"({', '.join(f'(v + {i})' for i in range(number))})"
    )


def test_the_text_grows_with_the_grouping_sets(
    con: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def bind(kernel: Any, write: Any) -> None:
        def noted(cursor: Any) -> str:
            text: str = write(cursor)
            lengths.append(len(text))
            return text

        duckdb_binding.bind(kernel, noted)

    monkeypatch.setattr(duckdb_engine, "bind", bind)
    for number in (20, 80):
        assert con.execute(_grouping_sets(number)).fetchall() == [(1,)] * (2 * number)
    few, many = lengths
    assert many < 8 * few
