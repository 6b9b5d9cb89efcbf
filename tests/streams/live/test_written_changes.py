"""Jobs that write the changes of a result: to tables with a key, and as a changelog."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

import runnel
from runnel.processors.live.changelog import changelog_order
from runnel.testing.clock import ManualClock
from tests.effort import some
from tests.jobs.feeds import PATIENCE
from tests.waiting import eventually

CLICKS = {"page": "VARCHAR", "x": "INTEGER", "ts": "TIMESTAMP"}
LATEST = (
    "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY x DESC) AS r "
    "FROM clicks) WHERE r = 1"
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def con(clock: ManualClock) -> Iterator[runnel.Connection]:
    with runnel.connect(clock=clock) as made:
        made.execute("CREATE TABLE own (page VARCHAR PRIMARY KEY, n BIGINT, most BIGINT)")
        made.execute("CREATE MAPPING m (__key VARCHAR, n BIGINT, most BIGINT) TYPE IMap")
        made.execute("CREATE TABLE given (page VARCHAR, x INTEGER, ts TIMESTAMP)")
        made.execute("CREATE TABLE p (page STRING, n BIGINT) WITH ('connector' = 'print')")
        yield made


@pytest.mark.parametrize(
    "query",
    [
        "SELECT page, COUNT(*) AS n, MAX(x) AS most FROM clicks GROUP BY page",
        "SELECT page, SUM(x) AS n, MIN(x) AS most FROM clicks GROUP BY page HAVING SUM(x) % 3 > 0",
        LATEST.format("page, x, x"),
        "SELECT MAX(page) AS page, n, COUNT(*) AS most FROM (SELECT page, COUNT(*) AS n FROM clicks"
        " GROUP BY page) GROUP BY n ORDER BY n DESC LIMIT 1",
        "SELECT page, COUNT(DISTINCT x), NULL FROM clicks WHERE page <> 'a' GROUP BY page",
    ],
)
@pytest.mark.parametrize("seed", some(range(20), every=10))
def test_a_keyed_table_has_the_answer(con: runnel.Connection, query: str, seed: int) -> None:
    if "LIMIT 1" in query:
        query = query.replace("MAX(page) AS page", "'top' AS page")
    rows = random.Random(seed)
    with runnel.connect() as oracle:
        oracle.execute("CREATE TABLE clicks (page VARCHAR, x INTEGER, ts TIMESTAMP)")
        clicks = con.register_stream("clicks", CLICKS)
        for name, target in (("j1", "INSERT INTO own"), ("j2", "SINK INTO m")):
            con.execute(f"CREATE JOB {name} AS {target} {query}")
        number = 0
        for _ in range(20):
            batch = [
                (rows.choice("abcd"), number := number + rows.randrange(1, 4), None)
                for _ in range(rows.randrange(1, 5))
            ]
            clicks.write(batch)
            oracle.cursor().executemany("INSERT INTO clicks VALUES (?, ?, ?)", batch)
        clicks.close()
        for name in ("j1", "j2"):
            con.job(name).join(PATIENCE)
        expected = sorted(oracle.execute(query).fetchall())
    assert sorted(con.execute("SELECT * FROM own").fetchall()) == expected
    assert sorted(con.execute("SELECT * FROM m").fetchall()) == expected


def test_a_table_follows_the_answer(con: runnel.Connection, clock: ManualClock) -> None:
    clicks = con.register_stream("clicks", CLICKS)
    query = "SELECT page, COUNT(*), MAX(x) FROM clicks GROUP BY page HAVING COUNT(*) < 3"
    con.execute(f"CREATE JOB j AS INSERT INTO own {query}")

    def holds(*expected: tuple[str, int, int]) -> bool:
        def is_so() -> bool:
            clock.advance(100_000_000)
            return sorted(con.execute("SELECT * FROM own").fetchall()) == sorted(expected)

        return eventually(is_so, PATIENCE)

    clicks.write([("a", 1, None), ("b", 2, None)])
    assert holds(("a", 1, 1), ("b", 1, 2))
    clicks.write([("a", 5, None)])
    assert holds(("a", 2, 5), ("b", 1, 2))
    clicks.write([("a", 6, None), ("c", 1, None)])
    assert holds(("b", 1, 2), ("c", 1, 1))


def test_print_writes_the_changelog(
    con: runnel.Connection, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    clicks = con.register_stream("clicks", CLICKS)
    [(_, name)] = con.execute(
        "INSERT INTO p SELECT page, COUNT(*) FROM clicks GROUP BY page HAVING COUNT(*) < 3"
    ).fetchall()
    lines: list[str] = []

    def printed(count: int) -> bool:
        clock.advance(20_000_000)
        lines.extend(capsys.readouterr().out.splitlines())
        return len(lines) >= count

    for number, count in ((1, 1), (2, 3), (3, 4)):
        clicks.write([("a", number, None)])
        assert eventually(lambda count=count: printed(count), PATIENCE)
    assert lines == ["+I[a, 1]", "-U[a, 1]", "+U[a, 2]", "-D[a, 2]"]
    clicks.close()
    con.job(name).join(PATIENCE)


def test_the_order_of_a_changelog() -> None:
    order, kinds = changelog_order(np.array([1, -1, -1, 2]), np.array([0, 1, 0, 2]))
    assert order.tolist() == [2, 0, 1, 3, 3]
    assert kinds.tolist() == [1, 2, 3, 0, 0]
    order, kinds = changelog_order(np.array([1, -2]), None)
    assert order.tolist() == [1, 1, 0]
    assert kinds.tolist() == [3, 3, 0]


@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        (
            "CREATE JOB j AS INSERT INTO own SELECT page, x, COUNT(*) FROM clicks GROUP BY page, x",
            "several rows of the result may have the same key \\(page\\)",
            "GROUP BY page",
        ),
        (
            "CREATE JOB j AS INSERT INTO given SELECT page, COUNT(*), NULL FROM clicks "
            "GROUP BY page",
            'can\'t be written to "given"',
            "a table with PRIMARY KEY",
        ),
        (
            "CREATE JOB j AS INSERT INTO own SELECT * FROM (SELECT page, COUNT(*), 1 FROM clicks "
            "GROUP BY page UNION ALL SELECT page, COUNT(*), 2 FROM clicks GROUP BY page)",
            "several rows of the result may have the same key",
            "that the query groups by",
        ),
    ],
)
def test_what_is_refused(con: runnel.Connection, statement: str, message: str, hint: str) -> None:
    con.register_stream("clicks", CLICKS)
    with pytest.raises(runnel.Error, match=message) as found:
        con.execute(statement)
    assert hint in (found.value.hint or "")


def test_a_snapshot_has_the_groups(con: runnel.Connection) -> None:
    clicks = con.register_stream("clicks", CLICKS)
    con.execute(
        "CREATE JOB j AS INSERT INTO own SELECT page, COUNT(*), 1 FROM clicks GROUP BY page"
    )
    clicks.write([("a", 1, None), ("a", 2, None)])
    assert eventually(lambda: con.job("j").metrics()["live aggregate"].rows_in == 2)
    con.execute("ALTER JOB j SUSPEND")
    assert con.job("j").await_status(runnel.JobStatus.SUSPENDED, PATIENCE)
    con.execute("ALTER JOB j RESUME")
    assert con.job("j").await_status(runnel.JobStatus.RUNNING, PATIENCE)
    clicks.write([("a", 1, None)])
    clicks.close()
    con.job("j").join(PATIENCE)
    assert con.execute("SELECT * FROM own").fetchall() == [("a", 3, 1)]
