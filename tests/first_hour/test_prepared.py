"""Prepared statements belong to a connection; their arguments may be parameters."""

from __future__ import annotations

import pytest

import runnel
from runnel.serving.server import Server


def test_arguments_of_execute_are_parameters() -> None:
    with runnel.connect() as connection:
        connection.execute("PREPARE q AS SELECT $1 - $2")
        for sql, args in (
            ("EXECUTE q(?, ?)", (5, 3)),
            ("EXECUTE q(?, 1 + 2)", [5]),
            ("EXECUTE q(:b, :a)", {"a": 3, "b": 5}),
            ("EXECUTE q($2,$1)", (3, 5)),
        ):
            assert connection.execute(sql, args).fetchall() == [(2,)]
        with pytest.raises(runnel.InterfaceError, match="expected 2, got 1"):
            connection.execute("EXECUTE q(?, ?)", (5,))
        with pytest.raises(runnel.InterfaceError, match="expected 0, got 1"):
            connection.execute("PREPARE q AS SELECT ?", (5,))


def test_an_error_shows_the_prepared_statement() -> None:
    with runnel.connect() as connection:
        connection.execute("PREPARE q AS SELECT 10 / $1")
        with pytest.raises(runnel.DataError) as raised:
            connection.execute("EXECUTE q(0)").fetchall()
        assert str(raised.value).startswith(
            "division by zero\nLINE 1: SELECT 10 / $1\n               ^^^^^^\nDETAIL"
        )
        with pytest.raises(runnel.ProgrammingError) as other:
            connection.execute("PREPARE q AS SELECT 1,\n  x")
        assert "LINE 2:   x\n          ^" in str(other.value)


def test_cursors_share_them_and_connections_do_not() -> None:
    with runnel.connect() as connection, runnel.connect() as other:
        connection.cursor().execute("PREPARE q AS SELECT 1")
        assert connection.cursor().execute("EXECUTE q").fetchall() == [(1,)]
        with pytest.raises(runnel.ProgrammingError, match='prepared statement "q" not found'):
            other.execute("EXECUTE q")


def test_a_changed_table_changes_the_prepared_query() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
        connection.execute("PREPARE q AS SELECT * FROM t")
        connection.execute("ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 2")
        assert connection.execute("EXECUTE q").fetchall() == [(1, 2)]
        connection.execute("DROP TABLE t")
        with pytest.raises(runnel.ProgrammingError, match='object "t" not found'):
            connection.execute("EXECUTE q")


@pytest.mark.parametrize("sql", ["PREPARE q AS SELECT 1", "EXECUTE q", "DEALLOCATE ALL"])
def test_a_server_refuses_them(sql: str) -> None:
    token = "a token of the tests"
    with (
        runnel.connect() as connection,
        Server(connection, token) as server,
        runnel.connect(server.url, token=token) as client,
        pytest.raises(runnel.NotSupportedError, match="is not supported by a server"),
    ):
        client.execute(sql)


def test_executemany_runs_a_prepared_insert() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
        connection.execute("PREPARE put AS INSERT INTO t VALUES ($1,$2)")
        connection.execute("PREPARE get AS SELECT * FROM t WHERE a = $1")
        cursor = connection.cursor()
        cursor.executemany("EXECUTE put(?, ?)", [(1, "x"), (2, "y")])
        assert cursor.rowcount == 2
        with pytest.raises(runnel.ProgrammingError, match="statements that return rows"):
            cursor.executemany("EXECUTE get(?)", [(1,), (2,)])
        rows = connection.execute("SELECT * FROM t ORDER BY a").fetchall()
        assert rows == [(1, "x"), (2, "y")]
