"""Short statements over small tables of DuckDB need no thread, also after the tables have grown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import runnel
from runnel.connectors.duckdb import fragments, transactions
from runnel.duckdb.errors import translated
from runnel.duckdb.stream import DuckDBStream

PAIRS = "SELECT a.k AS x, b.k AS y FROM t a JOIN t b ON a.v = b.v"
GROUPS = "SELECT v, COUNT(*) FROM t GROUP BY v ORDER BY v"


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as opened:
        opened.execute("CREATE TABLE t AS SELECT i AS k, i % 3 AS v FROM range(1000) s(i)")
        yield opened


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that are started from now on."""
    names: list[str] = []
    start = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        names.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    return names


@pytest.mark.parametrize(
    "sql",
    [
        GROUPS,
        "SELECT * FROM t WHERE k = 7",
        "INSERT INTO t VALUES (5000, 1)",
    ],
)
def test_a_short_statement_starts_no_thread(
    connection: runnel.Connection, started: list[str], sql: str
) -> None:
    cursor = connection.cursor().execute(sql)
    if cursor.description is not None:
        cursor.fetchall()
    assert started == []


def test_a_table_that_grew_is_read_by_a_thread(
    connection: runnel.Connection, started: list[str]
) -> None:
    cursor = connection.cursor()
    assert cursor.execute(GROUPS).fetchall() == [(0, 334), (1, 333), (2, 333)]
    cursor.execute(f"INSERT INTO t SELECT i, i % 3 FROM range({fragments.SHORT_ROWS}) s(i)")
    started.clear()
    rows = cursor.execute(GROUPS).fetchall()
    assert sum(count for _, count in rows) == fragments.SHORT_ROWS + 1000
    assert "runnel-duckdb" in started


def test_a_long_result_of_a_small_table_is_continued_by_a_thread(
    connection: runnel.Connection, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first batches are read before the statement returns."""
    monkeypatch.setattr(fragments, "SHORT_PAIRS", 10_000_000)
    rows = connection.cursor().execute(PAIRS).fetchall()
    assert len(rows) == 334**2 + 2 * 333**2
    assert len(set(rows)) == len(rows)
    assert started.count("runnel-duckdb") == 1


def test_a_long_result_sees_the_tables_as_they_were(
    connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "SHORT_PAIRS", 10_000_000)
    reading = connection.cursor().execute(PAIRS)
    connection.cursor().execute("DELETE FROM t")
    assert len(reading.fetchall()) == 334**2 + 2 * 333**2


def test_an_error_of_a_short_statement_has_its_position(connection: runnel.Connection) -> None:
    with pytest.raises(runnel.DataError) as caught:
        connection.cursor().execute("SELECT 1 // (k - 5) FROM t").fetchall()
    assert caught.value.position is not None


def test_the_number_of_rows_is_known_without_counting(connection: runnel.Connection) -> None:
    """INSERT, UPDATE and DELETE adjust the number of rows that decides what is short."""
    cursor = connection.cursor()
    cursor.execute(GROUPS).fetchall()
    for sql, expected in (
        ("INSERT INTO t VALUES (1, 1), (2, 2)", 1002),
        ("INSERT INTO t SELECT k, v FROM t WHERE k < 2", 1005),
        ("UPDATE t SET v = 0 WHERE v = 1", 1005),
        ("DELETE FROM t WHERE k < 10", 990),
    ):
        cursor.execute(sql)
        found = cursor.execute(
            "SELECT estimated_size FROM duckdb_tables() WHERE table_name = 't'"
        ).fetchall()
        assert found == [(expected,)], sql
        assert cursor.execute("SELECT COUNT(*) FROM t").fetchall() == [(expected,)], sql


def test_an_upsert_is_planned_once(connection: runnel.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE counts (word TEXT PRIMARY KEY, n INT)")
    sql = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (word) DO UPDATE SET n = n + 1"
    for word in ("a", "b", "a", "a"):
        cursor.execute(sql, (word,))
    assert cursor.execute("SELECT * FROM counts ORDER BY word").fetchall() == [("a", 3), ("b", 1)]
    uses = "SELECT uses FROM information_schema.plans WHERE query = ?"
    assert cursor.execute(uses, (sql,)).fetchall() == [(4,)]


def test_a_transaction_reads_the_rows_that_a_condition_needs(
    connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparisons with constants are DuckDB's; others, which may fail, are Runnel's."""
    read: list[int] = []
    partition = transactions.TransactionPartition

    def counted(source: Any, rows: Any) -> Any:
        read.append(rows.num_rows)
        return partition(source, rows)

    monkeypatch.setattr(transactions, "TransactionPartition", counted)
    cursor = connection.cursor()
    cursor.execute("BEGIN")
    cursor.execute("INSERT INTO t VALUES (5000, 7)")
    for sql, arguments, expected, fetched in (
        ("SELECT v FROM t WHERE k = ?", (5000,), [(7,)], 1),
        ("SELECT k FROM t WHERE k IN (3, 5000) ORDER BY k", (), [(3,), (5000,)], 2),
        ("SELECT COUNT(*) FROM t WHERE k >= 990 AND v = k % 3", (), [(10,)], 11),
        ("SELECT COUNT(*) FROM t WHERE 10 // (k + 1) = 1", (), [(5,)], 1001),
        ("SELECT COUNT(*) FROM t WHERE k = NULL", (), [(0,)], 0),
    ):
        read.clear()
        assert cursor.execute(sql, arguments).fetchall() == expected, sql
        assert sum(read) == fetched, sql
    cursor.execute("COMMIT")


def test_intervals_are_compared_in_a_transaction(connection: runnel.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE spans (a INT, span INTERVAL DAY TO SECOND)")
    cursor.execute("INSERT INTO spans VALUES (1, INTERVAL '1' DAY), (2, INTERVAL '2' DAY)")
    cursor.execute("BEGIN")
    cursor.execute("UPDATE spans SET a = 7 WHERE span = INTERVAL '1' DAY")
    cursor.execute("COMMIT")
    assert sorted(cursor.execute("SELECT a FROM spans").fetchall()) == [(2,), (7,)]


def test_a_closed_cursor_has_no_number_of_rows(connection: runnel.Connection) -> None:
    written = connection.execute("INSERT INTO t VALUES (5000, 1)")
    written.close()
    with pytest.raises(runnel.InterfaceError, match="closed"):
        written.fetchall()


def test_two_rows_of_one_statement_with_one_key(connection: runnel.Connection) -> None:
    connection.execute("CREATE TABLE keyed (a INT PRIMARY KEY)")
    with pytest.raises(runnel.errors.UniqueViolation):
        connection.execute("INSERT INTO keyed VALUES (5), (5)")


def test_an_interrupt_of_the_caller_is_a_keyboard_interrupt(
    connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB reports Ctrl-C as a RuntimeError."""

    def interrupted(self: DuckDBStream, limit: int | None) -> bool:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(DuckDBStream, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connection.execute(GROUPS)


def test_ctrl_c_in_any_statement_of_duckdb_is_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        translated(RuntimeError("Query interrupted"))


def test_an_insert_of_literals_ends_between_its_calls(connection: runnel.Connection) -> None:
    """A statement without a job is cancelled between two rows, and writes none."""
    cursor = connection.cursor()
    calls: list[int] = []

    def slow(value: int) -> int:
        calls.append(value)
        cursor.cancel()
        return value

    connection.create_function("slow", slow, ["BIGINT"], "BIGINT", side_effects=True)
    with pytest.raises(runnel.OperationalError):
        cursor.execute("INSERT INTO t VALUES (slow(7000), 1), (slow(7001), 1), (slow(7002), 1)")
    assert calls == [7000]
    found = connection.execute("SELECT COUNT(*) FROM t WHERE k >= 7000").fetchall()
    assert found == [(0,)]
