"""Whole jobs in trouble: what SHOW JOBS says meanwhile is true, and in the end the sink has what it
has without the trouble."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel import Connection, JobStatus
from runnel.testing import ManualClock
from tests.jobs.feeds import PATIENCE, Feed, FeedConnector
from tests.waiting import eventually

SECOND = 1_000_000_000
COUNTS = (
    "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE feed, DESCRIPTOR(ts), 10)) "
    "GROUP BY window_end"
)
WANTED = [(end, 10) for end in range(10, 101, 10)]


class Shop:
    """A connection to a directory whose clock is the test's, a feed, and a job that counts its rows
    into a file by windows."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock(wall_start=1_700_000_000_000_000)
        self.feed = Feed()
        self.path = path
        self.connection: Connection = runnel.connect(
            path / "directory", query_parallelism=2, clock=self.clock
        )
        self.connection.add_connector(FeedConnector(feed=(self.feed,)))
        self.connection.execute("CREATE MAPPING feed TYPE Feed")
        self.connection.execute(
            "CREATE MAPPING out (till BIGINT, n BIGINT) TYPE File "
            f"OPTIONS ('format'='csv', 'path'='{path}/out', 'ignoreFileNotFound'='true')"
        )
        self.connection.execute(
            f"CREATE JOB j OPTIONS ('snapshotIntervalMillis'='500') AS INSERT INTO out {COUNTS}"
        )
        self.job = self.connection.job("j")

    def give(self, first: int, last: int) -> None:
        """Rows at each time; the sink has got the windows that these complete."""
        done = self.job.rows_out - len(self.feed.rows) // 10
        self.feed.give(*((1, time) for time in range(first, last)))
        assert eventually(lambda: self.job.rows_out == done + (last - 1) // 10)

    def shown(self) -> dict[str, Any]:
        cursor = self.connection.execute("SHOW JOBS FULL")
        names = [column[0] for column in cursor.description or ()]
        (row,) = [
            row
            for row in (dict(zip(names, row, strict=True)) for row in cursor.fetchall())
            if row["name"] == "j"
        ]
        return row

    def rows(self) -> list[tuple[Any, ...]]:
        return self.connection.execute("SELECT * FROM out ORDER BY 1, 2").fetchall()

    def snapshot(self) -> None:
        before = self.job.last_snapshot
        self.clock.advance(500_000_000)

        def done() -> bool:
            self.clock.advance(1)
            return self.job.last_snapshot is not before

        assert eventually(done)

    def finished(self) -> list[tuple[Any, ...]]:
        self.feed.end()
        self.job.join(PATIENCE)
        return self.rows()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.connection.close()


def test_without_trouble(shop: Shop) -> None:
    shop.give(0, 100)
    assert shop.finished() == WANTED
    assert (shop.shown()["status"], shop.shown()["restarts"], shop.shown()["last_error"]) == (
        "COMPLETED",
        0,
        None,
    )


def test_the_source_is_down_for_a_minute(shop: Shop) -> None:
    shop.give(0, 45)
    shop.snapshot()
    started = shop.clock.monotonic()
    for attempt, delay in enumerate((1, 2, 4, 8, 16, 32)):
        shop.feed.fail(f"no broker answers (attempt {attempt})")
        assert shop.job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
        row = shop.shown()
        assert (row["status"], row["restarts"], row["uptime"]) == ("NOT_RUNNING", attempt, None)
        assert row["last_error"].startswith(f"no broker answers (attempt {attempt})")
        shop.clock.advance(delay * SECOND)
        assert shop.job.await_status(JobStatus.RUNNING, PATIENCE)
    assert shop.clock.monotonic() - started >= 60 * SECOND
    assert (shop.shown()["status"], shop.shown()["restarts"]) == ("RUNNING", 6)
    shop.feed.give(*((1, time) for time in range(45, 100)))
    assert shop.finished() == WANTED
    assert shop.shown()["restarts"] == 6


def test_the_folder_of_the_sink_is_gone_for_a_minute(shop: Shop) -> None:
    """A file stands where it was, so that it can't be made again."""
    shop.give(0, 45)
    shop.snapshot()
    assert eventually(lambda: shop.rows() == WANTED[:4])
    (shop.path / "out").rename(shop.path / "away")
    (shop.path / "out").write_text("no folder")
    shop.feed.give(*((1, time) for time in range(45, 75)))
    until = shop.clock.monotonic() + 60 * SECOND

    def passed() -> bool:
        shop.clock.advance(SECOND)
        return shop.clock.monotonic() >= until and shop.job.status is JobStatus.NOT_RUNNING

    assert eventually(passed, 60)
    row = shop.shown()
    assert row["restarts"] >= 1 and str(shop.path / "out") in row["last_error"]
    (shop.path / "out").unlink()
    (shop.path / "away").rename(shop.path / "out")

    def runs() -> bool:
        shop.clock.advance(SECOND)
        return shop.job.status is JobStatus.RUNNING and len(shop.rows()) == 7

    assert eventually(runs, 60)
    shop.feed.give(*((1, time) for time in range(75, 100)))
    assert shop.finished() == WANTED
    assert shop.shown()["restarts"] > 0


def test_the_clock_goes_back_a_day(shop: Shop) -> None:
    """Snapshots, delays and windows go on; what is shown is never negative."""
    shop.give(0, 45)
    shop.snapshot()
    shop.clock._wall_offset -= 86_400_000_000
    shop.give(45, 75)
    shop.snapshot()
    assert eventually(lambda: shop.rows() == WANTED[:7])
    shop.feed.fail("no broker answers")
    assert shop.job.await_status(JobStatus.NOT_RUNNING, PATIENCE)
    shop.clock.advance(SECOND)
    assert shop.job.await_status(JobStatus.RUNNING, PATIENCE)
    row = shop.shown()
    assert row["uptime"].total_seconds() >= 0 and row["snapshot_age"].total_seconds() >= 0
    shop.feed.give(*((1, time) for time in range(75, 100)))
    assert shop.finished() == WANTED
    again = shop.connection
    again.execute(f"CREATE JOB j AS INSERT INTO out {COUNTS}")
    assert again.job("j") is not shop.job and again.job("j").id != shop.job.id
    again.job("j").join(PATIENCE)
