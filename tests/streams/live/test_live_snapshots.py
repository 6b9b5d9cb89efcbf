"""Jobs whose result changes: after a failure, and after SUSPEND and RESUME with another
parallelism, the sink has what it would have without."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import runnel
from runnel import JobStatus
from runnel.testing import ManualClock
from tests.effort import some
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.waiting import eventually

SECOND = 1_000_000_000
GROUPS = "SELECT k, COUNT(*) AS n, MAX(ts) AS most FROM f GROUP BY k"
QUERIES = {
    "states": GROUPS,
    "rows": "SELECT k, COUNT(DISTINCT ts % 5), MEDIAN(ts)::BIGINT FROM f GROUP BY k",
    "changing rows": f"SELECT n, COUNT(*), MAX(k) FROM ({GROUPS}) GROUP BY n",
    "one row": "SELECT 1, COUNT(*), SUM(ts) FROM f",
    "one row of changing rows": f"SELECT 1, COUNT(*), SUM(n) FROM ({GROUPS})",
    "distinct": "SELECT k, 0, 0 FROM f GROUP BY k",
    "latest": "SELECT k, ts, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC)"
    " AS r FROM f) WHERE r = 1",
    "inner join": f"SELECT g.k, SUM(g.ts), COUNT(*) FROM g JOIN ({GROUPS}) AS c ON g.k = c.n "
    "GROUP BY g.k",
    "outer join": "SELECT COALESCE(c.k, d.k) AS k, MAX(c.n), MAX(d.n) FROM "
    "(SELECT k, COUNT(*) AS n FROM f GROUP BY k) AS c FULL JOIN "
    "(SELECT k, COUNT(*) AS n FROM g GROUP BY k) AS d ON c.k = d.k GROUP BY 1",
    "not in": "SELECT k, COUNT(*), SUM(ts) FROM f WHERE k NOT IN (SELECT k FROM g WHERE ts % 3 = 0)"
    " GROUP BY k",
    "union": "SELECT k, COUNT(*), SUM(n) FROM (SELECT k, n FROM "
    f"({GROUPS}) UNION ALL SELECT k, ts FROM g) AS u GROUP BY k",
}


def given(feeds: list[Feed], rng: random.Random) -> None:
    """Rows for some partitions."""
    for feed in feeds:
        if rng.random() < 0.7:
            feed.give(*((rng.randrange(8), rng.randrange(100)) for _ in range(rng.randint(1, 5))))


@pytest.mark.parametrize("seed", some(range(8), every=4))
@pytest.mark.parametrize("name", QUERIES)
def test_a_job_continues_with_its_state(name: str, seed: int, tmp_path: Path) -> None:
    rng, clock = random.Random(f"{name} {seed}"), ManualClock()
    feeds = {table: [Feed() for _ in range(2)] for table in ("f", "g")}
    every = [feed for parts in feeds.values() for feed in parts]
    query = QUERIES[name]
    with runnel.connect(tmp_path / "directory", clock=clock, query_parallelism=2) as connection:
        connection.add_connector(FeedConnector(**feeds))
        for table in feeds:
            connection.execute(f"CREATE MAPPING {table} TYPE Feed")
        connection.execute("CREATE TABLE own (k BIGINT PRIMARY KEY, n BIGINT, most BIGINT)")
        connection.execute(
            "CREATE JOB j OPTIONS ('processingGuarantee' = 'exactlyOnce') AS "
            f"INSERT INTO own {query}"
        )
        job = connection.job("j")
        for _ in range(3):
            given(every, rng)
            clock.advance(SECOND // 50)
            if rng.random() < 0.5:
                given(every, rng)
            if rng.random() < 0.5:
                connection.execute("ALTER JOB j SUSPEND")
                given(every, rng)
                connection.execute(f"SET query_parallelism = {rng.randint(1, 3)}")
                connection.execute("ALTER JOB j RESUME")
            else:
                before = job.last_snapshot
                clock.advance(10 * SECOND)  # the default interval of snapshots
                assert eventually(lambda: job.last_snapshot != before)  # noqa: B023
                given(every, rng)
                rng.choice(feeds["f"]).fail("the source is down")
                assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
                clock.advance(100 * SECOND)  # the delay of the restart
            assert job.await_status(JobStatus.RUNNING, PATIENCE)
        given(every, rng)
        for feed in every:
            feed.end()
        clock.advance(SECOND)
        job.join(PATIENCE)
        answer = connection.execute("SELECT * FROM own ORDER BY ALL").fetchall()
    with runnel.connect() as oracle:
        for table, parts in feeds.items():
            oracle.execute(f"CREATE TABLE {table} (k BIGINT, ts BIGINT)")
            rows = [row for part in parts for row in part.rows]
            if rows:
                oracle.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        expected = oracle.execute(f"SELECT * FROM ({query}) ORDER BY ALL").fetchall()
    if name == "latest":  # equal times have any order
        answer, expected = [row[:2] for row in answer], [row[:2] for row in expected]
    assert answer == expected
