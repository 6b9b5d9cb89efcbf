"""Numbers: result types, values against Python's exact arithmetic, overflow, division by zero."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.errors import DataError, Error, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import can_fail, compile_expression, evaluate, is_volatile
from runnel.expressions.kernels.values import python_values
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.sqltypes import (
    BIGINT,
    DOUBLE,
    INTEGER,
    INTEGER_WIDTHS,
    INTEGERS,
    NULL,
    REAL,
    SMALLINT,
    TINYINT,
    VARCHAR,
    Kind,
    SqlType,
    decimal,
)
from tests.effort import examples
from tests.expressions.edge_values import INF, NAN, Rows, call, literal

OPERATIONS = ("add", "subtract", "multiply", "divide", "remainder")
EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def _integers(sql_type: SqlType) -> list[int]:
    limit = 1 << (INTEGER_WIDTHS[sql_type.kind] - 1)
    return [0, 1, -1, 7, -7, limit - 1, -limit]


def _expected(operation: str, left: int, right: int) -> int:
    if operation == "add":
        return left + right
    if operation == "subtract":
        return left - right
    if operation == "multiply":
        return left * right
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operation == "divide" else left - right * quotient


def _one(expression: Expression, rows: Rows) -> Any:
    try:
        return rows.run(expression)[0]
    except DataError as error:
        return error.message


@pytest.mark.parametrize(("left", "right"), list(product(INTEGERS, INTEGERS)), ids=str)
def test_integers_are_exact_or_refused(left: SqlType, right: SqlType) -> None:
    for operation in OPERATIONS:
        pairs = [(a, b) for a in _integers(left) for b in _integers(right)]
        rows = Rows(a=(left, [a for a, _ in pairs]), b=(right, [b for _, b in pairs]))
        expression = call(operation, (rows["a"], rows["b"]))
        limit = 1 << (INTEGER_WIDTHS[expression.type.kind] - 1)
        good = [(a, b) for a, b in pairs if not (b == 0 and operation in ("divide", "remainder"))]
        good = [(a, b) for a, b in good if -limit <= _expected(operation, a, b) < limit]
        fine = Rows(a=(left, [a for a, _ in good]), b=(right, [b for _, b in good]))
        assert fine.run(expression) == [_expected(operation, a, b) for a, b in good]
        assert can_fail(expression) or len(good) == len(pairs)
        for a, b in set(pairs) - set(good):
            message = _one(expression, Rows(a=(left, [a]), b=(right, [b])))
            assert message == "division by zero" or message.startswith("BIGINT overflow in ")


@pytest.mark.parametrize(
    ("operation", "left", "right", "result"),
    [
        ("add", TINYINT, TINYINT, SMALLINT),
        ("add", TINYINT, SMALLINT, INTEGER),
        ("subtract", INTEGER, INTEGER, BIGINT),
        ("multiply", TINYINT, TINYINT, SMALLINT),
        ("multiply", INTEGER, INTEGER, BIGINT),
        ("divide", INTEGER, TINYINT, BIGINT),
        ("remainder", INTEGER, TINYINT, INTEGER),
        ("add", BIGINT, TINYINT, BIGINT),
        ("add", TINYINT, REAL, REAL),
        ("add", INTEGER, decimal(10, 2), decimal(13, 2)),
        ("multiply", decimal(10, 2), REAL, REAL),
        ("multiply", decimal(10, 2), DOUBLE, DOUBLE),
        ("add", REAL, DOUBLE, DOUBLE),
        ("add", decimal(38, 10), decimal(38, 10), decimal(38, 10)),
        ("add", decimal(38, 0), decimal(38, 10), decimal(38, 6)),
        ("multiply", decimal(38, 10), decimal(38, 10), decimal(38, 18)),
        ("multiply", decimal(38, 20), decimal(38, 20), decimal(38, 20)),
        ("multiply", decimal(38, 16), decimal(38, 10), decimal(38, 16)),
        ("multiply", decimal(1, 0), decimal(38, 33), decimal(38, 33)),
        ("multiply", decimal(20, 20), decimal(20, 20), decimal(38, 38)),
        ("multiply", decimal(10, 2), decimal(5, 3), decimal(15, 5)),
        ("multiply", decimal(20, 10), decimal(20, 10), decimal(38, 18)),
        ("divide", decimal(2, 1), decimal(1, 0), decimal(17, 16)),
        ("divide", decimal(38, 10), decimal(38, 10), decimal(38, 6)),
        ("divide", decimal(10, 2), decimal(10, 2), decimal(26, 16)),
        ("remainder", decimal(10, 2), decimal(5, 3), decimal(11, 3)),
        ("add", NULL, INTEGER, BIGINT),
        ("add", NULL, NULL, BIGINT),
    ],
    ids=str,
)
def test_result_types(operation: str, left: SqlType, right: SqlType, result: SqlType) -> None:
    arguments = [_operand(0, left), _operand(1, right)]
    assert call(operation, arguments).type == result


def _operand(index: int, sql_type: SqlType) -> Expression:
    if sql_type == NULL:
        return Literal(value=None, type=NULL)
    return Column(index=index, name=f"c{index}", type=sql_type)


def test_a_literal_is_as_wide_as_its_value() -> None:
    assert call("add", (literal(1), literal(1))).type == TINYINT
    assert call("add", (_operand(0, INTEGER), literal(1))).type == BIGINT
    assert call("add", (_operand(0, TINYINT), literal(1))).type == SMALLINT
    assert call("multiply", (literal(-8), literal(-16))).type == SMALLINT
    assert call("add", (_operand(0, decimal(10, 2)), literal(5))).type == decimal(11, 2)


def test_an_expression_is_as_wide_as_its_parts() -> None:
    deep: Expression = literal(1)
    for _ in range(5):
        deep = call("add", (deep, literal(1)))
    assert deep.type == TINYINT
    assert not can_fail(call("add", (_operand(0, INTEGER), literal(1))))
    assert can_fail(call("add", (_operand(0, BIGINT), literal(1))))
    assert not can_fail(call("multiply", (_operand(0, INTEGER), _operand(1, INTEGER))))


def test_the_sign() -> None:
    assert call("negate", (literal(128),)) == Literal(value=-128, type=TINYINT)
    least = call("negate", (literal(2**63, decimal(19, 0)),))
    assert least == Literal(value=-(2**63), type=BIGINT)
    rows = Rows(a=(INTEGER, [1, None, -(2**31)]))
    assert rows.run(call("negate", (rows["a"],))) == [-1, None, 2**31]
    rows = Rows(a=(BIGINT, [-(2**63)]))
    with pytest.raises(DataError, match="BIGINT overflow in '-' operator"):
        rows.run(call("negate", (rows["a"],)))


@pytest.mark.parametrize("operation", ["add", "subtract", "multiply"])
def test_float_overflow_is_an_error_but_infinity_is_a_value(operation: str) -> None:
    big = 1.7e308
    rows = Rows(a=(DOUBLE, [1.0, big]), b=(DOUBLE, [2.0, -big if operation == "subtract" else big]))
    with pytest.raises(DataError) as raised:
        rows.run(call(operation, (rows["a"], rows["b"])))
    assert raised.value.message.startswith("DOUBLE overflow in '")
    assert str(big) in (raised.value.detail or "")
    rows = Rows(a=(DOUBLE, [INF, NAN, None]), b=(DOUBLE, [2.0, 1.0, 1.0]))
    assert math.isinf(rows.run(call(operation, (rows["a"], rows["b"])))[0])


@pytest.mark.parametrize("sql_type", [TINYINT, BIGINT, decimal(10, 2), REAL, DOUBLE], ids=str)
def test_division_by_zero(sql_type: SqlType) -> None:
    zero: Any = (
        Decimal(0) if sql_type.kind is Kind.DECIMAL else 0.0 if sql_type.is_approximate else 0
    )
    rows = Rows(a=(sql_type, [None, zero + 1]), b=(sql_type, [zero, zero]))
    for operation in ("divide",) if sql_type.is_approximate else ("divide", "remainder"):
        with pytest.raises(DataError, match="division by zero"):
            rows.run(call(operation, (rows["a"], rows["b"])))
    nulls = Rows(a=(sql_type, [None]), b=(sql_type, [zero]))
    assert nulls.run(call("divide", (nulls["a"], nulls["b"]))) == [None]


def test_errors_name_the_row_and_the_place() -> None:
    position = Position(1, 8, 7)
    rows = Rows(a=(BIGINT, [1, 2, 2**63 - 1, 2**63 - 1]), b=(BIGINT, [1, 0, 3, 4]))
    with pytest.raises(DataError) as raised:
        rows.run(build.call("add", (rows["a"], rows["b"]), position))
    error = raised.value
    assert error.message == "BIGINT overflow in '+' operator"
    assert error.detail == "in 9223372036854775807 + 3"
    assert error.hint == "consider adding an explicit CAST to DECIMAL"
    assert error.position == position


@pytest.mark.parametrize(
    ("operation", "left", "right", "message"),
    [
        ("add", INTEGER, VARCHAR, "cannot apply '+' operator to [INTEGER, VARCHAR]"),
        ("multiply", VARCHAR, VARCHAR, "cannot apply '*' operator to [VARCHAR, VARCHAR]"),
        ("remainder", DOUBLE, INTEGER, "cannot apply '%' operator to [DOUBLE, INTEGER]"),
    ],
)
def test_operands_that_do_not_go_together(
    operation: str, left: SqlType, right: SqlType, message: str
) -> None:
    with pytest.raises(ProgrammingError) as raised:
        call(operation, (_operand(0, left), _operand(1, right)))
    assert raised.value.message == message


@st.composite
def _decimals(draw: st.DrawFn) -> tuple[SqlType, Decimal]:
    precision = draw(st.sampled_from([1, 5, 10, 18, 19, 37, 38]))
    scale = draw(st.integers(0, precision))
    digits = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    return decimal(precision, scale), Decimal(digits).scaleb(-scale, EXACT)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(_decimals(), _decimals(), st.sampled_from(OPERATIONS))
def test_decimals_are_exact_to_their_scale_or_refused(
    left: tuple[SqlType, Decimal], right: tuple[SqlType, Decimal], operation: str
) -> None:
    rows = Rows(a=(left[0], [left[1], None]), b=(right[0], [right[1], right[1]]))
    expression = call(operation, (rows["a"], rows["b"]))
    scale = Decimal(1).scaleb(-expression.type.scale)
    a, b = left[1], right[1]
    try:
        ours = rows.run(expression)
    except Error as error:
        if b == 0 and operation in ("divide", "remainder"):
            assert error.message == "division by zero"
        else:
            assert error.message.startswith("DECIMAL")
            exact = _decimal_result(operation, a, b)
            if operation == "multiply" and exact != exact.quantize(scale, context=EXACT):
                return  # digits would be lost
            # Division gives up a little early where dividend and divisor have opposite extremes of
            # scale.
            room = (
                expression.type.precision
                - expression.type.scale
                - (2 if operation == "divide" else 0)
            )
            assert abs(exact) >= Decimal(10) ** room - 1
        return
    assert ours[1] is None
    exact = _decimal_result(operation, a, b)
    if operation == "multiply" and 16 not in (left[0].scale, right[0].scale):
        assert ours[0] == exact, "a product keeps its digits"
    assert ours[0] == exact.quantize(scale, context=EXACT)


def _decimal_result(operation: str, a: Decimal, b: Decimal) -> Decimal:
    if operation == "add":
        return EXACT.add(a, b)
    if operation == "subtract":
        return EXACT.subtract(a, b)
    if operation == "multiply":
        return EXACT.multiply(a, b)
    return EXACT.divide(a, b) if operation == "divide" else EXACT.remainder(a, b)


def test_a_product_of_numbers_that_are_all_scale() -> None:
    least = Decimal("0." + "0" * 37 + "1")
    rows = Rows(
        a=(decimal(38, 38), [Decimal("0.5"), Decimal("-0.2"), None]),
        b=(decimal(38, 38), [Decimal("0.5"), least * 5, Decimal("0.1")]),
    )
    product = call("multiply", (rows["a"], rows["b"]))
    assert rows.run(product) == [Decimal("0.25"), -least, None]
    rows = Rows(a=(decimal(38, 38), [least]), b=(decimal(38, 38), [Decimal("0.9")]))
    with pytest.raises(DataError, match="overflow") as caught:
        rows.run(product)
    assert "ROUND or CAST a factor" in str(caught.value.hint)


def test_scalars_stay_scalars_and_agree_with_columns() -> None:
    for operation in OPERATIONS:
        rows = Rows(a=(decimal(10, 2), [Decimal("7.25")]), b=(decimal(5, 3), [Decimal("-2.125")]))
        by_column = rows.run(call(operation, (rows["a"], rows["b"])))
        arguments = (
            literal(Decimal("7.25"), decimal(10, 2)),
            literal(Decimal("-2.125"), decimal(5, 3)),
        )
        assert Rows().run(call(operation, arguments)) == by_column


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SQRT", -1.0, "square root of a negative number"),
        ("LN", 0.0, "logarithm of a number that isn't positive"),
        ("LOG10", -1.0, "logarithm of a number that isn't positive"),
        ("EXP", 1000.0, "DOUBLE overflow in EXP function"),
        ("ASIN", 1.5, "arc sine of a number outside -1 to 1"),
        ("COT", 0.0, "division by zero"),
        ("SQUARE", 1e200, "DOUBLE overflow in SQUARE function"),
        ("DEGREES", 1.7e308, "DOUBLE overflow in DEGREES function"),
    ],
)
def test_outside_the_domain(name: str, value: float, message: str) -> None:
    rows = Rows(x=(DOUBLE, [None, value]))
    with pytest.raises(DataError) as raised:
        rows.run(call(name, (rows["x"],)))
    assert raised.value.message == message
    assert raised.value.detail == f"in {name}({value})"


def test_power_outside_the_domain() -> None:
    for base, exponent, message in (
        (-8.0, 0.5, "a negative number raised to a fraction has no real value"),
        (0.0, -1.0, "zero raised to a negative power is undefined"),
        (10.0, 400.0, "DOUBLE overflow in POWER function"),
    ):
        with pytest.raises(DataError) as raised:
            Rows().run(call("POWER", (literal(base), literal(exponent))))
        assert raised.value.message == message


@pytest.mark.parametrize(
    ("name", "value", "digits", "result"),
    [
        ("ROUND", 125, -1, 130),
        ("ROUND", -125, -1, -130),
        ("ROUND", 5, 3, 5),
        ("ROUND", 5, -3, 0),
        ("TRUNCATE", -159, -1, -150),
        ("ROUND", Decimal("2.345"), 2, Decimal("2.35")),
        ("ROUND", Decimal("-2.345"), 2, Decimal("-2.35")),
        ("ROUND", Decimal("9.99"), 1, Decimal("10.0")),
        ("ROUND", Decimal("155.5"), -2, Decimal("200")),
        ("TRUNCATE", Decimal("-2.349"), 2, Decimal("-2.34")),
        ("ROUND", 2.5, 0, 3.0),
        ("ROUND", -2.5, 0, -3.0),
        ("ROUND", 0.12345678901234567, 12, 0.123456789012),
        ("ROUND", 1e300, 12, 1e300),
        ("ROUND", 1e12, -11, 1e12),
        ("ROUND", -1.5e300, -299, -1.5e300),
        ("ROUND", 1e308, -308, 1e308),
        ("ROUND", 1234.567, -2, 1200.0),
        ("ROUND", 1e300, 200, 1e300),
        ("TRUNCATE", 1.999, 2, 1.99),
        ("ROUND", 1.5, 400, 1.5),
        ("ROUND", 1.5, -400, 0.0),
    ],
)
def test_rounding(name: str, value: Any, digits: int, result: Any) -> None:
    sql_type = INTEGER if isinstance(value, int) else literal(value).type
    rows = Rows(v=(sql_type, [value, None]), n=(INTEGER, [digits, digits]))
    assert rows.run(call(name, (rows["v"], literal(digits)))) == [result, None]
    assert rows.run(call(name, (rows["v"], rows["n"])))[0] == result


def test_rounding_overflow() -> None:
    for sql_type, value, digits in (
        (TINYINT, 127, -1),
        (BIGINT, 2**63 - 1, -1),
        (BIGINT, 2**63 - 1, -19),
    ):
        rows = Rows(v=(sql_type, [value]))
        with pytest.raises(DataError, match=f"{sql_type} overflow in ROUND function"):
            rows.run(call("ROUND", (rows["v"], literal(digits))))


def test_a_small_literal_has_room_in_a_function() -> None:
    assert Rows().run(call("ABS", (literal(-128),))) == [128]
    assert Rows().run(call("ROUND", (literal(127), literal(-1)))) == [130]


def test_random() -> None:
    rows = Rows(seed=(BIGINT, [1, 2, 1, None] * 50))
    numbers = rows.run(call("RAND", (rows["seed"],)))
    assert numbers[0] == numbers[2] != numbers[1]
    assert numbers[3] is None
    again = evaluated_random(1000)
    assert len(set(again)) > 990
    assert all(0 <= number < 1 for number in again)
    assert call("PI", ()).type == DOUBLE
    assert Rows().run(call("PI", ())) == [math.pi]


def evaluated_random(count: int) -> list[Any]:
    expression = call("RAND", ())
    assert is_volatile(expression)
    return python_values(
        evaluate(compile_expression(expression), EvaluationInput((), count, EvaluationContext())),
        DOUBLE,
    )


def test_a_large_decimal_over_null_is_null() -> None:
    rows = Rows(
        a=(decimal(38, 0), [Decimal("9" * 38), Decimal(1)]), b=(decimal(5, 0), [None, Decimal(2)])
    )
    assert rows.run(call("divide", (rows["a"], rows["b"]))) == [None, Decimal("0.5")]


def test_a_product_of_too_many_digits_is_an_error() -> None:
    nearly = "9999999999999999999999999999.9999999999"
    rows = Rows(
        a=(decimal(38, 10), [Decimal(nearly), Decimal("-" + nearly), None]),
        b=(decimal(38, 10), [Decimal("2.5")] * 3),
    )
    with pytest.raises(DataError, match=r"DECIMAL\(38, 18\) overflow"):
        rows.run(call("multiply", (rows["a"], rows["b"])))


def test_dividends_of_38_digits() -> None:
    rows = Rows(
        a=(decimal(38, 10), [Decimal("9999999999999999999999999999.9999999999")] * 2),
        b=(decimal(38, 10), [Decimal("-1.5"), Decimal(7)]),
    )
    assert rows.run(call("divide", (rows["a"], rows["b"]))) == [
        Decimal("-6666666666666666666666666666.666667"),
        Decimal("1428571428571428571428571428.571429"),
    ]
