"""Fetches with a timeout: the query continues after it, and no row is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, Cursor, ErrorCode
from runnel.serving.server import Server
from tests.waiting import eventually

SCHEMA = pa.schema([("v", pa.int64())])
SOON = 0.01
PATIENCE = 30
TOKEN = "a-token-for-tests-0123456789"


@pytest.fixture(params=["here", "server"])
def reader(request: pytest.FixtureRequest, connection: Connection) -> Iterator[Connection]:
    """The connection itself, or one to a server of it."""
    if request.param == "here":
        yield connection
        return
    server = Server(connection, TOKEN)
    try:
        with runnel.connect(server.url, token=TOKEN) as remote:
            yield remote
    finally:
        server.stop()


@pytest.fixture
def slow_table(connection: Connection) -> Iterator[Callable[[], None]]:
    """The table `slow` with the rows 1 and 2, and 3 after the call of this function."""
    goes_on = Event()

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"v": [1, 2]})
        goes_on.wait(PATIENCE)
        yield pa.record_batch({"v": [3]})

    connection.register("slow", pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    yield goes_on.set
    goes_on.set()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_no_row_of_a_stream(connection: Connection, reader: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = reader.execute("SELECT v FROM s")
    for timeout in (0, SOON, 0):
        with pytest.raises(runnel.OperationalError) as caught:
            cursor.fetchone(timeout=timeout)
        assert type(caught.value) is runnel.FetchTimeoutError
        assert caught.value.code is ErrorCode.TIMEOUT
        assert caught.value.message == f"no row arrived within {timeout:g} s"
        assert caught.value.hint is not None and "the query continues" in caught.value.hint
        assert caught.value.sql == "SELECT v FROM s"
    with pytest.raises(runnel.FetchTimeoutError):
        cursor.fetchmany(5, timeout=SOON)
    writer.write([(1,), (2,), (3,)])
    assert cursor.fetchone(timeout=PATIENCE) == (1,)
    assert cursor.fetchone(timeout=0) == (2,), "a row that has arrived"
    assert cursor.fetchmany(5, timeout=0) == [(3,)]
    writer.close()
    assert cursor.fetchone(timeout=PATIENCE) is None
    assert cursor.fetchone(timeout=0) is None and cursor.fetchmany(timeout=0) == []


def test_the_end_of_a_stream(connection: Connection, reader: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = reader.execute("SELECT v FROM s")
    writer.write([(1,), (2,)])
    assert cursor.fetchone(PATIENCE) == (1,)
    writer.write([(3,), (4,)])
    for fetch in (cursor.fetchall, cursor.fetch_arrow_table, cursor.fetch_df, cursor.fetch_polars):
        with pytest.raises(runnel.FetchTimeoutError):
            fetch(timeout=SOON)
    assert cursor.fetchmany(1, timeout=PATIENCE) == [(2,)]
    writer.write([(5,)])
    with pytest.raises(runnel.FetchTimeoutError):
        cursor.fetchall(timeout=0)
    assert cursor.rowcount == -1
    writer.close()
    assert rows_of(cursor.fetch_arrow_table(timeout=PATIENCE)) == [(3,), (4,), (5,)]
    assert cursor.fetchall(timeout=0) == [] and cursor.rowcount == 5


def test_a_bounded_query(connection: Connection, slow_table: Callable[[], None]) -> None:
    cursor = connection.execute("SELECT v FROM slow")
    assert cursor.fetchone(timeout=PATIENCE) == (1,)
    assert cursor.fetchmany(3, timeout=SOON) == [(2,)], "what has arrived"
    with pytest.raises(runnel.FetchTimeoutError):
        cursor.fetchmany(3, timeout=SOON)
    with pytest.raises(runnel.FetchTimeoutError):
        cursor.fetchall(timeout=SOON)
    slow_table()
    assert cursor.fetchall(timeout=PATIENCE) == [(3,)]


def test_a_batch_reader_can_be_read_again(
    connection: Connection, slow_table: Callable[[], None]
) -> None:
    cursor = connection.execute("SELECT v FROM slow")
    assert cursor.fetchone(timeout=PATIENCE) == (1,)
    batches = cursor.fetch_record_batch(timeout=SOON)
    assert batches.read_next_batch().to_pydict() == {"v": [2]}
    with pytest.raises(runnel.FetchTimeoutError):
        batches.read_next_batch()
    slow_table()
    assert eventually(lambda: not connection.jobs())  # the rows have arrived
    assert batches.read_all().to_pydict() == {"v": [3]}


def test_a_call_of_an_operator_takes_long(connection: Connection) -> None:
    """The fetching thread doesn't run an operator whose call it could not leave."""
    goes_on, count = Event(), 3_000_000
    goes_on.set()

    def wait(values: pa.Array) -> pa.Array:
        goes_on.wait(PATIENCE)
        return values

    connection.create_function("wait", wait, [int], int)
    cursor = connection.execute(f"SELECT wait(v) FROM TABLE(GENERATE_SERIES(1, {count})) AS t(v)")
    assert cursor.fetchone(timeout=PATIENCE) == (1,)
    goes_on.clear()  # more rows are left than the results have room for
    batches = cursor.fetch_record_batch(timeout=0.05)
    rows = 1
    with pytest.raises(runnel.FetchTimeoutError):
        for batch in batches:
            rows += batch.num_rows
    assert 1 < rows < count
    goes_on.set()
    assert rows + len(cursor.fetch_arrow_table(timeout=PATIENCE)) == count


def test_rows_without_a_job(connection: Connection) -> None:
    assert connection.execute("SHOW MAPPINGS").fetchall(timeout=0) == []
    cursor = connection.execute("SHOW time_zone")
    assert cursor.fetchone(timeout=0) == ("UTC",) and cursor.fetchone(timeout=0) is None


def test_the_timeout_of_the_statement_ends_it(connection: Connection) -> None:
    connection.register_stream("s", SCHEMA)
    connection.execute("SELECT v FROM s").close()  # its plan is cached
    cursor = connection.execute("SELECT v FROM s", timeout=0.5)
    with pytest.raises(runnel.OperationalError, match="took longer than its time-out") as caught:
        cursor.fetchone(timeout=PATIENCE)
    assert isinstance(caught.value, runnel.errors.QueryCanceled)
    assert caught.value.code is ErrorCode.TIMEOUT


def test_a_failure_after_a_timeout(connection: Connection, reader: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = reader.execute("SELECT 10 / v FROM s")
    writer.write([(5,)])
    with pytest.raises(runnel.FetchTimeoutError):
        cursor.fetchall(timeout=0.1)
    writer.write([(0,)])
    for _ in range(2):
        with pytest.raises(runnel.DataError, match="division by zero"):
            cursor.fetchall(timeout=PATIENCE)


def test_other_ends_of_the_query(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = connection.execute("SELECT v FROM s")
    writer.write([(1,)])
    with pytest.raises(runnel.FetchTimeoutError):
        cursor.fetchall(timeout=0.1)
    batches = cursor.fetch_record_batch(timeout=SOON)
    cursor.execute("SELECT 2")
    with pytest.raises(runnel.InterfaceError, match="ran another statement"):
        batches.read_next_batch()
    assert cursor.fetchall() == [(2,)]
    cursor.execute("SELECT v FROM s")
    Thread(target=cursor.cancel).start()
    with pytest.raises(runnel.OperationalError) as caught:
        while True:
            try:
                cursor.fetchone(timeout=PATIENCE)
            except runnel.FetchTimeoutError:
                raise AssertionError("it was not woken") from None
    assert caught.value.code is ErrorCode.CANCELLED


FETCHES = (
    *("fetchone", "fetchmany", "fetchall"),
    *("fetch_arrow_table", "fetch_record_batch", "fetch_df", "fetch_polars"),
)


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan"), float("-inf"), "1", True, b"", 1j])
def test_wrong_timeouts(connection: Connection, timeout: Any) -> None:
    cursor = connection.execute("SELECT 1")
    for name in FETCHES:
        with pytest.raises(
            runnel.InterfaceError, match="timeout must be a number of seconds, 0 or"
        ):
            getattr(cursor, name)(timeout=timeout)

    async def fetch() -> None:
        for name in ("fetchone_async", "fetchmany_async", "fetchall_async"):
            with pytest.raises(runnel.InterfaceError, match="timeout must be a number of seconds"):
                await getattr(cursor, name)(timeout=timeout)

    asyncio.run(fetch())
    assert cursor.fetchone(timeout=float("inf")) == (1,), "the cursor is usable"
    assert cursor.fetchone(timeout=10**400) is None


@pytest.mark.parametrize("seed", range(6))
def test_every_row_once(connection: Connection, reader: Connection, seed: int) -> None:
    """Random fetches that do not wait, while rows arrive."""
    writer = connection.register_stream("s", SCHEMA)
    cursor = reader.execute("SELECT v FROM s")
    random, count = Random(seed), 3000

    def write() -> None:
        numbers, rest = Random(seed + 100), list(range(count))
        while rest:
            size = numbers.randrange(1, 60)
            writer.write([(v,) for v in rest[:size]])
            del rest[:size]
        writer.close()

    thread = Thread(target=write)
    thread.start()
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        timeout = random.choice([0, 0, 0.0001, 0.001])
        try:
            found += _fetched(cursor, random.randrange(5), timeout)
        except runnel.FetchTimeoutError:
            continue
    thread.join()
    assert found == [(v,) for v in range(count)] and cursor.fetchone(timeout=PATIENCE) is None


def _fetched(cursor: Cursor, kind: int, timeout: float) -> list[tuple[Any, ...]]:
    if kind == 0:
        row = cursor.fetchone(timeout)
        return [] if row is None else [row]
    if kind == 1:
        return cursor.fetchmany(7, timeout)
    if kind == 2:
        return cursor.fetchall(timeout)
    if kind == 3:
        return rows_of(cursor.fetch_arrow_table(timeout))
    batch = cursor.fetch_record_batch(timeout).read_next_batch()
    return [(v,) for v in batch.column(0).to_pylist()]


# In coroutines


def test_coroutines(connection: Connection, reader: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = reader.execute("SELECT v FROM s")

    async def poll() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        with pytest.raises(runnel.FetchTimeoutError, match="no row arrived within 0 s"):
            await cursor.fetchone_async(timeout=0)
        assert turns, "other coroutines run even if the fetch does not wait"
        task.cancel()
        with pytest.raises(runnel.FetchTimeoutError):
            await cursor.fetchmany_async(3, timeout=SOON)
        writer.write([(1,), (2,)])
        assert await cursor.fetchone_async(timeout=PATIENCE) == (1,)
        with pytest.raises(runnel.FetchTimeoutError):
            await cursor.fetchall_async(timeout=SOON)
        writer.write([(3,), (4,)])
        waiting = asyncio.ensure_future(cursor.fetchall_async(timeout=PATIENCE))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await cursor.fetchmany_async(1, timeout=PATIENCE) == [(2,)]
        writer.close()
        assert await cursor.fetchall_async(timeout=PATIENCE) == [(3,), (4,)]
        assert await cursor.fetchall_async(timeout=0) == []

    asyncio.run(poll())


def test_coroutines_over_a_bounded_query(
    connection: Connection, slow_table: Callable[[], None]
) -> None:
    async def fetch() -> None:
        cursor = connection.execute("SELECT v FROM slow")
        assert await cursor.fetchone_async(timeout=PATIENCE) == (1,)
        assert await cursor.fetchmany_async(3, timeout=SOON) == [(2,)]
        with pytest.raises(runnel.FetchTimeoutError):
            await cursor.fetchmany_async(3, timeout=SOON)
        slow_table()
        assert await cursor.fetchmany_async(3, timeout=PATIENCE) == [(3,)]

    asyncio.run(fetch())
