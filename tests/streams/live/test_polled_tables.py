"""Tables at rest that are read again: the differences are the changes of a live query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.testing.clock import ManualClock

TIMEOUT = 60.0
SECOND = 1_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def con(clock: ManualClock) -> Iterator[runnel.Connection]:
    with runnel.connect(clock=clock, query_parallelism=2) as made:
        yield made


def changes(cursor: Any, count: int) -> Counter[tuple[Any, ...]]:
    """The next changes."""
    found: Counter[tuple[Any, ...]] = Counter()
    for _ in range(count):
        _, weight, *row = cursor.fetchone(timeout=TIMEOUT)
        found[tuple(row)] += weight
    return found


def test_a_file_is_read_again(con: runnel.Connection, clock: ManualClock, tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("currency,rate\nEUR,2\nUSD,1\nUSD,1\n")
    con.execute(
        "CREATE MAPPING rates (currency VARCHAR, rate BIGINT) TYPE File OPTIONS ("
        f"'path' = '{path}', 'format' = 'csv', 'pollChangesMillis' = '1000')"
    )
    rows = con.execute("SELECT * FROM rates EMIT CHANGES")
    sums = con.execute("SELECT COUNT(*), SUM(rate) FROM rates WHERE rate < 5 EMIT CHANGES")
    with rows, sums:
        assert changes(rows, 2) == Counter({("EUR", 2): 1, ("USD", 1): 2})
        assert sums.fetchone(timeout=TIMEOUT) == (1, 1, 3, 4)
        path.write_text("currency,rate\nEUR,3\nUSD,1\nGBP,9\n")
        clock.advance(SECOND)
        assert changes(rows, 4) == Counter(
            {("EUR", 2): -1, ("USD", 1): -1, ("EUR", 3): 1, ("GBP", 9): 1}
        )
        assert changes(sums, 2) == Counter({(3, 4): -1, (2, 4): 1})
    assert con.execute("SELECT COUNT(*) FROM rates").fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'pollChangesMillis' = '0'", "can't be '0'"),
        ("'pollChangesMillis' = '10', 'follow' = 'true'", "read to an end"),
    ],
)
def test_wrong_intervals(con: runnel.Connection, options: str, message: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match=message):
        con.execute(
            "CREATE MAPPING t (a BIGINT) TYPE File OPTIONS ('path' = 'x', 'format' = 'csv', "
            f"'ignoreFileNotFound' = 'true', {options})"
        )


HOURLY = "OPTIONS ('pollChangesMillis' = '3600000')"


@pytest.fixture
def own() -> Iterator[runnel.Connection]:
    """A connection whose own changes are noticed at once."""
    with runnel.connect(query_parallelism=2) as made:
        yield made


def test_statements_change_a_table(own: runnel.Connection) -> None:
    own.execute("CREATE TABLE stock (item VARCHAR, n BIGINT)")
    own.execute("INSERT INTO stock VALUES ('pen', 5), ('cup', 2)")
    with own.execute(f"SELECT COUNT(*), SUM(n) FROM stock EMIT CHANGES {HOURLY}") as cursor:
        assert cursor.fetchone(timeout=TIMEOUT) == (1, 1, 2, 7)
        own.execute("UPDATE stock SET n = 3 WHERE item = 'cup'")
        assert changes(cursor, 2) == Counter({(2, 7): -1, (2, 8): 1})
        own.begin()
        own.execute("INSERT INTO stock VALUES ('ink', 1)")
        own.execute("DELETE FROM stock WHERE item = 'pen'")
        own.commit()
        assert changes(cursor, 2) == Counter({(2, 8): -1, (2, 4): 1})
        own.execute("DELETE FROM stock")
        assert changes(cursor, 2) == Counter({(2, 4): -1, (0, None): 1})


def test_a_stream_is_joined_with_a_table_that_changes(own: runnel.Connection) -> None:
    own.execute("CREATE TABLE rates (k VARCHAR, rate BIGINT)")
    own.execute("INSERT INTO rates VALUES ('EUR', 2)")
    orders = own.register_stream("orders", {"k": "VARCHAR", "n": "BIGINT"})
    query = f"SELECT n * rate FROM orders AS o JOIN rates AS r ON o.k = r.k EMIT CHANGES {HOURLY}"
    with own.execute(query) as cursor:
        orders.write([("EUR", 10)])
        assert cursor.fetchone(timeout=TIMEOUT)[1:] == (1, 20)
        own.execute("UPDATE rates SET rate = 3")
        assert changes(cursor, 2) == Counter({(20,): -1, (30,): 1})
