"""The setting default_null_order, compared with DuckDB."""

from __future__ import annotations

import duckdb
import pytest

import runnel

QUERIES = [
    "SELECT a, b FROM n ORDER BY a",
    "SELECT a FROM n ORDER BY a DESC",
    "SELECT a FROM n ORDER BY a NULLS FIRST",
    "SELECT a FROM n ORDER BY a DESC NULLS LAST",
    "SELECT a FROM n ORDER BY a DESC LIMIT 1",
    "SELECT a FROM n UNION ALL SELECT 0 ORDER BY 1 LIMIT 3",
    "SELECT DISTINCT a FROM n ORDER BY ALL DESC",
    "SELECT a, row_number() OVER (ORDER BY b), first_value(a) OVER (ORDER BY a DESC) FROM n "
    "ORDER BY a",
    "SELECT array_agg(a ORDER BY a), array_agg(a ORDER BY a DESC NULLS FIRST) FROM n",
]


@pytest.mark.parametrize("order", ["nulls_first", "nulls_last", "sqlite", "postgres", None])
def test_rows_are_ordered_as_in_duckdb(order: str | None) -> None:
    with runnel.connect() as connection, duckdb.connect() as oracle:
        for sql in (
            "CREATE TABLE n (a INT, b VARCHAR)",
            "INSERT INTO n VALUES (1, 'x'), (NULL, 'y'), (2, NULL)",
        ):
            connection.execute(sql)
            oracle.execute(sql)
        # The plans of the default are cached before.
        before = [connection.execute(sql).fetchall() for sql in QUERIES]
        oracle.execute(f"SET default_null_order = '{order or 'sqlite'}'")
        if order is not None:
            connection.execute(f"SET default_null_order = '{order}'")
        for sql in QUERIES:
            expected = oracle.execute(sql).fetchall()
            assert connection.execute(sql).fetchall() == expected, sql
        connection.execute("RESET default_null_order")
        assert [connection.execute(sql).fetchall() for sql in QUERIES] == before


def test_a_job_does_not_depend_on_the_session() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE TABLE n AS SELECT * FROM (VALUES (1), (NULL), (2)) AS v(a)")
        connection.execute("CREATE TABLE found (a INT)")
        connection.execute("SET default_null_order = 'nulls_last'")
        connection.execute("CREATE JOB j AS INSERT INTO found SELECT a FROM n ORDER BY a LIMIT 1")
        job = connection.job("j")
        assert job is not None and job.wait(60)
        assert connection.execute("FROM found").fetchall() == [(None,)]
