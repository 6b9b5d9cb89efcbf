"""Streams joined with what ends: maps are looked up row for row, other tables are read once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import runnel

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(
            "CREATE MAPPING m (__key BIGINT, name VARCHAR, size INT) TYPE IMap "
            "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
        )
        made.execute("INSERT INTO m VALUES (1, 'one', 10), (2, 'two', 20), (3, NULL, 30)")
        yield made


def pushed(connection: runnel.Connection, sql: str, *steps: Any) -> list[list[tuple[Any, ...]]]:
    """What a query over the stream s gives after each step: rows to write, or a statement to run
    first."""
    writer = connection.register_stream("s", SCHEMA, time_column="n")
    found: list[list[tuple[Any, ...]]] = []
    with connection.cursor() as cursor:
        cursor.execute(sql)
        for step in steps:
            if isinstance(step, str):
                connection.execute(step)
                continue
            writer.write(step)
            found.append([cursor.fetchone() for _ in step])
        writer.close()
        assert cursor.fetchone() is None
    return found


def test_a_map_gives_its_values_at_the_time_of_the_row(connection: runnel.Connection) -> None:
    sql = "SELECT s.n, m.name, m.size FROM s LEFT JOIN m ON s.k = m.__key"
    assert pushed(
        connection,
        sql,
        [(1, 1), (7, 2)],
        "SINK INTO m VALUES (1, 'uno', 11), (7, 'seven', 70)",
        [(1, 3), (7, 4), (None, 5)],
        "DELETE FROM m WHERE __key = 1",
        [(1, 6), (3, 7)],
    ) == [
        [(1, "one", 10), (2, None, None)],
        [(3, "uno", 11), (4, "seven", 70), (5, None, None)],
        [(6, None, None), (7, None, 30)],
    ]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT s.n, m.name FROM s JOIN m ON s.k = m.__key", [(1, "one"), (3, "two"), (5, None)]),
        (
            "SELECT s.n, m.name FROM s, m WHERE s.k = m.__key AND m.size > 10",
            [(3, "two"), (5, None)],
        ),
        (
            "SELECT s.n, m.name FROM s LEFT JOIN m ON s.k = m.__key AND m.size > s.n * 10",
            [(1, None), (2, None), (3, None), (4, None), (5, None)],
        ),
        (
            "SELECT s.n, m.size FROM s LEFT JOIN m ON s.k = m.__key AND m.size > 10",
            [(1, None), (2, None), (3, 20), (4, None), (5, 30)],
        ),
        (
            "SELECT s.n FROM s WHERE EXISTS (SELECT 1 FROM m WHERE m.__key = s.k)",
            [(1,), (3,), (5,)],
        ),
        ("SELECT s.n FROM s WHERE NOT EXISTS (SELECT 1 FROM m WHERE m.__key = s.k)", [(2,), (4,)]),
        (
            "SELECT s.n, EXISTS (SELECT 1 FROM m WHERE m.__key = s.k) FROM s",
            [(1, True), (2, False), (3, True), (4, False), (5, True)],
        ),
        (
            "SELECT s.n, (SELECT m.name FROM m WHERE m.__key = s.k) FROM s",
            [(1, "one"), (2, None), (3, "two"), (4, None), (5, None)],
        ),
        ("SELECT s.n FROM s WHERE s.k IN (SELECT m.__key FROM m)", [(1,), (3,), (5,)]),
        ("SELECT m.name, s.n FROM m JOIN s ON s.k = m.__key AND s.n = m.__key", [("one", 1)]),
        ("SELECT s.n, m.name FROM s JOIN m ON s.n = m.size", []),
    ],
)
def test_all_kinds(connection: runnel.Connection, sql: str, expected: list[Any]) -> None:
    writer = connection.register_stream("s", SCHEMA)
    with connection.cursor() as cursor:
        cursor.execute(sql)
        writer.write([(1, 1), (None, 2), (2, 3)])
        writer.write([(9, 4), (3, 5)])
        writer.close()
        assert cursor.fetchall() == expected


def test_explain_says_how_a_table_is_joined(connection: runnel.Connection) -> None:
    connection.register_stream("s", SCHEMA)
    looked_up = connection.execute(
        "EXPLAIN (PHYSICAL) SELECT * FROM s JOIN m ON s.k = m.__key"
    ).fetchall()
    assert (
        "by look-up in m" in looked_up[0][0] and "as they are when the row comes" in looked_up[0][0]
    )
    read_once = connection.execute(
        "EXPLAIN (PHYSICAL) SELECT * FROM s JOIN m ON s.k = m.size"
    ).fetchall()
    assert "by hash" in read_once[0][0]


@pytest.mark.parametrize("on", ["s.k = m.__key", "s.k * 10 = m.size"])
def test_windows_above_a_join_with_a_table_are_complete(
    connection: runnel.Connection, on: str
) -> None:
    writer = connection.register_stream("s", SCHEMA, time_column="n")
    sql = (
        (
            "SELECT window_end, name, COUNT(*) FROM (SELECT s.n, m.name FROM s JOIN m ON "
            + on
            + ") GROUP BY window_end, name"
        )
        .replace("FROM (SELECT s.n", "FROM TABLE(TUMBLE((SELECT s.n")
        .replace(") GROUP", "), DESCRIPTOR(n), 10)) GROUP")
    )
    with connection.cursor() as cursor:
        cursor.execute(sql)
        writer.write([(1, 1), (1, 4), (2, 12)])
        assert cursor.fetchone() == (10, "one", 2)
        writer.close()
        assert cursor.fetchall() == [(20, "two", 1)]
