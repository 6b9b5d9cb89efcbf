"""Transactions: sessions beside each other, threads, jobs, commit() and rollback(), a crash."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pytest

import runnel
from runnel.connector import SinkRequest, WriteMode
from runnel.connectors.duckdb.table import DuckDBTable
from runnel.session.session import Session
from runnel.statements.run import SessionExecutor
from tests.effort import some


def _session(connection: runnel.Connection) -> SessionExecutor:
    session = Session.of_owner(connection._database)
    session.prepared = {}
    return SessionExecutor(session)


def _run(session: SessionExecutor, sql: str) -> Any:
    outcome = session.run(sql, (), None, lambda job: None)
    return outcome if isinstance(outcome, int) else sorted(outcome.rest())


def _outcome(run: Any, sql: str) -> Any:
    """The rows of a query, or whether a statement has failed."""
    try:
        found = run(sql)
    except (runnel.Error, duckdb.Error):
        return "failed"
    return found if sql.startswith("SELECT") else None


def _statement(chance: random.Random) -> str:
    key, value = chance.randrange(4), chance.randrange(100)
    return chance.choice(
        [
            *("BEGIN", "COMMIT", "ROLLBACK"),
            *("SELECT * FROM t", "SELECT * FROM t"),
            f"INSERT INTO t VALUES ({key}, {value})",
            f"UPDATE t SET n = {value} WHERE id = {key}",
            f"UPDATE t SET n = n + 1 WHERE n < {value}",
            f"DELETE FROM t WHERE id = {key}",
        ]
    )


@pytest.mark.parametrize("seed", some(range(30), 10))
def test_two_sessions_see_what_two_of_duckdb_see(seed: int) -> None:
    chance = random.Random(seed)
    base = duckdb.connect()
    base.execute("ATTACH ':memory:' AS a")
    theirs = [base.cursor(), base.cursor()]
    for cursor in theirs:
        cursor.execute("USE a")
    with runnel.connect() as connection:
        ours = [_session(connection), _session(connection)]
        _run(ours[0], "CREATE TABLE t (id INTEGER, n INTEGER)")
        theirs[0].execute("CREATE TABLE t (id INTEGER, n INTEGER)").fetchall()
        for _ in range(60):
            number, sql = chance.randrange(2), _statement(chance)
            mine = _outcome(lambda text, n=number: _run(ours[n], text), sql)
            other = _outcome(lambda text, n=number: sorted(theirs[n].execute(text).fetchall()), sql)
            if sql != "COMMIT":  # of a transaction that has failed, DuckDB raises nothing
                assert mine == other, sql


def test_other_sessions_do_not_see_open_changes_and_conflicts_name_the_remedy() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        other = _session(connection)
        connection.execute("BEGIN")
        connection.execute("UPDATE t SET n = 2")
        open_result = connection.execute("SELECT n FROM t")
        assert _run(other, "SELECT n FROM t") == [(1,)]
        with pytest.raises(runnel.OperationalError, match="the transaction failed"):
            _run(other, "UPDATE t SET n = 3")
        _run(other, "BEGIN")
        with pytest.raises(runnel.OperationalError) as caught:
            _run(other, "UPDATE t SET n = 3")
        assert "run the transaction again" in str(caught.value.hint)
        _run(other, "ROLLBACK")
        connection.commit()
        assert open_result.fetchall() == [(2,)]
        assert _run(other, "SELECT n FROM t") == [(2,)]


def test_a_second_thread_gets_an_error() -> None:
    with runnel.connect() as connection:
        connection.execute("BEGIN")
        found: list[str] = []

        def work() -> None:
            for step in (connection.commit, lambda: connection.execute("SELECT 1")):
                try:
                    step()
                except runnel.OperationalError as error:
                    found.append(error.message)

        thread = Thread(target=work)
        thread.start()
        thread.join()
        assert found == ["another thread has a transaction open on this connection"] * 2
        connection.rollback()
        connection.rollback()
        connection.commit()


def test_a_job_that_commits_the_same_rows_fails_and_can_repeat_its_commit() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        item = connection._database.catalog.snapshot.find("t")
        table = getattr(item, "table", None)
        assert isinstance(table, DuckDBTable)
        connection.execute("BEGIN")
        connection.execute("UPDATE t SET n = 2")
        sink = table.sink(SinkRequest(WriteMode.SINK, (0, 1), "job"))
        sink.write(connection.execute("SELECT 1 AS id, 5 AS n").fetch_arrow_table().to_batches()[0])
        token = sink.stage(1)
        with pytest.raises(runnel.OperationalError, match="the transaction failed"):
            sink.commit(token)
        connection.commit()
        sink.commit(token)
        sink.close()
        assert connection.execute("SELECT * FROM t").fetchall() == [(1, 5)]


def test_executemany_is_part_of_the_transaction() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE TABLE t (id INTEGER)")
        connection.execute("BEGIN")
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        assert cursor.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
        connection.rollback()
        assert cursor.execute("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_a_killed_process_leaves_the_state_before_begin(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, runnel\n"
        "c = runnel.connect(sys.argv[1])\n"
        "c.execute('CREATE TABLE t AS SELECT 1 AS n')\n"
        "c.execute('BEGIN')\n"
        "c.execute('INSERT INTO t VALUES (2)')\n"
        "c.execute('UPDATE t SET n = 9')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=120)
    assert done.returncode == -9
    with runnel.connect(tmp_path) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(1,)]
        connection.execute("BEGIN")
        connection.execute("DELETE FROM t")
    with runnel.connect(tmp_path) as connection:  # closing rolls back
        assert connection.execute("SELECT * FROM t").fetchall() == [(1,)]
