"""A statement that waits for a table or the catalog hears its time-out, its cancelling and the end of the connection."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import Mapping
from runnel.connector import WritableTable
from runnel.cursor import Running
from runnel.patience import PatientLock
from runnel.statements.numbered_writes import NumberedWrite
from tests.waiting import eventually

MAP = "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
DUCK = "CREATE MAPPING d (a BIGINT, b BIGINT) TYPE DuckDB"

WAITING = [
    "INSERT INTO m VALUES (1, 2)",
    "SINK INTO m VALUES (1, 2), (3, 4)",
    "SINK INTO m SELECT v, v FROM TABLE(GENERATE_SERIES(1, 3)) AS g(v)",
    "UPDATE m SET this = this + 1 WHERE __key = 1",
    "UPDATE m SET this = 5",
    "DELETE FROM m WHERE __key = 1",
    "DELETE FROM m WHERE this > 1",
    "DELETE FROM m",
    "EXPLAIN ANALYZE DELETE FROM m WHERE this > 1",
    "INSERT INTO d VALUES (1, 2)",
    "UPDATE d SET b = 5",
    "DELETE FROM d",
]


@pytest.fixture
def made(connection: runnel.Connection) -> runnel.Connection:
    """A connection with a map and a table of DuckDB's, each with a row."""
    connection.execute(MAP)
    connection.execute(DUCK)
    connection.execute("INSERT INTO m VALUES (7, 7)")
    connection.execute("INSERT INTO d VALUES (7, 7)")
    return connection


@contextmanager
def held(connection: runnel.Connection, *names: str) -> Iterator[None]:
    """Another thread holds tables, or the catalog, meanwhile, as a statement does."""
    begun, over = Event(), Event()

    def hold() -> None:
        locks = []
        for name in names:
            found = connection._database.catalog.snapshot.find(name)
            if isinstance(found, Mapping):
                assert isinstance(found.table, WritableTable)
                locks.append(found.table.exclusive())
            else:
                locks.append(connection._database.definitions)
        for lock in locks:
            lock.__enter__()
        begun.set()
        over.wait(60)
        for lock in locks:
            lock.__exit__(None, None, None)

    thread = Thread(target=hold)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def failure_of(run: Callable[[], object]) -> tuple[Thread, list[runnel.Error]]:
    """A thread that runs a statement, and the error that it ends with."""
    errors: list[runnel.Error] = []

    def call() -> None:
        try:
            run()
        except runnel.Error as error:
            errors.append(error)

    thread = Thread(target=call, daemon=True)
    thread.start()
    return thread, errors


def ended(thread: Thread) -> bool:
    thread.join(20)
    return not thread.is_alive()


@pytest.mark.parametrize("sql", WAITING)
def test_a_write_that_waits_for_a_table_times_out(made: runnel.Connection, sql: str) -> None:
    with held(made, "m", "d"):
        thread, errors = failure_of(lambda: made.execute(sql, timeout=0.2).fetchall())
        assert ended(thread), "the time-out wasn't heard"
    (error,) = errors
    assert error.code is runnel.ErrorCode.TIMEOUT
    assert made.execute("SELECT * FROM m").fetchall() == made.execute("SELECT * FROM d").fetchall() == [(7, 7)]


@pytest.mark.parametrize("sql", WAITING)
def test_a_write_that_waits_for_a_table_can_be_cancelled(made: runnel.Connection, sql: str) -> None:
    cursor = made.cursor()
    with held(made, "m", "d"):
        thread, errors = failure_of(lambda: cursor.execute(sql))
        assert eventually(lambda: cursor._patience is not None)
        cursor.cancel()
        assert ended(thread), "the cancelling wasn't heard"
    assert [error.code for error in errors] == [runnel.ErrorCode.CANCELLED]
    assert made.execute("SELECT * FROM m").fetchall() == made.execute("SELECT * FROM d").fetchall() == [(7, 7)]
    assert not made._database.statements._waiting


@pytest.mark.parametrize("sql", ["INSERT INTO m VALUES (?, ?)", "UPDATE m SET this = ? WHERE __key = ?"])
def test_many_argument_lists_hear_both(made: runnel.Connection, sql: str) -> None:
    rows = [(number, number) for number in range(3)]
    with held(made, "m"):
        thread, errors = failure_of(lambda: made.cursor().executemany(sql, rows, timeout=0.05))
        assert ended(thread)
        cursor = made.cursor()
        thread, more = failure_of(lambda: cursor.executemany(sql, rows))
        assert eventually(lambda: cursor._patience is not None)
        cursor.cancel()
        assert ended(thread)
    assert [error.code for error in errors + more] == [runnel.ErrorCode.TIMEOUT, runnel.ErrorCode.CANCELLED]


@pytest.mark.parametrize("sql", ["CREATE VIEW w AS SELECT 1 AS a", "DROP MAPPING m", MAP.replace(" m ", " n ")])
def test_a_definition_that_waits_for_the_catalog_times_out(made: runnel.Connection, sql: str) -> None:
    with held(made, "catalog"):
        thread, errors = failure_of(lambda: made.execute(sql, timeout=0.05))
        assert ended(thread)
    assert [error.code for error in errors] == [runnel.ErrorCode.TIMEOUT]


def test_the_end_of_the_connection_is_heard(made: runnel.Connection) -> None:
    begun: list[object] = []
    threads = []
    with held(made, "m"):
        for _ in range(3):
            cursor = made.cursor()
            begun.append(cursor)
            threads.append(failure_of(lambda cursor=cursor: cursor.execute("INSERT INTO m VALUES (1, 2)")))  # type: ignore[misc]
        assert eventually(lambda: len(made._database.statements._waiting) == 3)
        made.close()
        assert all(ended(thread) for thread, _ in threads), "the end wasn't heard"
    assert [error.code for _, errors in threads for error in errors] == [runnel.ErrorCode.CANCELLED] * 3


def test_a_write_with_a_number_can_be_cancelled(made: runnel.Connection) -> None:
    database = made._database
    made.register("t", pa.table({"__key": [1], "this": [2]}))
    write = NumberedWrite(writer="w", number=1, statement="SINK", table="m", columns=("__key", "this"), rows=("t",))
    begun: list[Running] = []
    with held(made, "m"):
        thread, errors = failure_of(lambda: database.numbered_writes.write(database, write, begun.append, database.owner))
        assert eventually(_is_waiting)
        for running in begun:
            running.cancel()
        assert ended(thread)
    assert [error.code for error in errors] == [runnel.ErrorCode.CANCELLED]
    database.numbered_writes.write(database, write, begun.append, database.owner)
    assert made.execute("SELECT * FROM m ORDER BY __key").fetchall() == [(1, 2), (7, 7)], "its writer comes with it again"


def test_the_commit_of_a_job_that_waits_for_a_table_hears_its_cancelling(made: runnel.Connection) -> None:
    stream = made.register_stream("s", {"v": "BIGINT"})
    made.execute("CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '10') AS SINK INTO m SELECT v, v FROM s")
    with held(made, "m"):
        stream.write([(1,)])
        assert eventually(_is_waiting)
        [running] = made._database.jobs.running()
        running.cancel()
        assert running.wait(20), "its commit doesn't hear it"


def _is_waiting() -> bool:
    """Whether a thread waits for a lock that another statement holds."""
    return any(frame.f_code is PatientLock._wait.__code__ for frame in sys._current_frames().values())
