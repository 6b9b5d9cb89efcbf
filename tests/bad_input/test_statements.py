"""Statements that are refused, or fail when they run: on the same small tables, each with its
whole text in `expected/statements/`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import runnel
from tests.bad_input.pinned import refused, sections

TOPICS = (
    "statements/wrong_sql",
    "statements/names",
    "statements/calls_and_types",
    "statements/overflow",
    "statements/division",
    "statements/writes",
    "statements/definitions",
    "statements/settings",
    "statements/streams",
    "statements/windows",
)
CASES = [(topic, sql) for topic in TOPICS for sql in sections(topic)]

TRADES = """
    CREATE MAPPING trades (__key BIGINT, ticker VARCHAR, price DECIMAL(10, 2), qty INT, t TINYINT,
    s SMALLINT, d DOUBLE,
    r REAL, at TIMESTAMP, day DATE, ok BOOLEAN) TYPE IMap OPTIONS
        ('keyFormat'='bigint', 'valueFormat'='json-flat')"""
ROWS = """
    SINK INTO trades VALUES (1, 'ACME', 10.5, 3, 1, 1, 1.5, 1.5, '2024-01-01T00:00:00',
        '2024-01-01', true),
    (2, 'BOLT', 7, 10, 127, 32767, 1e308, 3e38, NULL, NULL, NULL)"""


@pytest.fixture(scope="module")
def shop() -> Iterator[runnel.Connection]:
    """A connection with a map, a view on it and a mapping of files that aren't there. No case
    changes any of it."""
    with runnel.connect(query_parallelism=1) as connection:
        cursor = connection.cursor()
        cursor.execute(TRADES)
        cursor.execute(ROWS)
        cursor.execute("CREATE VIEW cheap AS SELECT ticker, price FROM trades WHERE price < 8")
        yield connection


@pytest.mark.parametrize(
    ("topic", "sql"), CASES, ids=[f"{topic}: {sql[:50]}" for topic, sql in CASES]
)
def test_statement(shop: runnel.Connection, topic: str, sql: str) -> None:
    cursor = shop.cursor()
    before = cursor.execute("SELECT * FROM trades ORDER BY __key").fetchall()

    def run() -> None:
        cursor.execute(sql, timeout=20)
        if cursor.description is not None:
            cursor.fetchone() if cursor.is_unbounded else cursor.fetchall()

    error = refused(topic, sql, run)
    assert error.sql == sql
    assert cursor.execute("SELECT * FROM trades ORDER BY __key").fetchall() == before
