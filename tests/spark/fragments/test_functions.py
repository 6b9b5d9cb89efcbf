"""Python functions in fragments on Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel


@pytest.fixture
def numbers(session: Any, connection: runnel.Connection) -> None:
    connection.register(
        "t",
        session.range(0, 1000, 1, 3).selectExpr(
            "id", "NULLIF(id % 10, 3) AS k", "CAST(id AS STRING) AS s"
        ),
    )


def run(cursor: runnel.Cursor, sql: str) -> list[tuple[Any, ...]]:
    lines = [line for (line,) in cursor.execute(f"EXPLAIN (PHYSICAL) {sql}")]
    assert lines[0].startswith("Fragment on Spark"), lines
    return cursor.execute(sql).fetchall()


@pytest.mark.usefixtures("numbers")
def test_over_arrays(connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    def double(values: pa.Array) -> pa.Array:
        return pc.add(values, values)

    connection.create_function("twice", double, ["BIGINT"], "BIGINT")
    assert run(cursor, "SELECT SUM(twice(id)), COUNT(twice(k)) FROM t") == [(999_000, 900)]
    assert run(cursor, "SELECT twice(id) FROM t WHERE id > 997 ORDER BY id") == [(1996,), (1998,)]
    assert run(cursor, "SELECT id FROM t WHERE twice(id) = 10") == [(5,)]


@pytest.mark.usefixtures("numbers")
def test_over_values(connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    def shout(text: str, number: int) -> str:
        return text + "!" * number

    connection.create_function("shout", shout, ["VARCHAR", "BIGINT"], "VARCHAR", scalar=True)
    assert run(cursor, "SELECT shout(s, id) FROM t WHERE id < 3 ORDER BY id") == [
        ("0",),
        ("1!",),
        ("2!!",),
    ]


@pytest.mark.usefixtures("numbers")
def test_a_failure_is_told(connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    def fail(number: int) -> int:
        raise ValueError("no such number")

    connection.create_function("fails", fail, ["BIGINT"], "BIGINT", scalar=True)
    with pytest.raises(
        runnel.DataError, match=r"function fails failed: .*no such number"
    ) as failure:
        cursor.execute("SELECT fails(id) FROM t").fetchall()
    assert "\n" not in failure.value.message


@pytest.mark.usefixtures("numbers")
def test_in_a_branch_it_sees_only_the_rows_that_take_it(
    connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    def small(number: int) -> int:
        if number > 2:
            raise ValueError("too large")
        return number

    connection.create_function("small", small, ["BIGINT"], "BIGINT", scalar=True)
    sql = "SELECT SUM(CASE WHEN id < 3 THEN small(id) ELSE 0 END) FROM t"
    assert cursor.execute(sql).fetchall() == [(3,)]


@pytest.mark.usefixtures("numbers")
def test_a_new_version_is_the_one_called(
    connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    for result in (1, 2):
        connection.create_function(
            "which",
            lambda number, result=result: result,
            ["BIGINT"],
            "BIGINT",
            scalar=True,
            replace=True,
        )
        assert cursor.execute("SELECT MAX(which(id)) FROM t").fetchall() == [(result,)]
