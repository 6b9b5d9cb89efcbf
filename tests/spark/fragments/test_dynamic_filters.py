"""Joins of Spark's rows with small sides that stay here: their keys go into Spark's query, and the
answer stays the same."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from tests.spark.fragments.test_fragments import plan

pytestmark = pytest.mark.usefixtures("making_code")

ROWS = 30_000
FLOATS = [float("nan"), -0.0, 0.0, float("inf"), 1.5, None]
START = datetime(1960, 1, 1)


def rows_of(numbers: range) -> pa.Table:
    """Keys of many types; of some of them a few values only, NULL among them."""
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "id": (pa.int64(), list(numbers)),
        "k": (pa.int64(), [None if n % 11 == 0 else n % 5000 - 1000 for n in numbers]),
        "few": (pa.int32(), [None if n % 7 == 0 else n % 7 for n in numbers]),
        "s": (pa.string(), [["", "a", "A", "é🦀", "'${x}\\", None][n % 6] for n in numbers]),
        "d": (pa.float64(), [FLOATS[n % 6] for n in numbers]),
        "n": (
            pa.decimal128(10, 2),
            [None if n % 13 == 0 else Decimal(n % 400 - 200) / 4 for n in numbers],
        ),
        "day": (pa.date32(), [date(1960, 1, 1) + timedelta(days=n % 900) for n in numbers]),
        "ts": (
            pa.timestamp("us"),
            [START + timedelta(microseconds=n % 300 * 10**12 + 1) for n in numbers],
        ),
        "tz": (
            pa.timestamp("us", "UTC"),
            [datetime(2024, 3, 31, tzinfo=UTC) + timedelta(minutes=n % 200) for n in numbers],
        ),
        "x": (pa.binary(), [bytes([n % 256, 0]) for n in numbers]),
        "b": (pa.bool_(), [[True, False, None][n % 3] for n in numbers]),
    }
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


SCHEMA = (
    "id LONG, k LONG, few INT, s STRING, d DOUBLE, n DECIMAL(10, 2), day DATE, ts TIMESTAMP_NTZ, "
    "tz TIMESTAMP, x BINARY, b BOOLEAN"
)
BIG, HERE = rows_of(range(ROWS)), rows_of(range(0, 12_000, 3))
JOINS = [
    (
        "SELECT COUNT(*), SUM(big.id), MIN(here.id) FROM big "
        "JOIN here USING (k, few, s, n, day, ts, tz, x, b) "
        "WHERE here.id < 6000"
    ),
    "SELECT COUNT(*), SUM(big.id) FROM big JOIN here ON big.d = here.d WHERE here.id < 12",
    (
        "SELECT COUNT(*), SUM(big.id) FROM big JOIN here ON big.k = here.k AND big.few = here.few "
        "WHERE here.id < 500"
    ),
    "SELECT COUNT(*), SUM(big.id) FROM big JOIN here ON big.few = here.k + 1",
    (
        "SELECT COUNT(*), COUNT(big.id), SUM(here.id) FROM here LEFT JOIN big ON big.k = here.k "
        "WHERE here.id < 90"
    ),
    (
        "SELECT COUNT(*), SUM(id) FROM here WHERE NOT EXISTS (SELECT 1 FROM big "
        "WHERE big.k = here.k AND big.id > 20000)"
    ),
    (
        "SELECT c, COUNT(*) FROM (SELECT k, COUNT(*) AS c FROM big GROUP BY k) JOIN here USING (k) "
        "WHERE id < 60 GROUP BY c "
        "ORDER BY c"
    ),
    (
        "SELECT COUNT(*) FROM (SELECT k FROM big UNION ALL SELECT k FROM here) AS u "
        "JOIN here h ON u.k = h.k WHERE h.id < 60"
    ),
    (
        "SELECT COUNT(*), SUM(big.id) FROM big JOIN here ON big.k = here.k "
        "JOIN here h ON big.few = h.few "
        "WHERE h.id < 9 AND here.id < 60"
    ),
]
"""The first one has a list or range for each type, and would lose rows by any of them. Floats are
looked up."""
WHOLE = [
    "SELECT COUNT(*), COUNT(here.id) FROM big LEFT JOIN here ON big.k = here.k AND here.id < 60",
    "SELECT COUNT(*), COUNT(here.id), COUNT(big.id) FROM big FULL JOIN here ON big.k = here.k",
    (
        "SELECT COUNT(*) FROM big WHERE few NOT IN (SELECT few FROM here "
        "WHERE id < 5 AND few IS NOT NULL)"
    ),
    "SELECT COUNT(*) FROM here WHERE k NOT IN (SELECT k FROM big WHERE id < 25000)",
    "SELECT COUNT(*) FROM big JOIN here ON big.k IS NOT DISTINCT FROM here.k WHERE here.id < 60",
]
"""Here a row without a partner matters, or a NULL has one."""


@pytest.fixture
def both(session: Any, connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """`big` on Spark, `here` on our side, where it stays."""
    monkeypatch.setattr("runnel.connectors.spark.fragments.inputs.MOST_ROWS", 10)
    connection.register("big", session.createDataFrame(BIG, schema=SCHEMA).repartition(2))
    connection.register("here", HERE)


def oracle(statements: list[str]) -> list[list[tuple[Any, ...]]]:
    with duckdb.connect() as database:
        database.register("big", BIG)
        database.register("here", HERE)
        database.execute("SET default_null_order = 'nulls_first'")
        database.execute("CREATE MACRO loud(s) AS upper(s)")
        return [database.execute(sql).fetchall() for sql in statements]


def answers(cursor: runnel.Cursor, statements: list[str], shown: str) -> dict[str, object]:
    """What differs from DuckDB's answers, or where EXPLAIN doesn't show what `shown` matches."""
    wrong = {}
    for sql, expected in zip(statements, oracle(statements), strict=True):
        text, found = "\n".join(plan(cursor, sql)), cursor.execute(sql).fetchall()
        if found != expected or re.search(shown, text) is None:
            wrong[sql] = (text, found, expected)
    return wrong


@pytest.mark.usefixtures("both")
def test_the_answer_stays_the_same(cursor: runnel.Cursor) -> None:
    assert not answers(cursor, JOINS, r"Fragment on Spark \(only: ")
    assert not [sql for sql in WHOLE if "(only: " in "".join(plan(cursor, sql))]


JOINED = "FROM big JOIN here ON big.k = here.k WHERE here.id < 600"
BOTH = "(SELECT * FROM big UNION ALL SELECT * FROM here)"
GROUPS = [
    (
        "SELECT here.s AS g, COUNT(*), COUNT(big.few), SUM(big.id), MIN(big.day), "
        f"AVG(big.id) {JOINED} GROUP BY g ORDER BY g"
    ),
    (
        "SELECT COUNT(*), SUM(big.n), MAX(here.id), COUNT(DISTINCT here.few), AVG(big.few), "
        f"BOOL_OR(big.b) {JOINED}"
    ),
    (
        f"SELECT big.b AS g, here.b AS h, SUM(big.few) FILTER (WHERE big.id > 9000) {JOINED} AND "
        "(big.b OR here.b) GROUP BY g, h "
        "ORDER BY g, h"
    ),
    (
        "SELECT COUNT(*), SUM(id), b FROM big WHERE k IN (SELECT k FROM here WHERE id < 600) "
        "GROUP BY b ORDER BY b"
    ),
    f"SELECT COUNT(*), SUM(big.id), MIN(here.s) {JOINED} AND here.id < 0",
    f"SELECT few, COUNT(*), SUM(id), AVG(id), MAX(s) FROM {BOTH} GROUP BY few ORDER BY few",
    "SELECT COUNT(*), SUM(n) FROM (SELECT n FROM big WHERE id > 5 UNION ALL SELECT n FROM here)",
    (
        "SELECT DISTINCT day FROM (SELECT day FROM big UNION ALL SELECT day FROM here) "
        "ORDER BY day LIMIT 5"
    ),
    (
        "SELECT CASE WHEN b THEN loud(s) END AS g, COUNT(*), SUM(id), AVG(few) FROM big GROUP BY g "
        "ORDER BY g"
    ),
    (
        "SELECT COUNT(*), MIN(id), COUNT(k) FROM big "
        "WHERE id > 9 AND CASE WHEN b THEN loud(s) = 'A' ELSE s = '' END"
    ),
]
"""Of each of these Spark makes groups, by what the rest needs of its rows."""
DIVIDED = [
    f"SELECT day, id FROM {BOTH} ORDER BY day DESC, id LIMIT 3",
    (
        "SELECT big.id, here.s FROM big LEFT JOIN here ON big.id = here.id "
        "ORDER BY big.id % 100 DESC, big.id LIMIT 3 OFFSET 10"
    ),
    (
        "SELECT id FROM big WHERE id % 7 = 3 AND CASE WHEN b THEN loud(s) = 'A' ELSE id < 90 END "
        "AND k > 3000 ORDER BY id"
    ),
    "SELECT id, CASE WHEN b THEN loud(s) END FROM big ORDER BY day DESC, id LIMIT 3 OFFSET 2",
]
"""Here Spark decides a part of the condition, and which rows come first."""


@pytest.mark.usefixtures("both")
def test_groups_are_made_in_parts(
    connection: runnel.Connection, cursor: runnel.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnel.planner.pushdown.partial_aggregation.FEWEST_ROWS", 1000)
    connection.create_function("loud", lambda s: s.upper(), ["VARCHAR"], "VARCHAR", scalar=True)
    assert not answers(
        cursor, GROUPS, r"(?s)(Aggregate|Distinct).*Fragment on Spark.*(GROUP BY|count\(|sum\()"
    )
    assert not answers(cursor, DIVIDED, r"Fragment on Spark.*(WHERE|LIMIT)")
