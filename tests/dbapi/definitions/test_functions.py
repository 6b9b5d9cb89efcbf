"""Python functions that SQL calls."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.register("t", pa.table({"a": [1, 2, None, 4], "s": ["x", None, "y", "zz"]}))
        yield connection


def values(con: runnel.Connection, sql: str, args: tuple[Any, ...] = ()) -> list[Any]:
    return [row[0] for row in con.execute(sql, args).fetchall()]


def test_over_arrays(con: runnel.Connection) -> None:
    con.create_function("plus", pc.add, ["BIGINT", "BIGINT"], "BIGINT", type="arrow")
    assert values(con, "SELECT plus(a, 10) FROM t") == [11, 12, None, 14]
    assert values(con, "SELECT PLUS(plus(a, ?), 1) FROM t WHERE plus(a, 1) > 2", (100,)) == [
        103,
        105,
    ]
    assert values(con, "SELECT SUM(plus(a, 1)) FROM t GROUP BY plus(a, 0) > 1 ORDER BY 1") == [
        None,
        2,
        8,
    ]
    assert values(con, "SELECT a FROM t ORDER BY plus(0, a) DESC") == [4, 2, 1, None]
    assert con.execute("SELECT plus(2, 3), plus(NULL, 3)").fetchone() == (5, None)


def test_over_python_values(con: runnel.Connection) -> None:
    con.create_function(
        "shout", lambda text: text.upper() + "!", ["VARCHAR"], "VARCHAR", scalar=True, nulls="skip"
    )
    assert values(con, "SELECT shout(s) FROM t") == ["X!", None, "Y!", "ZZ!"]
    con.create_function(
        "next_year", lambda day: day.replace(year=day.year + 1), ["DATE"], pa.date32(), scalar=True
    )
    assert values(con, "SELECT next_year(DATE '2024-01-31')") == [date(2025, 1, 31)]
    con.create_function("is_null", lambda value: value is None, [str], bool, scalar=True)
    assert values(con, "SELECT is_null(s) FROM t") == [False, True, False, False]


def test_skipped_nulls_are_not_seen_by_arrays(con: runnel.Connection) -> None:
    seen: list[int] = []

    def double(column: pa.Array) -> Any:
        seen.append(column.null_count)
        return np.asarray(column) * 2

    con.create_function("twice", double, ["BIGINT"], "BIGINT", nulls="skip", type="arrow")
    assert values(con, "SELECT twice(a) FROM t") == [2, 4, None, 8]
    assert seen == [0]
    assert values(con, "SELECT twice(a) FROM t WHERE a IS NULL") == [None]
    assert values(con, "SELECT twice(a) FROM t WHERE a > 100") == []


@pytest.mark.parametrize(
    ("give", "result"),
    [
        (lambda a: a.to_pylist(), [1, 2, None, 4]),
        (lambda a: pa.chunked_array([a]), [1, 2, None, 4]),
        (lambda a: pa.nulls(len(a)), [None] * 4),
        (lambda a: a.fill_null(0).cast(pa.int16()), [1, 2, 0, 4]),
        (lambda a: np.arange(len(a)), [0, 1, 2, 3]),
    ],
)
def test_what_arrays_may_be_made_of(con: runnel.Connection, give: Any, result: list[Any]) -> None:
    con.create_function("f", give, ["BIGINT"], "BIGINT", type="arrow")
    assert values(con, "SELECT f(a) FROM t") == result


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda a: a.slice(1), "function f returned 3 values for 4 rows"),
        (lambda a: a.cast(pa.string()), "function f gave string, not BIGINT"),
        (lambda a: 5, "function f must give an Arrow array, not int"),
        (lambda a: a.cast(pa.float64()), "function f gave double, not BIGINT"),
    ],
)
def test_wrong_results_are_told(con: runnel.Connection, give: Any, message: str) -> None:
    con.create_function("f", give, ["BIGINT"], "BIGINT", type="arrow")
    with pytest.raises(runnel.DataError) as caught:
        con.execute("SELECT f(a) FROM t").fetchall()
    assert caught.value.message == message
    assert caught.value.position is not None


def test_errors_of_the_function(con: runnel.Connection) -> None:
    con.create_function(
        "bad", lambda value: 1 // (value - 2), ["BIGINT"], "BIGINT", scalar=True, nulls="skip"
    )
    with pytest.raises(runnel.DataError) as caught:
        con.execute("SELECT bad(a) FROM t").fetchall()
    assert caught.value.message == "function bad failed"
    assert caught.value.detail is not None and caught.value.detail.startswith("ZeroDivisionError")
    assert values(con, "SELECT CASE WHEN a <> 2 THEN bad(a) END FROM t") == [-1, None, None, 0]
    con.create_function("odd", lambda: "x", [], "BIGINT", scalar=True)
    with pytest.raises(runnel.DataError, match="function odd gave a value that isn't BIGINT"):
        con.execute("SELECT odd()").fetchall()


def test_names_and_types_are_checked(con: runnel.Connection) -> None:
    con.create_function("f", pc.negate, ["BIGINT"], "BIGINT")
    with pytest.raises(runnel.ProgrammingError, match='function "F" exists already'):
        con.create_function("F", pc.negate, ["BIGINT"], "BIGINT")
    for name in ("length", "SUM", "coalesce", "rank", "generate_series"):
        with pytest.raises(runnel.ProgrammingError, match="is a built-in function"):
            con.create_function(name, pc.negate, ["BIGINT"], "BIGINT")
    with pytest.raises(runnel.ProgrammingError, match="f expects 1 argument, not 2"):
        con.execute("SELECT f(1, 2)")
    with pytest.raises(
        runnel.ProgrammingError, match="argument 1 of f must be BIGINT, not VARCHAR"
    ):
        con.execute("SELECT f(s) FROM t")
    with pytest.raises(runnel.InterfaceError, match="is not a type"):
        con.create_function("g", pc.negate, [object], "BIGINT")
    with pytest.raises(runnel.InterfaceError, match="nulls must be 'pass' or 'skip'"):
        con.create_function("g", pc.negate, [int], int, nulls="no")
    with pytest.raises(runnel.InterfaceError, match="something to call"):
        con.create_function("g", 5, [int], int)  # type: ignore[arg-type]


def test_plans_follow_the_function(con: runnel.Connection) -> None:
    con.create_function("f", pc.negate, ["BIGINT"], "BIGINT")
    con.execute("CREATE VIEW v AS SELECT f(a) AS b FROM t")
    assert values(con, "SELECT b FROM v") == [-1, -2, None, -4]
    con.create_function("f", lambda a: pc.add(a, a), ["BIGINT"], "BIGINT", replace=True)
    assert values(con, "SELECT b FROM v") == [2, 4, None, 8]
    con.drop_function("F")
    with pytest.raises(runnel.ProgrammingError, match='function "f" not found'):
        con.execute("SELECT b FROM v")
    with pytest.raises(runnel.ProgrammingError, match='function "f" not found'):
        con.drop_function("f")


def test_a_function_that_is_not_deterministic_is_called_for_every_row(
    con: runnel.Connection,
) -> None:
    numbers = iter(range(100))
    con.create_function(
        "ticket", lambda: next(numbers), [], "BIGINT", scalar=True, deterministic=False
    )
    assert values(con, "SELECT ticket() FROM t") == [0, 1, 2, 3]


def test_a_misspelled_name_is_told_the_nearest(con: runnel.Connection) -> None:
    con.create_function("dbl", lambda x: x * 2, ["BIGINT"], "BIGINT", scalar=True)
    with pytest.raises(runnel.ProgrammingError, match='function "dbll" not found') as caught:
        con.execute("SELECT dbll(1)")
    assert caught.value.hint == 'did you mean "dbl"?'


def test_a_function_with_any_number_of_parameters_needs_their_types() -> None:
    with runnel.connect() as con:
        with pytest.raises(runnel.InterfaceError, match=r'parameters "\*values"'):
            con.create_function("total", lambda *values: sum(values), return_type="BIGINT")
        con.create_function("total", lambda *values: sum(values), ["INT", "INT"], "BIGINT")
        assert con.execute("SELECT total(1, 2)").fetchall() == [(3,)]
