"""Joins of streams as the planner sees them: what is refused, what may keep rows for ever, and what
EXPLAIN says of state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import pyarrow as pa
import pytest

import runnel

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("ts", pa.timestamp("us"))])
FOR_EVER = "OPTIONS ('allowUnboundedState'='true')"


@pytest.fixture(scope="module")
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        for name in ("a", "b"):
            made.register_stream(name, SCHEMA, time_column="n")
        for name in ("plain", "other"):
            made.register_stream(name, SCHEMA)
        made.register("t", pa.table({"k": [1], "n": [1]}))
        made.execute(
            "CREATE MAPPING m (__key BIGINT, v BIGINT) TYPE IMap "
            "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
        )
        yield made


REFUSED = {
    "SELECT * FROM plain JOIN other ON plain.k = other.k": (
        "both joined sides must have an order imposed"
    ),
    "SELECT * FROM a JOIN other ON a.k = other.k AND a.n = other.n": (
        "both joined sides must have an order imposed"
    ),
    "SELECT a.k FROM a JOIN b ON a.k = b.k": "must have a join condition constraining",
    "SELECT * FROM a JOIN b ON a.k = b.k": (
        "constraining the maximum difference between time values"
    ),
    "SELECT * FROM a JOIN b ON a.k = b.k AND a.n > b.n": (
        "constraining the maximum difference between time values"
    ),
    "SELECT * FROM a JOIN b ON a.k = b.k AND a.n BETWEEN b.n AND b.n + b.k": (
        "constraining the maximum difference"
    ),
    "SELECT * FROM a JOIN b ON a.n = b.n OR a.k = b.k": "constraining the maximum difference",
    "SELECT * FROM a JOIN b ON a.ts = b.ts": "constraining the maximum difference",
    "SELECT * FROM a, b": "constraining the maximum difference",
    "SELECT * FROM t LEFT JOIN a ON a.k = t.k": (
        "the right side of a LEFT JOIN cannot be a streaming source"
    ),
    "SELECT * FROM a FULL JOIN t ON a.k = t.k": (
        "the left side of a FULL JOIN cannot be a streaming source"
    ),
    "SELECT * FROM t WHERE k IN (SELECT k FROM a)": "a subquery cannot read a streaming source",
    "SELECT * FROM a ASOF JOIN other ON a.n >= other.n": (
        "must have an order imposed on the column that is compared"
    ),
    "SELECT * FROM plain ASOF JOIN b ON plain.n >= b.n": (
        "must have an order imposed on the column that is compared"
    ),
    "SELECT * FROM a ASOF JOIN b ON a.n <= b.n": "can only look back",
    "SELECT * FROM t ASOF JOIN b ON t.n >= b.n": (
        "the right side of ASOF JOIN cannot be a streaming source"
    ),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_would_keep_rows_for_ever_is_refused_with_a_remedy(
    connection: runnel.Connection, sql: str
) -> None:
    with pytest.raises(runnel.NotSupportedError, match=REFUSED[sql]) as caught:
        connection.execute(sql)
    assert (caught.value.hint and caught.value.detail) or "look back" in caught.value.message
    assert caught.value.position is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM plain JOIN other ON plain.k = other.k",
        "SELECT * FROM a FULL JOIN b ON a.k = b.k",
        "SELECT * FROM a, b",
        "SELECT * FROM plain ASOF JOIN b ON plain.n >= b.n",
    ],
)
def test_an_option_lets_a_query_keep_rows_for_ever(connection: runnel.Connection, sql: str) -> None:
    state = connection.execute(f"EXPLAIN (STATE) {sql} {FOR_EVER}").fetchall()
    assert any("without bound" in line for (line,) in state)


def test_a_view_takes_the_option(connection: runnel.Connection) -> None:
    sql = "SELECT a.k, b.n FROM a JOIN b ON a.k = b.k"
    connection.execute(f"CREATE OR REPLACE VIEW pairs AS {sql} {FOR_EVER}")
    connection.execute(f"CREATE OR REPLACE VIEW pairs AS {sql}")  # its changes can be read
    with pytest.raises(runnel.NotSupportedError, match="EMIT CHANGES"):
        connection.execute("SELECT * FROM pairs")
    assert connection.execute(f"EXPLAIN (STATE) SELECT * FROM pairs {FOR_EVER}").fetchall()


@pytest.mark.parametrize(
    "options", ["('x'='true')", "('allowUnboundedState'='perhaps')", "('allowUnboundedState')"]
)
def test_wrong_options(connection: runnel.Connection, options: str) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        connection.execute(f"SELECT * FROM a JOIN b ON a.k = b.k OPTIONS {options}")
    assert caught.value.position is not None


def test_a_table_may_be_called_options(connection: runnel.Connection) -> None:
    assert connection.execute("SELECT options.x FROM (VALUES (1)) AS options (x)").fetchall() == [
        (1,)
    ]


def test_without_times_rows_are_joined_as_they_come(connection: runnel.Connection) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    first, second = connection.register_stream("e", schema), connection.register_stream("f", schema)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT e.n, f.n FROM e FULL JOIN f ON e.k = f.k AND e.n < f.n {FOR_EVER}")
        first.write([(1, 1), (2, 2)])
        second.write([(1, 5)])
        assert cursor.fetchone() == (1, 5)
        second.write([(1, 0)])
        first.write([(1, 3), (None, 4)])
        first.close()
        second.close()
        assert sorted(cursor.fetchall(), key=str) == [(2, None), (3, 5), (4, None), (None, 0)]


def test_explain_state_says_what_bounds_each_operator(connection: runnel.Connection) -> None:
    sql = (
        "SELECT a.n, m.v, COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND b.n BETWEEN a.n - 5 AND a.n "
        "+ 7 "
        "LEFT JOIN m ON m.__key = a.k GROUP BY a.n, m.v"
    )
    lines = [line for (line,) in connection.execute(f"EXPLAIN (STATE) {sql}").fetchall()]
    assert lines == [
        "Aggregate (keeps: a row for each group, until the watermark completes its n)",
        "  Left join by look-up in m (keeps: nothing)",
        (
            "    Left join of streams (keeps: left rows until the other side's watermark is past n "
            "+ 7; right rows until the other side's watermark is past n + 5)"
        ),
        "      Scan a (keeps: nothing)",
        "      Scan b (keeps: nothing)",
    ]


@pytest.mark.parametrize(
    ("condition", "times"),
    [
        ("b.n BETWEEN a.n - 5 AND a.n + 7", "-5 <= n - n <= 7"),
        ("a.n > b.n - 3 AND b.n >= a.n", "0 <= n - n <= 2"),
        ("b.n - a.n BETWEEN 1 AND 4", "1 <= n - n <= 4"),
        ("10 > a.n - b.n AND a.n - b.n > -10", "-9 <= n - n <= 9"),
        ("a.n + 1 = b.n - 2", "3 <= n - n <= 3"),
        ("a.n = b.n AND b.n <= a.n + 5", "0 <= n - n <= 0"),
    ],
)
def test_bounds_are_read_from_comparisons(
    connection: runnel.Connection, condition: str, times: str
) -> None:
    for sql in (f"SELECT * FROM a JOIN b ON {condition}", f"SELECT * FROM a, b WHERE {condition}"):
        lines = connection.execute(f"EXPLAIN (PHYSICAL) {sql}").fetchall()
        assert any(f"times: {times}" in line for (line,) in lines), lines


@pytest.mark.parametrize(
    "bounds",
    [
        "y.d BETWEEN x.d AND x.d + 1",
        "x.d - y.d BETWEEN -1 AND 0",
        "x.d <= y.d AND y.d < x.d + 2",
        "y.d - 1 <= x.d AND x.d <= y.d",
        "y.d >= x.d AND x.d + INTERVAL '47' HOUR >= y.d",
    ],
)
def test_days_bound_streams_of_dates(connection: runnel.Connection, bounds: str) -> None:
    """Numbers that are added to dates, and differences of dates, count days."""
    schema = pa.schema([("d", pa.date32())])
    days = [date(1969, 12, 29) + timedelta(days=number) for number in range(6)]
    first, second = (
        connection.register_stream(name, schema, time_column="d") for name in ("x", "y")
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT x.d, y.d FROM x LEFT JOIN y ON {bounds}")
        for day in days:
            first.write([(day,)])
            second.write([(day,)] if day.day % 3 else [])
        first.close()
        second.close()
        pairs = [
            (day, other)
            for day in days
            for other in days
            if 0 <= (other - day).days <= 1 and other.day % 3
        ]
        alone = [(day, None) for day in days if all(day != one for one, _ in pairs)]
        assert sorted(cursor.fetchall(), key=str) == sorted(pairs + alone, key=str)
    state = str(
        connection.execute(
            f"EXPLAIN (STATE) SELECT x.d, y.d FROM x LEFT JOIN y ON {bounds}"
        ).fetchall()
    )
    assert "past d + 1 day" in state or "past d + 1 day, 23:00:00" in state
