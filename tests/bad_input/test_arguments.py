"""Values from Python that no statement can take, and arguments given in the wrong shape."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest

import runnel
from runnel import Cursor
from tests.bad_input.pinned import refused

SURROGATE = "\ud800"
ONE = "SELECT ?"
SINK = "SINK INTO m (__key, {}) VALUES (1, ?)"
DEEP: list[Any] = reduce(lambda inner, _: [inner], range(3000), [])  # type: ignore[arg-type,return-value]


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("never shown")


def failing() -> Iterator[int]:
    yield 1
    raise KeyError("mine")


VALUES: dict[str, tuple[str, Any]] = {
    "a lone surrogate": (ONE, SURROGATE),
    "a lone surrogate in a list": (ONE, ["a", SURROGATE]),
    "a lone surrogate compared": ("SELECT * FROM m WHERE v = ?", SURROGATE),
    "a lone surrogate written": (SINK.format("v"), SURROGATE),
    "an integer of 39 digits": (ONE, 10**38),
    "a negative integer of 39 digits": (ONE, -(10**38)),
    "an integer of 5000 digits": (ONE, 10**5000),
    "a DECIMAL that is no number": (ONE, Decimal("NaN")),
    "a DECIMAL that signals": (ONE, Decimal("sNaN")),
    "an infinite DECIMAL": (ONE, Decimal("-Infinity")),
    "a DECIMAL of 51 digits": (ONE, Decimal("1E+50")),
    "a DECIMAL with 50 digits after the point": (ONE, Decimal("1E-50")),
    "a DECIMAL of a million digits": (ONE, Decimal("1E+1000000")),
    "a class without a type": (ONE, Odd()),
    "a complex number": (ONE, 1j),
    "a set": (ONE, {1}),
    "a list of mixed values": (ONE, [1, "a"]),
    "a list nested 3000 deep": (ONE, DEEP),
    "an interval too long": (ONE, timedelta.max),
    "a text for a number": ("SELECT ? + 1", "5"),
    "a text that is no date": ("SELECT * FROM m WHERE day > ?", "2024-02-30"),
    "a text for a key that is a number": ("SELECT * FROM m WHERE __key = ?", "x"),
    "a limit below 0": ("SELECT * FROM m LIMIT ?", -1),
    "a limit that is NULL": ("SELECT * FROM m LIMIT ?", None),
    "a limit that is a text": ("SELECT * FROM m LIMIT ?", "x"),
    "a limit of 31 digits": ("SELECT * FROM m LIMIT ?", 10**30),
    "a limit with a fraction": ("SELECT * FROM m LIMIT ?", 1.5),
    "an integer too large for its column": (SINK.format("qty"), 3 * 10**9),
    "a text for a column of numbers": (SINK.format("qty"), "abc"),
    "a float that is no number for an integer": (SINK.format("qty"), math.nan),
    "an infinite float for an integer": (SINK.format("qty"), math.inf),
    "a DECIMAL too large for its column": (SINK.format("price"), Decimal("1E+20")),
    "a text that is no date for a column": (SINK.format("day"), "2024-13-01"),
    "a key that is NULL": ("SINK INTO m (__key) VALUES (?)", None),
    "a key beyond BIGINT": ("SINK INTO m (__key) VALUES (?)", 2**63),
}

SHAPES: dict[str, tuple[Any, Any]] = {
    "too few": (ONE, ()),
    "too many": (ONE, (1, 2)),
    "none wanted": ("SELECT 1", (1,)),
    "a number": (ONE, 5),
    "a text": (ONE, "a"),
    "bytes": (ONE, b"a"),
    "a dict": (ONE, {"a": 1}),
    "None": (ONE, None),
    "an iterator that fails": (ONE, failing()),
    "no statement": (None, ()),
    "a statement as bytes": (b"SELECT 1", ()),
}

MANY: dict[str, tuple[str, Any]] = {
    "lists of several lengths": ("INSERT INTO m (__key) VALUES (?)", [(5,), (5, 6)]),
    "values without a common type": (
        "INSERT INTO m (__key, qty) VALUES (?, ?)",
        [(5, 1), (6, "x")],
    ),
    "one value too large": ("INSERT INTO m (__key, qty) VALUES (?, ?)", [(5, 1), (6, 3 * 10**9)]),
    "an integer of 41 digits": ("INSERT INTO m (__key, qty) VALUES (?, ?)", [(5, 1), (6, 10**40)]),
    "a DECIMAL that is no number": (
        "INSERT INTO m (__key, price) VALUES (?, ?)",
        [(5, Decimal(1)), (6, Decimal("NaN"))],
    ),
    "a lone surrogate": ("INSERT INTO m (__key, v) VALUES (?, ?)", [(5, "a"), (6, SURROGATE)]),
    "a key twice": ("INSERT INTO m (__key, qty) VALUES (?, ?)", [(5, 1), (5, 2)]),
    "a key that exists": ("INSERT INTO m (__key, qty) VALUES (?, ?)", [(5, 1), (1, 2)]),
    "numbers for lists": ("INSERT INTO m (__key) VALUES (?)", [5, 6]),
    "a text for lists": ("INSERT INTO m (__key) VALUES (?)", "ab"),
    "a number": ("INSERT INTO m (__key) VALUES (?)", 5),
    "an iterator that fails": (
        "INSERT INTO m (__key) VALUES (?)",
        ((value,) for value in failing()),
    ),
    "a query": ("SELECT ?", [(1,)]),
}


@pytest.fixture
def filled(cursor: Cursor) -> Cursor:
    cursor.execute(
        "CREATE MAPPING m (__key BIGINT, v VARCHAR, qty INT, price DECIMAL(10, 2), day DATE) "
        "TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    cursor.execute("INSERT INTO m VALUES (1, 'a', 1, 1, '2024-01-01')")
    return cursor


def unchanged(cursor: Cursor) -> bool:
    return cursor.execute("SELECT * FROM m").fetchall() == [
        (1, "a", 1, Decimal("1.00"), date(2024, 1, 1))
    ]


@pytest.mark.parametrize("name", VALUES)
def test_value(filled: Cursor, name: str) -> None:
    sql, value = VALUES[name]
    refused("values", name, lambda: filled.execute(sql, (value,)).fetchall())
    assert unchanged(filled)


@pytest.mark.parametrize("name", SHAPES)
def test_shape(filled: Cursor, name: str) -> None:
    sql, args = SHAPES[name]
    refused("shapes", name, lambda: filled.execute(sql, args))
    assert unchanged(filled)


@pytest.mark.parametrize("name", MANY)
def test_many(filled: Cursor, name: str) -> None:
    sql, rows = MANY[name]
    refused("executemany", name, lambda: filled.executemany(sql, rows))
    assert unchanged(filled)


def test_a_list_within_itself_is_refused(cursor: Cursor) -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(runnel.ProgrammingError, match="argument 1 is nested too deeply"):
        cursor.execute(ONE, (knot,))


def test_a_key_in_a_row_with_a_lone_surrogate_is_bad_data(cursor: Cursor) -> None:
    with pytest.raises(runnel.DataError, match="Unicode"):
        cursor.execute(ONE, ({SURROGATE: 1},)).fetchall()


def test_a_key_that_no_map_holds_finds_nothing(filled: Cursor) -> None:
    for key in (10**30, 1.5, None):
        assert filled.execute("SELECT * FROM m WHERE __key = ?", (key,)).fetchall() == []


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT '{SURROGATE}'",
        f"SELECT {SURROGATE}",
        f'SELECT "{SURROGATE}"',
        "SELECT " + "x" * 100_000,
        f"SELECT '{'x' * 100_000}' + 1",
        "SELECT " + "NOT " * 5000 + "TRUE",
        "SELECT " + "- " * 5000 + "1",
        "SELECT " + "1 + " * 5000 + "1",
        "SELECT " + "ABS(" * 2000 + "1" + ")" * 2000,
        "SELECT * FROM " + "(SELECT * FROM " * 500 + "m" + ")" * 500,
        "SELECT " + "CASE WHEN TRUE THEN " * 1000 + "1" + " END" * 1000,
        "SELECT CAST(NULL AS " + "ARRAY<" * 200 + "INT" + ">" * 200 + ")",
        "SELECT * FROM CSV_FILE('" + "x" * 300 + "')",
        "SELECT * FROM CSV_FILE('/tmp/a\0b.csv')",
        f"SELECT * FROM CSV_FILE('/tmp/{SURROGATE}.csv')",
    ],
    ids=range(15),
)
def test_odd_texts_are_refused_in_few_printable_words(cursor: Cursor, sql: str) -> None:
    with pytest.raises(runnel.Error) as caught:
        cursor.execute(sql).fetchall()
    assert not isinstance(caught.value, runnel.InternalError)
    text = str(caught.value)
    assert len(text) < 2500
    text.encode()


def test_a_mark_stays_below_its_place_in_a_long_line(cursor: Cursor) -> None:
    sql = "SELECT " + "1, " * 500 + "nosuch, " + "2, " * 500 + "3"
    with pytest.raises(runnel.ProgrammingError) as caught:
        cursor.execute(sql)
    _, line, marks, *_ = str(caught.value).split("\n")
    assert len(line) < 200
    start = marks.index("^")
    assert line[start : start + len(marks.strip())] == "nosuch"


def test_tabs_and_line_ends_do_not_move_the_mark(cursor: Cursor) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        cursor.execute("SELECT\t1,\r\n\t\tnosuch,\r\n2")
    assert "\nLINE 2:   nosuch,\n          ^^^^^^\n" in str(caught.value)


def test_a_datetime_of_another_zone_beyond_year_9999_cannot_be_fetched(cursor: Cursor) -> None:
    from datetime import timezone

    latest = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
    error = refused(
        "values",
        "a datetime beyond the year 9999",
        lambda: cursor.execute(ONE, (latest,)).fetchall(),
    )
    assert isinstance(error, runnel.DataError)
