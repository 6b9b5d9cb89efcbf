"""threadsafety 2: threads share a connection, each with cursors of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import runnel
from runnel import Connection
from tests.waiting import eventually

THREADS = 6
ROUNDS = 30


@pytest.fixture
def shared(connection: Connection) -> Connection:
    connection.execute(
        "CREATE MAPPING m (__key BIGINT, t BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    connection.register("numbers", pa.table([pa.array(range(1000))], names=["x"]))
    return connection


def together(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, number) for number in range(THREADS)]:
            done.result(60)


def test_queries_writes_look_ups_and_definitions_at_once(shared: Connection) -> None:
    def work(number: int) -> None:
        cursor = shared.cursor()
        for turn in range(ROUNDS):
            key = number * ROUNDS + turn
            cursor.execute("INSERT INTO m VALUES (?, ?)", (key, number))
            assert cursor.execute("SELECT t FROM m WHERE __key = ?", (key,)).fetchall() == [
                (number,)
            ]
            assert cursor.execute("SELECT SUM(x) FROM numbers WHERE x < ?", (turn,)).fetchone() == (
                sum(range(turn)) if turn else None,
            )
            if turn % 10 == 0:
                cursor.execute(
                    f"CREATE OR REPLACE VIEW v{number} AS SELECT x + {number} AS y FROM numbers"
                )
                assert cursor.execute(f"SELECT MIN(y) FROM v{number}").fetchall() == [(number,)]
                cursor.execute(f"DROP VIEW v{number}")
            assert cursor.execute("SELECT COUNT(*) FROM m WHERE t = ?", (number,)).fetchone() == (
                turn + 1,
            )

    together(work)
    assert shared.execute("SELECT COUNT(*), COUNT(DISTINCT t) FROM m").fetchall() == [
        (THREADS * ROUNDS, THREADS)
    ]
    assert shared.jobs() == []


def test_updates_of_one_row_do_not_get_lost(shared: Connection) -> None:
    shared.execute("INSERT INTO m VALUES (1, 0)")

    def work(number: int) -> None:
        cursor = shared.cursor()
        for turn in range(ROUNDS):
            where = "__key = 1" if turn % 2 else "__key < 2"
            assert cursor.execute(f"UPDATE m SET t = t + 1 WHERE {where}").rowcount == 1

    together(work)
    assert shared.execute("SELECT t FROM m").fetchall() == [(THREADS * ROUNDS,)]


def test_one_of_many_inserts_of_a_key_wins(shared: Connection) -> None:
    won: list[int] = []

    def work(number: int) -> None:
        cursor = shared.cursor()
        for turn in range(ROUNDS):
            try:
                cursor.execute("INSERT INTO m VALUES (?, ?)", (turn, number))
                won.append(turn)
            except runnel.IntegrityError:
                pass

    together(work)
    assert sorted(won) == list(range(ROUNDS))


def test_closing_under_load(shared: Connection) -> None:
    def work(number: int) -> None:
        try:
            while True:
                shared.cursor().execute("SELECT SUM(x) FROM numbers").fetchall()
                if number == 0:
                    shared.close()
        except (runnel.InterfaceError, runnel.OperationalError):
            assert shared.is_closed

    together(work)
    assert shared.is_closed


def test_threads_on_one_cursor_are_noticed(connection: Connection) -> None:
    writer = connection.register_stream("s", pa.schema([("k", pa.int64())]))
    cursor = connection.execute("SELECT k FROM s")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(cursor.fetchone)
        assert eventually(lambda: cursor._is_used)
        for call in (
            cursor.fetchone,
            cursor.fetchmany,
            cursor.fetchall,
            cursor.fetch_arrow_table,
            lambda: cursor.execute("SELECT 1"),
        ):
            with pytest.raises(
                runnel.InterfaceError, match="in use by another thread or coroutine"
            ):
                call()
        with pytest.raises(runnel.InterfaceError, match="in use"):
            cursor.fetch_record_batch().read_next_batch()
        writer.write([(1,), (2,)])
        assert reading.result(30) == (1,)
        assert cursor.fetchone() == (2,)
        reading = pool.submit(cursor.fetchone)
        assert eventually(lambda: cursor._is_used)
        cursor.cancel()
        with pytest.raises(runnel.OperationalError) as caught:
            reading.result(30)
        assert caught.value.code == runnel.ErrorCode.CANCELLED
        assert cursor.execute("SELECT 3").fetchone() == (3,)
