"""A key's windows come out in the order of their times, so that what replaces rows by key ends with
the last window."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

import runnel

START = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)", "window_end, k"),
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)", "k, window_start, window_end"),
        (
            "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '10' SECOND)",
            "window_end, k",
        ),
        (
            "SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)",
            "window_end, window_start, k",
        ),
    ],
)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_last_window_of_each_key_stays(table: str, keys: str, parallelism: int) -> None:
    with runnel.connect(query_parallelism=parallelism) as connection:
        columns = {"ts": "TIMESTAMP", "k": "BIGINT", "v": "BIGINT"}
        stream = connection.register_stream(
            "s", columns, time_column="ts", max_disorder=timedelta(0)
        )
        connection.execute(
            "CREATE MAPPING m (__key BIGINT, last TIMESTAMP, n BIGINT) TYPE IMap "
            "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
        )
        connection.execute(
            "CREATE JOB j AS SINK INTO m SELECT k, window_end, COUNT(DISTINCT v) "
            f"FROM TABLE({table}) GROUP BY {keys}"
        )
        cursor = connection.cursor().execute(
            f"SELECT k, window_end, SUM(v) FROM TABLE({table}) GROUP BY {keys}"
        )
        # All windows are complete at once, by the one watermark behind the rows.
        stream.write([(START + timedelta(seconds=5 * i), i % 7, i) for i in range(600)])
        stream.close()
        seen: dict[int, list[datetime]] = {}
        for k, end, _ in cursor.fetchall():
            seen.setdefault(k, []).append(end)
        connection.job("j").join(60)
        kept = dict(connection.execute("SELECT __key, last FROM m").fetchall())
    assert sorted(seen) == list(range(7))
    assert all(ends == sorted(ends) for ends in seen.values())
    assert kept == {k: ends[-1] for k, ends in seen.items()}
