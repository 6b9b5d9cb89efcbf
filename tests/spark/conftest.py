"""One small Spark session for all tests of the connector. Without pyspark or Java they are skipped, and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import runnel
from tests.spark_process import missing, new_session


@pytest.fixture(scope="session")
def session() -> Any:
    """A session that the program made, with settings that differ from ours: they must not matter."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    return new_session(
        {
            "spark.sql.ansi.enabled": "false",
            "spark.sql.session.timeZone": "Asia/Tokyo",
            "spark.sql.shuffle.partitions": "2",
        }
    )


@pytest.fixture
def connection(session: Any) -> Iterator[runnel.Connection]:
    """A connection with that session."""
    with runnel.connect(spark=session) as made:
        yield made


@pytest.fixture
def query(session: Any, cursor: runnel.Cursor) -> Callable[[str], list[tuple[Any, ...]]]:
    """Makes a mapping "q" on a query in Spark's SQL, and gives its rows."""

    def run(text: str) -> list[tuple[Any, ...]]:
        quoted = text.replace("'", "''")
        cursor.execute(f"CREATE OR REPLACE MAPPING q TYPE Spark OPTIONS ('query' = '{quoted}')")
        return cursor.execute("SELECT * FROM q").fetchall()

    return run
