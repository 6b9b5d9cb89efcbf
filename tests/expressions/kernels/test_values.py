"""The door between Python and Arrow: arguments in, fetched values out, and any Arrow type to its
canonical one."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.errors import DataError, ProgrammingError
from runnel.expressions.kernels.values import (
    array_of,
    canonical,
    parameter_type,
    python_values,
    scalar_of,
)
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
    Kind,
    SqlType,
    array,
    decimal,
    from_arrow,
    map_of,
    row,
    to_arrow,
)

POINT = row(("x", BIGINT), ("names", array(VARCHAR)))
SAMPLES: list[tuple[SqlType, list[Any]]] = [
    (NULL, [None]),
    (BOOLEAN, [True, False] * 5),
    (TINYINT, [127, -128, 0]),
    (SMALLINT, [32767, -32768]),
    (INTEGER, [2**31 - 1, -(2**31)]),
    (BIGINT, [2**63 - 1, -(2**63)]),
    (
        decimal(38, 10),
        [Decimal("1.5"), Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal("1E-10"), Decimal(0)],
    ),
    (decimal(38, 0), [Decimal("9" * 38), Decimal("1E+5")]),
    (REAL, [1.5, float("inf")]),
    (DOUBLE, [0.1, -0.0, 1.7976931348623157e308]),
    (VARCHAR, ["", "a", "äöü", "日本", "a\x00b"]),
    (JSON, ['{"a": 1}']),
    (VARBINARY, [b"", b"\xff\x00"]),
    (DATE, [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)]),
    (TIME, [time(0), time(23, 59, 59, 999999)]),
    (TIMESTAMP, [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (TIMESTAMP_TZ, [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 7, 1, 12, tzinfo=UTC)]),
    (INTERVAL, [timedelta(days=-3, microseconds=1), timedelta(0)]),
    (INTERVAL_MONTH, [14, -1]),
    (array(BIGINT), [[1, None], []]),
    (array(array(VARCHAR)), [[["a"], None, []]]),
    (POINT, [{"x": 1, "names": ["a"]}, {"x": None, "names": None}]),
    (map_of(VARCHAR, DOUBLE), [{"a": 1.0, "b": None}, {}]),
    (array(POINT), [[{"x": 1, "names": []}]]),
]


@pytest.mark.parametrize(
    ("sql_type", "values"), SAMPLES, ids=lambda item: str(item) if isinstance(item, SqlType) else ""
)
def test_round_trip(sql_type: SqlType, values: list[Any]) -> None:
    for column in (values, [None, *values, None], [*values] * 300):
        packed = array_of(column, sql_type)
        packed.validate(full=True)
        assert packed.type == to_arrow(sql_type)
        assert python_values(packed, sql_type) == column
        assert python_values(packed.slice(1), sql_type) == column[1:]
        assert python_values(pa.chunked_array([packed, packed[:1]]), sql_type) == [
            *column,
            column[0],
        ]
    assert python_values(pa.repeat(scalar_of(values[0], sql_type), 1), sql_type) == [values[0]]
    assert not scalar_of(None, sql_type).is_valid
    assert python_values(pa.nulls(2, to_arrow(sql_type)), sql_type) == [None, None]
    assert python_values(array_of([], sql_type), sql_type) == []


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=10), st.integers(0, 10))
def test_text_of_any_kind(values: list[str | None], start: int) -> None:
    packed = array_of(values, VARCHAR)
    packed.validate(full=True)
    assert python_values(packed.slice(start), VARCHAR) == values[start:]


@pytest.mark.parametrize(
    ("value", "sql_type"),
    [
        (None, NULL),
        (True, BOOLEAN),
        (5, BIGINT),
        (2**63, decimal(19, 0)),
        (1.5, DOUBLE),
        (Decimal("1.50"), decimal(3, 2)),
        (Decimal("0.001"), decimal(3, 3)),
        (Decimal("1E+3"), decimal(4, 0)),
        ("x", VARCHAR),
        (b"x", VARBINARY),
        (bytearray(b"x"), VARBINARY),
        (date(2020, 1, 1), DATE),
        (time(1), TIME),
        (datetime(2020, 1, 1), TIMESTAMP),
        (datetime(2020, 1, 1, tzinfo=UTC), TIMESTAMP_TZ),
        (timedelta(1), INTERVAL),
        (UUID(int=1), SqlType(Kind.UUID)),
        ([UUID(int=1), None], array(SqlType(Kind.UUID))),
        ([1, None], array(BIGINT)),
        ([1, 2.5], array(DOUBLE)),
        ({"a": 1}, row(("a", BIGINT))),
        (np.int32(5), BIGINT),
        (np.float32(1.5), DOUBLE),
        (np.bool_(True), BOOLEAN),
        (np.str_("x"), VARCHAR),
        (np.datetime64("2020-01-01T00:00:00"), TIMESTAMP),
        (np.array([1, 2]), array(BIGINT)),
        (pd.Timestamp("2020-01-01"), TIMESTAMP),
        (pd.Timestamp("2020-01-01", tz="UTC"), TIMESTAMP_TZ),
        (pd.Timedelta(days=1), INTERVAL),
        (pd.NaT, NULL),
        (pd.NA, NULL),
    ],
    ids=repr,
)
def test_the_type_of_an_argument(value: Any, sql_type: SqlType) -> None:
    assert parameter_type(value) == sql_type
    assert scalar_of(value, sql_type).type == to_arrow(sql_type)


def test_arguments_without_a_type() -> None:
    with pytest.raises(ProgrammingError) as raised:
        parameter_type(object())
    assert raised.value.message == "cannot use a value of class object as an argument"
    with pytest.raises(ProgrammingError, match="a list argument mixes BIGINT and VARCHAR"):
        parameter_type([1, "x"])
    with pytest.raises(DataError, match="DECIMAL can't hold NaN"):
        parameter_type(Decimal("NaN"))
    with pytest.raises(DataError, match="has more than 38 digits"):
        parameter_type(10**38)


@pytest.mark.parametrize(
    ("value", "sql_type", "result"),
    [
        (5, TINYINT, 5),
        (5, DOUBLE, 5.0),
        (5, decimal(5, 2), Decimal("5.00")),
        (1.5, INTEGER, 2),
        (Decimal("2.675"), decimal(5, 2), Decimal("2.68")),
        ("2020-01-01", DATE, date(2020, 1, 1)),
        ("12", INTEGER, 12),
        (date(2020, 1, 1), TIMESTAMP, datetime(2020, 1, 1)),
        (
            datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            TIMESTAMP_TZ,
            datetime(2020, 1, 1, tzinfo=UTC),
        ),
        (datetime(2020, 1, 1), TIMESTAMP_TZ, datetime(2020, 1, 1, tzinfo=UTC)),
        ([1, 2], array(VARCHAR), None),
        ([1, "x"], row(("a", BIGINT), ("b", VARCHAR)), {"a": 1, "b": "x"}),
        ({"b": "x"}, row(("a", BIGINT), ("b", VARCHAR)), {"a": None, "b": "x"}),
    ],
    ids=repr,
)
def test_a_value_of_another_class_is_assigned(value: Any, sql_type: SqlType, result: Any) -> None:
    if result is None:
        with pytest.raises(DataError, match="of type BIGINT doesn't fit VARCHAR"):
            scalar_of(value, sql_type)
    else:
        assert python_values(array_of([value, None], sql_type), sql_type) == [result, None]


@pytest.mark.parametrize(
    ("value", "sql_type", "message"),
    [
        (300, TINYINT, "numeric overflow while converting 300 from BIGINT to TINYINT"),
        ("x", INTEGER, "cannot parse VARCHAR value 'x' to INTEGER"),
        (True, INTEGER, "value TRUE of type BOOLEAN doesn't fit INTEGER"),
        (1, BOOLEAN, "value 1 of type BIGINT doesn't fit BOOLEAN"),
        (1, VARCHAR, "value 1 of type BIGINT doesn't fit VARCHAR"),
        ("\ud800", VARCHAR, "a text has a character that isn't valid Unicode: '\\ud800'"),
        (timedelta.max, INTERVAL, "interval 999999999 days, 23:59:59.999999 is too long"),
        (5, array(BIGINT), "value 5 doesn't fit BIGINT[]"),
        ({"z": 1}, row(("a", BIGINT)), "value {'z': 1} doesn't fit ROW(a BIGINT)"),
    ],
)
def test_a_value_that_does_not_fit(value: Any, sql_type: SqlType, message: str) -> None:
    for column in ([value], [None, value] * 200):
        with pytest.raises(DataError) as raised:
            array_of(column, sql_type)
        assert raised.value.message == message


def test_text_and_naive_times_are_local_to_the_session() -> None:
    for value in ("2024-07-01 12:00", datetime(2024, 7, 1, 12)):
        instants = array_of([value], TIMESTAMP_TZ, "Europe/Berlin")
        assert python_values(instants, TIMESTAMP_TZ) == [datetime(2024, 7, 1, 10, tzinfo=UTC)]
        assert scalar_of(value, TIMESTAMP_TZ, "Europe/Berlin") == instants[0]


def test_values_of_several_classes_in_one_column() -> None:
    assert python_values(array_of([1, 2.5, None, Decimal("0.5")], DOUBLE), DOUBLE) == [
        1.0,
        2.5,
        None,
        0.5,
    ]
    assert (
        python_values(array_of([date(2020, 1, 1), datetime(2020, 1, 1, 5)], TIMESTAMP), TIMESTAMP)[
            1
        ].hour
        == 5
    )
    assert python_values(array_of([1, "2"], INTEGER), INTEGER) == [1, 2]


STRUCT = pa.struct([("a", pa.uint8()), ("b", pa.large_list(pa.large_string()))])
CANONICAL: list[tuple[pa.Array, list[Any]]] = [
    (pa.array([1, None], pa.uint8()), [1, None]),
    (pa.array([1, None], pa.uint16()), [1, None]),
    (pa.array([1, None], pa.uint32()), [1, None]),
    (pa.array([2**64 - 1, None], pa.uint64()), [Decimal(2**64 - 1), None]),
    (pa.array([1.5, None], pa.float16()), [1.5, None]),
    (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    (pa.array(["a", None], pa.large_string()), ["a", None]),
    (pa.array(["a", None, (
        "longer than twelve"
    )], pa.string_view()), ["a", None, "longer than twelve"]),
    (pa.array([b"a", None], pa.large_binary()), [b"a", None]),
    (pa.array([b"a", None], pa.binary_view()), [b"a", None]),
    (pa.array([b"ab", None], pa.binary(2)), [b"ab", None]),
    (pa.array([0, None], pa.date64()), [date(1970, 1, 1), None]),
    (pa.array([-1, None], pa.timestamp("s")), [datetime(1969, 12, 31, 23, 59, 59), None]),
    (pa.array([-1, None], pa.timestamp("ms")), [datetime(1969, 12, 31, 23, 59, 59, 999000), None]),
    (pa.array([-1000, None], pa.timestamp("ns")),
     [datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    (pa.array([0, None], pa.timestamp("ms", "Europe/Berlin")),
     [datetime(1970, 1, 1, tzinfo=UTC), None]),
    (pa.array([1, None], pa.time32("s")), [time(0, 0, 1), None]),
    (pa.array([1, None], pa.time32("ms")), [time(0, 0, 0, 1000), None]),
    (pa.array([1000, None], pa.time64("ns")), [time(0, 0, 0, 1), None]),
    (pa.array([1, None], pa.duration("s")), [timedelta(seconds=1), None]),
    (pa.array([1000, None], pa.duration("ns")), [timedelta(microseconds=1), None]),
    (pa.array([Decimal("1.5"), None], pa.decimal32(5, 2)), [Decimal("1.50"), None]),
    (pa.array([Decimal("1.5"), None], pa.decimal64(5, 2)), [Decimal("1.50"), None]),
    (pa.array([Decimal("1.5"), None], pa.decimal256(38, 2)), [Decimal("1.50"), None]),
    (pa.array([[1, None], None, []], pa.large_list(pa.int8())), [[1, None], None, []]),
    (pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)), [[1, 2], None]),
    (pa.array([["a"], None, []], pa.list_view(pa.string())), [["a"], None, []]),
    (pa.array([["a"], None, []], pa.large_list_view(pa.string())), [["a"], None, []]),
    (pa.array([{"a": 1, "b": ["x"]}, None], STRUCT), [{"a": 1, "b": ["x"]}, None]),
    (pa.array([[("k", 1)], None, []], pa.map_(pa.large_string(), pa.uint8())),
     [{"k": 1}, None, {}]),
    (pa.array([None, None]), [None, None]),
    (pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", None])), ["a", "a", None]),
    (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16))),
     [UUID(bytes=b"0" * 16), None]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "values"), CANONICAL, ids=[str(data.type) for data, _ in CANONICAL]
)
def test_canonical(data: pa.Array, values: list[Any]) -> None:
    sql_type = from_arrow(data.type)
    for given_array, expected in (
        (data, values),
        (data.slice(1), values[1:]),
        (pa.concat_arrays([data, data]), values * 2),
    ):
        result = canonical(given_array, sql_type)
        result.validate(full=True)
        assert result.type == to_arrow(sql_type)
        assert python_values(result, sql_type) == expected
    chunked = pa.chunked_array([data, data])
    assert python_values(canonical(chunked, sql_type), sql_type) == values * 2
    assert len(canonical(pa.chunked_array([], data.type), sql_type)) == 0


def test_what_is_canonical_is_not_copied() -> None:
    for sql_type, values in SAMPLES:
        packed = array_of(values, sql_type)
        assert canonical(packed, sql_type) is packed
        assert canonical(pa.chunked_array([packed]), sql_type).equals(packed)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            pa.array([1000, 1], pa.timestamp("ns")),
            "of Arrow type timestamp[ns] doesn't fit TIMESTAMP",
        ),
        (pa.array([1], pa.time64("ns")), "of Arrow type time64[ns] doesn't fit TIME"),
        (pa.array([2**62], pa.timestamp("s")), "of Arrow type timestamp[s] doesn't fit TIMESTAMP"),
    ],
)
def test_what_does_not_survive(data: pa.Array, message: str) -> None:
    with pytest.raises(DataError) as raised:
        canonical(data, from_arrow(data.type))
    assert message in raised.value.message


def test_a_date_that_python_has_not() -> None:
    for arrow, number in (
        (pa.date32(), 2**30),
        (pa.timestamp("us"), 2**60),
        (pa.timestamp("us", "UTC"), -(2**60)),
    ):
        data = pa.array([0, number], arrow)
        with pytest.raises(DataError, match="outside the years 1 to 9999 has no Python value"):
            python_values(data, from_arrow(arrow))


@pytest.mark.parametrize(
    "value",
    [
        np.datetime64("2020-01-01T00:00:00.123456789"),
        np.timedelta64(5, "ns"),
        np.array(["NaT", "2020-01-01T00:00:00.123456789"], "datetime64[ns]"),
        pd.Timestamp("2020-01-01 00:00:00.123456789"),
        pd.Timedelta(5, "ns"),
    ],
)
def test_nanoseconds_are_not_dropped(value: Any) -> None:
    with pytest.raises(DataError, match="would be lost"):
        parameter_type(value)


def test_nanoseconds_that_say_nothing_are_dropped() -> None:
    moments = np.array(["2020-01-01T00:00:00.123456000", "NaT"], "datetime64[ns]")
    assert array_of([moments], array(TIMESTAMP)).to_pylist() == [
        [datetime(2020, 1, 1, 0, 0, 0, 123456), None]
    ]


@pytest.mark.parametrize("count", [1, 1000])
def test_a_time_with_a_zone_is_refused(count: int) -> None:
    with pytest.raises(DataError, match="has a time zone"):
        array_of([time(1, tzinfo=UTC)] * count, TIME)


def test_naive_times_among_instants_are_of_the_session_zone() -> None:
    values = [datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)]
    found = array_of(values, TIMESTAMP_TZ, "Europe/Vienna")
    assert python_values(found, TIMESTAMP_TZ) == [
        datetime(2019, 12, 31, 23, tzinfo=UTC),
        datetime(2020, 1, 1, tzinfo=UTC),
    ]


def test_literals_do_not_import_pandas() -> None:
    program = """
import sys
from decimal import Decimal
from datetime import date, datetime
from runnel.expressions import build
from runnel.expressions.evaluate import evaluate_constant
from runnel.expressions.nodes import Literal
from runnel.expressions.kernels.values import array_of, parameter_type, scalar_of
from runnel.sqltypes import *

for value in (
    1,
    1.5,
    "x",
    Decimal("1.5"),
    date(2020, 1, 1),
    datetime(2020, 1, 1),
    b"x",
    [1],
    {"a": 1},
    True,
):
    scalar_of(value, parameter_type(value))
evaluate_constant(build.call("add", (Literal(value=1, type=BIGINT), Literal(value=2, type=BIGINT))))
evaluate_constant(build.cast(Literal(value="1e-3", type=VARCHAR), decimal(10, 5)))
assert not {"pandas", "duckdb", "pyspark"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
