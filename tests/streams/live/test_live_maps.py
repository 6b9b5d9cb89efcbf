"""Maps as inputs of EMIT CHANGES: their rows, then their changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import runnel
from tests.effort import some

TIMEOUT = 60.0
QUERIES = (
    "SELECT __key, n, g FROM m WHERE n > 2",
    "SELECT g, COUNT(*) AS c, SUM(n) AS s, MAX(n) AS most FROM m GROUP BY g",
    "SELECT COUNT(*), SUM(n) FROM m",
    "SELECT a.g, b.n FROM m AS a JOIN m AS b ON a.__key = b.g WHERE b.n > 0",
    "SELECT DISTINCT g FROM m",
    "SELECT g, n FROM m ORDER BY n DESC, __key LIMIT 2",
)


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect(query_parallelism=2) as made:
        made.execute("CREATE MAPPING m (__key BIGINT, n BIGINT, g BIGINT) TYPE IMap")
        yield made


def changed(rng: random.Random) -> str:
    """A statement that changes some rows."""
    rows = ", ".join(
        f"({rng.randrange(8)}, {rng.randrange(5)}, {rng.randrange(4)})"
        for _ in range(rng.randint(1, 4))
    )
    return rng.choice(
        (
            f"SINK INTO m VALUES {rows}",
            f"SINK INTO m VALUES {rows}",
            f"UPDATE m SET n = n + 1 WHERE g = {rng.randrange(4)}",
            f"DELETE FROM m WHERE __key % 3 = {rng.randrange(3)}",
            "DELETE FROM m WHERE n > 5",
        )
    )


@pytest.mark.parametrize("seed", some(range(4), every=2))
@pytest.mark.parametrize("query", QUERIES)
def test_the_changes_of_a_map(con: runnel.Connection, query: str, seed: int) -> None:
    rng = random.Random(f"{query} {seed}")
    if rng.random() < 0.7:
        con.execute("INSERT INTO m SELECT v, v % 5, v % 4 FROM GENERATE_SERIES(0, 5) AS s(v)")
    answer: Counter[tuple[Any, ...]] = Counter()
    live = f"{query} EMIT CHANGES OPTIONS ('epochMillis' = '0')"
    with con.execute(live) as cursor:
        for number in range(8):
            expected = Counter(con.execute(query).fetchall())
            if number == 0:
                assert [*next_epoch(cursor, answer, expected)] == [1] * bool(expected)
            while answer != expected:
                assert [*next_epoch(cursor, answer, expected)]
            con.execute(changed(rng))


def next_epoch(
    cursor: Any, answer: Counter[tuple[Any, ...]], expected: Counter[tuple[Any, ...]]
) -> Iterator[int]:
    """Adds the rows of an epoch to the answer, and yields its number; nothing if the answer is the
    expected one already."""
    if answer == expected:
        return
    before = cursor.epoch
    while cursor.epoch == before:
        epoch, weight, *row = cursor.fetchone(timeout=TIMEOUT)
        answer[tuple(row)] += weight
        if not answer[tuple(row)]:
            del answer[tuple(row)]
    assert min(answer.values(), default=1) > 0
    yield epoch


def test_all_rows_of_a_large_map_come_in_the_first_epoch(con: runnel.Connection) -> None:
    con.execute("INSERT INTO m SELECT v, 1, v % 2 FROM GENERATE_SERIES(1, 200000) AS s(v)")
    query = "SELECT COUNT(*) FROM m EMIT CHANGES OPTIONS ('epochMillis' = '0')"
    with con.execute(query) as cursor:
        assert cursor.fetchone(timeout=TIMEOUT) == (1, 1, 200_000)
        con.execute("DELETE FROM m")
        assert cursor.fetchone(timeout=TIMEOUT)[1:] == (-1, 200_000)
        assert cursor.fetchone(timeout=TIMEOUT)[1:] == (1, 0)


def test_a_row_of_a_stream_meets_the_map_at_its_arrival_if_it_says_so(
    con: runnel.Connection,
) -> None:
    con.execute("INSERT INTO m VALUES (1, 5, 0)")
    stream = con.register_stream("a", {"k": "BIGINT"})
    join = "SELECT n FROM a JOIN m {} ON __key = k EMIT CHANGES"
    with (
        con.execute(join.format("")) as maintained,
        con.execute(join.format("FOR SYSTEM_TIME AS OF PROCTIME()")) as arriving,
    ):
        stream.write([(1,)])
        for cursor in (maintained, arriving):
            assert cursor.fetchone(timeout=TIMEOUT)[1:] == (1, 5)
        con.execute("UPDATE m SET n = 6")
        assert [maintained.fetchone(timeout=TIMEOUT)[1:] for _ in range(2)] == [(-1, 5), (1, 6)]
        stream.write([(1,)])
        assert arriving.fetchone(timeout=TIMEOUT)[1:] == (1, 6)
        stream.close()
        assert arriving.fetchall() == []
