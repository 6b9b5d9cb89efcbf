"""Windows over TIMESTAMP_LTZ begin at midnight of UTC; in another time zone a notice shows the
offset with which they begin at the midnight of Flink."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

import runnel
from runnel import Connection

TIMES = [datetime(2026, 1, 5, 3), datetime(2026, 1, 5, 16)]
DAYS = (
    "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), {1})) "
    "GROUP BY window_start, window_end"
)
DAY = "INTERVAL '1' DAY"


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as made:
        made.execute("CREATE TABLE instants (ts TIMESTAMP_LTZ)")
        made.cursor().executemany("INSERT INTO instants VALUES (?)", [(time,) for time in TIMES])
        made.execute("SET 'table.local-time-zone' = 'Asia/Tokyo'")
        yield made


def notices(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [item.getMessage() for item in caplog.records if item.name == "runnel.job"]
    caplog.clear()
    return found


def test_the_offset_of_the_notice_aligns_the_windows(
    con: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    zone = ZoneInfo("Asia/Tokyo")
    found = con.execute(DAYS.format("instants", DAY)).fetchall()
    assert found == [(datetime(2026, 1, 5, 9, tzinfo=zone), 2)]
    assert notices(caplog) == [
        "the windows of ts begin at midnight of UTC, not of Asia/Tokyo: "
        "add the offset INTERVAL '-9' HOUR after the size"
    ]
    aligned = con.execute(DAYS.format("instants", f"{DAY}, INTERVAL '-9' HOUR")).fetchall()
    assert sorted(aligned) == [
        (datetime(2026, 1, 5, tzinfo=zone), 1),
        (datetime(2026, 1, 6, tzinfo=zone), 1),
    ]
    assert notices(caplog) == []


@pytest.mark.parametrize(
    ("zone", "window", "offset"),
    [
        ("Asia/Tokyo", "INTERVAL '1' HOUR", ""),
        ("Asia/Kolkata", "INTERVAL '1' HOUR", "'-5.5' HOUR after the size"),
        ("Asia/Kolkata", "INTERVAL '30' MINUTES", ""),
        ("America/Los_Angeles", DAY, "'8' HOUR after the size, and '7' in summer"),
        ("UTC", DAY, ""),
    ],
)
def test_the_notice_depends_on_the_zone_and_the_size(
    con: Connection, caplog: pytest.LogCaptureFixture, zone: str, window: str, offset: str
) -> None:
    con.execute(f"SET 'table.local-time-zone' = '{zone}'")
    con.execute(DAYS.format("instants", window)).fetchall()
    found = [text.partition("offset INTERVAL ")[2] for text in notices(caplog)]
    assert found == ([offset] if offset else [])


def test_no_notice_for_local_times_and_sessions(
    con: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    con.execute("CREATE VIEW local AS SELECT CAST(ts AS TIMESTAMP) AS ts FROM instants")
    con.execute(DAYS.format("local", DAY)).fetchall()
    session = DAYS.replace("TUMBLE", "SESSION").format("instants", DAY)
    con.execute(session).fetchall()
    assert notices(caplog) == []


def test_a_job_has_the_notice(con: Connection, caplog: pytest.LogCaptureFixture) -> None:
    writer = con.register_stream("clicks", {"ts": "TIMESTAMPTZ"}, time_column="ts")
    con.execute("CREATE TABLE days (w TIMESTAMP_LTZ, n BIGINT)")
    con.execute("CREATE JOB counting AS INSERT INTO days " + DAYS.format("clicks", DAY))
    assert len(notices(caplog)) == 1
    writer.close()
    con.job("counting").join(20)
