"""Flink's forms over streams: a group window of a stream has the rows of a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import runnel
from runnel.testing import ManualClock
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


START = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def available(cursor: runnel.Cursor) -> list[Any]:
    try:
        return cursor.fetchmany(100, timeout=0)
    except runnel.FetchTimeoutError:
        return []


def test_the_processing_time_of_files_is_when_they_are_read(tmp_path: Path) -> None:
    """Rows have the time of the clock, windows over it close by it, and a look-up join accepts
    it."""
    clock = ManualClock(wall_start=START)
    with runnel.connect(clock=clock) as con:
        con.execute(
            "CREATE TABLE f (id BIGINT, p AS PROCTIME()) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path}', 'format' = 'csv', 'source.monitor-interval' = '100ms')"
        )
        con.execute("CREATE TABLE dim (id BIGINT, name VARCHAR)")
        con.execute("INSERT INTO dim VALUES (1, 'a')")
        windows = con.execute(
            "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE f, DESCRIPTOR(p), "
            "INTERVAL '10' SECOND)) GROUP BY window_start, window_end"
        )
        rows = con.execute(
            "SELECT o.id, d.name, o.p FROM f AS o "
            "LEFT JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.id = d.id"
        )
        counts: list[Any] = []
        for second in range(40):
            con.settle()
            counts += available(windows)
            if second in (1, 7, 15, 29):
                (tmp_path / f"{second}.csv").write_text("1\n2\n")
            clock.advance(SECOND)
        found = available(rows)
        assert [row[:2] for row in found] == [(1, "a"), (2, None)] * 4
        assert [row[2] for row in found] == sorted(row[2] for row in found)
        assert [int((row[2] - START).total_seconds()) // 10 for row in found[::2]] == [0, 0, 1, 3]
        assert counts == [(START + 10 * SECOND, 4), (START + 20 * SECOND, 2)]


def test_the_processing_time_in_a_look_up_join_of_generated_rows() -> None:
    with runnel.connect() as con:
        con.execute(
            "CREATE TABLE o (id BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', "
            "'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '3')"
        )
        con.execute("CREATE TABLE dim (id BIGINT, name VARCHAR)")
        con.execute("INSERT INTO dim VALUES (2, 'b')")
        found = con.execute(
            "SELECT q.id, d.name FROM (SELECT id, p AS at FROM o WHERE id > 1) AS q "
            "LEFT JOIN dim FOR SYSTEM_TIME AS OF q.at AS d ON q.id = d.id"
        )
        assert found.fetchall() == [(2, "b"), (3, None)]
