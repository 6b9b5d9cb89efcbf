"""Flink's forms over streams: a group window of a stream has the rows of a table."""

from __future__ import annotations

from pathlib import Path

import runnel
from tests.jobs.feeds import PATIENCE
from tests.waiting import eventually

WINDOW = "TUMBLE(ts, INTERVAL '1' MINUTE)"
QUERY = (
    "SELECT page, TUMBLE_START(ts, INTERVAL '1' MINUTE) AS s, COUNT(*) AS n "
    f"FROM {{}} WHERE page <> 'x' GROUP BY {WINDOW}, page"
)


def test_a_group_window_in_a_job(tmp_path: Path) -> None:
    clicks = tmp_path / "clicks"
    clicks.mkdir()
    (clicks / "1.csv").write_text(
        "a,2024-01-01 00:00:01\na,2024-01-01 00:00:59\nx,2024-01-01 00:00:59\n"
        "b,2024-01-01 00:01:00\na,2024-01-01 00:02:30\n"
    )
    table = (
        "CREATE TABLE {} (page STRING, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{clicks}', 'format' = 'csv'{{}})"
    )
    with runnel.connect() as connection:
        connection.execute(table.format("stored", ""))
        connection.execute(table.format("clicks", ", 'source.monitor-interval' = '10 ms'"))
        connection.execute("CREATE TABLE out (page VARCHAR, s TIMESTAMP, n BIGINT)")
        connection.execute(
            "CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '50') AS INSERT INTO out "
            + QUERY.format("clicks")
        )
        expected = connection.execute(QUERY.format("stored") + " ORDER BY s, page").fetchall()[:2]
        rows = "SELECT * FROM out ORDER BY s, page"
        assert eventually(lambda: len(connection.execute(rows).fetchall()) == 2, PATIENCE)
        assert connection.execute(rows).fetchall() == expected
