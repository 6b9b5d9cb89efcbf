"""INTERVAL as an argument, as a fetched value, in Arrow, in maps and in DuckDB's tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from runnel import Interval

MIXED = Interval(1, 2, 3_000_000)


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as opened:
        yield opened


def rows(connection: runnel.Connection, sql: str, *arguments: Any) -> list[Any]:
    cursor = connection.cursor().execute(sql, arguments)
    return [] if cursor.description is None else cursor.fetchall()


def test_an_argument_of_months_and_days(connection: runnel.Connection) -> None:
    assert rows(connection, "SELECT ?, ? + ?", MIXED, MIXED, timedelta(hours=1)) == [
        (MIXED, Interval(1, 2, 3_603_000_000))
    ]
    assert rows(connection, "SELECT TIMESTAMP '2026-01-31' + ?", Interval(1, 2)) == [
        (datetime(2026, 3, 2),)
    ]
    assert rows(connection, "SELECT ? = INTERVAL '30 days'", Interval(1)) == [(True,)]


def test_text_and_timedelta_as_interval(connection: runnel.Connection) -> None:
    sql = "SELECT ?::INTERVAL, CAST(? AS INTERVAL), ?::INTERVAL"
    assert rows(connection, sql, "1 month 1 day", "36 hours", timedelta(days=1)) == [
        (Interval(1, 1), timedelta(hours=36), timedelta(days=1))
    ]


def test_within_lists_and_rows(connection: runnel.Connection) -> None:
    found = rows(connection, "SELECT ?, ?", [MIXED, timedelta(3)], {"a": MIXED})
    assert found == [([MIXED, timedelta(3)], {"a": MIXED})]


@pytest.mark.parametrize(
    "value", [Interval(2**40, 1), Interval(0, 2**33, 1), Interval(-(2**31), 1)]
)
def test_too_long(connection: runnel.Connection, value: Interval) -> None:
    with pytest.raises(runnel.DataError, match="is too long"):
        rows(connection, "SELECT ? + INTERVAL '1 month'", value)


def test_in_arrow(connection: runnel.Connection) -> None:
    kind = pa.month_day_nano_interval()
    connection.register("spans", pa.table({"i": pa.array([(1, 2, 3000), None], kind)}))
    table = connection.cursor().execute("SELECT i FROM spans").fetch_arrow_table()
    assert table.schema.field("i").type == kind
    assert rows(connection, "SELECT i, count(*) FROM spans GROUP BY i ORDER BY i") == [
        (None, 1),
        (Interval(1, 2, 3), 1),
    ]


def test_nanoseconds_are_refused(connection: runnel.Connection) -> None:
    fine = pa.array([(1, 2, 3001)], pa.month_day_nano_interval())
    connection.register("fine", pa.table({"i": fine}))
    with pytest.raises(runnel.DataError, match="fractions of a microsecond"):
        rows(connection, "SELECT i FROM fine")


def test_in_a_map(connection: runnel.Connection) -> None:
    rows(connection, "CREATE MAPPING m (__key BIGINT, i INTERVAL, l INTERVAL[]) TYPE IMap")
    rows(connection, "SINK INTO m VALUES (?, ?, ?)", 1, MIXED, [MIXED, timedelta(1)])
    rows(connection, "INSERT INTO m VALUES (2, '2 hours', NULL)")
    assert rows(connection, "SELECT i, l FROM m WHERE __key = 1") == [
        (MIXED, [MIXED, timedelta(1)])
    ]
    assert rows(connection, "SELECT i FROM m WHERE __key = 2") == [(timedelta(hours=2),)]
    assert rows(connection, "SELECT __key FROM m WHERE i > INTERVAL '1 month'") == [(1,)]


def test_maps_and_tables_are_durable(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        rows(connection, "CREATE MAPPING m (__key BIGINT, i INTERVAL) TYPE IMap")
        rows(connection, "INSERT INTO m VALUES (1, INTERVAL '1 month 1 day')")
        rows(connection, "CREATE TABLE t (i INTERVAL, d INTERVAL DAY TO SECOND)")
        rows(connection, "INSERT INTO t VALUES (?, ?)", MIXED, timedelta(3))
    with runnel.connect(tmp_path) as connection:
        assert rows(connection, "SELECT i FROM m") == [(Interval(1, 1),)]
        assert rows(connection, "SELECT i, d FROM t") == [(MIXED, timedelta(3))]


def test_columns_of_days_and_less_refuse_months(connection: runnel.Connection) -> None:
    rows(connection, "CREATE TABLE t (d INTERVAL DAY TO SECOND)")
    with pytest.raises(runnel.ProgrammingError, match="cannot assign"):
        rows(connection, "INSERT INTO t VALUES (INTERVAL '1 month 1 day')")


def test_of_a_duckdb_file(connection: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute("CREATE TABLE e (i INTERVAL, l INTERVAL[])")
        other.execute("INSERT INTO e VALUES (INTERVAL '1 month 1 day', [INTERVAL '1 year'])")
    rows(connection, f"CREATE MAPPING e TYPE DuckDB OPTIONS ('path' = '{path}')")
    assert rows(connection, "SELECT i, l FROM e") == [(Interval(1, 1), [Interval(12)])]
    rows(connection, "INSERT INTO e VALUES (?, ?)", Interval(3, 4), [MIXED])
    assert rows(connection, "SELECT i, l FROM e WHERE i > INTERVAL '2 months'") == [
        (Interval(3, 4), [MIXED])
    ]


def test_parquet_is_refused(connection: runnel.Connection, tmp_path: Path) -> None:
    with pytest.raises(runnel.NotSupportedError, match="can't be written in format parquet"):
        rows(connection, f"COPY (SELECT INTERVAL '1 month 1 day' AS i) TO '{tmp_path}/i.parquet'")


def test_a_view_of_groups_over_many_rows(connection: runnel.Connection) -> None:
    """Groups and sorts of more rows than one batch, with DuckDB's answers."""
    sql = (
        "SELECT to_months(CAST(x % 3 AS INTEGER)) + to_days(CAST(x % 40 AS INTEGER)) AS i, x "
        "FROM {} AS t(x)"
    )
    ours = sql.format("TABLE(GENERATE_SERIES(0, 20000))")
    theirs = sql.format("range(20001)")
    query = (
        "SELECT extract(epoch FROM i) AS e, count(*), min(x) FROM ({}) AS s GROUP BY i ORDER BY i"
    )
    assert rows(connection, query.format(ours)) == duckdb.sql(query.format(theirs)).fetchall()
