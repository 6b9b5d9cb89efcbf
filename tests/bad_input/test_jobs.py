"""Statements about jobs that are refused: each with its whole text in `expected/jobs.txt`. No case
changes anything."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import runnel
from tests.bad_input.pinned import refused, sections

CASES = tuple(sections("jobs"))
MAP = (
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
)


@pytest.fixture(scope="module")
def shop() -> Iterator[runnel.Connection]:
    """A connection with a job that runs, one that is suspended, and one that has completed."""
    with runnel.connect(query_parallelism=1) as connection:
        connection.execute(MAP)
        connection.register_stream("s", pa.schema([("k", pa.int64()), ("v", pa.int64())]))
        connection.execute("CREATE JOB runs AS SINK INTO m SELECT k, v FROM s")
        connection.execute("CREATE JOB rests AS SINK INTO m SELECT k, v FROM s")
        connection.execute("CREATE JOB over AS INSERT INTO m VALUES (1, 2)")
        connection.execute("CREATE SNAPSHOT taken FOR JOB runs")
        connection.job("rests").suspend()
        connection.job("over").join(20)
        yield connection


@pytest.mark.parametrize("sql", CASES, ids=[sql[:60] for sql in CASES])
def test_statement(shop: runnel.Connection, sql: str) -> None:
    def state() -> list[tuple[object, ...]]:
        return [row[1:3] for row in shop.execute("SHOW JOBS FULL").fetchall()]

    before = state()
    error = refused("jobs", sql, lambda: shop.execute(sql, timeout=20))
    assert error.sql == sql
    assert state() == before
