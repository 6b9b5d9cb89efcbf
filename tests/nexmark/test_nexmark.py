"""Every NEXMark query against DuckDB: over tables that end, and over streams in order and out of
order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from benchmarks.nexmark import NAMES, STREAMED, TABLES, duckdb_query, query
from tests.effort import crossed

EVENTS = 10_000
EVENT_RATE = 200
"""So that the events last fifty seconds, and there are several windows."""

MAPPING = (
    "CREATE MAPPING {table} TYPE Nexmark OPTIONS ('table'='{table}', 'events'='{events}', "
    "'eventRate'='{rate}'{more})"
)
SIDE = pa.table(
    {"key": pa.array(range(10_000), pa.int64()), "value": [f"side {i}" for i in range(10_000)]}
)


def mapped(more: str = "", events: int = EVENTS, **options: Any) -> runnel.Connection:
    """A connection with the tables."""
    connection = runnel.connect(**options)
    for table in TABLES:
        connection.cursor().execute(
            MAPPING.format(table=table, events=events, rate=EVENT_RATE, more=more)
        )
    connection.register("side_input", SIDE)
    return connection


def rows(values: list[Any]) -> Counter[str]:
    """Rows without their order; DOUBLEs rounded, for the order of adding up differs."""
    return Counter(
        repr(tuple(round(item, 6) if isinstance(item, float) else item for item in row))
        for row in values
    )


@pytest.fixture(scope="module")
def expected() -> Iterator[dict[str, Counter[str]]]:
    """DuckDB's answers over the same events."""
    with mapped() as ours, duckdb.connect() as other:
        for table in TABLES:
            other.register(
                table, ours.cursor().execute(f"SELECT * FROM {table}").fetch_arrow_table()
            )
        other.register("side_input", SIDE)
        yield {name: rows(other.execute(duckdb_query(name)).fetchall()) for name in NAMES}


@pytest.mark.parametrize(("name", "parallelism"), crossed(NAMES, [1, 2]))
def test_over_tables(name: str, parallelism: int, expected: dict[str, Counter[str]]) -> None:
    with mapped(
        more=f", 'partitions' = '{parallelism}'", query_parallelism=parallelism
    ) as connection:
        found = rows(connection.cursor().execute(query(name)).fetchall())
    assert found == expected[name]
    assert found, "an empty answer proves nothing"


@pytest.mark.parametrize("jitter", [0, 3_000])
@pytest.mark.parametrize(("name", "parallelism"), crossed(STREAMED, [2, 1]))
def test_over_streams(
    name: str, jitter: int, parallelism: int, expected: dict[str, Counter[str]]
) -> None:
    more = f", 'stream' = 'true', 'jitterMillis' = '{jitter}', 'partitions' = '{parallelism}'"
    with mapped(more=more, query_parallelism=parallelism) as connection:
        found = rows(connection.cursor().execute(query(name)).fetchall())
    assert found == expected[name]
