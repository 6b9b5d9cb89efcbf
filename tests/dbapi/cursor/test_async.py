"""Cursors and jobs in coroutines: nothing stands still while they wait, and no thread waits for
them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, JobStatus

PATIENCE = 20
SCHEMA = pa.schema([("k", pa.int64())])
MAP = (
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with runnel.connect() as made:
        made.execute(MAP)
        yield made


def run(body: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(body(), PATIENCE)

    return asyncio.run(limited())


def test_rows_of_a_stream_as_they_come(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = connection.execute("SELECT k * 2 FROM s")
    turn = asyncio.Event()

    async def read() -> list[int]:
        found = []
        async for (value,) in cursor:
            found.append(value)
            turn.set()
        return found

    async def write() -> None:
        for number in range(5):
            turn.clear()
            writer.write([(number,)])
            await turn.wait()  # it was read, or this would wait for ever
        writer.close()

    async def both() -> list[int]:
        found, _ = await asyncio.gather(read(), write())
        return found

    assert run(both) == [0, 2, 4, 6, 8]


def test_all_rows_of_a_large_result(connection: Connection) -> None:
    query = "SELECT v FROM TABLE(GENERATE_SERIES(1, 300000)) AS t(v)"

    async def fetch() -> list[Any]:
        everything = await connection.execute(query).fetchall_async()
        cursor = connection.execute(query)
        first = await cursor.fetchone_async()
        some = await cursor.fetchmany_async(100_000)
        rest = [row async for row in cursor]
        assert await cursor.fetchone_async() is None and await cursor.fetchmany_async(3) == []
        assert everything == [first, *some, *rest] and len(some) == 100_000
        return everything

    assert run(fetch) == [(v,) for v in range(1, 300_001)]


def test_many_waiters_are_no_threads(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursors = [connection.execute("SELECT k FROM s") for _ in range(30)]
    before = threading.active_count()

    async def read_all() -> list[Any]:
        waiting = [asyncio.ensure_future(cursor.fetchone_async()) for cursor in cursors]
        await asyncio.sleep(0)
        assert threading.active_count() == before
        writer.write([(7,)])
        return await asyncio.gather(*waiting)

    assert run(read_all) == [(7,)] * 30
    assert [cursor.fetchmany(3) if False else cursor.close() for cursor in cursors] == [None] * 30


def test_of_an_unbounded_query_what_is_there(connection: Connection) -> None:
    cursor = connection.execute("SELECT v FROM TABLE(GENERATE_STREAM(1000)) AS t(v)")

    async def fetch() -> list[Any]:
        found: list[Any] = []
        while len(found) < 10:
            some = await cursor.fetchmany_async(7)
            assert 1 <= len(some) <= 7
            found += some
        with pytest.raises(
            runnel.NotSupportedError, match="fetchall_async of a query that never ends"
        ):
            await cursor.fetchall_async()
        return found[:10]

    assert run(fetch) == [(v,) for v in range(10)]
    cursor.close()


def test_an_error_comes_where_it_is_awaited(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = connection.execute("SELECT 10 / k FROM s")

    async def fetch() -> Any:
        waiting = asyncio.ensure_future(cursor.fetchone_async())
        await asyncio.sleep(0)
        writer.write([(0,)])
        return await waiting

    with pytest.raises(runnel.DataError) as caught:
        run(fetch)
    assert caught.value.sql == "SELECT 10 / k FROM s"


def test_a_cursor_that_is_cancelled_or_closed_ends_the_waiting(connection: Connection) -> None:
    connection.register_stream("s", SCHEMA)

    async def waits_for(end: Callable[[runnel.Cursor], None]) -> None:
        cursor = connection.execute("SELECT k FROM s")
        waiting = asyncio.ensure_future(cursor.fetchone_async())
        await asyncio.sleep(0)
        end(cursor)
        await waiting

    with pytest.raises(runnel.OperationalError):
        run(lambda: waits_for(runnel.Cursor.cancel))
    with pytest.raises(runnel.Error):
        run(lambda: waits_for(runnel.Cursor.close))


def test_a_task_that_is_cancelled_leaves_the_cursor_as_it_was(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = connection.execute("SELECT k FROM s")

    async def give_up() -> None:
        waiting = asyncio.ensure_future(cursor.fetchone_async())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(give_up)
    writer.write([(1,), (2,)])
    assert cursor.fetchone() == (1,)
    assert run(cursor.fetchone_async) == (2,)


def test_statements(connection: Connection) -> None:
    async def change() -> Any:
        cursor = connection.cursor()
        assert (await cursor.execute_async("INSERT INTO m VALUES (?, ?)", (1, 2))).rowcount == 1
        await cursor.execute_async("SELECT this FROM m")
        with pytest.raises(runnel.ProgrammingError):
            await connection.cursor().execute_async("SELECT nothing FROM m")
        return await cursor.fetchall_async()

    assert run(change) == [(2,)]


def test_jobs(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, k FROM s")
    job = connection.job("j")
    before = threading.active_count()

    async def wait() -> None:
        waiting = [asyncio.ensure_future(job) for _ in range(10)]
        suspended = asyncio.ensure_future(job.reaches(JobStatus.SUSPENDED))
        await asyncio.sleep(0)
        assert threading.active_count() == before
        await connection.cursor().execute_async("ALTER JOB j SUSPEND")
        assert await suspended is True
        job.resume()
        assert not any(item.done() for item in waiting)
        writer.write([(1,)])
        writer.close()
        await asyncio.gather(*waiting)
        assert await job.reaches(JobStatus.RUNNING) is False

    run(wait)
    assert job.status is JobStatus.COMPLETED
    assert connection.execute("SELECT * FROM m").fetchall() == [(1, 1)]


def test_a_job_that_fails_or_is_left(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    connection.execute(
        "CREATE JOB j OPTIONS ('suspendOnFailure'='false') AS SINK INTO m SELECT k, 10 / k FROM s"
    )

    async def fails() -> None:
        writer.write([(0,)])
        await connection.job("j")

    with pytest.raises(runnel.DataError):
        run(fails)
    connection.execute("CREATE JOB k AS SINK INTO m SELECT k, k FROM s")

    async def left() -> None:
        waiting = asyncio.ensure_future(connection.job("k"))
        await asyncio.sleep(0)
        connection.close()
        await waiting

    with pytest.raises(runnel.InterfaceError, match="closed"):
        run(left)
    with pytest.raises(runnel.InterfaceError, match="JobStatus"):
        run(lambda: connection_job_status(runnel.connect()))


async def connection_job_status(connection: Connection) -> None:
    connection.execute(MAP)
    connection.execute("CREATE JOB j AS INSERT INTO m VALUES (1, 2)")
    try:
        await connection.job("j").reaches("RUNNING")  # type: ignore[arg-type]
    finally:
        connection.close()


def test_two_coroutines_on_one_cursor(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = connection.execute("SELECT k FROM s")
    calls: list[Callable[[], Awaitable[Any]]] = [
        cursor.fetchone_async,
        cursor.fetchmany_async,
        cursor.fetchall_async,
        cursor.__anext__,
        lambda: cursor.execute_async("SELECT 1"),
    ]

    async def both() -> Any:
        reading = asyncio.ensure_future(cursor.fetchone_async())
        await asyncio.sleep(0)
        for call in calls:
            with pytest.raises(
                runnel.InterfaceError, match="in use by another thread or coroutine"
            ):
                await call()
        with pytest.raises(runnel.InterfaceError, match="in use"):
            cursor.fetchone()
        writer.write([(1,), (2,)])
        first = await reading
        return first, await cursor.fetchone_async()

    assert run(both) == ((1,), (2,))


def test_a_task_cancelled_in_a_fetch_gives_the_cursor_back(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    cursor = connection.execute("SELECT k FROM s")

    async def body() -> Any:
        reading = asyncio.ensure_future(cursor.fetchone_async())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        writer.write([(1,)])
        return await cursor.fetchone_async()

    assert run(body) == (1,)


def test_a_task_cancelled_in_execute_gives_the_cursor_back(connection: Connection) -> None:
    cursor = connection.cursor()
    numbers = "TABLE(GENERATE_SERIES(1, 100000))"
    long = (
        f"INSERT INTO m SELECT a.v, MAX(b.v) FROM {numbers} AS a(v) CROSS JOIN {numbers} AS b(v) "
        "GROUP BY a.v"
    )

    async def body() -> Any:
        executing = asyncio.ensure_future(cursor.execute_async(long))
        while not connection.jobs():
            await asyncio.sleep(0)
        executing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await executing
        return (await cursor.execute_async("SELECT 7")).fetchone()

    assert run(body) == (7,)
