"""A cursor on a server's connection is the same cursor: rows, errors, streams, cancelling."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from uuid import UUID

import dbapi20
import pyarrow as pa
import pytest

import runnel
from runnel.serving.server import Server
from tests.dbapi.cursor.test_compliance import TestCompliance as LocalCompliance
from tests.effort import some
from tests.waiting import eventually

TOKEN = "a token of the tests"
MAP = (
    "CREATE MAPPING m (__key BIGINT, this VARCHAR) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'varchar')"
)


@pytest.fixture
def server(connection: runnel.Connection) -> Iterator[Server]:
    """A server in front of `connection`."""
    made = Server(connection, TOKEN)
    yield made
    made.stop()


@pytest.fixture
def remote(server: Server) -> Iterator[runnel.Connection]:
    """A connection to it."""
    with runnel.connect(server.url, token=TOKEN) as made:
        yield made


VALUES = [
    None,
    True,
    -(2**63),
    2**100,
    1.5,
    float("inf"),
    "text with \u2603 and \0",
    b"\x00\xff",
    Decimal("12345678901234567890.123"),
    datetime.date(1, 1, 1),
    datetime.datetime(2026, 2, 28, 23, 59, 59, 999999),
    datetime.datetime(2026, 2, 28, tzinfo=datetime.UTC),
    datetime.time(23, 59, 59, 1),
    datetime.timedelta(days=-3, microseconds=1),
    [1, None, 3],
    {"a": 1, "b": ["x"]},
    UUID("12345678-1234-5678-1234-567812345678"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_as_they_do_here(
    connection: runnel.Connection, remote: runnel.Connection, value: object
) -> None:
    here = connection.execute("SELECT ? AS given, 1 AS one", (value,))
    there = remote.execute("SELECT ? AS given, 1 AS one", (value,))
    assert there.description == here.description
    (row,) = there.fetchall()
    assert [row] == here.fetchall()
    assert row[0] == value


def test_a_uuid_is_one_on_both_sides(
    connection: runnel.Connection, remote: runnel.Connection
) -> None:
    query = "SELECT CAST('12345678-1234-5678-1234-567812345678' AS UUID) AS u"
    assert remote.execute(query).fetchall() == connection.execute(query).fetchall()
    assert (
        remote.execute(query)
        .fetch_arrow_table()
        .equals(connection.execute(query).fetch_arrow_table())
    )


def test_writing_and_reading(connection: runnel.Connection, remote: runnel.Connection) -> None:
    remote.execute(MAP)
    cursor = remote.cursor()
    assert (
        cursor.executemany(
            "INSERT INTO m VALUES (?, ?)", [(i, str(i)) for i in range(500)]
        ).rowcount
        == 500
    )
    assert cursor.execute("DELETE FROM m WHERE __key >= ?", (400,)).rowcount == 100
    assert remote.execute("SELECT COUNT(*), MAX(__key) FROM m").fetchone() == (400, 399)
    assert connection.execute("SELECT this FROM m WHERE __key = 7").fetchall() == [("7",)]


def test_all_ways_to_fetch(remote: runnel.Connection) -> None:
    query = "SELECT v FROM TABLE(GENERATE_SERIES(1, 100000)) AS g(v)"
    assert sum(row[0] for row in remote.execute(query)) == 5_000_050_000
    assert remote.execute(query).fetch_arrow_table().num_rows == 100_000
    assert sum(batch.num_rows for batch in remote.execute(query).fetch_record_batch()) == 100_000
    assert pa.table(remote.execute(query)).num_rows == 100_000
    cursor = remote.execute(query)
    assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
    assert len(cursor.fetchall()) == 99_997
    assert cursor.rowcount == 100_000


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nope FROM TABLE(GENERATE_SERIES(1, 3))",
        "SELEC 1",
        "SELECT 1 / (v - 2) FROM TABLE(GENERATE_SERIES(1, 3)) AS g(v)",
        "SELECT ?",
    ],
)
def test_errors_are_those_of_a_local_connection(
    connection: runnel.Connection, remote: runnel.Connection, sql: str
) -> None:
    def error_of(made: runnel.Connection) -> runnel.Error:
        with pytest.raises(runnel.Error) as caught:
            made.execute(sql).fetchall()
        return caught.value

    here, there = error_of(connection), error_of(remote)
    assert str(there) == str(here)
    assert (type(there), there.code, there.position) == (type(here), here.code, here.position)


def test_a_stream_comes_as_it_is_written(
    connection: runnel.Connection, remote: runnel.Connection
) -> None:
    writer = connection.register_stream("s", {"v": "BIGINT"})
    cursor = remote.execute("SELECT v * 10 FROM s")
    assert cursor.is_unbounded
    writer.write([(1,), (2,)])
    assert [cursor.fetchone(), cursor.fetchone()] == [(10,), (20,)]
    writer.write([(3,)])
    assert cursor.fetchmany(5) == [(30,)]
    writer.close()
    assert cursor.fetchall() == []


def test_a_closed_cursor_ends_its_job(
    connection: runnel.Connection, remote: runnel.Connection
) -> None:
    cursor = remote.execute("SELECT * FROM TABLE(GENERATE_STREAM(100000))")
    assert cursor.fetchone() is not None
    assert len(connection.jobs()) == 1
    cursor.close()
    assert eventually(lambda: not connection.jobs())


def test_cancelling_from_another_thread(
    connection: runnel.Connection, remote: runnel.Connection
) -> None:
    connection.register_stream("s", {"v": "BIGINT"})
    cursor = remote.execute("SELECT v FROM s")
    threading.Timer(0.05, cursor.cancel).start()
    with pytest.raises(runnel.OperationalError) as caught:
        cursor.fetchone()
    assert caught.value.code is runnel.ErrorCode.CANCELLED
    assert eventually(lambda: not connection.jobs())


def test_a_time_out_holds_over_there(remote: runnel.Connection) -> None:
    with pytest.raises(runnel.OperationalError) as caught:
        query = (
            "SELECT COUNT(*) FROM TABLE(GENERATE_SERIES(1, 1000000000000)) AS g(v) WHERE v % 7 = 3"
        )
        remote.execute(query, timeout=0.2).fetchall()
    assert caught.value.code is runnel.ErrorCode.TIMEOUT


def test_registered_data_is_copied(
    connection: runnel.Connection, remote: runnel.Connection
) -> None:
    remote.register("t", pa.table({"a": [1, 2, 3]}))
    assert remote.execute("SELECT SUM(a) FROM t").fetchone() == (6,)
    assert connection.execute("SELECT SUM(a) FROM t").fetchone() == (6,)
    remote.unregister("t")
    with pytest.raises(runnel.ProgrammingError, match='"t"'):
        remote.execute("SELECT * FROM t")


def test_what_needs_code_over_there_is_refused(remote: runnel.Connection) -> None:
    for refused in (
        lambda: remote.create_function("f", len, ["VARCHAR"], "BIGINT"),
        lambda: remote.create_aggregate("f", len, ["VARCHAR"], "BIGINT"),
        lambda: remote.register_stream("s", {"v": "BIGINT"}),
        lambda: remote.submit(runnel.DAG()),
        remote.jobs,
        lambda: remote.job("j"),
    ):
        with pytest.raises(runnel.NotSupportedError, match="connection to a server"):
            refused()


def test_many_clients_at_once(server: Server) -> None:
    sums: list[int] = []

    def ask(number: int) -> None:
        with runnel.connect(server.url, token=TOKEN) as made:
            sums.extend(
                made.execute(
                    "SELECT SUM(v) + ? FROM TABLE(GENERATE_SERIES(1, 1000)) AS g(v)", (number,)
                ).fetchone()[0]  # type: ignore[index]
                for _ in range(10)
            )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums) == sorted(500_500 + number for number in range(8) for _ in range(10))


def test_closing_waits_for_calls_of_other_threads(server: Server) -> None:
    """Each closed cursor has a thread of its own tell the server, which may be at it when the
    connection is closed."""
    for _ in some(range(20), 3):
        with runnel.connect(server.url, token=TOKEN) as made:
            cursors = [
                made.execute("SELECT v FROM TABLE(GENERATE_STREAM(100000)) AS g(v)")
                for _ in range(5)
            ]
            for cursor in cursors:
                cursor.fetchone()
                cursor.close()
    database = made._database
    assert database.is_closed and eventually(lambda: database._calls == 0)


def test_the_last_call_closes_the_client(server: Server) -> None:
    made = runnel.connect(server.url, token=TOKEN)
    database = made._database
    closed: list[int] = []
    client = database._client

    class Watched:
        def do_action(self, *given: object) -> object:
            made.close()
            assert not closed, "a call is under way"
            return client.do_action(*given)

        def close(self) -> None:
            closed.append(database._calls)
            client.close()

    database._client = Watched()
    made.execute("SELECT 42")
    assert closed == [0]
    with pytest.raises(runnel.InterfaceError, match="closed"):
        made.execute("SELECT 1")


def test_closing_ends_what_is_being_read(server: Server) -> None:
    """Also where the cursors aren't closed: their rows are read by threads, which may not outlive
    the connection."""
    remote = runnel.connect(server.url, token=TOKEN)
    cursors = [
        remote.execute("SELECT v, CAST(v AS VARCHAR) FROM TABLE(GENERATE_STREAM(1000000))")
        for _ in range(3)
    ]
    assert [cursor.fetchone() for cursor in cursors] == [(0, "0")] * 3
    remote.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "runnel-rows"]
    for cursor in cursors:
        with pytest.raises(runnel.Error):
            while cursor.fetchone() is not None:
                pass


LEAVING = """
import sys, runnel

remote = runnel.connect(sys.argv[1], token=sys.argv[2])
cursors = [
    remote.execute("SELECT v, CAST(v AS VARCHAR) FROM TABLE(GENERATE_STREAM(3000000))")
    for _ in range(3)
]
print(cursors[0].fetchone())
"""


def test_a_process_that_leaves_in_the_middle_of_its_rows_ends_well(server: Server) -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", LEAVING, server.url, TOKEN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "(0, '0')\n"), done.stderr


def test_a_closed_connection_says_so(remote: runnel.Connection) -> None:
    remote.close()
    remote.close()
    with pytest.raises(runnel.InterfaceError, match="closed"):
        remote.execute("SELECT 1")


class TestRemoteCompliance(LocalCompliance):
    """The PEP 249 suite over a server."""

    def setUp(self) -> None:
        self.local = runnel.connect()
        self.server = Server(self.local, TOKEN)
        self.connect_args = (self.server.url,)  # type: ignore[assignment]
        self.connect_kw_args = {"token": TOKEN}
        super().setUp()

    def tearDown(self) -> None:
        super().tearDown()
        self.server.stop()
        self.local.close()


del LocalCompliance
assert issubclass(TestRemoteCompliance, dbapi20.DatabaseAPI20Test)


def test_each_statement_of_a_client_is_a_transaction(
    connection: runnel.Connection, remote: runnel.Connection
) -> None:
    """BEGIN is refused, so no client believes that ROLLBACK undoes its writes."""
    remote.execute("CREATE TABLE account (id INT PRIMARY KEY, amount INT)")
    for sql in ("BEGIN", "START TRANSACTION", "BEGIN TRANSACTION READ ONLY"):
        with pytest.raises(runnel.NotSupportedError, match="BEGIN is not supported") as error:
            remote.execute(sql)
        assert error.value.detail == "each statement of a client is a transaction by itself"
    remote.execute("INSERT INTO account VALUES (1, 10)")
    for sql in ("COMMIT", "ROLLBACK"):
        with pytest.raises(runnel.ProgrammingError, match="without a transaction") as found:
            remote.execute(sql)
        assert "a client of a server has no BEGIN" in (found.value.hint or "")
    remote.commit()
    remote.rollback()
    assert connection.execute("SELECT * FROM account").fetchall() == [(1, 10)]
    remote.execute("CREATE SCHEMA stage")
    with pytest.raises(runnel.NotSupportedError, match="USE is not supported through a server"):
        remote.execute("USE stage")


def test_a_client_imports_no_module(remote: runnel.Connection) -> None:
    with pytest.raises(runnel.NotSupportedError, match="not supported through a server"):
        remote.execute("CREATE FUNCTION f AS 'calendar.isleap' LANGUAGE PYTHON")


def test_a_transaction_of_the_owner_is_not_one_of_its_clients(
    connection: runnel.Connection, remote: runnel.Connection
) -> None:
    connection.execute("CREATE TABLE account (id INT, amount INT)")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO account VALUES (1, 10)")
    assert remote.execute("SELECT count(*) FROM account").fetchall() == [(0,)]
    remote.execute("INSERT INTO account VALUES (2, 20)")
    connection.execute("ROLLBACK")
    assert remote.execute("SELECT id FROM account").fetchall() == [(2,)]
