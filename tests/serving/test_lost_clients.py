"""Clients that are killed, stopped, or take no rows: the server ends what it runs for them, and
frees what it keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pyarrow as pa
import pytest

import runnel
from runnel.connector import WritableTable
from runnel.serving.server import Server, ServerLimits
from runnel.serving.statements import LOST
from tests.waiting import eventually

TOKEN = "a token of the tests"
MAP = (
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
)
PATIENCE = 300.0


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(connection: runnel.Connection, clock: Clock) -> Iterator[Server]:
    """A server in front of `connection`, which has a map."""
    connection.execute(MAP)
    made = Server(connection, TOKEN, limits=ServerLimits(client_timeout=PATIENCE))
    made._calls.clock = clock
    yield made
    made.stop()


@contextmanager
def held(connection: runnel.Connection) -> Iterator[None]:
    """Another thread holds the map meanwhile, as a statement does."""
    table = connection._database.catalog.snapshot.get("m").table  # type: ignore[union-attr]
    assert isinstance(table, WritableTable)
    begun, over = Event(), Event()

    def hold() -> None:
        with table.exclusive():
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


EXECUTING = """
import sys, threading, runnel
remote = runnel.connect(sys.argv[1], token=sys.argv[2])
for sql in sys.argv[3:]:
    threading.Thread(target=lambda sql=sql: remote.execute(sql), daemon=True).start()
sys.stdin.read()
"""

READING = """
import sys, runnel
remote = runnel.connect(sys.argv[1], token=sys.argv[2])
cursor = remote.execute(sys.argv[3])
print(cursor.fetchone(), flush=True)
sys.stdin.read()
"""


@contextmanager
def client(code: str, server: Server, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that runs statements on the server; killed at the end."""
    command = [sys.executable, "-c", code, server.url, TOKEN, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


UNREAD = """
import sys, runnel
remote = runnel.connect(sys.argv[1], token=sys.argv[2])
remote._remote._rows = lambda *_: sys.stdin.read()
print("begun", flush=True)
remote.execute(sys.argv[3])
"""

SENDING = """
import sys, runnel, pyarrow as pa
import pyarrow.flight as flight
from runnel.serving.messages import batches_message, packed
connection = runnel.connect(sys.argv[1], token=sys.argv[2])
remote = connection._remote
table = pa.table({"a": [1, 2, 3]})
target = flight.FlightDescriptor.for_command(packed({"register": "t", "rows": 6}))
writer, _ = remote._client.do_put(target, pa.schema([]), remote._options)
writer.write_metadata(batches_message(table.to_batches(), table.schema))
print("sent", flush=True)
sys.stdin.read()
"""

ENDLESS = "FROM TABLE(GENERATE_SERIES(1, 1000000000000)) AS g(v) WHERE v % 7 = 9"
WAITING = [
    "INSERT INTO m VALUES (1, 2)",
    "SINK INTO m SELECT v, v FROM TABLE(GENERATE_SERIES(1, 3)) AS g(v)",
    "UPDATE m SET this = 5",
    "DELETE FROM m",
    "EXPLAIN ANALYZE DELETE FROM m WHERE this > 1",
]
AT_WORK = [f"EXPLAIN ANALYZE SELECT COUNT(*) {ENDLESS}", f"SINK INTO m SELECT v, v {ENDLESS}"]


def test_statements_that_wait_end_with_their_client(
    connection: runnel.Connection, server: Server
) -> None:
    connection.execute("INSERT INTO m VALUES (7, 7)")
    with held(connection), client(EXECUTING, server, *WAITING) as process:
        waiting = connection._database.statements._waiting
        assert eventually(lambda: len(waiting) == len(WAITING))
        process.kill()
        assert eventually(lambda: not waiting and not len(server._statements)), (
            "they outlive their client"
        )
    assert connection.execute("SELECT * FROM m").fetchall() == [(7, 7)]
    assert connection.execute("UPDATE m SET this = 8", timeout=10).rowcount == 1


def test_statements_at_work_end_with_their_client(
    connection: runnel.Connection, server: Server
) -> None:
    with client(EXECUTING, server, *AT_WORK) as process:
        assert eventually(
            lambda: (
                len(server._statements) == len(AT_WORK) and len(connection.jobs()) == len(AT_WORK)
            )
        )
        process.kill()
        assert eventually(lambda: not connection.jobs() and not len(server._statements)), (
            "they outlive their client"
        )
    assert connection.execute("INSERT INTO m VALUES (1, 2)", timeout=10).rowcount == 1


def test_a_verification_that_waits_for_a_snapshot_ends_with_its_client(
    connection: runnel.Connection, server: Server
) -> None:
    rows = "SELECT v, v FROM TABLE(GENERATE_STREAM(100)) AS g(v)"
    connection.execute(
        f"CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '10') AS SINK INTO m {rows}"
    )
    assert eventually(lambda: connection.job("j").last_snapshot is not None)
    with held(connection), client(EXECUTING, server, "VERIFY JOB j") as process:
        waiting = connection._database.statements._waiting
        assert eventually(lambda: any(item._wakes for item in list(waiting)))
        process.kill()
        assert eventually(lambda: not waiting and not len(server._statements)), (
            "it outlives its client"
        )
    assert connection.job("j").status is runnel.JobStatus.RUNNING


def test_rows_end_with_their_client(connection: runnel.Connection, server: Server) -> None:
    for sql in (
        "SELECT * FROM TABLE(GENERATE_STREAM(1000000))",
        "SELECT v FROM TABLE(GENERATE_SERIES(1, 100000000)) AS g(v)",
    ):
        with client(READING, server, sql) as process:
            assert process.stdout is not None
            assert process.stdout.readline() in ("(0,)\n", "(1,)\n")
            process.kill()
            assert eventually(lambda: not connection.jobs() and not len(server._statements)), (
                "they outlive their client"
            )


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere nothing says which connections there are"
)
def test_rows_that_nobody_has_begun_to_read_end_with_their_client(
    connection: runnel.Connection, server: Server
) -> None:
    with client(UNREAD, server, "SELECT * FROM TABLE(GENERATE_STREAM(1000000))") as process:
        assert eventually(
            lambda: any(item.result is not None for item in server._statements._open.values())
        )
        for statement in server._statements._open.values():
            statement.has_rows_since -= LOST + 1
        server._calls.look()
        assert connection.jobs(), "its client lives"
        process.kill()
        assert eventually(lambda: not connection.jobs() and not len(server._statements)), (
            "they outlive their client"
        )


def test_a_table_of_a_killed_client_is_not_registered(
    connection: runnel.Connection, server: Server
) -> None:
    connection.register("t", pa.table({"a": [7]}))
    with client(SENDING, server) as process:
        assert process.stdout is not None and process.stdout.readline() == "sent\n"
        assert eventually(lambda: len(server._calls._open) == 1)
        process.kill()
        assert eventually(lambda: not server._calls._open), "its thread stays"
    server.stop()  # waits for its call
    assert connection.execute("SELECT a FROM t").fetchall() == [(7,)], (
        "a part of the table took the place of another"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a connection can't be cut")
def test_a_client_that_is_stopped_while_it_sends_a_table_keeps_nothing(
    connection: runnel.Connection, server: Server, clock: Clock
) -> None:
    with client(SENDING, server) as process:
        assert process.stdout is not None and process.stdout.readline() == "sent\n"
        assert eventually(lambda: len(server._calls._open) == 1)
        os.kill(process.pid, signal.SIGSTOP)
        server._calls.look()
        assert len(server._calls._open) == 1, "it has time"

        def is_over() -> bool:
            clock.now += PATIENCE + 1  # each time, as the server may have read the batch only now
            return not server._calls._open

        assert eventually(is_over), "its thread stays"
        os.kill(process.pid, signal.SIGCONT)


def is_stalled(connection: runnel.Connection, server: Server) -> bool:
    """Whether rows come to wait in a write, for a client that takes none."""
    [rows] = server._calls._open
    return eventually(lambda: not rows._is_reading and _is_full(connection))  # type: ignore[attr-defined]


def _is_full(connection: runnel.Connection) -> bool:
    [job] = connection._database.jobs.running()
    return len(job.results) >= job.results.capacity


def test_a_client_that_is_stopped_keeps_nothing(
    connection: runnel.Connection, server: Server, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with client(
        READING, server, "SELECT v FROM TABLE(GENERATE_SERIES(1, 100000000)) AS g(v)"
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        assert is_stalled(connection, server)
        server._calls.look()
        assert connection.jobs(), "it has time"
        clock.now += PATIENCE + 1
        server._calls.look()
        assert eventually(lambda: not connection.jobs() and not len(server._statements)), (
            "job and batches stay"
        )
        assert "a client has not read its rows for 300 s" in caplog.text
        if sys.platform == "linux":  # where Flight's thread may still be in its write
            clock.now += PATIENCE + 1
            assert eventually(lambda: not server._calls.look() or not server._calls._open), (
                "the connection isn't cut"
            )
        os.kill(process.pid, signal.SIGCONT)


def test_a_client_that_comes_too_late_for_its_rows_is_told(
    connection: runnel.Connection, server: Server, clock: Clock
) -> None:
    with runnel.connect(server.url, token=TOKEN) as remote:
        cursor = remote.execute("SELECT v FROM TABLE(GENERATE_SERIES(1, 100000000)) AS g(v)")
        assert cursor.fetchone() == (1,)
        assert is_stalled(connection, server)
        clock.now += PATIENCE + 1
        server._calls.look()
        with pytest.raises(
            runnel.OperationalError, match="the rows were not read for 300 s"
        ) as caught:
            while cursor.fetchone() is not None:
                pass
        assert caught.value.code is runnel.ErrorCode.TIMEOUT
        assert remote.execute("SELECT 42").fetchone() == (42,), "the connection goes on"


def test_a_client_that_waits_for_rows_has_all_the_time(
    connection: runnel.Connection, server: Server, clock: Clock
) -> None:
    writer = connection.register_stream("s", {"v": "BIGINT"})
    with runnel.connect(server.url, token=TOKEN) as remote:
        cursor = remote.execute("SELECT v FROM s")
        writer.write([(1,)])
        assert cursor.fetchone() == (1,)
        [rows] = server._calls._open
        assert eventually(lambda: rows._is_reading)  # type: ignore[attr-defined]
        clock.now += 10 * PATIENCE
        assert server._calls.look()
        writer.write([(2,)])
        assert cursor.fetchone() == (2,)


def test_a_server_ends_while_a_client_waits_for_a_table(
    connection: runnel.Connection, server: Server
) -> None:
    with held(connection), client(EXECUTING, server, *WAITING):
        waiting = connection._database.statements._waiting
        assert eventually(lambda: len(waiting) == len(WAITING))
        assert server.stop(), "a statement is left behind"


def test_nothing_is_looked_after_when_no_call_is_open(
    connection: runnel.Connection, server: Server
) -> None:
    with runnel.connect(server.url, token=TOKEN) as remote:
        assert remote.execute("SELECT 42").fetchone() == (42,)
    assert eventually(lambda: server._calls._is_parked, 10)
