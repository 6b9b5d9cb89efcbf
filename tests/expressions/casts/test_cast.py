"""CAST: every pair of types, the accepted forms of text, what is refused and how it is told."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.casts.cast import compile_cast
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import can_fail, is_constant
from runnel.expressions.nodes import Cast, Column, Literal, Parameter
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    INTERVAL_MONTH,
    JSON,
    NULL,
    REAL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    TINYINT,
    VARBINARY,
    VARCHAR,
    SqlType,
    array,
    can_cast,
    decimal,
    map_of,
    row,
)
from tests.effort import examples
from tests.expressions.edge_values import EDGES, NAN, ZONE, Rows, assert_like_duckdb, edges, same

PLAIN = (
    BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, decimal(), decimal(5, 2), REAL, DOUBLE, VARCHAR,
    VARBINARY, JSON, DATE, TIME, TIMESTAMP, TIMESTAMP_TZ, INTERVAL, INTERVAL_MONTH,
)  # fmt: skip


def cast_one(value: Any, source: SqlType, target: SqlType, zone: str = "UTC", now: int = 0) -> Any:
    """The cast of one value, as a column and as a scalar, which must agree."""
    rows = Rows(v=(source, [value, None]))
    result, null = rows.run(Cast(operand=rows["v"], type=target), zone=zone, now=now)
    assert null is None
    scalar = Cast(operand=Literal(value=value, type=source), type=target)
    assert same(Rows().run(scalar, zone=zone, now=now), [result])
    return result


@pytest.mark.parametrize("source", PLAIN, ids=str)
def test_every_allowed_cast_runs_and_no_other_is_built(source: SqlType) -> None:
    rows = Rows(v=(source, [None, None, None]))
    for target in PLAIN:
        if can_cast(source, target):
            assert rows.run(build.cast(rows["v"], target)) == [None, None, None]
        else:
            with pytest.raises(ProgrammingError) as raised:
                build.cast(rows["v"], target, Position(1, 1, 0))
            assert (
                raised.value.message
                == f"CAST function cannot convert value of type {source} to type {target}"
            )
            assert raised.value.position is not None


@pytest.mark.parametrize("target", PLAIN, ids=str)
def test_null_casts_to_everything(target: SqlType) -> None:
    assert Rows().run(build.cast(Literal(value=None, type=NULL), target)) == [None]
    rows = Rows(n=(NULL, [None, None]))
    assert rows.run(build.cast(rows["n"], target)) == [None, None]


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (1.9, DOUBLE, INTEGER, 2),
        (-1.9, DOUBLE, INTEGER, -2),
        (127.4, DOUBLE, TINYINT, 127),
        (2.5, DOUBLE, INTEGER, 2),
        (3.5, DOUBLE, INTEGER, 4),
        (-2.5, REAL, INTEGER, -2),
        (0.49999999999999994, DOUBLE, INTEGER, 0),
        (Decimal("-1.9"), decimal(5, 2), BIGINT, -2),
        (Decimal("2.5"), decimal(5, 2), BIGINT, 3),
        (Decimal("-2.5"), decimal(5, 2), BIGINT, -3),
        (Decimal("9.5"), decimal(2, 1), TINYINT, 10),
        (Decimal("0.49"), decimal(2, 2), INTEGER, 0),
        (2**53 + 1, BIGINT, DOUBLE, float(2**53)),
        (2**24 + 1, INTEGER, REAL, float(2**24)),
        (0.1, DOUBLE, decimal(38, 10), Decimal("0.1000000000")),
        (2.675, DOUBLE, decimal(5, 2), Decimal("2.68")),
        (1e-20, DOUBLE, decimal(5, 2), Decimal("0.00")),
        (1.5e10, DOUBLE, decimal(20, 1), Decimal("15000000000.0")),
        (Decimal("-0.7"), decimal(38, 10), DOUBLE, -0.7),
        (
            Decimal("12345678901234567890.1234567890"),
            decimal(38, 10),
            DOUBLE,
            12345678901234567890.123456789,
        ),
        (Decimal("2.675"), decimal(5, 3), decimal(5, 2), Decimal("2.68")),
        (5, INTEGER, decimal(5, 2), Decimal("5.00")),
        (9, BIGINT, decimal(38, 37), Decimal("9." + "0" * 37)),
        (True, BOOLEAN, INTEGER, 1),
        (5, INTEGER, BOOLEAN, True),
        (0, BIGINT, BOOLEAN, False),
        (b"\xc3\xa4", VARBINARY, VARCHAR, "ä"),
        ("ä", VARCHAR, VARBINARY, b"\xc3\xa4"),
        (date(1969, 12, 31), DATE, TIMESTAMP, datetime(1969, 12, 31)),
        (datetime(1969, 12, 31, 23, 59), TIMESTAMP, DATE, date(1969, 12, 31)),
        (datetime(1969, 12, 31, 23, 59), TIMESTAMP, TIME, time(23, 59)),
    ],
    ids=str,
)
def test_values(value: Any, source: SqlType, target: SqlType, result: Any) -> None:
    assert cast_one(value, source, target) == result


@pytest.mark.parametrize(
    ("value", "source", "result"),
    [
        (100.0, DOUBLE, "100.0"),
        (-0.0, DOUBLE, "-0.0"),
        (0.1, DOUBLE, "0.1"),
        (1e20, DOUBLE, "1.0E20"),
        (1e15, DOUBLE, "1.0E15"),
        (123456789012345.0, DOUBLE, "123456789012345.0"),
        (-12345678901.5, DOUBLE, "-12345678901.5"),
        (1e10, DOUBLE, "10000000000.0"),
        (1e-6, DOUBLE, "0.000001"),
        (0.00001, DOUBLE, "0.00001"),
        (2.5e-7, DOUBLE, "2.5E-7"),
        (5e-324, DOUBLE, "5.0E-324"),
        (NAN, DOUBLE, "NaN"),
        (float("-inf"), DOUBLE, "-Infinity"),
        (0.5, REAL, "0.5"),
        (1.0000000200408773e20, REAL, "1.0E20"),
        (Decimal("1.50"), decimal(5, 2), "1.50"),
        (Decimal("1E-10"), decimal(38, 10), "0.0000000001"),
        (Decimal("-1E-10"), decimal(38, 10), "-0.0000000001"),
        (Decimal("-1E-38"), decimal(38, 38), "-0." + "0" * 37 + "1"),
        (True, BOOLEAN, "true"),
        (date(33, 4, 3), DATE, "0033-04-03"),
        (time(1, 2, 3, 450000), TIME, "01:02:03.45"),
        (time(10), TIME, "10:00:00"),
        (datetime(2020, 1, 1), TIMESTAMP, "2020-01-01 00:00:00"),
        (datetime(2020, 1, 1, 0, 0, 0, 1), TIMESTAMP, "2020-01-01 00:00:00.000001"),
        (datetime(2020, 1, 1, tzinfo=UTC), TIMESTAMP_TZ, "2020-01-01 00:00:00+00"),
        (timedelta(days=3, hours=4, seconds=6, microseconds=500000), INTERVAL, "3 days 04:00:06.5"),
        (timedelta(days=1), INTERVAL, "1 day"),
        (timedelta(0), INTERVAL, "00:00:00"),
        (-timedelta(minutes=90), INTERVAL, "-01:30:00"),
        (14, INTERVAL_MONTH, "1 year 2 mons"),
        (-1, INTERVAL_MONTH, "-1 mons"),
        (0, INTERVAL_MONTH, "0 mons"),
        ([1, None], array(BIGINT), "[1,null]"),
        ({"a": 1, "b": "x"}, row(("a", BIGINT), ("b", VARCHAR)), '{"a":1,"b":"x"}'),
    ],
    ids=str,
)
def test_to_text(value: Any, source: SqlType, result: str) -> None:
    assert cast_one(value, source, VARCHAR) == result


@pytest.mark.parametrize(
    ("text", "target", "result"),
    [
        (" 12 ", INTEGER, 12),
        ("+5", BIGINT, 5),
        ("-128", TINYINT, -128),
        ("1e3", DOUBLE, 1000.0),
        (" -Infinity", DOUBLE, float("-inf")),
        ("NaN", REAL, NAN),
        ("1.005", decimal(5, 2), Decimal("1.01")),
        ("-1.005", decimal(5, 2), Decimal("-1.01")),
        ("2e3", decimal(38, 10), Decimal(2000)),
        ("1e-40", decimal(38, 10), Decimal(0)),
        ("1.5e-3", decimal(5, 3), Decimal("0.002")),
        ("0." + "1" * 60, decimal(3, 2), Decimal("0.11")),
        (" TRUE", BOOLEAN, True),
        ("off", BOOLEAN, False),
        ("2020-1-5", DATE, date(2020, 1, 5)),
        (" 2020-01-05 ", DATE, date(2020, 1, 5)),
        ("1:2", TIME, time(1, 2)),
        ("10:00:00.1234567", TIME, time(10, 0, 0, 123456)),
        ("2020-1-1T3:4:5.123456789", TIMESTAMP, datetime(2020, 1, 1, 3, 4, 5, 123456)),
        ("2020-01-01 03:04", TIMESTAMP, datetime(2020, 1, 1, 3, 4)),
        ("2020-01-01", TIMESTAMP, datetime(2020, 1, 1)),
        ("2020-01-01 10:00+02", TIMESTAMP_TZ, datetime(2020, 1, 1, 8, tzinfo=UTC)),
        ("2020-1-1 10:00-03:30", TIMESTAMP_TZ, datetime(2020, 1, 1, 13, 30, tzinfo=UTC)),
        ("2020-01-01 10:00:00 Z", TIMESTAMP_TZ, datetime(2020, 1, 1, 10, tzinfo=UTC)),
        ("1 day 02:00:00.5", INTERVAL, timedelta(days=1, hours=2, milliseconds=500)),
        ("-90 minutes", INTERVAL, timedelta(minutes=-90)),
        ("1 year 2 months", INTERVAL_MONTH, 14),
        ("{}", JSON, "{}"),
    ],
    ids=str,
)
def test_from_text(text: str, target: SqlType, result: Any) -> None:
    assert same(cast_one(text, VARCHAR, target), result)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("x", INTEGER),
        ("", BIGINT),
        ("0x10", BIGINT),
        ("1.0", INTEGER),
        ("1_000", INTEGER),
        ("+-1", INTEGER),
        ("99999999999", INTEGER),
        ("1e400", DOUBLE),
        ("1d", DOUBLE),
        ("1e", decimal(5, 2)),
        ("1000", decimal(5, 2)),
        ("nan", decimal(5, 2)),
        ("1e99999999999", decimal(5, 2)),
        ("maybe", BOOLEAN),
        ("2020-02-30", DATE),
        ("10000-01-01", DATE),
        ("2020-01-01 10:00", DATE),
        ("24:00:00", TIME),
        ("10", TIME),
        ("2020-01-01  10:00", TIMESTAMP),
        ("2020-01-01 10:00:00+01", TIMESTAMP),
        ("2020-13-01 10:00", TIMESTAMP_TZ),
        ("3 apples", INTERVAL),
        ("1.55 years and", INTERVAL_MONTH),
    ],
)
def test_text_that_is_no_value(text: str, target: SqlType) -> None:
    position = Position(1, 8, 7)
    rows = Rows(v=(VARCHAR, [None, text]))
    with pytest.raises(DataError) as raised:
        rows.run(Cast(operand=rows["v"], type=target, position=position))
    assert raised.value.message == f"cannot parse VARCHAR value '{text}' to {target}"
    assert raised.value.position == position


@pytest.mark.parametrize(
    ("value", "source", "target", "message"),
    [
        (300, INTEGER, TINYINT, "numeric overflow while converting 300 from INTEGER to TINYINT"),
        (2**31, BIGINT, INTEGER, (
            "numeric overflow while converting 2147483648 from BIGINT to INTEGER"
        )),
        (1e10, DOUBLE, INTEGER, (
            "numeric overflow while converting 10000000000.0 from DOUBLE to INTEGER"
        )),
        (9.3e18, DOUBLE, BIGINT, "numeric overflow while converting 9.3e+18 from DOUBLE to BIGINT"),
        (NAN, DOUBLE, INTEGER, "cannot convert infinite or NaN to an integer"),
        (float("inf"), REAL, decimal(5, 2), "cannot convert infinite or NaN to DECIMAL"),
        (1e300, DOUBLE, REAL, "numeric overflow while converting 1e+300 from DOUBLE to REAL"),
        (1000, INTEGER, decimal(5, 2), (
            "numeric overflow while converting 1000 from INTEGER to DECIMAL(5, 2)"
        )),
        (
            Decimal("999.995"),
            decimal(6, 3),
            decimal(5, 2),
            "numeric overflow while converting 999.995 from DECIMAL(6, 3) to DECIMAL(5, 2)",
        ),
        (b"\xff", VARBINARY, VARCHAR, "cannot convert VARBINARY value b'\\xff' to VARCHAR"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(value: Any, source: SqlType, target: SqlType, message: str) -> None:
    rows = Rows(v=(source, [None, value]))
    with pytest.raises(DataError) as raised:
        rows.run(Cast(operand=rows["v"], type=target))
    assert raised.value.message == message


@pytest.mark.parametrize(
    "source", [name for name in EDGES if name not in ("r", "x", "money", "tz", "b")]
)
def test_text_round_trip_like_duckdb(source: str) -> None:
    rows = edges(source)
    text = build.cast(rows[source], VARCHAR)
    assert_like_duckdb(rows, text, f"{source}::VARCHAR")
    assert same(rows.run(Cast(operand=text, type=rows.types[source])), rows.run(rows[source]))


@pytest.mark.parametrize("source", ["r", "x", "money", "b"])
def test_text_round_trip(source: str) -> None:
    rows = edges(source)
    text = build.cast(rows[source], VARCHAR)
    assert same(rows.run(Cast(operand=text, type=rows.types[source])), rows.run(rows[source]))


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.lists(st.floats(), min_size=3, max_size=20))
def test_doubles_survive_text(values: list[float]) -> None:
    rows = Rows(v=(DOUBLE, values))
    text = build.cast(rows["v"], VARCHAR)
    assert same(rows.run(Cast(operand=text, type=DOUBLE)), values)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.lists(st.decimals(-(10**27), 10**27, places=10), min_size=1, max_size=10))
def test_decimals_become_the_nearest_double(values: list[Decimal]) -> None:
    rows = Rows(v=(decimal(38, 10), values))
    assert rows.run(build.cast(rows["v"], DOUBLE)) == [float(value) for value in values]


def test_the_session_zone_decides_on_local_time() -> None:
    instant = datetime(2024, 7, 1, 10, tzinfo=UTC)
    assert cast_one(instant, TIMESTAMP_TZ, TIMESTAMP, zone=ZONE) == datetime(2024, 7, 1, 12)
    assert cast_one(instant, TIMESTAMP_TZ, TIME, zone=ZONE) == time(12)
    assert cast_one(instant, TIMESTAMP_TZ, VARCHAR, zone=ZONE) == "2024-07-01 12:00:00+02"
    assert (
        cast_one(instant, TIMESTAMP_TZ, VARCHAR, zone="Asia/Kolkata") == "2024-07-01 15:30:00+05:30"
    )
    assert cast_one(datetime(2024, 7, 1, 12), TIMESTAMP, TIMESTAMP_TZ, zone=ZONE) == instant
    assert cast_one("2024-07-01 12:00", VARCHAR, TIMESTAMP_TZ, zone=ZONE) == instant
    assert cast_one(date(2024, 7, 1), DATE, TIMESTAMP_TZ, zone=ZONE) == datetime(
        2024, 6, 30, 22, tzinfo=UTC
    )


def test_a_time_is_a_time_of_today() -> None:
    late = int(datetime(2024, 7, 1, 23, tzinfo=UTC).timestamp()) * 1_000_000
    assert cast_one(time(1), TIME, TIMESTAMP, now=late) == datetime(2024, 7, 1, 1)
    assert cast_one(time(1), TIME, TIMESTAMP, now=late, zone=ZONE) == datetime(2024, 7, 2, 1)


def test_local_times_that_the_clock_skips_or_repeats() -> None:
    assert cast_one(datetime(2024, 3, 31, 2, 30), TIMESTAMP, TIMESTAMP_TZ, zone=ZONE) == datetime(
        2024, 3, 31, 1, 30, tzinfo=UTC
    )
    assert cast_one(datetime(2024, 10, 27, 2, 30), TIMESTAMP, TIMESTAMP_TZ, zone=ZONE) == datetime(
        2024, 10, 27, 1, 30, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        ([1, None, 3], array(BIGINT), array(VARCHAR), ["1", None, "3"]),
        ([], array(BIGINT), array(TINYINT), []),
        (
            [[1], None, [2, 3]],
            array(array(BIGINT)),
            array(array(DOUBLE)),
            [[1.0], None, [2.0, 3.0]],
        ),
        (
            {"a": 1, "b": "2"},
            row(("a", BIGINT), ("b", VARCHAR)),
            row(("x", VARCHAR), ("y", INTEGER)),
            {"x": "1", "y": 2},
        ),
        (
            {"k": 1, "l": None},
            map_of(VARCHAR, BIGINT),
            map_of(VARCHAR, VARCHAR),
            {"k": "1", "l": None},
        ),
    ],
    ids=str,
)
def test_nested_casts_go_element_by_element(
    value: Any, source: SqlType, target: SqlType, result: Any
) -> None:
    rows = Rows(v=(source, [None, value, None, value, value]))
    assert rows.run(build.cast(rows["v"], target)) == [None, result, None, result, result]


def test_an_element_that_does_not_fit() -> None:
    rows = Rows(v=(array(BIGINT), [[1], [2, 300]]))
    with pytest.raises(DataError) as raised:
        rows.run(build.cast(rows["v"], array(TINYINT)))
    assert raised.value.message == "cannot convert BIGINT[] value [2, 300] to TINYINT[]"


def test_literals_are_converted_when_they_are_bound() -> None:
    rows = Rows(d=(DATE, [date(2020, 1, 1)]), i=(INTEGER, [1]), n=(decimal(10, 2), [Decimal(1)]))
    by_text = build.call("eq", (rows["d"], Literal(value="2020-01-01", type=VARCHAR)))
    assert by_text.children[1] == Literal(value=date(2020, 1, 1), type=DATE)
    small = build.call("lt", (rows["i"], Literal(value=5, type=TINYINT)))
    assert small.children[1] == Literal(value=5, type=INTEGER)
    position = Position(1, 20, 19)
    with pytest.raises(DataError) as raised:
        build.call("eq", (rows["d"], Literal(value="2020-02-30", type=VARCHAR, position=position)))
    assert raised.value.message == "cannot parse VARCHAR value '2020-02-30' to DATE"
    assert raised.value.position == position


def test_a_literal_that_depends_on_the_session_stays_a_cast() -> None:
    rows = Rows(z=(TIMESTAMP_TZ, [datetime(2024, 7, 1, 10, tzinfo=UTC)]))
    local = build.call("eq", (rows["z"], Literal(value="2024-07-01 12:00", type=VARCHAR)))
    assert isinstance(local.children[1], Cast)
    assert rows.run(local, zone=ZONE) == [True]
    assert rows.run(local) == [False]
    fixed = build.call("eq", (rows["z"], Literal(value="2024-07-01 12:00+02", type=VARCHAR)))
    assert isinstance(fixed.children[1], Literal)
    with pytest.raises(DataError, match="cannot parse VARCHAR value"):
        build.call("eq", (rows["z"], Literal(value="2024-07-41", type=VARCHAR)))


def test_parameters_take_the_type_of_their_context() -> None:
    rows = Rows(d=(DATE, [date(2020, 1, 1)]), i=(INTEGER, [1]))
    assert build.call("eq", (rows["d"], Parameter(index=0, type=VARCHAR))).children[1].type == DATE
    assert build.call("eq", (rows["i"], Parameter(index=0, type=NULL))).children[1].type == INTEGER
    assert build.cast(Parameter(index=0, type=NULL), BIGINT) == Parameter(index=0, type=BIGINT)
    with pytest.raises(ProgrammingError, match="cannot apply '=' operator to"):
        build.call("eq", (rows["i"], Parameter(index=0, type=VARCHAR)))


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        (DATE, pa.date32(), [2**31 - 1, 2932897, -719163]),
        (
            TIMESTAMP,
            pa.timestamp("us"),
            [2**63 - 1, 253_402_300_800_000_000, -62_135_596_800_000_001],
        ),
        (
            TIMESTAMP_TZ,
            pa.timestamp("us", "UTC"),
            [2**62, 253_402_300_800_000_000, -62_135_596_800_000_001],
        ),
    ],
    ids=str,
)
def test_years_without_a_text_form(kind: SqlType, arrow: pa.DataType, values: list[int]) -> None:
    run = compile_cast(kind, VARCHAR, Position(1, 8, 7))
    assert can_fail(Cast(operand=Column(type=kind, index=0, name="v"), type=VARCHAR))
    for value in values:
        number = pa.int32() if kind == DATE else pa.int64()
        array = pa.array([0, None, value], number).view(arrow)
        for datum in (array, array[2]):
            with pytest.raises(DataError) as raised:
                run(datum, EvaluationContext())
            assert (
                raised.value.message
                == f"a {kind} outside the years 1 to 9999 can't be converted to VARCHAR"
            )
            assert str(value) in (raised.value.detail or "") or "year" in raised.value.message
            assert raised.value.position == Position(1, 8, 7)
    assert run(pa.array([None, None], number).view(arrow), EvaluationContext()).to_pylist() == [
        None,
        None,
    ]


def test_assignment() -> None:
    rows = Rows(i=(INTEGER, [1]), s=(VARCHAR, ["x"]))
    assert build.assign(rows["i"], decimal(5, 2), "x").type == decimal(5, 2)
    assert build.assign(Literal(value="2020-01-01", type=VARCHAR), DATE, "x").type == DATE
    assert build.assign(rows["s"], JSON, "x").type == JSON
    with pytest.raises(ProgrammingError) as raised:
        build.assign(rows["s"], INTEGER, "price")
    assert raised.value.message == (
        'cannot assign to target field "price" of type INTEGER from source field of type VARCHAR'
    )
    assert raised.value.hint == "add an explicit CAST to INTEGER"


def test_what_is_said_of_casts() -> None:
    rows = Rows(i=(INTEGER, [1]), s=(VARCHAR, ["x"]))
    assert not can_fail(build.cast(rows["i"], BIGINT))
    assert not can_fail(build.cast(rows["i"], VARCHAR))
    assert can_fail(build.cast(rows["i"], TINYINT))
    assert can_fail(build.cast(rows["s"], DATE))
    text = Cast(operand=Literal(value="1", type=VARCHAR), type=INTEGER)
    assert is_constant(text)
    assert not is_constant(Cast(operand=text, type=TIMESTAMP_TZ))


def test_decimals_that_round_up_to_one_more_digit() -> None:
    rows = Rows(
        a=(decimal(5, 2), [Decimal("999.99"), Decimal("-999.50"), None]),
        b=(decimal(6, 6), [Decimal("0.999999")] * 3),
    )
    assert rows.run(build.cast(rows["a"], decimal(38, 0))) == [Decimal(1000), Decimal(-1000), None]
    assert rows.run(build.cast(rows["b"], decimal(5, 2))) == [Decimal("1.00")] * 3


@pytest.mark.parametrize("value", [3.4e38, -1e60, 1e308])
def test_a_double_too_large_for_a_decimal_is_an_error(value: float) -> None:
    rows = Rows(x=(DOUBLE, [value]), s=(VARCHAR, [str(value)]))
    for name in ("x", "s"):
        with pytest.raises(DataError):
            rows.run(build.cast(rows[name], decimal(38, 10)))


def test_texts_with_exponents_are_exact_decimals() -> None:
    rows = Rows(s=(VARCHAR, ["1e-40", "-2.5E-3", "12e2", "0e99", "1e27"]))
    values = rows.run(build.cast(rows["s"], decimal(38, 10)))
    assert values == [Decimal(0), Decimal("-0.0025"), Decimal(1200), Decimal(0), Decimal(10) ** 27]


def test_digits_that_pass_128_bits_on_the_way_are_an_overflow() -> None:
    """Arrow gives another number, without a word."""
    for value in ("7470904615836335017670262021407525", "-99999999999999999999999999999"):
        rows = Rows(x=(decimal(38, 0), [Decimal(value), Decimal(1)]))
        with pytest.raises(DataError):
            rows.run(build.cast(rows["x"], decimal(38, 10)))
    rows = Rows(x=(decimal(38, 0), [Decimal("9999999999999999999999999999"), None]))
    assert rows.run(build.cast(rows["x"], decimal(38, 10))) == [
        Decimal("9999999999999999999999999999"),
        None,
    ]
