"""SHOW FUNCTIONS lists every function that SQL can call, with what it takes and gives."""

from __future__ import annotations

import runnel
from runnel.expressions.aggregates.registry import AGGREGATES
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS
from runnel.expressions.functions import SQL_NAMES


def test_all_functions_are_there() -> None:
    with runnel.connect() as connection:
        cursor = connection.execute("SHOW FUNCTIONS")
        assert [item[0] for item in cursor.description or ()] == [
            "name",
            "kind",
            "arguments",
            "result",
            "family",
        ]
        rows = cursor.fetchall()
    names = [row[0] for row in rows]
    assert names == sorted(names)
    assert {row[0] for row in rows if row[1] == "scalar"} == set(SQL_NAMES)
    expected = {name.upper() for name in AGGREGATES if name != "count_star"}
    assert {row[0] for row in rows if row[1] == "aggregate"} >= expected
    assert {row[0] for row in rows if row[1] == "window"} == {
        name.upper() for name in WINDOW_FUNCTIONS
    }
    assert all(row[3] for row in rows), "each says what it gives"
    assert all(row[4] for row in rows), "each has a family"


def test_some_lines() -> None:
    with runnel.connect() as connection:
        rows = {
            (row[0], row[1]): row[2:] for row in connection.execute("SHOW FUNCTIONS").fetchall()
        }
    assert rows["UPPER", "scalar"] == ("s VARCHAR", "VARCHAR", "string")
    assert rows["SUM", "aggregate"] == (
        "x NUMERIC",
        "BIGINT for integers, else the type of x",
        "aggregates",
    )
    assert rows["COUNT", "aggregate"] == ("* | x ANY", "BIGINT", "aggregates")
    assert rows["ARRAY_AGG", "aggregate"][1] == "an ARRAY of the type of x"
    assert rows["LAG", "window"][1] == "the type of x"
    assert rows["GENERATE_SERIES", "table"][1] == "rows of v BIGINT"


def test_functions_of_the_connection_are_listed() -> None:
    with runnel.connect() as connection:
        connection.create_function("plus_one", lambda x: x + 1, ["BIGINT"], "BIGINT", scalar=True)
        rows = connection.execute("SHOW FUNCTIONS").fetchall()
        assert ("PLUS_ONE", "scalar", "BIGINT", "BIGINT", "Python functions") in rows
