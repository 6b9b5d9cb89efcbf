"""The example of docs/contributing.md: a job that is suspended and resumes with its state."""

from __future__ import annotations

from pathlib import Path

import runnel
from runnel import JobStatus
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.waiting import eventually


def test_a_limit_resumes(tmp_path: Path) -> None:
    feed = Feed()
    with runnel.connect(tmp_path / "directory") as connection:
        connection.add_connector(FeedConnector(feed=(feed,)))
        connection.execute("CREATE MAPPING feed TYPE Feed")
        connection.execute(
            "CREATE MAPPING out (k BIGINT, ts BIGINT) TYPE File "
            f"OPTIONS ('format' = 'csv', 'path' = '{tmp_path}/out', 'ignoreFileNotFound' = 'true')"
        )
        connection.execute("CREATE JOB j AS INSERT INTO out SELECT k, ts FROM feed LIMIT 3")
        feed.give((1, 10), (2, 20))
        job = connection.job("j")
        assert eventually(lambda: job.metrics()["limit"].rows_in == 2)
        connection.execute("ALTER JOB j SUSPEND")  # takes a snapshot
        assert job.await_status(JobStatus.SUSPENDED, PATIENCE)
        state = connection.execute("SELECT to_pass FROM TABLE(JOB_STATE('j', 'limit'))")
        assert state.fetchall() == [(1,)]
        connection.execute("ALTER JOB j RESUME")
        feed.give((3, 30), (4, 40))
        job.join(PATIENCE)
        assert connection.execute("SELECT k FROM out ORDER BY k").fetchall() == [(1,), (2,), (3,)]
