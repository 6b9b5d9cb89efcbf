"""Materialized views: their rows are the answer of their query over all that was written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

import runnel
from runnel.testing import ManualClock
from tests.effort import some
from tests.jobs.feeds import PATIENCE

CLICKS = {"page": "VARCHAR", "x": "BIGINT"}
QUERIES = {
    "groups": "SELECT page, COUNT(*) AS n, MAX(x) AS most FROM clicks GROUP BY page",
    "groups without a key": "SELECT COUNT(*) AS n, MAX(x) AS most FROM clicks GROUP BY page",
    "rows": "SELECT page, x % 3 AS r FROM clicks WHERE x > 2",
    "having": "SELECT page, SUM(x) AS s FROM clicks GROUP BY page HAVING SUM(x) % 2 = 0",
    "groups of groups": "SELECT n, COUNT(*) AS c FROM "
    "(SELECT page, COUNT(*) AS n FROM clicks GROUP BY page) GROUP BY n",
    "latest": "SELECT page, x FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY x DESC)"
    " AS r FROM clicks) WHERE r = 1",
    "top": "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page ORDER BY n DESC, page LIMIT 2",
    "distinct": "SELECT DISTINCT page FROM clicks",
    "join": "SELECT page, x, title FROM clicks JOIN titles USING (page)",
    "grouped join": "SELECT title, COUNT(*) AS n FROM clicks LEFT JOIN titles USING (page) "
    "GROUP BY title",
    "one row": "SELECT COUNT(*) AS n, SUM(x) AS s FROM clicks",
    "texts": "SELECT page, STRING_AGG(x::VARCHAR, ',' ORDER BY x) AS t FROM clicks GROUP BY page",
}
TITLES = [("a", "A"), ("b", "B"), ("c", "B")]


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect(clock=ManualClock()) as made:
        made.execute("CREATE TABLE titles (page VARCHAR PRIMARY KEY, title VARCHAR)")
        made.executemany("INSERT INTO titles VALUES (?, ?)", TITLES)
        yield made


@pytest.fixture
def oracle() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute("CREATE TABLE titles (page VARCHAR, title VARCHAR)")
        made.executemany("INSERT INTO titles VALUES (?, ?)", TITLES)
        made.execute("CREATE TABLE clicks (page VARCHAR, x BIGINT)")
        yield made


def rows_of(connection: runnel.Connection, query: str) -> Counter[tuple[object, ...]]:
    return Counter(connection.execute(query).fetchall())


@pytest.mark.parametrize("seed", some(range(10), every=5))
@pytest.mark.parametrize("name", QUERIES)
def test_a_read_has_all_that_was_written(
    con: runnel.Connection, oracle: runnel.Connection, name: str, seed: int
) -> None:
    rng = random.Random(f"{name} {seed}")
    clicks = con.register_stream("clicks", CLICKS)
    con.execute(f"SET query_parallelism = {rng.randint(1, 3)}")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {QUERIES[name]}")
    for _ in range(8):
        rows = [(rng.choice("abcd"), rng.randrange(50)) for _ in range(rng.randrange(5))]
        if rows:
            clicks.write(rows)
            oracle.executemany("INSERT INTO clicks VALUES (?, ?)", rows)
        if rng.random() < 0.7:
            assert rows_of(con, "SELECT * FROM v") == rows_of(oracle, QUERIES[name])
    clicks.close()
    assert rows_of(con, "SELECT * FROM v") == rows_of(oracle, QUERIES[name])


@pytest.mark.parametrize("seed", some(range(6), every=3))
def test_views_over_views(con: runnel.Connection, oracle: runnel.Connection, seed: int) -> None:
    rng = random.Random(seed)
    clicks = con.register_stream("clicks", CLICKS)
    views = {
        "v": "SELECT page, COUNT(*) AS n, MAX(x) AS most FROM clicks GROUP BY page",
        "w": "SELECT n, COUNT(*) AS c, SUM(most) AS s FROM v GROUP BY n",
        "u": "SELECT v.page, v.n, c FROM v JOIN w ON v.n = w.n WHERE v.page <> 'a'",
        "t": "SELECT v.page, title FROM v LEFT JOIN titles ON v.page = titles.page",
    }
    for name, query in views.items():
        con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        oracle.execute(f"CREATE VIEW {name} AS {query}")
    for _ in range(6):
        rows = [(rng.choice("abcd"), rng.randrange(50)) for _ in range(rng.randrange(1, 5))]
        clicks.write(rows)
        oracle.executemany("INSERT INTO clicks VALUES (?, ?)", rows)
        name = rng.choice(list(views))
        assert rows_of(con, f"SELECT * FROM {name}") == rows_of(oracle, f"SELECT * FROM {name}")
    for name in views:
        assert rows_of(con, f"SELECT * FROM {name}") == rows_of(oracle, f"SELECT * FROM {name}")


def test_all_scans_of_a_statement_read_one_epoch(con: runnel.Connection) -> None:
    """Each epoch of the view has transfers, whose sum is 0."""
    moves = con.register_stream("moves", {"account": "BIGINT", "amount": "BIGINT"})
    con.execute(
        "CREATE MATERIALIZED VIEW balances OPTIONS ('epochMillis' = '0') AS "
        "SELECT account, SUM(amount) AS balance FROM moves GROUP BY account"
    )
    con.execute("CREATE MATERIALIZED VIEW total AS SELECT SUM(balance) AS s FROM balances")
    rng = random.Random(1)
    con.execute("SET view_freshness = 'latest'")
    moves.write([(0, 0)])
    for number in range(100):
        amount = rng.randrange(100)
        moves.write([(number % 7, amount), (rng.randrange(7), -amount)])
        sums = con.execute(
            "SELECT (SELECT SUM(balance) FROM balances), (SELECT SUM(balance) FROM balances "
            "WHERE account < 3) + (SELECT SUM(balance) FROM balances WHERE account >= 3)"
        ).fetchall()
        assert sums[0][0] in (0, None), sums
        assert sums[0][1] in (0, None), sums
        assert con.execute("SELECT s FROM total").fetchall() in ([(0,)], [(None,)])


def test_a_row_is_found_by_its_key(con: runnel.Connection) -> None:
    clicks = con.register_stream("clicks", CLICKS)
    con.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT page, x % 2 AS odd, COUNT(*) AS n FROM clicks "
        "GROUP BY page, x % 2"
    )
    clicks.write([("a", 1), ("a", 2), ("a", 3), (None, 2)])
    find = "SELECT n, page FROM v WHERE page = ? AND odd = ?"
    assert con.execute(find, ("a", 1)).fetchall() == [(2, "a")]
    assert con.execute(find, ("a", 7)).fetchall() == []
    assert con.execute(find, ("b", 1)).fetchall() == []
    assert con.execute(find, (None, 0)).fetchall() == []
    assert con.execute("SELECT n FROM v WHERE odd = 1.0 AND page = 'a'").fetchall() == [(2,)]
    assert con.execute("SELECT n FROM v WHERE odd = 1.5 AND page = 'a'").fetchall() == []
    assert con.execute(f"SELECT n FROM v WHERE odd = {2**64} AND page = 'a'").fetchall() == []
    assert "without a job" in str(con.execute(f"EXPLAIN {find}", ("a", 1)).fetchall())
    clicks.write([("a", 5), ("b", 4)])
    assert con.execute(find, ("a", 1)).fetchall() == [(3, "a")]
    assert con.execute(find, ("b", 0)).fetchall() == [(1, "b")]
    joined = con.execute(
        "SELECT k, n FROM (VALUES ('a'), ('c'), ('b')) AS t(k) LEFT JOIN v ON v.page = k "
        "WHERE odd = 0 OR odd IS NULL ORDER BY k"
    ).fetchall()
    assert joined == [("a", 1), ("b", 1), ("c", None)]


def test_rows_that_leave_and_return(con: runnel.Connection) -> None:
    """Keys that have no row are forgotten."""
    clicks = con.register_stream("clicks", CLICKS)
    con.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT page, x, COUNT(*) AS n FROM clicks GROUP BY page, x "
        "ORDER BY x DESC LIMIT 3"
    )
    for start in range(0, 6000, 1500):
        clicks.write([("a", number) for number in range(start, start + 1500)])
        end = start + 1500
        assert con.execute("SELECT x FROM v ORDER BY x").fetchall() == [
            (end - 3,),
            (end - 2,),
            (end - 1,),
        ]
    assert con.execute("SELECT n FROM v WHERE page = 'a' AND x = 5999").fetchall() == [(1,)]
    assert con.execute("SELECT n FROM v WHERE page = 'a' AND x = 1").fetchall() == []


@pytest.mark.parametrize("seed", some(range(4), every=2))
def test_the_changes_begin_with_the_content(con: runnel.Connection, seed: int) -> None:
    rng = random.Random(seed)
    clicks = con.register_stream("clicks", CLICKS)
    con.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page"
    )
    for _ in range(3):
        clicks.write([(rng.choice("abcd"), 1) for _ in range(3)])
    cursor = con.cursor().execute("SELECT * FROM v EMIT CHANGES OPTIONS ('epochMillis' = '0')")
    added: Counter[tuple[object, ...]] = Counter()
    for number in range(4):
        expected = rows_of(con, "SELECT * FROM v")
        while +added != expected:
            epoch, weight, *row = cursor.fetchone(timeout=PATIENCE)
            added[tuple(row)] += weight
            assert epoch > 1 or weight > 0
        clicks.write([(rng.choice("abcde"), number)])
    cursor.close()


def test_a_view_over_tables_is_computed_once(con: runnel.Connection) -> None:
    con.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT title, COUNT(*) AS n FROM titles GROUP BY title"
    )
    assert rows_of(con, "SELECT * FROM v") == Counter([("A", 1), ("B", 2)])
    con.execute("INSERT INTO titles VALUES ('d', 'D')")
    assert rows_of(con, "SELECT * FROM v") == Counter([("A", 1), ("B", 2)])
    assert con.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][:4] == ("v", "RUNNING", 2, "title")


def test_changes_of_a_map(con: runnel.Connection) -> None:
    con.execute("CREATE MAPPING m (__key VARCHAR, x BIGINT) TYPE IMap")
    columns = [row[0] for row in con.execute("DESCRIBE SELECT * FROM TABLE(CHANGES(TABLE m))")]
    con.execute(
        f'CREATE MATERIALIZED VIEW v AS SELECT "{columns[0]}" AS k, COUNT(*) AS n '
        "FROM TABLE(CHANGES(TABLE m)) GROUP BY 1"
    )
    for number in range(1, 20):
        con.execute("SINK INTO m VALUES (?, ?)", ("a", number))
        assert con.execute("SELECT SUM(n) FROM v").fetchall() == [(number,)]
