"""A statement that waits for a table or the catalog hears its time-out, its cancelling and the end
of the connection."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic_ns
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.base.clock import SystemClock
from runnel.catalog import Mapping
from runnel.connector import WritableTable
from runnel.connectors.kafka.sink import KafkaSink
from runnel.connectors.spark.session import start as spark_start
from runnel.deadline import Deadline, DeadlineLock, current
from runnel.named_jobs.named_snapshots import NamedSnapshots
from runnel.named_jobs.record.options import NamedJobOptions
from runnel.named_jobs.record.record import JobRecord
from runnel.snapshots.file_store import FileSnapshotStore
from runnel.statements.call import StartedStatement
from runnel.statements.numbered_writes import NumberedWrite, write_once
from tests.waiting import eventually

MAP = (
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
)
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
    assert (
        made.execute("SELECT * FROM m").fetchall()
        == made.execute("SELECT * FROM d").fetchall()
        == [(7, 7)]
    )


@pytest.mark.parametrize("sql", WAITING)
def test_a_write_that_waits_for_a_table_can_be_cancelled(made: runnel.Connection, sql: str) -> None:
    cursor = made.cursor()
    with held(made, "m", "d"):
        thread, errors = failure_of(lambda: cursor.execute(sql))
        assert eventually(lambda: cursor._deadline is not None)
        cursor.cancel()
        assert ended(thread), "the cancelling wasn't heard"
    assert [error.code for error in errors] == [runnel.ErrorCode.CANCELLED]
    assert (
        made.execute("SELECT * FROM m").fetchall()
        == made.execute("SELECT * FROM d").fetchall()
        == [(7, 7)]
    )
    assert not made._database.statements._waiting


@pytest.mark.parametrize(
    "sql", ["INSERT INTO m VALUES (?, ?)", "UPDATE m SET this = ? WHERE __key = ?"]
)
def test_many_argument_lists_hear_both(made: runnel.Connection, sql: str) -> None:
    rows = [(number, number) for number in range(3)]
    with held(made, "m"):
        thread, errors = failure_of(lambda: made.cursor().executemany(sql, rows, timeout=0.05))
        assert ended(thread)
        cursor = made.cursor()
        thread, more = failure_of(lambda: cursor.executemany(sql, rows))
        assert eventually(lambda: cursor._deadline is not None)
        cursor.cancel()
        assert ended(thread)
    assert [error.code for error in errors + more] == [
        runnel.ErrorCode.TIMEOUT,
        runnel.ErrorCode.CANCELLED,
    ]


@pytest.mark.parametrize(
    "sql", ["CREATE VIEW w AS SELECT 1 AS a", "DROP MAPPING m", MAP.replace(" m ", " n ")]
)
def test_a_definition_that_waits_for_the_catalog_times_out(
    made: runnel.Connection, sql: str
) -> None:
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
            threads.append(
                failure_of(lambda cursor=cursor: cursor.execute("INSERT INTO m VALUES (1, 2)"))
            )  # type: ignore[misc]
        assert eventually(lambda: len(made._database.statements._waiting) == 3)
        made.close()
        assert all(ended(thread) for thread, _ in threads), "the end wasn't heard"
    assert [error.code for _, errors in threads for error in errors] == [
        runnel.ErrorCode.CANCELLED
    ] * 3


def test_a_write_with_a_number_can_be_cancelled(made: runnel.Connection) -> None:
    made.register("t", pa.table({"__key": [1], "this": [2]}))
    write = NumberedWrite(
        writer="w", number=1, statement="SINK", table="m", columns=("__key", "this"), rows=("t",)
    )
    begun: list[StartedStatement] = []
    with held(made, "m"):
        thread, errors = failure_of(lambda: write_once(made._executor, write, begun.append))
        assert eventually(_is_waiting)
        for running in begun:
            running.cancel()
        assert ended(thread)
    assert [error.code for error in errors] == [runnel.ErrorCode.CANCELLED]
    write_once(made._executor, write, begun.append)
    assert made.execute("SELECT * FROM m ORDER BY __key").fetchall() == [(1, 2), (7, 7)], (
        "its writer comes with it again"
    )


def test_the_commit_of_a_job_that_waits_for_a_table_hears_its_cancelling(
    made: runnel.Connection,
) -> None:
    stream = made.register_stream("s", {"v": "BIGINT"})
    made.execute(
        "CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '10') AS SINK INTO m SELECT v, v FROM s"
    )
    with held(made, "m"):
        stream.write([(1,)])
        assert eventually(_is_waiting)
        [running] = made._database.jobs.running()
        running.cancel()
        assert running.wait(20), "its commit doesn't hear it"


@pytest.mark.parametrize("sql", ["ALTER JOB j RESUME", "DROP JOB j", "CREATE SNAPSHOT s FOR JOB j"])
def test_a_statement_that_waits_for_a_job_which_is_verified_hears_both(
    made: runnel.Connection, sql: str
) -> None:
    made.execute("CREATE JOB j AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(10)) AS g(v)")
    made.execute("ALTER JOB j SUSPEND")
    job, cursor = made.job("j"), made.cursor()
    with held_by(job.between_batches()):
        thread, errors = failure_of(lambda: made.execute(sql, timeout=0.05))
        assert ended(thread), "the time-out wasn't heard"
        thread, more = failure_of(lambda: cursor.execute(sql))
        assert eventually(_is_waiting)
        cursor.cancel()
        assert ended(thread), "the cancelling wasn't heard"
    assert [error.code for error in errors + more] == [
        runnel.ErrorCode.TIMEOUT,
        runnel.ErrorCode.CANCELLED,
    ]
    assert job.status is runnel.JobStatus.SUSPENDED
    made.execute("ALTER JOB j RESUME", timeout=20)


def test_a_statement_that_waits_for_jobs_while_one_is_made_times_out(
    made: runnel.Connection,
) -> None:
    with held_by(made._database.named_jobs._lock):
        thread, errors = failure_of(lambda: made.execute("DROP JOB j", timeout=0.05))
        assert ended(thread)
    assert [error.code for error in errors] == [runnel.ErrorCode.TIMEOUT]


def test_what_waits_for_the_start_of_spark_times_out() -> None:
    waited = pytest.raises(runnel.OperationalError, match="timed out before it began")
    with held_by(spark_start._lock), Deadline(monotonic_ns() + 50_000_000), waited as caught:
        spark_start.acquire(None)
    assert caught.value.code is runnel.ErrorCode.TIMEOUT


def test_the_copy_of_a_snapshot_that_nobody_waits_for_goes(tmp_path: Path) -> None:
    """Its folder stays until the thread that makes it has done with it."""
    done: list[Callable[[Exception | None], None]] = []

    class Store(FileSnapshotStore):
        def export(
            self, _: int, folder: Path, about: Any, on_done: Callable[[Exception | None], None]
        ) -> None:
            done.append(on_done)

    kept = tmp_path / "snapshots"
    snapshots = NamedSnapshots(kept, SystemClock())
    record = JobRecord(id=1, name="j", query="", text="", options=NamedJobOptions(), created=0)
    for deadline, code in (
        (monotonic_ns() + 50_000_000, runnel.ErrorCode.TIMEOUT),
        (None, runnel.ErrorCode.CANCELLED),
    ):
        with Deadline(deadline) as patience:
            if deadline is None:
                patience.cancel()
            with pytest.raises(runnel.OperationalError) as caught:
                snapshots.export("s", record, Store(tmp_path / "of_job"), 1)
        assert caught.value.code is code
    assert [item.name for item in sorted(kept.iterdir())] == ["1", "2"], "a number may come twice"
    for on_done in done:
        on_done(None)
    assert not list(kept.iterdir())
    assert snapshots.find("s") is None


def test_messages_that_a_broker_does_not_take_end_with_the_statement() -> None:
    pytest.importorskip("confluent_kafka")
    asked: list[float] = []

    class Client:
        """A producer whose broker answers nothing."""

        is_purged = False

        def produce(self, topic: str, **_: Any) -> None:
            pass

        def poll(self, timeout: float) -> None:
            pass

        def flush(self, timeout: float) -> int:
            asked.append(timeout)
            if len(asked) == 3:
                current().cancel()
            return 0 if self.is_purged else 1

        def purge(self) -> None:
            self.is_purged = True

    sink = KafkaSink(SimpleNamespace(topic="t"), SimpleNamespace(columns=()))  # type: ignore[arg-type]
    sink._client = client = Client()
    with Deadline(None), pytest.raises(runnel.OperationalError) as caught:
        sink._send([(None, b"a")])
    assert caught.value.code is runnel.ErrorCode.CANCELLED
    assert client.is_purged, "it would send them later"
    assert max(asked[:3]) <= 1, "it is deaf for as long"
    with Deadline(monotonic_ns() - 1), pytest.raises(runnel.OperationalError) as caught:
        sink._send([(None, b"a")])
    assert caught.value.code is runnel.ErrorCode.TIMEOUT


@contextmanager
def held_by(lock: AbstractContextManager[object]) -> Iterator[None]:
    """Another thread is within it meanwhile."""
    begun, over = Event(), Event()

    def hold() -> None:
        with lock:
            begun.set()
            over.wait(60)

    thread = Thread(target=hold)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _is_waiting() -> bool:
    """Whether a thread waits for a lock that another statement holds."""
    return any(
        frame.f_code is DeadlineLock._wait.__code__ for frame in sys._current_frames().values()
    )
