"""An index changes the plan and never the rows: each query over a map is run without indexes and
with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import runnel

START = datetime(2026, 1, 1)
INDEXES = {
    "by_ticker": "(ticker) TYPE HASH",
    "by_quantity": "(quantity, ticker) TYPE SORTED",
    "by_time": "(ts) TYPE SORTED",
    "by_price": "(price) TYPE SORTED",
}


def row(i: int) -> tuple[Any, ...]:
    ticker = None if i % 11 == 0 else "ABCDEFG"[i % 7]
    price = None if i % 13 == 5 else Decimal(i * 37 % 23) / 2
    quantity = None if i % 9 == 4 else i * 17 % 8
    return i, ticker, price, quantity, None if i % 10 == 3 else START + timedelta(hours=i * 29 % 50)


@pytest.fixture(scope="module")
def cursor() -> Iterator[runnel.Cursor]:
    with runnel.connect() as connection:
        made = connection.cursor()
        columns = (
            "__key BIGINT, ticker VARCHAR, price DECIMAL(10, 2), quantity INTEGER, ts TIMESTAMP"
        )
        made.execute(
            f"CREATE MAPPING m ({columns}) TYPE IMap "
            "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
        )
        made.executemany("SINK INTO m VALUES (?, ?, ?, ?, ?)", [row(i) for i in range(200)])
        made.execute("DELETE FROM m WHERE __key = 50 OR quantity = 3")
        yield made


LOOKUPS: list[tuple[str, tuple[Any, ...], str]] = [
    ("SELECT __key FROM m WHERE ticker = 'A'", (), "by_ticker"),
    ("SELECT __key FROM m WHERE ticker IN ('A', 'B') AND quantity > 2", (), "by_ticker"),
    ("SELECT __key FROM m WHERE ticker = 'A' OR ticker = ?", ("B",), "by_ticker"),
    ("SELECT __key FROM m WHERE quantity = ?", (5,), "by_quantity"),
    ("SELECT __key FROM m WHERE quantity > ?", (5,), "by_quantity"),
    ("SELECT __key FROM m WHERE quantity = ?", (10**15,), "by_quantity"),
    ("SELECT __key FROM m WHERE quantity < ?", (10**15,), "by_quantity"),
    ("SELECT __key FROM m WHERE quantity = ?", (None,), "by_quantity"),
    ("SELECT COUNT(*) FROM m WHERE quantity >= 6", (), "by_quantity"),
    ("SELECT __key FROM m WHERE price = 1", (), "by_price"),
    (
        "SELECT __key FROM m WHERE ts >= ? AND ts < ?",
        (START, START + timedelta(hours=9)),
        "by_time",
    ),
]
ORDERS: list[tuple[str, tuple[Any, ...]]] = [
    ("SELECT quantity, ticker FROM m ORDER BY quantity, ticker", ()),
    ("SELECT quantity, ticker FROM m ORDER BY quantity DESC, ticker DESC", ()),
    ("SELECT quantity, ticker FROM m ORDER BY quantity DESC, ticker DESC LIMIT 20 OFFSET 5", ()),
    ("SELECT quantity FROM m WHERE price > 3 ORDER BY quantity LIMIT ? OFFSET ?", (20, 5)),
    (
        (
            "SELECT quantity, ticker FROM m WHERE quantity BETWEEN 2 AND 5 "
            "ORDER BY quantity, ticker LIMIT ?"
        ),
        (7,),
    ),
    ("SELECT ts FROM m WHERE ts > ? ORDER BY ts DESC LIMIT 3", (START,)),
]


@pytest.fixture(params=[1, 3], ids=["one processor", "three processors"])
def processors(request: pytest.FixtureRequest, cursor: runnel.Cursor) -> int:
    cursor.execute(f"SET query_parallelism = {request.param}")
    return int(request.param)


@pytest.fixture
def indexes(cursor: runnel.Cursor) -> Iterator[None]:
    for name, definition in INDEXES.items():
        cursor.execute(f"CREATE INDEX {name} ON m {definition}")
    yield
    for name in INDEXES:
        cursor.execute(f"DROP INDEX {name}")


def rows(cursor: runnel.Cursor, sql: str, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [tuple(item) for item in cursor.execute(sql, arguments).fetchall()]


def plan(cursor: runnel.Cursor, sql: str, arguments: tuple[Any, ...]) -> str:
    return "\n".join(line for (line,) in rows(cursor, f"EXPLAIN {sql}", arguments))


@pytest.mark.usefixtures("processors")
@pytest.mark.parametrize(("sql", "arguments", "index"), LOOKUPS)
def test_a_lookup_finds_what_a_scan_finds(
    cursor: runnel.Cursor,
    request: pytest.FixtureRequest,
    sql: str,
    arguments: tuple[Any, ...],
    index: str,
) -> None:
    assert "index:" not in plan(cursor, sql, arguments)
    expected = Counter(rows(cursor, sql, arguments))
    request.getfixturevalue("indexes")
    assert f"index: {index}" in plan(cursor, sql, arguments)
    assert Counter(rows(cursor, sql, arguments)) == expected


@pytest.mark.usefixtures("processors")
@pytest.mark.parametrize(("sql", "arguments"), ORDERS)
def test_an_index_gives_the_order_of_a_sort(
    cursor: runnel.Cursor, request: pytest.FixtureRequest, sql: str, arguments: tuple[Any, ...]
) -> None:
    assert "index:" not in plan(cursor, sql, arguments)
    expected = rows(cursor, sql, arguments)
    request.getfixturevalue("indexes")
    chosen = plan(cursor, sql, arguments)
    assert "in order" in chosen
    assert "Sort" not in chosen.split("Physical plan")[-1]
    assert rows(cursor, sql, arguments) == expected
