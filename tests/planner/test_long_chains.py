"""Long chains of operators, and messages that name what sqlglot calls by names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import runnel


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        yield connection


@pytest.mark.parametrize("count", [49, 50, 51, 101, 1200])
def test_chains_of_concatenations(con: runnel.Connection, count: int) -> None:
    assert con.execute("SELECT " + " || ".join(["'ab'"] * count)).fetchall() == [("ab" * count,)]
    parts = " || ".join(f"(v || {i})" if i % 3 else "v" for i in range(count))
    wanted = "".join(f"x{i}" if i % 3 else "x" for i in range(count))
    assert con.execute(f"SELECT {parts} FROM (VALUES ('x')) t(v)").fetchall() == [(wanted,)]
    numbers = "v || " + " || ".join(str(i) for i in range(count))
    assert con.execute(f"SELECT {numbers} FROM (VALUES ('x')) t(v)").fetchall() == [
        ("x" + "".join(str(i) for i in range(count)),)
    ]
    assert con.execute(f"SELECT v || NULL || {parts} FROM (VALUES ('x')) t(v)").fetchall() == [
        (None,)
    ]


def test_a_long_concatenation_checks_as_a_short_one_does(con: runnel.Connection) -> None:
    with pytest.raises(runnel.ProgrammingError, match="needs texts, not VARBINARY"):
        con.execute("SELECT " + " || ".join(["X'ff'"] * 200))
    with pytest.raises(
        runnel.ProgrammingError, match="of more than 50 values needs texts"
    ) as caught:
        con.execute("SELECT " + " || ".join(["ARRAY[1]"] * 60))
    assert caught.value.position is not None


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            "SELECT r.x FROM (SELECT ROW(1) AS r) t",
            'field "x" not found in ROW(f1 TINYINT)',
            "its fields are f1",
        ),
        ("SELECT N'a'", "N before a string is not supported", "leave it out"),
        (
            "SELECT * FROM (SELECT 1 a, 2 a) t WHERE a = 1",
            'column "a" is ambiguous',
            "give the columns different names",
        ),
        (
            "SELECT 1 FROM (SELECT 1 a) t, (SELECT 1 a) u WHERE a = 1",
            'column "a" is ambiguous',
            "write the table's name before it",
        ),
    ],
)
def test_messages(con: runnel.Connection, sql: str, message: str, hint: str) -> None:
    with pytest.raises(runnel.DatabaseError) as caught:
        con.execute(sql)
    assert caught.value.message == message
    assert hint in (caught.value.hint or "")
    assert caught.value.position is not None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("TO_TIMESTAMP(1e18)", "TIMESTAMP WITH TIME ZONE overflow in TO_TIMESTAMP function"),
        (
            "TO_TIMESTAMP(CAST('NaN' AS DOUBLE))",
            "TIMESTAMP WITH TIME ZONE overflow in TO_TIMESTAMP function",
        ),
        ("INTERVAL '1' DAY * 1e300", "INTERVAL DAY TO SECOND overflow in '*' operator"),
    ],
)
def test_overflows_are_told_in_our_words(
    con: runnel.Connection, expression: str, message: str
) -> None:
    with pytest.raises(runnel.DataError) as caught:
        con.execute(f"SELECT {expression}").fetchall()
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("abc", "[a-z]{3,6}", True),
        ("ab", "[a-z]{3,6}", False),
        ("abcdefg", "[a-z]{3,6}", False),
        ("abcdefg", "[a-z]{3,}", True),
        ("a,b", "a,b", True),
        ("a,b", "a\\,b", True),
        ("a,", "a[,;]", True),
    ],
)
def test_similar_to_with_a_comma(
    con: runnel.Connection, text: str, pattern: str, matches: bool
) -> None:
    sql = "SELECT v SIMILAR TO p FROM (VALUES (CAST(? AS VARCHAR), CAST(? AS VARCHAR))) t(v, p)"
    assert con.execute(sql, (text, pattern)).fetchall() == [(matches,)]
    assert con.execute(f"SELECT '{text}' SIMILAR TO '{pattern}'").fetchall() == [(matches,)]
