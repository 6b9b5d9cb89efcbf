"""Functions that make much of little: their results are made a few rows at a time, or refused
before they are made."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import runnel
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, compile_filter, evaluate
from runnel.expressions.kernels.result_size import AT_A_TIME, SIZES, TooManyRows, check_call
from runnel.expressions.nodes import Call, Column, Literal
from runnel.runtime.tasklets.failures import vertex_failure
from runnel.sqltypes import BIGINT, VARCHAR


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect(pushdown="off", cooperative_threads=2) as connection:
        yield connection


LARGE = [
    "REPEAT('x', 10000000)",
    "REPEAT('x', 10000000 + CAST(v % 2 AS INTEGER))",
    "REPEAT(CAST(v AS VARCHAR), 9000000)",
    "LPAD('x', 10000000)",
    "LPAD(CAST(v AS VARCHAR), 10000000, 'é')",
    "RPAD('x', 10000000 + v % 2, '-')",
    "SPACE(10000000)",
    "SPACE(10000000 + v % 2)",
    "REPEAT('x', 10000000) || CAST(v AS VARCHAR)",
    "CONCAT(v, REPEAT('x', 10000000))",
    "CONCAT_WS(REPEAT('x', 10000000), v, v)",
    "REPLACE('ab' || v, 'a', REPEAT('x', 10000000))",
    "REGEXP_REPLACE('ab' || v, 'a', REPEAT('x', 10000000))",
    "REGEXP_REPLACE('ab' || v, '', REPEAT('x', 1000000), 'g')",
    "CASE WHEN v > 0 THEN REPEAT('x', 10000000) END",
    "CASE WHEN v % 2 = 0 THEN REPEAT('x', 10000000) ELSE 'y' || 1 / v END",
    "COALESCE(NULLIF(CAST(v AS VARCHAR), '7'), REPEAT('x', 10000000)) || REPEAT('x', 10000000)",
    "ARRAY_FILL(v, 5000000)",
    "RANGE(5000000 + v)",
    "ARRAY_SERIES(1, 5000000 + v, 1)",
]


@pytest.mark.parametrize("expression", LARGE)
def test_a_few_rows_come_before_all_are_made(con: runnel.Connection, expression: str) -> None:
    """All together would be hundreds of GB."""
    sql = f"SELECT {expression} FROM TABLE(GENERATE_SERIES(1, 50000)) g(v)"
    cursor = con.cursor()
    batch = cursor.execute(sql, timeout=60).fetch_record_batch().read_next_batch()
    assert 0 < batch.num_rows < 50_000
    assert batch.nbytes <= 4 * AT_A_TIME
    cursor.close()


def test_the_answer_is_the_same_in_pieces(con: runnel.Connection) -> None:
    sql = (
        "SELECT SUM(LENGTH(REPEAT('ab', 100000 + CAST(v AS INTEGER)))), COUNT(*) "
        "FROM TABLE(GENERATE_SERIES(1, 3000)) g(v)"
    )
    assert con.execute(sql).fetchall() == [(2 * (100_000 * 3000 + 3000 * 3001 // 2), 3000)]
    filtered = (
        "SELECT v FROM TABLE(GENERATE_SERIES(1, 3000)) g(v) "
        "WHERE LENGTH(REPEAT('x', 100000) || v) = 100001 ORDER BY v"
    )
    assert con.execute(filtered).fetchall() == [(v,) for v in range(1, 10)]
    series = "TABLE(GENERATE_SERIES(1, 2000)) g(v)"
    projected = (
        f"SELECT v, LENGTH(t) FROM (SELECT v, RPAD('', 100000 + v, '-') AS t FROM {series}) "
        "ORDER BY v"
    )
    assert con.execute(projected).fetchall() == [(v, 100_000 + v) for v in range(1, 2001)]
    replaced = (
        "SELECT SUM(LENGTH(REPLACE('a' || v, 'a', REPEAT('x', 100000)))) "
        "FROM TABLE(GENERATE_SERIES(10, 99)) g(v)"
    )
    assert con.execute(replaced).fetchall() == [(90 * 100_002,)]


def test_much_text_is_made_no_longer_than_the_time_out(con: runnel.Connection) -> None:
    cursor = con.cursor()
    with pytest.raises(runnel.OperationalError, match=r"took longer than its time-out of 0\.2 s"):
        cursor.execute(
            "SELECT MAX(LENGTH(REPEAT('x', 10000000 + v % 2))) "
            "FROM TABLE(GENERATE_SERIES(1, 99999)) g(v)",
            timeout=0.2,
        )
        cursor.fetchall()


def test_values_that_are_too_large_are_refused_before_they_are_made(con: runnel.Connection) -> None:
    with pytest.raises(runnel.DataError) as caught:
        con.execute(
            "SELECT REPLACE(REPEAT('a', CAST(v AS INTEGER)), 'a', REPEAT('x', 100000)) "
            "FROM (VALUES (90000)) t(v)"
        ).fetchall()
    assert caught.value.message == "REPLACE would return a value of 9,000,000,000 bytes"
    assert caught.value.hint == "the maximum is 1,000,000,000"
    constant = Literal(type=VARCHAR, value="x" * 1_000_000)
    with pytest.raises(
        runnel.DataError, match="the values of 1,001 rows take more than 1,000,000,000 bytes"
    ):
        evaluate(compile_expression(constant), EvaluationInput([], 1001, EvaluationContext()))


def test_nulls_make_nothing(con: runnel.Connection) -> None:
    sql = (
        "SELECT REPEAT(NULLIF('x', 'x'), 1000000), LPAD('x', CAST(NULL AS INT)), REPEAT('x', -5), "
        "RANGE(CAST(NULL AS BIGINT))"
    )
    assert con.execute(sql).fetchall() == [(None, None, "", None)]


def test_what_fits_is_always_fewer() -> None:
    text = pa.array(["x"] * 3)
    with pytest.raises(TooManyRows) as caught:
        check_call("repeat", [text, pa.scalar(AT_A_TIME, pa.int64())], None)
    assert caught.value.fitting == 1
    check_call("repeat", [text.slice(0, 1), pa.scalar(AT_A_TIME * 2, pa.int64())], None)
    check_call("repeat", [text.slice(0, 0), pa.scalar(AT_A_TIME * 2, pa.int64())], None)


def test_every_function_with_a_size_exists() -> None:
    from runnel.expressions.functions import FUNCTIONS

    assert all(name in FUNCTIONS for name in SIZES)


def test_a_cancelled_evaluation_is_left_between_pieces() -> None:
    looks: list[int] = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise runnel.OperationalError("left")

    repeated = Call(
        function="repeat",
        arguments=(
            Column(type=VARCHAR, index=0, name="t"),
            Literal(type=BIGINT, value=AT_A_TIME // 4),
        ),
        type=VARCHAR,
    )
    long = Call(
        function="starts_with",
        arguments=(repeated, Literal(type=VARCHAR, value="x")),
        type=runnel.sqltypes.BOOLEAN,
    )
    frame = EvaluationInput([pa.array(["x"] * 100)], 100, EvaluationContext(check=check))
    with pytest.raises(runnel.OperationalError, match="left"):
        evaluate(compile_expression(long), frame)
    assert len(looks) == 3
    looks[:] = [1] * 3
    assert compile_filter(long)(frame) is None


def test_a_slow_python_function_is_left_between_two_values(con: runnel.Connection) -> None:
    entered = threading.Event()
    go_on = threading.Event()
    calls: list[int] = []

    def slow(value: int) -> int:
        calls.append(value)
        entered.set()
        go_on.wait(30)
        return value

    con.create_function("slow", slow, ["BIGINT"], "BIGINT", scalar=True)
    cursor = con.cursor()
    failures: list[runnel.Error] = []

    def read() -> None:
        try:
            cursor.execute(
                "SELECT SUM(slow(v)) FROM TABLE(GENERATE_SERIES(1, 20000)) g(v)"
            ).fetchall()
        except runnel.Error as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert entered.wait(30)
    cursor.cancel()
    go_on.set()
    reader.join(30)
    assert [item.message for item in failures] == ["the job was cancelled"]
    assert len(calls) == 1


def test_a_python_function_obeys_the_time_out(con: runnel.Connection) -> None:
    wait = threading.Event()
    con.create_function(
        "slow", lambda value: (wait.wait(0.02), value)[1], ["BIGINT"], "BIGINT", scalar=True
    )
    cursor = con.cursor()
    with pytest.raises(runnel.OperationalError, match=r"took longer than its time-out of 0\.2 s"):
        cursor.execute(
            "SELECT SUM(slow(v)) FROM TABLE(GENERATE_SERIES(1, 60000)) g(v)", timeout=0.2
        ).fetchall()
    assert con.execute("SELECT SUM(slow(v)) FROM TABLE(GENERATE_SERIES(1, 5)) g(v)").fetchall() == [
        (15,)
    ]


def test_functions_without_arguments_and_quick_ones_are_called_once_per_row(
    con: runnel.Connection,
) -> None:
    calls: list[int] = []
    con.create_function(
        "tick",
        lambda: calls.append(1) or len(calls),
        [],
        "BIGINT",
        scalar=True,
        deterministic=False,
    )
    assert con.execute(
        "SELECT COUNT(DISTINCT tick()), COUNT(*) FROM TABLE(GENERATE_SERIES(1, 1000)) g(v)"
    ).fetchall() == [(1000, 1000)]
    assert len(calls) == 1000


def test_more_than_an_array_holds_is_no_fault_of_the_engine() -> None:
    for said in (
        (
            "offset overflow while concatenating arrays, consider casting input from `string` to "
            "`large_string` first."
        ),
        "array cannot contain more than 2147483646 bytes, have 5000000000",
    ):
        failure = vertex_failure(pa.ArrowInvalid(said), "aggregate", False)
        assert isinstance(failure, runnel.DataError)
        assert failure.message == "the values of a column need more than 2 GB at a time"
        assert failure.detail == 'in vertex "aggregate"'
    assert isinstance(
        vertex_failure(pa.ArrowInvalid("something else"), "aggregate", False), runnel.InternalError
    )
