"""CASE, COALESCE, NULLIF, AND, OR, IN: three-valued logic, and errors only where a row takes
them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import (
    can_fail,
    compile_filter,
    compile_selection,
    evaluate_constant,
    is_constant,
)
from runnel.expressions.kernels.values import python_values, scalar_of
from runnel.expressions.nodes import Call, Expression, InList, Literal, Parameter
from runnel.sqltypes import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, NULL, VARCHAR, array, decimal
from tests.effort import examples
from tests.expressions.edge_values import NAN, Rows, assert_like_duckdb, call, edges, literal

FLAGS = (True, False, None)


def _flags(count: int) -> Rows:
    rows = list(product(FLAGS, repeat=count))
    return Rows(
        **{name: (BOOLEAN, [row[i] for row in rows]) for i, name in enumerate("pqr"[:count])}
    )


def test_connectives_are_three_valued() -> None:
    rows = _flags(2)
    for name in ("and", "or"):
        assert_like_duckdb(rows, call(name, (rows["p"], rows["q"])), f"p {name} q")
    for name, sql in (
        ("not", "NOT p"),
        ("is_true", "coalesce(p, false)"),
        ("is_not_true", "NOT coalesce(p, false)"),
        ("is_false", "NOT coalesce(p, true)"),
        ("is_not_false", "coalesce(p, true)"),
    ):
        assert_like_duckdb(rows, call(name, (rows["p"],)), sql)


def test_connectives_of_many() -> None:
    rows = _flags(3)
    arguments = tuple(rows[name] for name in "pqr")
    assert_like_duckdb(rows, call("and", arguments), "p AND q AND r")
    assert_like_duckdb(rows, call("or", arguments), "p OR q OR r")


def _failing(rows: Rows, name: str) -> Expression:
    """A condition over BIGINT that raises where the column is 0, NULL where it is NULL, true where
    it is positive."""
    return call("gt", (call("divide", (literal(1, BIGINT), rows[name])), literal(-1)))


def test_the_right_side_is_not_evaluated_where_the_left_decides() -> None:
    rows = Rows(p=(BOOLEAN, [True, False, None, False, True]), n=(BIGINT, [1, 0, 5, None, -1]))
    test = _failing(rows, "n")
    assert can_fail(test)
    assert rows.run(call("and", (rows["p"], test))) == [True, False, None, False, False]
    rows = Rows(p=(BOOLEAN, [False, True, None, True, False]), n=(BIGINT, [1, 0, 5, None, -1]))
    assert rows.run(call("or", (rows["p"], test))) == [True, True, True, True, False]
    scalar = call("and", (literal(False), test))
    assert Rows(p=(BOOLEAN, [True]), n=(BIGINT, [0])).run(scalar) == [False]


def test_the_right_side_is_evaluated_where_the_left_is_null() -> None:
    rows = Rows(p=(BOOLEAN, [None, True]), n=(BIGINT, [0, 1]))
    with pytest.raises(DataError, match="division by zero"):
        rows.run(call("and", (rows["p"], _failing(rows, "n"))))


def test_a_branch_of_case_is_evaluated_only_for_its_rows() -> None:
    rows = Rows(n=(BIGINT, [0, 2, None, 5, 0]))
    zero = call("eq", (rows["n"], literal(0)))
    expression = build.case([zero], [literal(-1)], call("divide", (literal(10), rows["n"])))
    assert rows.run(expression) == [-1, 5, None, 2, -1]
    expression = build.case(
        [call("ne", (rows["n"], literal(0)))], [call("divide", (literal(10), rows["n"]))]
    )
    assert rows.run(expression) == [None, 5, None, 2, None]


def test_a_condition_of_case_is_evaluated_only_for_the_rows_left() -> None:
    rows = Rows(n=(BIGINT, [0, 2, None, -5]))
    conditions = [call("eq", (rows["n"], literal(0))), _failing(rows, "n")]
    expression = build.case(conditions, [literal("zero"), literal("fine")], literal("none"))
    assert rows.run(expression) == ["zero", "fine", "none", "fine"]


@pytest.mark.parametrize(
    "sql_type", [BIGINT, VARCHAR, decimal(10, 2), array(VARCHAR), DATE], ids=str
)
def test_case_of_every_shape_of_type(sql_type: Any) -> None:
    values = {
        "BIGINT": [1, 2, 3],
        "VARCHAR": ["a", "", "c"],
        "DATE": [None, None, None],
        "VARCHAR[]": [["a"], [], [None]],
    }
    column = values.get(str(sql_type), [None, None, None])
    rows = Rows(p=(BOOLEAN, [True, False, None]), v=(sql_type, column), z=(BIGINT, [1, 0, 1]))
    lazy = call("gt", (call("divide", (literal(1, BIGINT), rows["z"])), literal(0)))
    for condition in (rows["p"], call("and", (rows["p"], lazy))):
        expression = build.case([condition], [rows["v"]], Literal(value=None, type=sql_type))
        assert rows.run(expression) == [column[0], None, None]


def test_coalesce_takes_the_first_that_is_not_null_and_no_more() -> None:
    rows = Rows(a=(BIGINT, [1, None, None]), b=(BIGINT, [0, 4, None]))
    by_zero = call("divide", (literal(8), rows["b"]))
    expression = build.coalesce([rows["a"], by_zero, literal(-1)])
    assert rows.run(expression) == [1, 2, -1]
    assert build.coalesce([rows["a"]]) is rows["a"] or build.coalesce([rows["a"]]) == rows["a"]
    constant = build.coalesce([literal(1), call("divide", (literal(1), literal(0)))])
    assert Rows().run(constant) == [1]


def test_results_meet_in_their_common_type() -> None:
    rows = Rows(p=(BOOLEAN, [True, False]), i=(INTEGER, [1, 2]))
    assert build.case([rows["p"]], [rows["i"]], literal(1.5)).type == DOUBLE
    assert build.case([rows["p"]], [Literal(value=None, type=NULL)], rows["i"]).type == INTEGER
    assert (
        build.case([rows["p"]], [literal("2020-01-01")], Literal(value=None, type=DATE)).type
        == DATE
    )
    with pytest.raises(ProgrammingError) as raised:
        build.case([rows["p"]], [rows["i"]], literal("x"), Position(1, 1, 0))
    assert raised.value.message == "cannot infer return type for CASE among [INTEGER, VARCHAR]"


def test_conditions_are_boolean() -> None:
    with pytest.raises(ProgrammingError) as raised:
        call("and", (literal(1), literal(True)))
    assert raised.value.message == "argument of AND must be BOOLEAN, not TINYINT"


IN_LISTS: list[tuple[str, list[Any], str]] = [
    ("i", [1, -1, 12345], "i IN (1, -1, 12345)"),
    ("i", [1, None], "i IN (1, NULL)"),
    ("big", [1, 2**31], "big IN (1, 2147483648)"),
    ("s", ["a", "", "nothing"], "s IN ('a', '', 'nothing')"),
    ("x", [0.0, NAN], "x IN (0.0::DOUBLE, 'nan'::DOUBLE)"),
    ("x", [-0.0, 1.5], "x IN (0.0::DOUBLE, 1.5::DOUBLE)"),
    ("b", [True, None], "b IN (true, NULL)"),
    ("ts", ["2001-01-01 12:00:00"], "ts IN (TIMESTAMP '2001-01-01 12:00:00')"),
]


@pytest.mark.parametrize(("column", "values", "sql"), IN_LISTS, ids=[sql for _, _, sql in IN_LISTS])
def test_in_list(column: str, values: list[Any], sql: str) -> None:
    rows = edges(column)
    expression = build.in_list(rows[column], [literal(value) for value in values])
    assert isinstance(expression, InList)
    assert_like_duckdb(rows, expression, sql)
    assert_like_duckdb(rows, call("not", (expression,)), f"NOT ({sql})")


def test_in_list_of_parameters_is_made_anew_for_each_execution() -> None:
    rows = Rows(i=(BIGINT, [1, 2, None]))
    expression = build.in_list(
        rows["i"], [Parameter(index=0, type=BIGINT), Parameter(index=1, type=BIGINT)]
    )
    assert rows.run(expression, scalar_of(1, BIGINT), scalar_of(5, BIGINT)) == [True, False, None]
    assert rows.run(expression, scalar_of(2, BIGINT), scalar_of(None, BIGINT)) == [None, True, None]


def test_in_list_of_other_expressions_is_a_chain() -> None:
    rows = Rows(i=(BIGINT, [1, 2, None]), j=(BIGINT, [1, 1, 1]))
    expression = build.in_list(rows["i"], [rows["j"], literal(7)])
    assert isinstance(expression, Call)
    assert rows.run(expression) == [True, False, None]


def test_in_list_of_a_scalar() -> None:
    assert Rows().run(build.in_list(literal(1), [literal(1), literal(2)])) == [True]
    assert Rows().run(build.in_list(literal(None), [literal(1)])) == [None]


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(
    st.lists(st.one_of(st.none(), st.integers(-2, 2)), min_size=1, max_size=8),
    st.lists(st.integers(-2, 2), max_size=4),
)
def test_nested_conditions_like_duckdb(values: list[int | None], chosen: list[int]) -> None:
    rows = Rows(n=(BIGINT, values))
    n = rows["n"]
    conditions = [call("eq", (n, literal(value))) for value in [*chosen, 0]]
    case = build.case(
        conditions,
        [literal(value * 10) for value in [*chosen, 0]],
        call("divide", (literal(100), n)),
    )
    whens = " ".join(f"WHEN n = {value} THEN {value * 10}" for value in [*chosen, 0])
    assert_like_duckdb(rows, case, f"CASE {whens} ELSE 100 // n END")


def test_selection_keeps_rows_that_are_true() -> None:
    rows = Rows(n=(BIGINT, [0, 1, None, 3, -4]))
    batch = pa.RecordBatch.from_arrays(rows.arrays, ["n"])
    condition = call(
        "and",
        (
            call("ne", (rows["n"], literal(0))),
            _failing(rows, "n"),
            call("gt", (rows["n"], literal(1))),
        ),
    )
    select = compile_selection(condition)
    assert python_values(select(batch, EvaluationContext()).column(0), BIGINT) == [3]
    assert select(batch.slice(0, 1), EvaluationContext()).num_rows == 0
    everything = compile_filter(call("is_not_false", (literal(True),)))
    assert everything(EvaluationInput(rows.arrays, rows.num_rows, EvaluationContext())) is None


def test_constants() -> None:
    one = call("add", (literal(1), literal(2)))
    assert is_constant(one)
    assert evaluate_constant(one) == 3
    assert not is_constant(call("NOW", ()))
    assert not is_constant(call("RAND", ()))
    assert not is_constant(Parameter(index=0, type=BIGINT))
    assert is_constant(call("EXTRACT", (literal("year"), Literal(value=None, type=DATE))))
    with pytest.raises(DataError, match="division by zero"):
        evaluate_constant(call("divide", (literal(1), literal(0))))
    context = EvaluationContext((scalar_of(5, BIGINT),))
    assert (
        evaluate_constant(call("add", (Parameter(index=0, type=BIGINT), literal(1))), context) == 6
    )


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("eq", None),
        ("ne", None),
        ("lt", None),
        ("ge", None),
        ("is_distinct", False),
        ("is_not_distinct", True),
    ]
    + [(name, None) for name in ("GREATEST", "LEAST", "add", "multiply")],
)
def test_values_of_no_type_together(function: str, expected: bool | None) -> None:
    rows = Rows(a=(NULL, [None, None]), b=(NULL, [None, None]))
    assert rows.run(call(function, (rows["a"], rows["b"]))) == [expected, expected]
    assert Rows().run(call(function, (literal(None, NULL), literal(None, NULL)))) == [expected]


@pytest.mark.parametrize(
    "function", ["add", "subtract", "multiply", "divide", "remainder", "eq", "lt", "GREATEST"]
)
@pytest.mark.parametrize("sql_type", [INTEGER, DOUBLE, decimal(5, 2)])
def test_a_column_of_nothing_but_nulls_takes_the_type_of_the_other_side(
    function: str, sql_type: Any
) -> None:
    if function == "remainder" and sql_type == DOUBLE:
        return
    rows = Rows(a=(NULL, [None]), b=(sql_type, [1]))
    expected = rows.run(rows["b"]) if function == "GREATEST" else [None]
    assert rows.run(call(function, (rows["a"], rows["b"]))) == expected
    assert rows.run(call(function, (rows["b"], rows["a"]))) == expected
