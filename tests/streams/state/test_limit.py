"""What queries on streams keep in memory stays within memory_limit: where it must be there, an
error names the operator and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.errors import ErrorCode
from tests.effort import crossed
from tests.streams.scripted_table import ScriptedTable

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
LIMIT = 2_000_000
KEEPING = {
    "SELECT t, s, MAX(s) OVER (ORDER BY t RANGE 1000000 PRECEDING) FROM a": (
        "the rows that OVER retains"
    ),
    (
        "SELECT t, s, LAG(s) OVER (PARTITION BY s ORDER BY t) FROM a "
        "OPTIONS ('allowUnboundedState'='true')"
    ): "OVER retains",
    (
        "SELECT s, window_end, COUNT(DISTINCT k) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), "
        "1000000)) GROUP BY s, window_end "
        "ALLOWED LATENESS 10"
    ): "open groups",
}
TOO_LARGE = {
    (
        "SELECT window_end, ARRAY_AGG(s) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 1000000)) "
        "GROUP BY window_end"
    ): ("the values of one group"),
    (
        "SELECT t, s, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY s) "
        "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 1000000))"
    ): ("the rows of one partition"),
}
"""What can be in files until it is complete, and then must be in memory together."""


@pytest.fixture
def con(request: pytest.FixtureRequest) -> Iterator[runnel.Connection]:
    with runnel.connect(query_parallelism=request.param, memory_limit=LIMIT) as connection:
        yield connection


def rows(first: int, count: int, apart: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    columns = [
        pa.array(numbers),
        pa.array([n + apart for n in numbers]),
        pa.array([f"row {n:060}" for n in numbers]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@cache
def script_of(count: int, apart: int) -> tuple[pa.RecordBatch, ...]:
    return tuple(rows(first, 2_000, apart) for first in range(0, count, 2_000))


def streams(con: runnel.Connection, count: int, apart: int) -> None:
    """The streams a and b; the keys of b are `apart` from those of a, which has `count` rows."""
    for number, name in enumerate("ab"):
        con._register(
            name,
            ScriptedTable(
                name, SCHEMA, [list(script_of(count, number * apart))], EventTime(0, 0, 0)
            ),
        )


@pytest.mark.parametrize(("sql", "con"), crossed(KEEPING, [1, 2]), indirect=["con"])
def test_more_than_there_is_room_for_is_an_error(con: runnel.Connection, sql: str) -> None:
    # Rows of both sides that don't match, so that nothing comes out.
    streams(con, 60_000, apart=1_000_000)
    with pytest.raises(
        runnel.OperationalError, match="need more than the memory_limit of 2,000,000 bytes"
    ) as caught:
        con.execute(sql, timeout=60).fetchall()
    error = caught.value
    assert KEEPING[sql] in error.message
    assert error.code is ErrorCode.OUT_OF_MEMORY
    assert error.detail is not None and "holds" in error.detail and "vertex" in error.detail
    assert error.hint is not None and "EXPLAIN (STATE)" in error.hint
    assert con._database.memory.used == 0, "what failed gives everything back"


@pytest.mark.parametrize(("sql", "con"), crossed(TOO_LARGE, [2, 1]), indirect=["con"])
def test_what_can_not_be_divided_is_an_error(con: runnel.Connection, sql: str) -> None:
    streams(con, 60_000, apart=1_000_000)
    with pytest.raises(
        runnel.OperationalError, match="need more than the memory_limit of 2,000,000 bytes"
    ) as caught:
        con.execute(sql, timeout=60).fetchall()
    assert TOO_LARGE[sql] in caught.value.message
    assert con._database.memory.spilled_bytes > LIMIT
    assert con._database.memory.used == 0


LITTLE = [
    "SELECT a.k FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 100 AND a.t + 100",
    (
        "SELECT s, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 500)) "
        "GROUP BY s, window_end"
    ),
    "SELECT t, MAX(s) OVER (ORDER BY t RANGE 500 PRECEDING) FROM a",
    (
        "SELECT s, window_end, COUNT(*) FROM TABLE(SESSION(TABLE a PARTITION BY s, DESCRIPTOR(t), "
        "100)) GROUP BY s, window_end"
    ),
]


@pytest.mark.parametrize(("sql", "con"), crossed(LITTLE, [2, 1]), indirect=["con"])
def test_many_times_the_limit_goes_through_where_little_is_kept(
    con: runnel.Connection, sql: str
) -> None:
    streams(con, 50_000, apart=0)
    with con.execute(sql, timeout=120) as cursor:
        assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == 50_000
    assert con._database.memory.used == 0
