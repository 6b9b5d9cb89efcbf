"""Joins of EMIT CHANGES over pushed streams: each epoch's net changes, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import runnel
from runnel.connectors.pushed.table import StreamWriter
from runnel.testing.clock import ManualClock

TIMEOUT = 30.0
MILLISECOND = 1_000_000


class Live:
    """Two streams of rows (k, x), and a live query whose changes are read epoch by epoch."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.connection = runnel.connect(clock=self.clock)
        columns = {"k": "VARCHAR", "x": "BIGINT"}
        self.a = self.connection.register_stream("a", columns)
        self.b = self.connection.register_stream("b", columns)

    def start(self, query: str) -> None:
        self.cursor = self.connection.execute(f"{query} EMIT CHANGES")

    def changes(self, count: int) -> list[Any]:
        """The next changes, which are of one epoch, sorted."""
        rows = [self._next() for _ in range(count)]
        assert len({row[0] for row in rows if row}) == 1, rows
        return sorted((row[1:] for row in rows if row), key=repr)

    def _next(self) -> Any:
        """The next row. The time of the next epoch may not have come: rows that were late for an
        epoch start another one."""
        for _ in range(100):
            try:
                return self.cursor.fetchone(timeout=TIMEOUT / 100)
            except runnel.FetchTimeoutError:
                self.clock.advance(20 * MILLISECOND)
        return self.cursor.fetchone(timeout=TIMEOUT)

    def write(self, stream: StreamWriter, *rows: tuple[Any, ...]) -> None:
        self.clock.advance(20 * MILLISECOND)
        stream.write(rows)


@pytest.fixture
def live() -> Iterator[Live]:
    live = Live()
    with live.connection:
        yield live


def test_an_inner_join_of_streams_is_appended(live: Live) -> None:
    live.start("SELECT a.k, a.x, b.x AS y FROM a JOIN b ON a.k = b.k")
    live.write(live.a, ("p", 1), ("q", 2), (None, 3))
    live.write(live.b, ("p", 10), (None, 30))
    assert live.changes(1) == [(1, "p", 1, 10)]
    live.write(live.a, ("p", 5), ("p", 5))
    assert live.changes(1) == [(1, "p", 5, 10)]
    assert live.changes(1) == [(1, "p", 5, 10)]


def test_a_row_of_an_outer_join_loses_its_padding(live: Live) -> None:
    live.start("SELECT a.k, a.x, b.x AS y FROM a FULL JOIN b ON a.k = b.k")
    live.write(live.a, ("p", 1), (None, 3))
    assert live.changes(2) == [(1, "p", 1, None), (1, None, 3, None)]
    live.write(live.b, ("p", 10), ("r", 7))
    assert live.changes(3) == [(-1, "p", 1, None), (1, "p", 1, 10), (1, None, None, 7)]


def test_a_group_that_changes_is_joined_again(live: Live) -> None:
    live.start(
        "SELECT a.k, a.x, g.n FROM a LEFT JOIN "
        "(SELECT k, COUNT(*) AS n FROM b GROUP BY k) AS g ON a.k = g.k"
    )
    live.write(live.a, ("p", 1))
    assert live.changes(1) == [(1, "p", 1, None)]
    live.write(live.b, ("p", 0))
    assert live.changes(2) == [(-1, "p", 1, None), (1, "p", 1, 1)]
    live.write(live.b, ("p", 0), ("q", 0))
    assert live.changes(2) == [(-1, "p", 1, 1), (1, "p", 1, 2)]


def test_not_in_knows_rows_with_null(live: Live) -> None:
    live.start("SELECT x FROM a WHERE x NOT IN (SELECT x FROM b)")
    live.write(live.a, ("p", 1), ("p", 2), ("p", None))
    assert live.changes(3) == [(1, 1), (1, 2), (1, None)]  # the subquery has no rows
    live.write(live.b, ("p", 1))
    assert live.changes(2) == [(-1, 1), (-1, None)]
    live.write(live.b, ("p", None))
    assert live.changes(1) == [(-1, 2)]


def test_exists_follows_the_rows_of_its_subquery(live: Live) -> None:
    live.start(
        "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM "
        "(SELECT k, COUNT(*) AS n FROM b GROUP BY k) AS g WHERE g.k = a.k AND n = 1)"
    )
    live.write(live.a, ("p", 1), ("p", 2))
    live.write(live.b, ("p", 0))
    assert live.changes(1) == [(2, "p")]
    live.write(live.b, ("p", 0))
    assert live.changes(1) == [(-2, "p")]


def test_a_scalar_subquery_changes_the_rows(live: Live) -> None:
    live.start("SELECT k, x FROM a WHERE x >= (SELECT MAX(x) FROM b)")
    live.write(live.a, ("p", 1), ("q", 5))
    live.write(live.b, ("r", 1))
    assert live.changes(2) == [(1, "p", 1), (1, "q", 5)]
    live.write(live.b, ("r", 3))
    assert live.changes(1) == [(-1, "p", 1)]


def test_a_second_row_of_a_scalar_subquery_is_an_error(live: Live) -> None:
    live.start("SELECT a.k, (SELECT b.x FROM b WHERE b.k = a.k) AS y FROM a")
    live.write(live.a, ("p", 1))
    assert live.changes(1) == [(1, "p", None)]
    live.write(live.b, ("p", 7))
    assert live.changes(2) == [(-1, "p", None), (1, "p", 7)]
    live.write(live.b, ("p", 8))
    with pytest.raises(runnel.DataError, match="more than one row") as error:
        live.changes(1)
    assert error.value.position is not None


def test_a_table_on_the_left_keeps_its_rows(live: Live) -> None:
    live.connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES ('p'), ('q')) v(k)")
    live.start("SELECT t.k, COUNT(a.x) AS n FROM t LEFT JOIN a ON t.k = a.k GROUP BY t.k")
    assert live.changes(2) == [(1, "p", 0), (1, "q", 0)]
    live.write(live.a, ("q", 1), ("q", 2))
    assert live.changes(2) == [(-1, "q", 0), (1, "q", 2)]


def test_explain_names_the_arrangements(live: Live) -> None:
    query = "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND a.x < b.x EMIT CHANGES"
    plan = "\n".join(row[0] for row in live.connection.execute(f"EXPLAIN (PHYSICAL) {query}"))
    assert "Live left join (emits: changes; on: k = k; where: x < x" in plan
    assert "arrangements: first input by k, second input by k" in plan


def test_a_table_joins_changing_groups_without_an_arrangement(live: Live) -> None:
    live.connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES ('p', 1)) v(k, x)")
    query = (
        "SELECT t.x, n FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) g "
        "JOIN t ON t.k = g.k EMIT CHANGES"
    )
    plan = "\n".join(row[0] for row in live.connection.execute(f"EXPLAIN (PHYSICAL) {query}"))
    assert "Inner join by hash (emits: changes" in plan
    live.start(query.removesuffix(" EMIT CHANGES"))
    live.write(live.a, ("p", 1))
    assert live.changes(1) == [(1, 1, 1)]
    live.write(live.a, ("p", 1))
    assert live.changes(2) == [(-1, 1, 1), (1, 1, 2)]


def test_not_in_with_several_columns_is_refused(live: Live) -> None:
    with pytest.raises(runnel.NotSupportedError, match=r"NOT IN .* can't be maintained") as error:
        live.start("SELECT x FROM a WHERE (k, x) NOT IN (SELECT k, x FROM b)")
    assert "EXISTS" in (error.value.hint or "")
    assert error.value.position is not None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.k FROM a JOIN b ON a.x < b.x",
        "SELECT a.k FROM a CROSS JOIN b",
        "SELECT a.k FROM a FULL JOIN b ON a.x < b.x",
        "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.x < b.x)",
    ],
)
def test_a_join_without_equality_must_be_allowed(live: Live, query: str) -> None:
    with pytest.raises(runnel.NotSupportedError, match="needs an equality") as error:
        live.connection.execute(f"{query} EMIT CHANGES")
    assert error.value.position is not None
    allowed = f"{query} EMIT CHANGES OPTIONS ('allowUnboundedState' = 'true')"
    with live.connection.execute(allowed) as cursor:
        live.write(live.b, ("q", 5))
        live.write(live.a, ("p", 1))
        assert any(cursor.fetchone()[1:] == (1, "p") for _ in range(4))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM a WHERE x = (SELECT MAX(x) FROM b)",
        "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b)",
        "SELECT k FROM a WHERE x NOT IN (SELECT x FROM b)",
        "SELECT a.k FROM a JOIN (SELECT COUNT(*) AS n FROM b) AS c ON a.x < c.n",
    ],
)
def test_one_row_is_compared_with_all(live: Live, query: str) -> None:
    live.connection.execute(f"{query} EMIT CHANGES").close()


def test_keys_of_joins(live: Live) -> None:
    con = live.connection
    con.execute("CREATE TABLE own (k VARCHAR PRIMARY KEY, n BIGINT, m BIGINT)")
    con.execute("CREATE TABLE pairs (k VARCHAR, x BIGINT, n BIGINT, PRIMARY KEY (k, x))")
    groups = "(SELECT k, COUNT(*) AS n FROM {} GROUP BY k) AS {}"
    left, right = groups.format("a", "l"), groups.format("b", "r")
    for kind in ("", "LEFT "):
        con.execute(
            f"CREATE JOB j{len(kind)} AS INSERT INTO own SELECT l.k, l.n, r.n FROM {left} "
            f"{kind}JOIN {right} ON l.k = r.k"
        )
    several = "(SELECT k, x, COUNT(*) AS n FROM b GROUP BY k, x) AS r"
    con.execute(
        f"CREATE JOB p AS INSERT INTO pairs SELECT l.k, r.x, l.n FROM {left} JOIN {several} "
        "ON l.k = r.k"
    )
    with pytest.raises(runnel.NotSupportedError, match="may have the same key"):
        con.execute(
            f"CREATE JOB q AS INSERT INTO own SELECT l.k, l.n, r.n FROM {left} JOIN {several} "
            "ON l.k = r.k"
        )
