"""One small Spark session for all tests of the connector. Without pyspark or Java they are skipped,
and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import runnel
from tests.effort import ALL
from tests.spark_process import INTERPRETED, missing, new_session


@pytest.fixture(scope="session")
def session() -> Any:
    """A session that the program made, with settings that differ from ours: they must not
    matter."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    return new_session(
        {
            "spark.sql.ansi.enabled": "false",
            "spark.sql.session.timeZone": "Asia/Tokyo",
            "spark.sql.shuffle.partitions": "2",
            **({} if ALL else INTERPRETED),
        }
    )


@pytest.fixture
def making_code(session: Any) -> Iterator[None]:
    """Spark makes code in that session, as by itself: over many rows that is faster, and its own
    catalog can't be listed otherwise."""
    before = {name: session.conf.get(name) for name in INTERPRETED}
    for name in before:
        session.conf.unset(name)
    # Some of what it does goes by the settings of the session that was used last to make a
    # DataFrame.
    session.createDataFrame([(1,)], "a int")
    yield
    for name, value in before.items():
        session.conf.set(name, value)


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
