"""A backup of a directory with a job on Spark: the copy continues from Spark's checkpoint in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import runnel
from tests.effort import takes_long
from tests.spark.jobs.test_streaming import START, Feed, follow, until

BACKUPS = 3
WINDOWS = """SELECT window_start, k, COUNT(*), SUM(v)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, k"""


@takes_long
@pytest.mark.timeout(240)
def test_restored_copies_continue_without_loss_or_repetition(session: Any, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    copies = []
    with runnel.connect(tmp_path / "db", spark=session) as connection:
        follow(connection, "events", feed.folder)
        connection.execute(
            "CREATE MAPPING out (ts TIMESTAMP, k VARCHAR, n BIGINT, total BIGINT) TYPE DuckDB"
        )
        connection.execute(
            f"CREATE JOB j OPTIONS ('runtime' = 'spark') AS INSERT INTO out {WINDOWS}"
        )
        for number in range(BACKUPS):
            first = 20 * number
            feed.add((first + 1, "a", 1), (first + 2, "a", number), (first + 11, "b", 2))
            if number % 2:  # otherwise the backup is made while Spark starts or runs the batch
                until(lambda number=number: count(connection) >= 2 * number, connection.job("j"))
            copies.append(tmp_path / f"copy-{number}")
            connection.execute(f"BACKUP TO '{copies[-1]}'")
        connection.job("j").cancel(60)
    feed.add((20 * BACKUPS + 100, "z", 9))
    expected = [
        row
        for number in range(BACKUPS)
        for row in ((20 * number, "a", 2, number + 1), (20 * number + 10, "b", 1, 2))
    ]
    for copy in copies:
        with runnel.connect(copy, spark=session) as connection:
            until(lambda: count(connection) >= len(expected), connection.job("j"))
            found = connection.execute("SELECT * FROM out ORDER BY ts, k").fetchall()
            connection.job("j").cancel(60)
        seconds = [(int((ts - START).total_seconds()), *rest) for ts, *rest in found]
        assert seconds == expected, copy


def count(connection: runnel.Connection) -> int:
    row = connection.execute("SELECT COUNT(*) FROM out").fetchone()
    return int(row[0])
