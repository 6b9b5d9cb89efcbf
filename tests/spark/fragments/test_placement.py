"""Small tables of other connectors travel to Spark when they meet large ones there; what is small
in Spark comes over."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from runnel.connectors.spark.fragments.inputs import MOST_ROWS
from tests.spark.fragments.test_fragments import plan

pytestmark = pytest.mark.usefixtures("making_code")

ROWS = 500_000
"""Enough that a quarter of what Spark takes them for is still many."""
NAMES = pa.table(
    {"k": pa.array([0, 1, 2, None, 7], pa.int64()), "name": ["zero", "one", None, "nothing", "é🦀"]}
)
COUNTS = (
    "SELECT name, COUNT(*) AS n, SUM(id) FROM big JOIN names ON big.k = names.k GROUP BY name "
    "ORDER BY name"
)


@pytest.fixture
def big(session: Any, connection: runnel.Connection) -> None:
    connection.register(
        "big", session.range(0, ROWS, 1, 2).selectExpr("id", "NULLIF(id % 10, 9) AS k")
    )


@pytest.fixture
def names(connection: runnel.Connection) -> None:
    connection.register("names", NAMES)


def views(connection: runnel.Connection, session: Any) -> set[str]:
    """The temporary views of the session in which our queries run."""
    return {row.viewName for row in session.sql("SHOW VIEWS").collect() if row.isTemporary}


QUERIES = [
    COUNTS,
    "SELECT COUNT(*) FROM big LEFT JOIN names ON big.k = names.k WHERE name IS NULL",
    (
        "SELECT names.k, MIN(id) FROM names LEFT JOIN big ON big.k = names.k GROUP BY names.k "
        "ORDER BY 1"
    ),
    "SELECT COUNT(*), COUNT(big.id), COUNT(name) FROM big FULL JOIN names ON big.k = names.k",
    "SELECT COUNT(*) FROM big WHERE k IN (SELECT k FROM names WHERE name IS NOT NULL)",
    "SELECT COUNT(*) FROM big WHERE k NOT IN (SELECT k FROM names)",
    (
        "SELECT SUM(id) FROM big WHERE EXISTS (SELECT 1 FROM names "
        "WHERE names.k = big.k AND names.k <> big.id)"
    ),
    (
        "SELECT k, COUNT(*) FROM (SELECT k FROM big UNION ALL SELECT k FROM names) AS u GROUP BY k "
        "ORDER BY k"
    ),
    "SELECT COUNT(*) FROM big WHERE id > (SELECT MAX(k) FROM names)",
    (
        "SELECT a.name, MAX(b.name) FROM big JOIN names a ON big.k = a.k "
        "JOIN names b ON a.k = b.k + 1 GROUP BY 1 ORDER BY 1"
    ),
]


@pytest.mark.usefixtures("big", "names")
def test_small_tables_go_to_spark(cursor: runnel.Cursor) -> None:
    there = {}
    for sql in QUERIES:
        (line,) = plan(cursor, sql)
        assert line.startswith(
            "Fragment on Spark (chosen for: names is the smaller side and moves: 5 rows"
        ), sql
        there[sql] = cursor.execute(sql).fetchall()
    assert [row[:2] for row in there[COUNTS]] == [
        (name, ROWS // 10) for name in (None, "one", "zero", "é🦀")
    ]
    cursor.execute("SET pushdown = off")
    for sql in QUERIES:
        assert cursor.execute(sql).fetchall() == there[sql], sql


@pytest.mark.usefixtures("big")
def test_rows_are_those_of_each_run(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor, tmp_path: Path
) -> None:
    cursor.execute(
        "CREATE MAPPING m (__key BIGINT, name VARCHAR) TYPE IMap "
        "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
    )
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int64())}), tmp_path / "f.parquet")
    cursor.execute(
        f"CREATE MAPPING f TYPE File OPTIONS ('format' = 'parquet', 'path' = '{tmp_path}')"
    )
    sql = (
        "SELECT m.name, COUNT(*) FROM big JOIN m ON k = __key JOIN f ON k = a WHERE id < ? "
        "GROUP BY m.name ORDER BY 1"
    )
    cursor.execute("SINK INTO m VALUES (1, 'one'), (3, 'three')")
    assert cursor.execute(sql, (50_000,)).fetchall() == [("one", 5000)]
    cursor.execute("SINK INTO m VALUES (2, 'two')")
    assert cursor.execute(sql, (100,)).fetchall() == [("one", 10), ("two", 10)]
    assert len(plan(cursor, sql.replace("?", "100"))) == 1
    before = views(connection, session)
    cursor.execute(sql, (100,)).fetchall()
    assert views(connection, session) == before


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [True, False, None]),
    "y": (pa.int8(), [-128, 127, None]),
    "h": (pa.int16(), [-(2**15), 2**15 - 1, None]),
    "i": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "l": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "r": (pa.float32(), [-0.0, float("nan"), float("-inf")]),
    "d": (pa.float64(), [-0.0, float("nan"), 5e-324]),
    "n": (pa.decimal128(38, 10), [Decimal("-1.5000000001"), Decimal("9" * 28), None]),
    "s": (pa.string(), ["", "a\x00\n'`é🦀", None]),
    "x": (pa.binary(), [b"", b"\x00\xff", None]),
    "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), None]),
    "ts": (
        pa.timestamp("us"),
        [datetime(1582, 10, 10, 1), datetime(2024, 3, 31, 2, 30, 0, 1), None],
    ),
    "tz": (
        pa.timestamp("us", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), None],
    ),
    "iv": (
        pa.duration("us"),
        [timedelta(days=-100_000_000, microseconds=1), timedelta(microseconds=-1), None],
    ),
}


@pytest.mark.usefixtures("big")
def test_values_are_the_same_there(connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    columns = {"k": pa.array([0, 1, 2], pa.int64())} | {
        name: pa.array(list(v), kind) for name, (kind, v) in VALUES.items()
    }
    connection.register("small", pa.table(columns))
    sql = (
        f"SELECT small.k, {', '.join(VALUES)} FROM big JOIN small ON big.k = small.k WHERE id < 10 "
        "ORDER BY 1"
    )
    assert plan(cursor, sql)[0].startswith(
        "Fragment on Spark (chosen for: small is the smaller side"
    )
    assert repr(cursor.execute(sql).fetchall()) == repr(
        cursor.execute("SELECT * FROM small ORDER BY k").fetchall()
    )


@pytest.mark.usefixtures("big")
@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (pa.array([time(1)], pa.time64("us")), "TIME"),
        (pa.array([[1]], pa.list_(pa.int64())), "BIGINT ARRAY"),
        (pa.array([{"a": 1}], pa.struct([("a", pa.int64())])), "ROW"),
    ],
)
def test_values_that_would_not_be_stay(
    connection: runnel.Connection, cursor: runnel.Cursor, column: pa.Array, problem: str
) -> None:
    connection.register("small", pa.table({"k": pa.array([1], pa.int64()), "v": column}))
    sql = (
        "SELECT v, n FROM small JOIN (SELECT k, COUNT(*) AS n FROM big "
        "GROUP BY k) AS g ON g.k = small.k"
    )
    lines = plan(cursor, sql)
    assert any("Fragment on Spark" in line for line in lines[1:]), problem
    (row,) = cursor.execute(sql).fetchall()
    assert row[1] == ROWS // 10
    used = "SELECT COUNT(*) FROM small JOIN big ON big.k = small.k"
    assert len(plan(cursor, used)) == 1, "the column isn't wanted"


@pytest.mark.usefixtures("names")
def test_what_is_small_in_spark_comes_over(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor
) -> None:
    connection.register("few", session.range(1000).selectExpr("id", "id % 10 AS k"))
    sql = "SELECT COUNT(*) FROM few JOIN names ON few.k = names.k WHERE id > 500"
    lines = plan(cursor, sql)
    assert "Fragment on Spark" in lines[-1] or "Fragment on Spark" in lines[-2]
    assert re.search(
        r"names: reading about \d+ rows from Spark costs less than copying 5 to it",
        "".join(lines),
    )
    assert cursor.execute(sql).fetchone() == (199,)


@pytest.mark.usefixtures("big")
def test_a_large_table_stays(connection: runnel.Connection, cursor: runnel.Cursor) -> None:
    connection.register("large", pa.table({"k": pa.array(range(MOST_ROWS + 1), pa.int64())}))
    sql = "SELECT COUNT(*) FROM big JOIN large ON big.id = large.k WHERE big.k = 1"
    lines = plan(cursor, sql)
    assert len(lines) > 1
    assert "large, which isn't on Spark" in "".join(lines)
    assert cursor.execute(sql).fetchone() == (10_000,)


@pytest.mark.usefixtures("big")
def test_a_file_that_fails_on_its_way(cursor: runnel.Cursor, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int64())}), path)
    cursor.execute(
        f"CREATE MAPPING f TYPE File OPTIONS ('format' = 'parquet', 'path' = '{tmp_path}')"
    )
    sql = "SELECT COUNT(*) FROM big JOIN f ON k = a"
    assert cursor.execute(sql).fetchone() == (ROWS // 5,)
    path.write_bytes(b"PAR1 no such thing PAR1")
    with pytest.raises(runnel.Error, match=r"f\.parquet"):
        cursor.execute(sql).fetchall()
