"""The cursor beyond the compliance suite: rows, description, rowcount, arguments, states."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import runnel
from runnel import Connection, Cursor, ProgrammingError

SERIES = "SELECT v FROM TABLE(GENERATE_SERIES(1, ?)) ORDER BY v"


def test_execute_gives_the_cursor_itself(cursor: Cursor) -> None:
    assert cursor.execute("SELECT 1") is cursor
    assert cursor.query == "SELECT 1"


def test_connection_execute_is_a_shortcut(connection: Connection) -> None:
    assert connection.execute("SELECT ? + 1", (41,)).fetchone() == (42,)


def test_iteration(cursor: Cursor) -> None:
    assert [row for (row,) in cursor.execute(SERIES, (5,))] == [1, 2, 3, 4, 5]


def test_fetches_mix_across_decoded_slices(cursor: Cursor) -> None:
    cursor.execute(SERIES, (20_000,))
    rows = [cursor.fetchone()]
    rows += cursor.fetchmany(5_000)
    rows += [cursor.fetchone()]
    rows += cursor.fetchmany(10_000)
    rows += cursor.fetchall()
    assert rows == [(i,) for i in range(1, 20_001)]
    assert cursor.fetchone() is None
    assert cursor.fetchmany(3) == []
    assert cursor.fetchall() == []


@pytest.mark.parametrize("size", [0, -5, 1.5, True, None, "2"])
def test_arraysize_is_a_number_of_rows(cursor: Cursor, size: Any) -> None:
    with pytest.raises(ProgrammingError, match="arraysize must be a number of rows from 1 on"):
        cursor.arraysize = size
    assert cursor.arraysize == 1


def test_a_uuid_is_an_argument_of_type_uuid(cursor: Cursor) -> None:
    known = uuid.UUID(int=10)
    assert cursor.execute("SELECT TYPEOF(?), ?", (known, known)).fetchall() == [("UUID", known)]
    sql = (
        "SELECT x = ?, x IN (?), x = ANY (?) FROM (SELECT "
        "CAST('00000000-0000-0000-0000-00000000000a' AS UUID) AS x) AS t"
    )
    assert cursor.execute(sql, (known, known, [known, None])).fetchall() == [(True, True, True)]
    options = "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
    cursor.execute(f"CREATE MAPPING texts (__key BIGINT, s VARCHAR, u UUID) TYPE IMap {options}")
    cursor.execute("INSERT INTO texts VALUES (?, ?, ?)", (1, known, known))
    cursor.executemany("INSERT INTO texts VALUES (?, ?, ?)", [(2, known, known), (3, None, None)])
    found = cursor.execute("SELECT s, u FROM texts ORDER BY __key").fetchall()
    assert found == [(str(known), known), (str(known), known), (None, None)]


def test_fetchmany_takes_arraysize(cursor: Cursor) -> None:
    cursor.arraysize = 3
    assert len(cursor.execute(SERIES, (5,)).fetchmany()) == 3
    assert len(cursor.fetchmany()) == 2
    assert cursor.fetchmany() == []


def test_fetchmany_of_none_takes_none(cursor: Cursor) -> None:
    cursor.execute(SERIES, (2,))
    assert cursor.fetchmany(0) == []
    assert cursor.fetchall() == [(1,), (2,)]


def test_fetchmany_refuses_a_negative_number(cursor: Cursor) -> None:
    cursor.execute("SELECT 1")
    with pytest.raises(runnel.InterfaceError, match="fetchmany needs a number of rows, not -1"):
        cursor.fetchmany(-1)


def test_rowcount_of_a_query_is_known_at_its_end(cursor: Cursor) -> None:
    assert cursor.rowcount == -1
    cursor.execute(SERIES, (3,))
    cursor.fetchone()
    assert cursor.rowcount == -1
    cursor.fetchall()
    assert cursor.rowcount == 3


def test_description(cursor: Cursor) -> None:
    assert cursor.description is None
    cursor.execute(
        "SELECT 1 AS i, 1.50 AS d, 'x' AS t, TRUE AS b, DATE '2024-02-29' AS day, "
        "CAST('ab' AS VARBINARY) AS bytes"
    )
    assert cursor.description is not None
    names = [column[0] for column in cursor.description]
    assert names == ["i", "d", "t", "b", "day", "bytes"]
    codes = [column[1] for column in cursor.description]
    assert codes[0] == runnel.NUMBER and codes[1] == runnel.NUMBER
    assert codes[2] == runnel.STRING
    assert codes[4] == runnel.DATETIME
    assert codes[5] == runnel.BINARY
    assert not any(code == runnel.ROWID for code in codes)
    assert [codes[3] == item for item in (runnel.NUMBER, runnel.STRING, runnel.DATETIME)] == [
        False
    ] * 3
    assert cursor.description[1].precision == 3 and cursor.description[1].scale == 2
    assert all(len(column) == 7 for column in cursor.description)


def test_type_objects_are_values() -> None:
    assert runnel.STRING == runnel.STRING and runnel.STRING != runnel.NUMBER
    assert runnel.STRING != "STRING" and len({runnel.STRING, runnel.NUMBER, runnel.STRING}) == 2
    assert repr(runnel.NUMBER) == "runnel.NUMBER"


def test_ticks() -> None:
    assert runnel.TimestampFromTicks(0.25).timestamp() == 0.25
    assert runnel.TimeFromTicks(0.25).microsecond == 250_000
    assert runnel.DateFromTicks(0) == runnel.TimestampFromTicks(0).date()
    assert runnel.Binary(bytearray(b"x")) == b"x"


@pytest.mark.parametrize(
    "fetch", ["fetchone", "fetchmany", "fetchall", "fetch_arrow_table", "fetch_record_batch"]
)
def test_fetch_without_rows_is_refused(cursor: Cursor, fetch: str) -> None:
    with pytest.raises(runnel.InterfaceError, match="there are no rows to fetch"):
        getattr(cursor, fetch)()
    cursor.execute("CREATE VIEW v AS SELECT 1 AS one")
    with pytest.raises(runnel.InterfaceError, match="there are no rows to fetch"):
        getattr(cursor, fetch)()


def test_a_closed_cursor_is_of_no_use(cursor: Cursor) -> None:
    cursor.execute("SELECT 1")
    cursor.close()
    cursor.close()
    for use in (
        cursor.fetchone,
        cursor.fetchall,
        lambda: cursor.execute("SELECT 1"),
        cursor.__enter__,
    ):
        with pytest.raises(runnel.InterfaceError, match="the cursor is closed"):
            use()


def test_a_closed_connection_is_of_no_use(connection: Connection) -> None:
    cursor = connection.cursor().execute("SELECT 1")
    connection.close()
    connection.close()
    for use in (
        cursor.fetchone,
        lambda: cursor.execute("SELECT 1"),
        connection.cursor,
        connection.commit,
        connection.rollback,
        connection.jobs,
        lambda: connection.register("t", None),
        lambda: connection.unregister("t"),
        connection.__enter__,
    ):
        with pytest.raises(runnel.InterfaceError, match="the connection is closed"):
            use()
    assert repr(connection) == "<runnel.Connection in memory, closed>"


def test_context_managers_close() -> None:
    with runnel.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        with pytest.raises(runnel.InterfaceError):
            cursor.fetchone()
    assert connection.is_closed


def test_commit_and_rollback_without_a_transaction_do_nothing(connection: Connection) -> None:
    connection.commit()
    connection.rollback()


def test_reprs(connection: Connection) -> None:
    cursor = connection.cursor()
    assert repr(cursor) == "<runnel.Cursor idle>"
    assert "│" in repr(cursor.sql("SELECT 1"))
    cursor.close()
    assert repr(cursor) == "<runnel.Cursor closed>"
    assert repr(connection) == "<runnel.Connection in memory>"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "unexpected parameter count: expected 2, got 0"),
        ((1,), "unexpected parameter count: expected 2, got 1"),
        ((1, 2, 3), "unexpected parameter count: expected 2, got 3"),
        ("ab", "arguments are given as str, not as a sequence"),
        ({"a": 1, "b": 2}, "the values of ? are given in order, not as a dictionary"),
        (5, "arguments are given as int, not as a sequence"),
    ],
)
def test_wrong_arguments(cursor: Cursor, args: object, message: str) -> None:
    with pytest.raises(runnel.InterfaceError) as caught:
        cursor.execute("SELECT ? + ?", args)  # type: ignore[arg-type]
    assert caught.value.message == message
    assert caught.value.hint


def test_any_iterable_may_hold_the_arguments(cursor: Cursor) -> None:
    assert cursor.execute("SELECT ? + ?", [1, 2]).fetchone() == (3,)
    assert cursor.execute("SELECT ? + ?", iter([1, 2])).fetchone() == (3,)  # type: ignore[arg-type]


def test_an_argument_of_a_foreign_class_is_refused(cursor: Cursor) -> None:
    with pytest.raises(runnel.ProgrammingError):
        cursor.execute("SELECT ?", (object(),))


@pytest.mark.parametrize("timeout", [0, -1, "1", True, float("nan")])
def test_wrong_timeouts(cursor: Cursor, timeout: float) -> None:
    with pytest.raises(runnel.InterfaceError, match="timeout must be a number of seconds above 0"):
        cursor.execute("SELECT 1", timeout=timeout)


@pytest.mark.parametrize("sql", [None, b"SELECT 1", 7])
def test_sql_must_be_text(cursor: Cursor, sql: object) -> None:
    with pytest.raises(runnel.InterfaceError, match="a statement is given as"):
        cursor.execute(sql)  # type: ignore[arg-type]


def test_a_failed_statement_leaves_the_cursor_usable(cursor: Cursor) -> None:
    cursor.execute("SELECT 1")
    with pytest.raises(runnel.ProgrammingError):
        cursor.execute("SELECT no_such_column")
    with pytest.raises(runnel.InterfaceError):
        cursor.fetchone()
    assert cursor.description is None and cursor.rowcount == -1
    assert cursor.execute("SELECT 2").fetchall() == [(2,)]


def test_sizes_do_nothing(cursor: Cursor) -> None:
    cursor.setinputsizes([25])
    cursor.setoutputsize(1)
    cursor.setoutputsize(1, 0)
    assert cursor.execute("SELECT 'long'").fetchone() == ("long",)
