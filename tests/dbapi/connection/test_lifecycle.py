"""Cursors, jobs and connections end, whatever way they end, and leave nothing running."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from time import monotonic

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, Cursor, ErrorCode
from tests.waiting import eventually

ENDLESS = "SELECT v FROM TABLE(GENERATE_STREAM(1000000))"
HUGE = (
    "SELECT a.v FROM TABLE(GENERATE_SERIES(1, 100000)) AS a(v) "
    "CROSS JOIN TABLE(GENERATE_SERIES(1, 100000)) AS b(v)"
)


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread is not threading.main_thread()}


LEAVING = """
import sys, threading, runnel

connection = runnel.connect(query_parallelism=2)
stands = threading.Barrier(4)


def read() -> None:
    cursor = connection.cursor().execute(
        "SELECT v, CAST(v AS VARCHAR) FROM TABLE(GENERATE_STREAM(2000000))"
    )
    batches = cursor.fetch_record_batch()
    next(batches)
    stands.wait()
    for _ in batches:
        pass


threading.excepthook = lambda info: None
for _ in range(3):
    threading.Thread(target=read, daemon=True).start()
stands.wait()
"""


def test_a_process_that_ends_while_its_threads_fetch_ends_well() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", LEAVING],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_closing_the_cursor_cancels_its_job(connection: Connection) -> None:
    for sql in (ENDLESS, HUGE):
        cursor = connection.execute(sql)
        assert cursor.fetchone() is not None
        (job,) = connection.jobs()
        cursor.close()
        assert job.wait(10)
        assert connection.jobs() == []


@pytest.mark.parametrize("fetch", [Cursor.fetchall, Cursor.fetch_arrow_table])
def test_closing_the_cursor_in_a_fetch_is_no_early_end(
    connection: Connection, fetch: Callable[[Cursor], object]
) -> None:
    cursor = connection.execute(HUGE)
    closing = threading.Timer(0.05, cursor.close)
    closing.start()
    with pytest.raises((runnel.InterfaceError, runnel.OperationalError)):
        fetch(cursor)
    closing.join()


def test_the_next_statement_cancels_the_last(connection: Connection) -> None:
    cursor = connection.execute(ENDLESS)
    (job,) = connection.jobs()
    cursor.execute("SELECT 1")
    assert job.wait(10)
    assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize("sql", [ENDLESS, HUGE])
def test_a_forgotten_cursor_cancels_its_job(connection: Connection, sql: str) -> None:
    cursor = connection.cursor().execute(sql)
    cursor.fetchone()
    (job,) = connection.jobs()
    del cursor
    gc.collect()
    assert job.wait(10)
    assert connection.jobs() == []


def test_a_forgotten_reader_cancels_its_job(connection: Connection) -> None:
    reader = connection.execute(ENDLESS).fetch_record_batch()
    assert reader.read_next_batch().num_rows > 0
    (job,) = connection.jobs()
    gc.collect()
    assert not job.is_done
    del reader
    gc.collect()
    assert job.wait(10)


def test_a_failed_statement_is_forgotten(connection: Connection) -> None:
    def failed() -> weakref.ref[runnel.Error]:
        try:
            connection.execute(
                "SELECT 1 / v FROM TABLE(GENERATE_SERIES(0, 100000)) AS t(v) ORDER BY 1"
            ).fetchall()
        except runnel.DataError as error:
            return weakref.ref(error)
        raise AssertionError

    error = failed()
    gc.collect()
    assert error() is None


def test_a_closed_connection_leaves_no_thread() -> None:
    before = threads()
    connection = runnel.connect()
    cursors = [connection.execute(sql) for sql in (ENDLESS, HUGE, ENDLESS)]
    for cursor in cursors:
        cursor.fetchone()
    jobs = connection.jobs()
    assert len(jobs) == 3
    connection.close()
    assert all(job.is_done for job in jobs)
    assert threads() <= before


def test_a_forgotten_connection_leaves_no_thread() -> None:
    before = threads()
    connection = runnel.connect()
    cursor = connection.execute(ENDLESS)
    cursor.fetchone()
    del cursor, connection
    gc.collect()
    assert eventually(lambda: threads() <= before)


def test_cancel_from_another_thread(connection: Connection) -> None:
    cursor = connection.execute("SELECT v FROM TABLE(GENERATE_STREAM(1)) WHERE v < 0")
    timer = threading.Timer(0.05, cursor.cancel)
    timer.start()
    with pytest.raises(runnel.OperationalError) as caught:
        cursor.fetchone()
    timer.join()
    assert caught.value.code is ErrorCode.CANCELLED
    with pytest.raises(runnel.OperationalError):
        cursor.fetchone()
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_cancel_of_a_write_writes_nothing(connection: Connection) -> None:
    """The reader is held in the middle of its rows until the cancellation is on its way."""
    began, cancelled = threading.Event(), threading.Event()
    schema = pa.schema([("n", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([1, 2])], schema=schema)
        began.set()
        assert cancelled.wait(10)
        yield pa.record_batch([pa.array([3])], schema=schema)

    connection.register("source", pa.RecordBatchReader.from_batches(schema, batches()))
    connection.execute("CREATE MAPPING m (__key BIGINT) TYPE IMap OPTIONS ('keyFormat'='bigint')")
    cursor = connection.cursor()

    def cancel() -> None:
        assert began.wait(10)
        cursor.cancel()
        cancelled.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(runnel.OperationalError) as caught:
        cursor.execute("SINK INTO m SELECT n FROM source")
    thread.join()
    assert caught.value.code is ErrorCode.CANCELLED
    assert connection.execute("SELECT COUNT(*) FROM m").fetchall() == [(0,)]


def test_cancel_where_nothing_runs_does_nothing(cursor: Cursor) -> None:
    cursor.cancel()
    cursor.execute("SELECT 1")
    assert eventually(lambda: cursor.connection.jobs() == [])
    cursor.cancel()
    assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize("fetch", ["fetchone", "fetchall"])
def test_the_timeout_bounds_a_query(connection: Connection, fetch: str) -> None:
    start = monotonic()
    cursor = connection.cursor()
    sql = ENDLESS + " WHERE v < 0" if fetch == "fetchone" else HUGE + " WHERE a.v + b.v < 0"
    with pytest.raises(runnel.OperationalError) as caught:
        getattr(cursor.execute(sql, timeout=0.1), fetch)()
    assert caught.value.code is ErrorCode.TIMEOUT
    assert caught.value.message == "the statement took longer than its time-out of 0.1 s"
    assert monotonic() - start < 5
    assert eventually(lambda: connection.jobs() == [])
    for enough in (60, float("inf")):
        assert cursor.execute("SELECT 1", timeout=enough).fetchall() == [(1,)]


def test_the_timeout_bounds_a_write(connection: Connection) -> None:
    cursor = connection.execute(
        "CREATE MAPPING m (__key BIGINT, x BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    with pytest.raises(runnel.OperationalError) as caught:
        cursor.execute(f"SINK INTO m SELECT v, 0 FROM ({HUGE}) AS t(v)", timeout=0.1)
    assert caught.value.code is ErrorCode.TIMEOUT
    assert caught.value.message == "the statement took longer than its time-out of 0.1 s"
    assert cursor.execute("SELECT COUNT(*) FROM m").fetchall() == [(0,)]
    cursor.execute("SINK INTO m VALUES (1, 2)", timeout=60)
    assert cursor.rowcount == 1


def test_ctrl_c_in_a_fetch(connection: Connection) -> None:
    cursor = connection.execute(ENDLESS + " WHERE v < 0")
    timer = threading.Timer(
        0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
    )
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        cursor.fetchone()
    timer.join()
    assert eventually(lambda: connection.jobs() == [])
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


INTERRUPTED = f"""
import os, signal, sys, threading
import runnel
connection = runnel.connect()
cursor = connection.cursor()
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    cursor.execute("{HUGE} WHERE a.v + b.v < 0").fetchall()
except KeyboardInterrupt:
    print("interrupted", cursor.execute("SELECT 1").fetchall(), connection.jobs())
"""


def test_ctrl_c_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted [(1,)] []\n", "", 0)


@pytest.mark.parametrize("last", ["", "connection.close()", "del cursor", "sys.exit(0)"])
def test_a_process_ends_quietly_with_work_under_way(last: str) -> None:
    script = (
        "import runnel, sys\nconnection = runnel.connect()\n"
        f"cursor = connection.execute('{ENDLESS}')\n"
    )
    script += f"cursor.fetchone()\n{last}\n"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_show_jobs_and_the_handles(connection: Connection) -> None:
    cursor = connection.cursor()
    assert cursor.execute("SHOW JOBS FULL").fetchall() == []
    running = connection.execute(ENDLESS)
    running.fetchone()
    (row,) = cursor.execute("SHOW JOBS FULL").fetchall()
    assert cursor.description is not None
    shown = dict(zip([column.name for column in cursor.description], row, strict=True))
    (job,) = connection.jobs()
    assert shown["id"] == job.id and shown["query"] == ENDLESS
    assert (shown["status"], shown["kind"]) == ("RUNNING", "light")
    assert (
        shown["rows_out"] > 0
        and shown["rows_per_second"] > 0
        and shown["uptime"].total_seconds() > 0
    )
    assert connection.job(job.id) is job
    job.cancel()
    assert job.wait(10)
    with pytest.raises(runnel.ProgrammingError, match=f"job {job.id} not found"):
        connection.job(job.id)


def test_a_write_that_fails_half_way_writes_nothing(connection: Connection) -> None:
    cursor = connection.execute(
        "CREATE MAPPING m (__key BIGINT, x BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    connection.register("t", pa.table([pa.array(range(100_000))], names=["k"]))
    with pytest.raises(runnel.DataError, match="division by zero"):
        cursor.execute("INSERT INTO m SELECT k, 1 / (k - 99999) FROM t")
    with pytest.raises(runnel.IntegrityError):
        cursor.execute("INSERT INTO m SELECT k / 2, 0 FROM t")
    assert cursor.execute("SELECT COUNT(*) FROM m").fetchall() == [(0,)]
    cursor.execute("INSERT INTO m SELECT k, 0 FROM t")
    assert cursor.rowcount == 100_000
