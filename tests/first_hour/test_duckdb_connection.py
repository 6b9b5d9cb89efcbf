"""Connections on which rows are fetched, and texts of several statements, as in DuckDB."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from threading import Thread
from typing import Any

import duckdb
import pytest

import runnel

_BOTH = ("a", "b")


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        yield connection


def outcomes(module: Any) -> list[object]:
    """What the connections of a module return for the same calls."""
    with module.connect() as one:
        found: list[object] = [one.description, one.rowcount]
        one.execute("SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'c')) AS t (n, s) ORDER BY n")
        found += [[item[0] for item in one.description], one.fetchone(), one.fetchmany(1)]
        found += [one.fetchall(), one.fetchone(), one.fetchall()]
        one.execute("SELECT 1 AS n; SELECT 2 AS n;; -- the end; \n")
        found += [one.df().values.tolist()]
        one.execute(
            "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); FROM t WHERE a > ?", [1]
        )
        found += [one.fetchnumpy()["a"].tolist(), one.sql("SELECT 1; FROM t").fetchall()]
        one.execute("SELECT ';' AS \";\" /* ; */")
        found += [one.fetchall()]
        for name in ("to_arrow_table", "fetch_df", "fetchdf"):
            rows = getattr(one.execute("FROM t ORDER BY a"), name)()
            found += [list(rows["a"].to_pylist() if hasattr(rows, "to_pylist") else rows["a"])]
        return [str(item) for item in found]


@pytest.mark.filterwarnings("ignore:Arrow output:UserWarning")
def test_the_rows_of_the_last_execute_are_fetched_on_the_connection() -> None:
    assert outcomes(runnel) == outcomes(duckdb)


def test_the_module_has_them_too() -> None:
    runnel.execute("SELECT 1 AS a, 2 AS b")
    assert [item[0] for item in runnel.description] == list(_BOTH)
    assert runnel.fetchall() == [(1, 2)] and runnel.rowcount == 1


def test_without_an_execute_there_are_no_rows(con: runnel.Connection) -> None:
    with pytest.raises(runnel.InterfaceError, match=r"con\.execute\(query\) first"):
        con.fetchall()
    con.execute("SELECT 1")
    with pytest.raises(runnel.ProgrammingError):
        con.execute("SELECT nope")
    with pytest.raises(runnel.InterfaceError, match="no rows to fetch"):
        con.fetchone()
    con.execute("CREATE TABLE t (a INT)")
    assert con.fetchone() is None


def test_each_thread_fetches_its_own_rows(con: runnel.Connection) -> None:
    con.execute("SELECT 1")
    found: list[object] = []

    def other() -> None:
        found.append(con.description)
        con.execute("SELECT 2")
        found.append(con.fetchall())

    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert found == [None, [(2,)]] and con.fetchall() == [(1,)]


def test_rows_keep_no_connection_and_no_stream(con: runnel.Connection) -> None:
    writer = con.register_stream("s", {"a": "BIGINT"})
    cursor = con.execute("FROM s")
    writer.write([(1,)])
    assert con.fetchone() == (1,) and len(con.jobs()) == 1
    del cursor
    gc.collect()
    con.settle()
    assert con.jobs() == []
    with pytest.raises(runnel.InterfaceError, match="its cursor was deleted"):
        con.fetchone()
    other = runnel.connect()
    other.execute("SELECT 1")
    forgotten = weakref.ref(other)
    gc.disable()
    try:
        del other
        assert forgotten() is None, "a cycle of references"
    finally:
        gc.enable()


def test_an_error_names_its_position_in_the_whole_text(con: runnel.Connection) -> None:
    text = "CREATE TABLE t (a INT);\n INSERT INTO t VALUES (1);\n SELECT nope FROM t; SELECT 2"
    with pytest.raises(runnel.ProgrammingError) as error:
        con.execute(text)
    assert error.value.position is not None and error.value.position.line == 3
    assert text[error.value.position.offset :].startswith("nope")
    assert "statement 3 of 4; 2 statements ran before it" in str(error.value)
    assert con.sql("FROM t").fetchall() == [(1,)]
    with pytest.raises(runnel.InterfaceError, match="run this one by itself"):
        con.execute("SELECT ?; SELECT 1", [1])
    with pytest.raises(runnel.DataError, match="1 of 2"):
        con.execute("SELECT 1 // a FROM (VALUES (0)) AS v (a); SELECT 1")
    with pytest.raises(runnel.Error):
        con.execute("SELECT 1; SELECT 'open")


def test_a_relation_of_several_statements_is_the_last_one(con: runnel.Connection) -> None:
    r = con.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); FROM t;")
    assert r.filter("a > 1").fetchall() == [(2,)]
    assert r.fetchall() == r.fetchall() == [(1,), (2,)]
    assert con.sql("SELECT 1; DROP TABLE t").columns == []


def test_the_next_execute_ends_a_query_that_was_not_read(con: runnel.Connection) -> None:
    con.execute("SELECT a.i FROM range(3000000) a(i), range(1000) b(j) WHERE a.i + b.j > 5")
    (job,) = con.jobs()
    con.execute("SELECT 1")
    assert job.wait(10) and con.fetchall() == [(1,)]
