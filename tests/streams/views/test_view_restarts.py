"""Materialized views after failures, restarts, and the end of their process: the rows are the ones
that they would have without."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import runnel
from runnel import JobStatus
from runnel.testing import ManualClock
from tests.effort import some
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.streams.live.test_live_snapshots import QUERIES, SECOND, given
from tests.waiting import eventually

OVER = "SELECT n, COUNT(*) AS c FROM v GROUP BY n"


@pytest.mark.parametrize("seed", some(range(6), every=6))
@pytest.mark.parametrize("name", QUERIES)
def test_a_view_continues_with_its_state(name: str, seed: int, tmp_path: Path) -> None:
    rng, clock = random.Random(f"{name} {seed}"), ManualClock()
    feeds = {table: [Feed() for _ in range(2)] for table in ("f", "g")}
    every = [feed for parts in feeds.values() for feed in parts]
    query = QUERIES[name].replace("MEDIAN(ts)::BIGINT", "MEDIAN(ts)::BIGINT AS most")
    with runnel.connect(tmp_path / "directory", clock=clock, query_parallelism=2) as connection:
        connection.add_connector(FeedConnector(**feeds))
        for table in feeds:
            connection.execute(f"CREATE MAPPING {table} TYPE Feed")
        connection.execute(f"CREATE MATERIALIZED VIEW v (k, n, most) AS {query}")
        connection.execute(f"CREATE MATERIALIZED VIEW w AS {OVER}")
        job = connection.job("v")
        assert eventually(lambda: job.last_snapshot is not None)  # of the first epoch
        for _ in range(3):
            given(every, rng)
            clock.advance(SECOND // 50)
            victim = rng.choice("vw")
            if rng.random() < 0.5:
                connection.execute(f"ALTER MATERIALIZED VIEW {victim} SUSPEND")
                given(every, rng)
                connection.execute(f"SET query_parallelism = {rng.randint(1, 3)}")
                connection.execute(f"ALTER MATERIALIZED VIEW {victim} RESUME")
            else:
                saves(job, clock)
                given(every, rng)
                rng.choice(feeds["f"]).fail("the source is down")
                assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
                clock.advance(100 * SECOND)  # the delay of the restart
            assert connection.job("v").await_status(JobStatus.RUNNING, PATIENCE)
        given(every, rng)
        for feed in every:
            feed.end()
        rows = {
            table: [row for part in parts for row in part.rows] for table, parts in feeds.items()
        }
        expected, over = answers(query, rows)
        connection.execute("SET view_freshness = 'latest'")

        def has(view: str, content: Counter[tuple[object, ...]]) -> bool:
            clock.advance(SECOND // 10)
            columns = "k, n" if view == "v" and name == "latest" else "*"
            return (
                Counter(connection.execute(f"SELECT {columns} FROM {view}").fetchall()) == content
            )

        if name == "latest":  # equal times have any order
            expected = Counter({row[:2]: count for row, count in expected.items()})
        assert eventually(lambda: has("v", expected)), (name, seed)
        assert eventually(lambda: has("w", over)), (name, seed)


def saves(job: runnel.NamedJob, clock: ManualClock) -> None:
    """Has the job take its next snapshot."""
    before = job.last_snapshot

    def has_saved() -> bool:
        clock.advance(SECOND)  # of an interval of ten seconds, which may begin after this one
        return job.last_snapshot != before

    assert eventually(has_saved, longest=0.02)


def answers(
    query: str, rows: dict[str, list[tuple[int, int]]]
) -> tuple[Counter[tuple[object, ...]], Counter[tuple[object, ...]]]:
    """The answer of the query over all rows, and of the view over it."""
    with runnel.connect() as oracle:
        for table, found in rows.items():
            oracle.execute(f"CREATE TABLE {table} (k BIGINT, ts BIGINT)")
            if found:
                oracle.executemany(f"INSERT INTO {table} VALUES (?, ?)", found)
        oracle.execute(f"CREATE VIEW v (k, n, most) AS {query}")
        return (
            Counter(oracle.execute("SELECT * FROM v").fetchall()),
            Counter(oracle.execute(OVER).fetchall()),
        )


PROCESS = """
import sys
import runnel

folder, files = sys.argv[1:]
connection = runnel.connect(folder)
cursor = connection.cursor()
if not cursor.execute("SHOW MAPPINGS").fetchall():
    cursor.execute(f'''CREATE MAPPING clicks (k BIGINT, ts BIGINT)
        TYPE File OPTIONS ('path'='{files}', 'format'='json', 'follow'='true')''')
cursor.execute('''CREATE MATERIALIZED VIEW IF NOT EXISTS counts
    OPTIONS ('snapshotIntervalMillis'='20') AS
    SELECT k, COUNT(*) AS n, MAX(ts) AS most FROM clicks GROUP BY k''')
cursor.execute('''CREATE MATERIALIZED VIEW IF NOT EXISTS sizes
    OPTIONS ('snapshotIntervalMillis'='30') AS
    SELECT n, COUNT(*) AS c FROM counts GROUP BY n''')
print("ready", flush=True)
if sys.stdin.readline() == "close\\n":
    connection.close()
    print("closed", flush=True)
"""


@pytest.mark.timeout(200)
def test_a_killed_process_and_a_closed_directory(tmp_path: Path) -> None:
    files, rng = tmp_path / "in", random.Random(7)
    files.mkdir()
    written: list[tuple[int, int]] = []
    for number, is_killed in enumerate((True, False, True)):
        command = [sys.executable, "-c", PROCESS, str(tmp_path / "db"), str(files)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        rows = [(rng.randrange(10), 1000 * number + i) for i in range(600)]
        written += rows
        with (files / f"{number}.json").open("w") as file:
            for start in range(0, len(rows), 100):
                file.writelines(
                    json.dumps({"k": k, "ts": ts}) + "\n" for k, ts in rows[start : start + 100]
                )
                file.flush()
                os.fsync(file.fileno())
        if is_killed:
            process.send_signal(signal.SIGKILL)
        else:
            process.stdin.write("close\n")
            process.stdin.flush()
            assert process.stdout.readline() == "closed\n"
        process.wait(20)
        process.stdin.close()
        process.stdout.close()
    counts = Counter(k for k, _ in written)
    most = dict(written)
    expected = sorted((k, n, most[k]) for k, n in counts.items())
    with runnel.connect(tmp_path / "db") as connection:
        assert eventually(
            lambda: connection.execute("SELECT * FROM counts ORDER BY k").fetchall() == expected, 60
        )
        sizes = sorted(Counter(counts.values()).items())
        assert eventually(
            lambda: connection.execute("SELECT * FROM sizes ORDER BY n").fetchall() == sizes, 60
        )
        [(first, *_), (second, *_)] = connection.execute("SHOW MATERIALIZED VIEWS").fetchall()
        assert (first, second) == ("counts", "sizes")


def test_the_content_is_there_when_a_directory_is_opened(tmp_path: Path) -> None:
    """Also of a view over tables that end: it is not computed again."""
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TABLE t (k BIGINT)")
        connection.execute("INSERT INTO t VALUES (1), (1), (2)")
        connection.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k"
        )
        connection.execute("CREATE MATERIALIZED VIEW same AS SELECT k FROM t")
        connection.execute("CREATE SCHEMA s")
        connection.execute("CREATE MATERIALIZED VIEW s.w AS SELECT n FROM v")
        assert connection.execute("SELECT * FROM s.w ORDER BY n").fetchall() == [(1,), (2,)]
        assert connection.execute("SELECT * FROM same ORDER BY k").fetchall() == [(1,), (1,), (2,)]
        connection.execute("INSERT INTO t VALUES (3)")
    with runnel.connect(tmp_path / "db") as connection:
        assert connection.execute("SELECT * FROM v ORDER BY k").fetchall() == [(1, 2), (2, 1)]
        assert connection.execute("SELECT * FROM same ORDER BY k").fetchall() == [(1,), (1,), (2,)]
        assert connection.execute("SELECT * FROM s.w ORDER BY n").fetchall() == [(1,), (2,)]
        assert connection.execute("SELECT n FROM v WHERE k = 1").fetchall() == [(2,)]
        connection.execute(
            "CREATE OR REPLACE MATERIALIZED VIEW same AS SELECT k FROM t WHERE k > 2"
        )
        assert connection.execute("SELECT * FROM same").fetchall() == [(3,)]
    with runnel.connect(tmp_path / "db") as connection:
        assert connection.execute("SELECT * FROM same").fetchall() == [(3,)]
        connection.execute("DROP MATERIALIZED VIEW s.w")
        connection.execute("DROP MATERIALIZED VIEW v")
        connection.execute("DROP MATERIALIZED VIEW same")
        assert connection.execute("SHOW JOBS").fetchall() == []
    with runnel.connect(tmp_path / "db") as connection:
        assert connection.execute("SHOW MATERIALIZED VIEWS").fetchall() == []
