"""executemany: one batch for VALUES, all or nothing; a loop for other DML."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

import runnel
from runnel import Cursor

UTC = datetime.UTC


@pytest.fixture
def people(cursor: Cursor) -> Cursor:
    return cursor.execute(
        "CREATE MAPPING people (__key BIGINT, name VARCHAR, score DOUBLE) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )


def content(cursor: Cursor) -> list[tuple[object, ...]]:
    return cursor.execute("SELECT * FROM people ORDER BY __key").fetchall()


def test_insert_of_many(people: Cursor) -> None:
    rows = [(i, f"n{i}", i / 2) for i in range(1000)]
    people.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    assert people.rowcount == 1000
    assert content(people) == rows


def test_any_iterable_of_any_sequences(people: Cursor) -> None:
    people.executemany("SINK INTO people VALUES (?, ?, ?)", ([i, None, float(i)] for i in range(3)))
    assert content(people) == [(0, None, 0.0), (1, None, 1.0), (2, None, 2.0)]


def test_literals_expressions_and_a_column_list(people: Cursor) -> None:
    people.executemany(
        "INSERT INTO people (name, __key) VALUES (UPPER(?) || '!', ? + 10)", [("a", 1), ("b", 2)]
    )
    assert content(people) == [(11, "A!", None), (12, "B!", None)]


def test_several_rows_of_values_keep_their_order(people: Cursor) -> None:
    people.executemany(
        "SINK INTO people VALUES (1, ?, ?), (2, ?, 0)", [("a", 1.0, "b"), ("c", 2.0, "d")]
    )
    assert people.rowcount == 4
    assert content(people) == [(1, "c", 2.0), (2, "d", 0.0)]


def test_the_last_of_one_key_wins_in_sink(people: Cursor) -> None:
    people.executemany("SINK INTO people VALUES (?, ?, 0)", [(1, "a"), (2, "b"), (1, "c")])
    assert content(people) == [(1, "c", 0.0), (2, "b", 0.0)]


@pytest.mark.parametrize("second", [(1, "again", 1.0), (7, "there before", 1.0)])
def test_a_duplicate_key_writes_nothing(people: Cursor, second: tuple[object, ...]) -> None:
    people.execute("INSERT INTO people VALUES (7, 'seven', 7)")
    with pytest.raises(runnel.IntegrityError):
        people.executemany("INSERT INTO people VALUES (?, ?, ?)", [(1, "one", 1.0), second])
    assert content(people) == [(7, "seven", 7.0)]


def test_a_value_that_does_not_fit_writes_nothing(people: Cursor) -> None:
    with pytest.raises(runnel.Error):
        people.executemany(
            "INSERT INTO people VALUES (?, ?, ?)", [(1, "one", 1.0), (2**70, "big", 1.0)]
        )
    with pytest.raises(runnel.DataError, match="division by zero"):
        people.executemany("INSERT INTO people VALUES (?, 'x', 1 / ?)", [(1, 1), (2, 0)])
    assert content(people) == []


def test_values_of_mixed_types_meet_in_a_common_one(people: Cursor) -> None:
    people.executemany(
        "INSERT INTO people VALUES (?, ?, ?)", [(1, None, 1), (2, "b", 2.5), (3, "c", None)]
    )
    assert content(people) == [(1, None, 1.0), (2, "b", 2.5), (3, "c", None)]


def test_values_without_a_common_type_are_refused(people: Cursor) -> None:
    with pytest.raises(runnel.ProgrammingError, match="parameter 2 are of types"):
        people.executemany("INSERT INTO people VALUES (?, ?, 0)", [(1, "a"), (2, b"b")])


def test_all_types(cursor: Cursor) -> None:
    cursor.execute(
        "CREATE MAPPING everything (__key BIGINT, b BOOLEAN, i INTEGER, d DECIMAL(10, 3), r REAL, "
        "t TIMESTAMP, "
        "z TIMESTAMP WITH TIME ZONE, day DATE, clock TIME, bin VARBINARY) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3, 4)
    row = (
        *(1, True, -5, Decimal("1.250"), 0.5, moment, moment.replace(tzinfo=UTC)),
        *(moment.date(), moment.time(), b"\x00\xff"),
    )
    empty = (2, *[None] * 9)
    cursor.executemany(f"INSERT INTO everything VALUES ({', '.join('?' * 10)})", [row, empty])
    assert cursor.execute("SELECT * FROM everything ORDER BY __key").fetchall() == [row, empty]
    cursor.execute(f"SINK INTO everything VALUES ({', '.join('?' * 10)})", row)
    assert cursor.execute("SELECT * FROM everything WHERE __key = 1").fetchall() == [row]


def test_text_becomes_a_moment_where_one_is_wanted(cursor: Cursor) -> None:
    cursor.execute(
        "CREATE MAPPING log (__key BIGINT, at TIMESTAMP) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    cursor.executemany(
        "INSERT INTO log VALUES (?, ?)", [(1, "2024-01-01 10:00:00"), (2, "2024-01-02T00:00:00")]
    )
    cursor.execute("INSERT INTO log VALUES (?, ?)", (3, "2024-01-03 00:00:00"))
    assert [row[0].day for row in cursor.execute("SELECT at FROM log ORDER BY at")] == [1, 2, 3]
    with pytest.raises(runnel.DataError):
        cursor.execute("INSERT INTO log VALUES (?, ?)", (4, "tomorrow"))


def test_update_and_delete_run_once_for_each(people: Cursor) -> None:
    people.executemany("INSERT INTO people VALUES (?, ?, ?)", [(i, "x", 0.0) for i in range(5)])
    people.executemany(
        "UPDATE people SET score = ? WHERE __key = ?", [(1.5, 1), (2.5, 2), (9.5, 99)]
    )
    assert people.rowcount == 2
    people.executemany("DELETE FROM people WHERE __key >= ?", [(4,), (3,), (3,)])
    assert people.rowcount == 2
    assert content(people) == [(0, "x", 0.0), (1, "x", 1.5), (2, "x", 2.5)]


def test_insert_of_a_query_runs_once_for_each(people: Cursor) -> None:
    people.executemany(
        "INSERT INTO people SELECT v, 'n', 0 FROM TABLE(GENERATE_SERIES(?, ?))", [(1, 2), (5, 6)]
    )
    assert people.rowcount == 4
    assert [row[0] for row in content(people)] == [1, 2, 5, 6]


def test_nothing_is_done_for_no_arguments(people: Cursor) -> None:
    people.executemany("INSERT INTO people VALUES (?, ?, ?)", [])
    assert people.rowcount == 0
    assert content(people) == []


def test_queries_are_refused(people: Cursor) -> None:
    for sql in ("SELECT ?", "SELECT * FROM people WHERE __key = ?"):
        with pytest.raises(
            runnel.ProgrammingError, match="executemany is not for statements that return rows"
        ):
            people.executemany(sql, [(1,)])


def test_argument_lists_of_different_lengths(people: Cursor) -> None:
    with pytest.raises(runnel.InterfaceError) as caught:
        people.executemany("INSERT INTO people VALUES (?, ?, ?)", [(1, "a", 0.0), (2, "b")])
    assert caught.value.message == "unexpected parameter count: expected 3, got 2"
    assert caught.value.detail == "argument list 2 differs in length from the first"
    with pytest.raises(runnel.InterfaceError, match="expected 3, got 1"):
        people.executemany("INSERT INTO people VALUES (?, ?, ?)", [(1,)])
    for rows in (5, "ab", {"a": 1}, [5], ["abc"]):
        with pytest.raises(runnel.InterfaceError):
            people.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)  # type: ignore[arg-type]
