"""The example of docs/contributing.md: a job that continues with its state after it was suspended,
and after a failure."""

from __future__ import annotations

from pathlib import Path

import runnel
from runnel import Connection, JobStatus, NamedJob
from runnel.testing import ManualClock
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.waiting import eventually

SECOND = 1_000_000_000


def started(connection: Connection, path: Path, feed: Feed) -> NamedJob:
    connection.add_connector(FeedConnector(feed=(feed,)))
    connection.execute("CREATE MAPPING feed TYPE Feed")
    connection.execute(
        "CREATE MAPPING out (k BIGINT, ts BIGINT) TYPE File "
        f"OPTIONS ('format' = 'csv', 'path' = '{path}/out', 'ignoreFileNotFound' = 'true')"
    )
    connection.execute("CREATE JOB j AS INSERT INTO out SELECT k, ts FROM feed LIMIT 3")
    return connection.job("j")


def test_a_limit_resumes(tmp_path: Path) -> None:
    feed = Feed()
    with runnel.connect(tmp_path / "directory") as connection:
        job = started(connection, tmp_path, feed)
        feed.give((1, 10), (2, 20))
        assert eventually(lambda: job.metrics()["limit"].rows_in == 2)
        connection.execute("ALTER JOB j SUSPEND")  # takes a snapshot
        assert job.await_status(JobStatus.SUSPENDED, PATIENCE)
        state = connection.execute("SELECT to_pass FROM TABLE(JOB_STATE('j', 'limit'))")
        assert state.fetchall() == [(1,)]
        connection.execute("ALTER JOB j RESUME")
        feed.give((3, 30), (4, 40))
        job.join(PATIENCE)
        assert connection.execute("SELECT k FROM out ORDER BY k").fetchall() == [(1,), (2,), (3,)]


def test_a_limit_restarts(tmp_path: Path) -> None:
    clock, feed = ManualClock(), Feed()
    with runnel.connect(tmp_path / "directory", clock=clock) as connection:
        job = started(connection, tmp_path, feed)
        feed.give((1, 10), (2, 20))
        assert eventually(lambda: job.metrics()["limit"].rows_in == 2)
        clock.advance(10 * SECOND)  # the default interval of snapshots
        assert eventually(lambda: job.last_snapshot is not None)
        feed.fail("the source is down")
        assert job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
        clock.advance(SECOND)  # the delay of the first restart
        assert job.await_status(JobStatus.RUNNING, PATIENCE)
        feed.give((3, 30), (4, 40))
        job.join(PATIENCE)
        assert connection.execute("SELECT k FROM out ORDER BY k").fetchall() == [(1,), (2,), (3,)]
