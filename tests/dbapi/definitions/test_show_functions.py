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
        "BIGINT for integers, DECIMAL(38, s) for DECIMAL(p, s), else DOUBLE",
        "aggregates",
    )
    assert rows["COUNT", "aggregate"] == ("* | x ANY | DISTINCT x, y, …", "BIGINT", "aggregates")
    assert rows["ARRAY_AGG", "aggregate"][1] == "an ARRAY of the type of x"
    assert rows["LAG", "window"][1] == "the type of x"
    assert rows["GENERATE_SERIES", "table"][1] == "rows of v BIGINT"


def test_functions_of_the_connection_are_listed() -> None:
    with runnel.connect() as connection:
        connection.create_function("plus_one", lambda x: x + 1, ["BIGINT"], "BIGINT", scalar=True)
        rows = connection.execute("SHOW FUNCTIONS").fetchall()
        assert ("PLUS_ONE", "scalar", "BIGINT", "BIGINT", "Python functions") in rows


SAMPLES = {
    "BIGINT": "INTEGER NUMERIC ANY",
    "SMALLINT": "INTEGER NUMERIC ANY",
    "DECIMAL(10, 2)": "NUMERIC ANY",
    "REAL": "NUMERIC ANY",
    "DOUBLE": "NUMERIC ANY",
    "VARCHAR": "VARCHAR ANY",
    "BOOLEAN": "BOOLEAN ANY",
    "DATE": "TEMPORAL ANY",
}
"""Types of arguments, and the words of signatures that include each."""


def expected_type(result: str, argument: str) -> str:
    """The beginning of the type that a signature promises for a type of the argument."""
    if argument.startswith("DECIMAL") and "for DECIMAL" in result:
        return "DECIMAL(38, 2)" if "(38" in result else "DECIMAL("
    if argument == "DATE" and "TIMESTAMP for DATE" in result:
        return "TIMESTAMP"
    if argument in ("VARCHAR", "BOOLEAN") and "type for VARCHAR" in result:
        return argument
    if argument in ("BIGINT", "SMALLINT") and "for integers" in result:
        return "BIGINT"
    text = result.split(";")[0].split(", else ")[-1]
    return text.replace("an ARRAY of the type of x", f"{argument}[]").replace(
        "the type of x", argument
    )


def test_the_signatures_of_aggregates_are_true_of_their_calls() -> None:
    wrong = []
    with runnel.connect() as connection:
        rows = connection.execute("SHOW FUNCTIONS").fetchall()
        signatures = [row for row in rows if row[1] == "aggregate" and row[0] != "GROUPING"]
        for name, _, arguments, result, _ in signatures:
            first = arguments.replace("* | ", "").split(" | ")[0]
            kinds = {word for word in first.split(",")[0].split()[1:] if word != "or"}
            for sample, words in SAMPLES.items():
                x = f"CAST(NULL AS {sample})"
                second = ", 0.5" if ", p " in first else f", {x}" * ("," in first)
                call = f"{name}({x}{second if '[,' not in first else ''})"
                try:
                    found = connection.execute(f"DESCRIBE SELECT {call} AS v").fetchall()[0][1]
                except runnel.ProgrammingError:
                    found = "refused"
                promised = expected_type(result, sample) if kinds & {*words.split()} else "refused"
                if not found.startswith(promised):
                    wrong.append((call, found, promised))
    assert wrong == []
    assert len(signatures) > 55
