"""Groups and values of INTERVAL in the state of a job: they are read again as they were."""

from __future__ import annotations

from pathlib import Path

import runnel
from tests.waiting import eventually

PATIENCE = 20
SPANS = ("1 month 2 days", "32 days", "", "-1 year 3 days", "5 hours", "2 months")
ROWS = 120
GROUPS = """
    SELECT window_end, i, count(*), min(i), max(i), sum(i), last(i ORDER BY n),
        array_agg(i ORDER BY n)
    FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '50' SECOND))
    GROUP BY window_end, i
"""
COLUMNS = (
    "(ts TIMESTAMP, n INT, i INTERVAL{watermark}) TYPE File "
    "OPTIONS ('path' = '{folder}', 'glob' = 'spans.csv'{options})"
)


def lines(start: int, end: int) -> str:
    return "".join(
        f"2024-01-01T00:{n // 60:02d}:{n % 60:02d},{n},{SPANS[n % len(SPANS)]}\n"
        for n in range(start, end)
    )


def test_groups_of_intervals_are_stored_with_a_job(tmp_path: Path) -> None:
    file = tmp_path / "spans.csv"
    file.write_text("ts,n,i\n" + lines(0, 30))
    followed = COLUMNS.format(
        watermark=", WATERMARK FOR ts AS ts - INTERVAL '0' SECOND",
        folder=tmp_path,
        options=", 'follow' = 'true'",
    )
    with runnel.connect(tmp_path / "kept") as connection:
        connection.execute(f"CREATE MAPPING spans {followed}")
        connection.execute(
            "CREATE MAPPING groups (window_end TIMESTAMP, i INTERVAL, n BIGINT, least INTERVAL,"
            " most INTERVAL, total INTERVAL, latest INTERVAL, listed INTERVAL[])"
            f" TYPE File OPTIONS ('path' = '{tmp_path}/groups', 'format' = 'json')"
        )
        connection.execute(f"CREATE JOB j AS INSERT INTO groups {GROUPS.format(table='spans')}")
        assert eventually(lambda: connection.job("j").rows_in == 30)
        connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    with file.open("a") as appended:
        appended.write(lines(30, ROWS))
    with runnel.connect(tmp_path / "kept") as connection:
        connection.execute("ALTER JOB j RESUME", timeout=PATIENCE)
        assert eventually(lambda: connection.job("j").rows_out == 10)
        connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
        found = connection.execute("SELECT * FROM groups ORDER BY window_end, i").fetchall()
        at_rest = COLUMNS.format(watermark="", folder=tmp_path, options="")
        connection.execute(f"CREATE MAPPING at_rest {at_rest}")
        expected = connection.execute(
            f"SELECT * FROM ({GROUPS.format(table='at_rest')}) AS t "
            "WHERE window_end <= TIMESTAMP '2024-01-01 00:01:40' ORDER BY window_end, i"
        ).fetchall()
    assert len(expected) == 2 * 5, "1 month 2 days and 32 days are one group"
    assert found == expected
