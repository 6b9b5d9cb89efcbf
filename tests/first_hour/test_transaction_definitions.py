"""CREATE, ALTER and DROP of tables and views between BEGIN and COMMIT."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import runnel
from runnel.session.session import Session
from runnel.statements.run import SessionExecutor


def _rows(con: runnel.Connection, sql: str) -> list[tuple[object, ...]]:
    return con.execute(sql).fetchall()


def _run(con: runnel.Connection, *statements: str) -> None:
    for sql in statements:
        con.execute(sql)


def _other(con: runnel.Connection) -> SessionExecutor:
    """A second session of the same database, as a client of a server has."""
    return SessionExecutor(Session.of_owner(con._session.database))


def _result(session: SessionExecutor, sql: str) -> object:
    found = session.run(sql, (), None, lambda job: None)
    return found if isinstance(found, int) else found.some(100)


CHANGES = (
    "BEGIN",
    "CREATE TABLE made (id INT PRIMARY KEY, n INT)",
    "INSERT INTO made VALUES (1, 10), (2, 20)",
    "CREATE TABLE part (id INT REFERENCES made)",
    "INSERT INTO part VALUES (1)",
    "ALTER TABLE old ADD COLUMN b INT DEFAULT 7",
    "INSERT INTO old VALUES (3, 4)",
    "ALTER TABLE old RENAME TO renamed",
    "CREATE TABLE copied AS SELECT * FROM made WHERE n > 10",
    "DROP TABLE gone",
    "TRUNCATE emptied",
    "CREATE VIEW seen AS SELECT sum(n) AS n FROM made",
    "CREATE OR REPLACE TABLE replaced AS SELECT 'new' AS a",
    "COMMENT ON TABLE made IS 'of a transaction'",
)
BEFORE = (
    "CREATE TABLE old (a INT)",
    "INSERT INTO old VALUES (1)",
    "CREATE TABLE gone (a INT)",
    "CREATE TABLE emptied AS SELECT 1 AS a",
    "CREATE TABLE replaced AS SELECT 1 AS a",
)


def _check_before(con: runnel.Connection) -> None:
    names = [name for (name,) in _rows(con, "SELECT table_name FROM duckdb_tables()")]
    assert sorted(names) == ["emptied", "gone", "old", "replaced"]
    assert _rows(con, "FROM old") == [(1,)]
    assert _rows(con, "FROM emptied") == [(1,)]
    assert _rows(con, "FROM replaced") == [(1,)]


def _check_after(con: runnel.Connection) -> None:
    names = [name for (name,) in _rows(con, "SELECT table_name FROM duckdb_tables()")]
    assert sorted(names) == ["copied", "emptied", "made", "part", "renamed", "replaced"]
    assert _rows(con, "FROM renamed ORDER BY a") == [(1, 7), (3, 4)]
    assert _rows(con, "FROM copied") == [(2, 20)]
    assert _rows(con, "FROM emptied") == []
    assert _rows(con, "FROM seen") == [(30,)]
    assert _rows(con, "FROM replaced") == [("new",)]
    (comment,) = _rows(
        con, "SELECT table_comment FROM information_schema.tables WHERE table_name = 'made'"
    )
    assert comment == ("of a transaction",)
    with pytest.raises(runnel.IntegrityError):
        con.execute("INSERT INTO part VALUES (9)")


@pytest.mark.parametrize("place", ["memory", "directory", "file.duckdb"])
def test_commit_and_roll_back(place: str, tmp_path: Path) -> None:
    path = None if place == "memory" else tmp_path / place
    with runnel.connect(path) as con:
        _run(con, *BEFORE)
        _run(con, *CHANGES)
        assert _rows(con, "FROM seen") == [(30,)]
        assert _rows(con, "FROM renamed ORDER BY a") == [(1, 7), (3, 4)]
        con.execute("ROLLBACK")
        _check_before(con)
        _run(con, *CHANGES, "COMMIT")
        _check_after(con)
        _run(con, "INSERT INTO made VALUES (3, 30)", "DELETE FROM made WHERE id = 3")
    if path is not None:
        with runnel.connect(path) as con:
            if place != "directory":  # a DuckDB file stores tables
                con.execute("CREATE VIEW seen AS SELECT sum(n) AS n FROM made")
            _check_after(con)


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_closed_connection(is_committed: bool, tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as con:
        _run(con, *BEFORE)
        _run(con, *CHANGES)
        if is_committed:
            con.commit()
    with runnel.connect(tmp_path / "db") as con:
        (_check_after if is_committed else _check_before)(con)


_KILLED = """
import os, signal, sys
import runnel
from runnel.session.directory import Directory
from runnel.connectors.duckdb.transactions import DuckDBTransaction
from tests.first_hour.test_transaction_definitions import BEFORE, CHANGES, _run

def dies(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

con = runnel.connect(sys.argv[1])
_run(con, *BEFORE)
_run(con, *CHANGES)
if sys.argv[2] == "before":
    DuckDBTransaction.commit = dies
else:
    Directory.publish_next = dies
con.execute("COMMIT")
"""


@pytest.mark.parametrize("time", ["before", "after"])
def test_a_process_that_is_killed_within_commit(time: str, tmp_path: Path) -> None:
    """Between the file of the catalog and DuckDB's COMMIT, and between that and the rename."""
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(tmp_path / "db"), time],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "db" / "catalog.next").exists()
    for _ in range(2):
        with runnel.connect(tmp_path / "db") as con:
            (_check_before if time == "before" else _check_after)(con)
            assert not (tmp_path / "db" / "catalog.next").exists()


def test_the_definitions_of_a_failed_statement_and_of_an_aborted_transaction() -> None:
    with runnel.connect() as con:
        _run(con, "CREATE TABLE t (a INT)", "BEGIN", "CREATE TABLE u (a INT)")
        with pytest.raises(runnel.ProgrammingError, match="exists already"):
            con.execute("CREATE TABLE t (b INT)")
        with pytest.raises(runnel.Error):  # a value of the query; the transaction is open
            con.execute("CREATE TABLE w AS SELECT CAST('x' AS INT) AS a")
        _run(con, "CREATE TABLE IF NOT EXISTS u (z INT)", "INSERT INTO u VALUES (1)")
        assert _rows(con, "FROM u") == [(1,)]
        con.execute("CREATE TABLE k (a INT PRIMARY KEY)")
        con.execute("INSERT INTO k VALUES (1)")
        with pytest.raises(runnel.IntegrityError):
            con.execute("INSERT INTO k VALUES (1)")
        with pytest.raises(runnel.OperationalError, match="aborted"):
            con.execute("CREATE TABLE later (a INT)")
        with pytest.raises(runnel.OperationalError, match="rolled back"):
            con.execute("COMMIT")
        names = [name for (name,) in _rows(con, "SELECT table_name FROM duckdb_tables()")]
        assert names == ["t"]
        _run(con, "CREATE TABLE k (a INT)", "CREATE TABLE u (b INT)", "DROP TABLE t, k, u")


def test_a_numbered_table(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as con:
        for end in ("ROLLBACK", "COMMIT"):
            _run(con, "BEGIN", "CREATE TABLE s (id SERIAL PRIMARY KEY, x TEXT)")
            con.execute("INSERT INTO s (x) VALUES ('a'), ('b')")
            assert _rows(con, "FROM s ORDER BY id") == [(1, "a"), (2, "b")]
            con.execute(end)
    with runnel.connect(tmp_path / "db") as con:
        con.execute("INSERT INTO s (x) VALUES ('c')")
        assert _rows(con, "SELECT id FROM s WHERE x = 'c'") == [(3,)]


def test_read_only_and_what_takes_no_part() -> None:
    with runnel.connect() as con:
        _run(con, "CREATE TABLE t (a INT)", "BEGIN READ ONLY")
        for sql in ("CREATE TABLE u (a INT)", "DROP TABLE t", "CREATE VIEW v AS FROM t"):
            with pytest.raises(runnel.NotSupportedError, match="READ ONLY"):
                con.execute(sql)
        _run(con, "COMMIT", "BEGIN")
        for sql in ("CREATE SEQUENCE q", "CREATE SCHEMA s", "CREATE MAPPING m TYPE IMap"):
            with pytest.raises(runnel.Error):
                con.execute(sql)
        con.execute("COMMIT")


def test_the_tasks_of_a_migration_match_duckdb() -> None:
    script = (
        "CREATE TABLE people (name VARCHAR, town VARCHAR)",
        "INSERT INTO people VALUES ('a', 'x'), ('b', 'y'), ('c', 'x')",
        "BEGIN",
        "CREATE TABLE towns (id INT PRIMARY KEY, name VARCHAR)",
        "INSERT INTO towns SELECT row_number() OVER (ORDER BY town), town FROM "
        "(SELECT DISTINCT town FROM people) AS d",
        "CREATE TABLE new_people AS SELECT p.name, t.id AS town FROM people p "
        "JOIN towns t ON t.name = p.town",
        "DROP TABLE people",
        "ALTER TABLE new_people RENAME TO people",
        "ALTER TABLE people ADD COLUMN age INT",
        "UPDATE people SET age = 30 WHERE town = 1",
        "COMMIT",
    )
    with runnel.connect() as con, duckdb.connect() as oracle:
        for sql in script:
            con.execute(sql)
            oracle.execute(sql)
        for sql in ("FROM people ORDER BY name", "FROM towns ORDER BY id"):
            assert _rows(con, sql) == oracle.execute(sql).fetchall()


def test_other_sessions_see_nothing_before_commit() -> None:
    with runnel.connect() as con:
        other = _other(con)
        _run(con, *BEFORE, *CHANGES)
        assert _result(other, "SELECT a FROM old") == [(1,)]
        with pytest.raises(runnel.ProgrammingError, match="not found"):
            _result(other, "SELECT * FROM made")
        con.execute("COMMIT")
        assert _result(other, "SELECT count(*) FROM made") == [(2,)]
        with pytest.raises(runnel.ProgrammingError, match="not found"):
            _result(other, "SELECT a FROM old")


def test_a_change_of_another_session_undoes_the_transaction() -> None:
    with runnel.connect() as con:
        other = _other(con)
        _run(con, "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)")
        _run(con, "BEGIN", "CREATE TABLE made (a INT)", "ALTER TABLE t ADD COLUMN b INT")
        _result(other, "CREATE VIEW made AS SELECT 1 AS one")
        with pytest.raises(runnel.OperationalError, match='"made" was changed by another'):
            con.execute("COMMIT")
        assert _rows(con, "FROM made") == [(1,)]
        assert _rows(con, "FROM t") == [(1,)]
        _run(con, "DROP VIEW made", "BEGIN", "ALTER TABLE t ADD COLUMN b INT")
        _result(other, "INSERT INTO t VALUES (2)")
        with pytest.raises(runnel.OperationalError):
            con.execute("COMMIT")
        assert _rows(con, "FROM t ORDER BY a") == [(1,), (2,)]


@pytest.mark.parametrize("path", ["", "db", "x.duckdb"])
def test_the_sequence_of_a_table_that_is_dropped_and_created(path: str, tmp_path: Path) -> None:
    with runnel.connect(str(tmp_path / path) if path else None) as con:
        other = _other(con)
        _run(con, "CREATE TABLE s (id SERIAL, x INT)", "INSERT INTO s (x) VALUES (1), (1)")
        _run(con, "BEGIN", "DROP TABLE s", "ROLLBACK", "INSERT INTO s (x) VALUES (2)")
        assert _rows(con, "SELECT max(id) FROM s") == [(3,)]
        if path != "x.duckdb":
            again = ("BEGIN", "DROP TABLE s", "CREATE TABLE s (id SERIAL, x INT)")
            _run(con, *again, "INSERT INTO s (x) VALUES (5)")
            assert _rows(con, "SELECT id FROM s") == [(1,)]
            _run(con, "ROLLBACK", "INSERT INTO s (x) VALUES (3)")
            assert _rows(con, "SELECT max(id) FROM s") == [(4,)]
            _run(con, *again, "INSERT INTO s (x) VALUES (5)", "COMMIT")
            _run(con, "INSERT INTO s (x) VALUES (6)")
            assert _rows(con, "SELECT id FROM s ORDER BY x") == [(1,), (2,)]
            _run(con, "BEGIN", "CREATE TABLE u (id SERIAL, x INT)")
            _result(other, "CREATE TABLE u2 (u_id SERIAL)")
            with pytest.raises(runnel.OperationalError):
                _result(other, "CREATE TABLE u (id SERIAL, x INT)")
            _run(con, "INSERT INTO u (x) VALUES (1)", "COMMIT", "INSERT INTO u (x) VALUES (2)")
            assert _rows(con, "SELECT id FROM u ORDER BY x") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("within", "meanwhile"),
    [
        ("CREATE TABLE s.made (a INT)", ["DROP SCHEMA s"]),
        ("CREATE TABLE child (p INT REFERENCES p (id))", ["DROP TABLE p"]),
        ("CREATE TABLE child (p INT REFERENCES p (id))", ["ALTER TABLE p RENAME TO q"]),
        ("CREATE TABLE child (p INT REFERENCES p (id))", ["ALTER TABLE p ADD COLUMN z INT"]),
        ("DROP TABLE p", ["CREATE TABLE child (p INT REFERENCES p (id))"]),
        ("ALTER TABLE p RENAME TO q", ["CREATE TABLE child (p INT REFERENCES p (id))"]),
        ("ALTER TABLE p ADD COLUMN z INT", ["CREATE TABLE child (p INT REFERENCES p (id))"]),
    ],
)
def test_what_another_session_changes_below_a_definition(within: str, meanwhile: list[str]) -> None:
    with runnel.connect() as con:
        other = _other(con)
        _run(con, "CREATE SCHEMA s", "CREATE TABLE p (id INT PRIMARY KEY)", "BEGIN", within)
        for sql in meanwhile:
            _result(other, sql)
        with pytest.raises(runnel.OperationalError, match="another statement"):
            con.execute("COMMIT")
        _run(con, "CREATE SCHEMA IF NOT EXISTS s", "CREATE TABLE s.made (a INT)")
        _run(con, "DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS p", "DROP TABLE IF EXISTS q")
        assert _rows(con, "SELECT table_name FROM duckdb_tables()") == [("made",)]
