"""What a rendering refuses, how names and texts are written, and what depends on the session."""

from __future__ import annotations

import duckdb
import pytest

from runnel.errors import ERROR_MARK
from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.nodes import Call, Column, Expression, Literal, Parameter, SortKey
from runnel.foreign.fragment import Unrenderable
from runnel.relation.over import UP_TO_PEERS, WindowCall
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.render import Rendering, RenderingContext
from runnel.rendering.spark.dialect import SPARK
from runnel.rendering.window import over
from runnel.sqltypes import BIGINT, DOUBLE, INTEGER, NULL, TIMESTAMP_TZ, VARCHAR, decimal

X = Column(index=0, name="x", type=INTEGER)
S = Column(index=1, name="s", type=VARCHAR)
D = Column(index=2, name="d", type=DOUBLE)
COLUMNS = ["t0.c0", "t0.c1", "t0.c2"]
DIALECTS = pytest.mark.parametrize("dialect", [DUCKDB, SPARK], ids=["duckdb", "spark"])


def literal(value: object, sql_type: object = VARCHAR) -> Literal:
    return Literal(value=value, type=sql_type)  # type: ignore[arg-type]


@DIALECTS
def test_what_is_in_no_table_is_refused(dialect: object) -> None:
    rendering = Rendering(dialect)  # type: ignore[arg-type]
    unknown = [
        name
        for name in FUNCTIONS
        if name not in rendering.dialect.functions and name not in ("and", "or")
    ]
    assert unknown
    for name in unknown:
        call = Call(function=name, arguments=(S, S), type=VARCHAR)
        with pytest.raises(Unrenderable, match=name.upper()):
            rendering.expression(call, COLUMNS)
    with pytest.raises(Unrenderable, match="aggregate function APPROX_DISTINCT"):
        rendering.aggregate(aggregate_call("approx_distinct", (X,)), COLUMNS)


@DIALECTS
def test_a_type_without_rendering_is_refused(dialect: object) -> None:
    rendering = Rendering(dialect)  # type: ignore[arg-type]
    with pytest.raises(Unrenderable, match="type NULL"):
        rendering.expression(Literal(value=None, type=NULL), [])


def test_identifiers_are_quoted() -> None:
    assert Rendering(DUCKDB).quote('a"b') == '"a""b"'
    assert Rendering(SPARK).quote("a`b") == "`a``b`"
    for name in ("", "a\0b"):
        with pytest.raises(Unrenderable):
            Rendering(DUCKDB).quote(name)
    with pytest.raises(Unrenderable):
        Rendering(SPARK).quote("${env:HOME}")


@pytest.mark.parametrize(
    "text", ["it's", "'; DROP TABLE t; --", "a\0b", "\\'", "ä\n", "$1 ${x}", ""]
)
def test_texts_come_back_from_duckdb_as_they_are(text: str) -> None:
    rendered = Rendering(DUCKDB).literal(text, VARCHAR)
    assert duckdb.sql(f"SELECT {rendered}").fetchall() == [(text,)]


def test_spark_texts_hold_nothing_that_a_session_could_replace() -> None:
    rendered = Rendering(SPARK).literal("a\\b'c${d}\n", VARCHAR)
    assert "\\" not in rendered
    assert "${" not in rendered
    assert rendered == "concat('a', char(92), 'b', char(39), 'c', char(36), '{d}', char(10))"


def test_arguments_stand_as_literals_of_their_type() -> None:
    condition = build.call("eq", (X, Parameter(index=1, type=INTEGER)))
    assert Rendering(DUCKDB).expression(condition, COLUMNS) == "(t0.c0 = CAST($2 AS INTEGER))"
    session = RenderingContext(arguments=("unused", 7))
    assert (
        Rendering(DUCKDB, session).expression(condition, COLUMNS) == "(t0.c0 = CAST(7 AS INTEGER))"
    )
    assert Rendering(SPARK, session).expression(condition, COLUMNS) == "(t0.c0 = CAST('7' AS INT))"


def test_constants_are_worked_out_by_us() -> None:
    total = build.call("add", (literal(1, BIGINT), literal(2, BIGINT)))
    assert (
        Rendering(DUCKDB).expression(build.cast(total, BIGINT), [])
        == f"CAST(3 AS {Rendering(DUCKDB).type(total.type)})"
    )
    failing = build.call("divide", (literal(1, INTEGER), literal(0, INTEGER)))
    text = Rendering(DUCKDB).expression(failing, [])
    assert f"error('{ERROR_MARK}division by zero')" in text
    with pytest.raises(duckdb.Error, match="division by zero"):
        duckdb.sql(f"SELECT {text}").fetchall()


def test_a_failing_constant_in_a_branch_not_taken_is_no_error() -> None:
    failing = build.call("divide", (literal(1, INTEGER), literal(0, INTEGER)))
    chosen = build.case([build.call("is_null", (X,))], [failing], X)
    text = Rendering(DUCKDB).expression(chosen, ["c"])
    assert duckdb.sql(f"SELECT {text} FROM (VALUES (5)) AS t(c)").fetchall() == [(5,)]


def test_the_session_gives_zone_and_time() -> None:
    now = build.call("now", ())
    assert Rendering(DUCKDB).expression(now, []) == "CAST($(NOW()) AS TIMESTAMPTZ)"
    session = RenderingContext(now=1_700_000_000_000_000, zone="Europe/Berlin")
    assert (
        Rendering(DUCKDB, session).expression(now, [])
        == "CAST('2023-11-14 22:13:20+00' AS TIMESTAMPTZ)"
    )
    hour = build.call("EXTRACT", (literal("hour"), Column(index=0, name="z", type=TIMESTAMP_TZ)))
    assert "$zone" in Rendering(DUCKDB).expression(hour, ["c"])
    assert "'Europe/Berlin'" in Rendering(DUCKDB, session).expression(hour, ["c"])


@DIALECTS
def test_conjuncts_that_can_fail_see_only_what_passed_before(dialect: object) -> None:
    rendering = Rendering(dialect)  # type: ignore[arg-type]
    quotient = build.call("divide", (literal(10, INTEGER), X))
    condition = build.call(
        "and",
        (
            build.call("ne", (X, literal(0, INTEGER))),
            build.call("gt", (quotient, literal(1, INTEGER))),
        ),
    )
    text = rendering.condition(condition, ["c"])
    assert text.startswith("(CASE WHEN (c <> ")
    assert text.endswith("ELSE FALSE END)")


def test_a_filtered_argument_that_can_fail_sees_only_the_rows_that_pass() -> None:
    quotient = build.call("divide", (literal(10, INTEGER), X))
    call = aggregate_call("sum", (quotient,), predicate=build.call("ne", (X, literal(0, INTEGER))))
    text = Rendering(DUCKDB).aggregate(call, ["c"])
    assert duckdb.sql(f"SELECT {text} FROM (VALUES (0), (5), (2)) AS t(c)").fetchall() == [(7,)]


@DIALECTS
def test_order_says_where_null_goes(dialect: object) -> None:
    rendering = Rendering(dialect)  # type: ignore[arg-type]
    assert rendering.sort_key(SortKey(X), COLUMNS) == "t0.c0 ASC NULLS FIRST"
    assert (
        rendering.sort_key(SortKey(X, descending=True, nulls_first=False), COLUMNS)
        == "t0.c0 DESC NULLS LAST"
    )


def test_keys_of_floats_have_one_zero() -> None:
    rows = "(VALUES (CAST('-0.0' AS DOUBLE)), (CAST('0.0' AS DOUBLE))) AS t(c)"
    key = Rendering(DUCKDB).key(Column(index=0, name="d", type=DOUBLE), ["c"])
    assert duckdb.sql(
        f"SELECT CAST({key} AS VARCHAR), count(*) FROM {rows} GROUP BY {key}"
    ).fetchall() == [("0.0", 2)]


def test_nesting_that_multiplies_is_refused() -> None:
    expression: Expression = D
    for _ in range(12):
        expression = build.call("multiply", (expression, expression))
    with pytest.raises(Unrenderable, match="so large"):
        Rendering(SPARK).expression(expression, COLUMNS)


def test_windows() -> None:
    total = WindowCall(
        call=aggregate_call("sum", (X,)), partition=(S,), order=(SortKey(X),), frame=UP_TO_PEERS
    )
    text = over(Rendering(DUCKDB), total, ["c", "s"])
    rows = "(VALUES (1, 'a'), (2, 'a'), (2, 'a'), (5, 'b')) AS t(c, s)"
    assert sorted(duckdb.sql(f"SELECT {text} FROM {rows}").fetchall()) == [(1,), (5,), (5,), (5,)]
    assert "PARTITION BY s ORDER BY c" in over(Rendering(SPARK), total, ["c", "s"])
    deviation = WindowCall(
        call=aggregate_call("stddev", (X,)), partition=(S,), order=(SortKey(X),), frame=UP_TO_PEERS
    )
    with pytest.raises(Unrenderable, match="window function STDDEV"):
        over(Rendering(SPARK), deviation, ["c", "s"])


def test_decimals_wider_than_38_digits_together_compare_exactly() -> None:
    left, right = (
        Column(index=i, name="d", type=decimal(38, scale)) for i, scale in enumerate((2, 6))
    )
    rows = (
        "(VALUES (1.50::DECIMAL(38, 2), 1.500001::DECIMAL(38, 6)), (-1.5, -1.500001), (2, 2), "
        "(NULL, 1)) AS t(a, b)"
    )
    for name, wanted in (
        ("lt", [True, False, False, None]),
        ("ge", [False, True, True, None]),
        ("eq", [False, False, True, None]),
    ):
        text = Rendering(DUCKDB).expression(build.call(name, (left, right)), ["a", "b"])
        assert [value for (value,) in duckdb.sql(f"SELECT {text} FROM {rows}").fetchall()] == wanted
