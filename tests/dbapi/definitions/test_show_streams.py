"""SHOW JOBS of queries on streams: how far event time is, who holds it back, what came too late,
how long rows take."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import runnel
from tests.waiting import eventually

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
COUNTS = (
    "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), "
    "INTERVAL '1' MINUTE)) GROUP BY window_end"
)


def minute(number: float) -> datetime:
    return datetime(2026, 1, 1) + timedelta(minutes=number)


def shown(connection: runnel.Connection) -> dict[str, Any]:
    """The one job that runs."""
    cursor = connection.cursor().execute("SHOW JOBS FULL")
    (row,) = cursor.fetchall()
    return dict(zip([column[0] for column in cursor.description or ()], row, strict=True))


def test_watermark_and_late_rows() -> None:
    with runnel.connect() as connection:
        writer = connection.register_stream(
            "clicks", SCHEMA, time_column="ts", max_disorder=timedelta(seconds=30)
        )
        cursor = connection.cursor().execute(COUNTS)
        writer.write([(1, minute(0.1)), (1, minute(0.2)), (1, minute(1.6))])
        assert cursor.fetchone() == (minute(1), 2)
        writer.write([(1, minute(0.5)), (2, minute(0.6)), (1, minute(1.7))])
        assert eventually(lambda: shown(connection)["late_rows"] == 2)
        assert eventually(lambda: shown(connection)["watermark"] == str(minute(1.2)))
        job = shown(connection)
        assert job["watermark_lag"] > timedelta(0)
        assert (
            job["latency_p50"] is None or timedelta(0) <= job["latency_p50"] <= job["latency_p99"]
        )
        writer.close()
        assert cursor.fetchall() == [(minute(2), 2)]


def test_bounded_queries_have_no_event_time() -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor().execute("SELECT * FROM TABLE(GENERATE_SERIES(1, 1000000000))")
        cursor.fetchone()
        assert shown(connection)["watermark"] is None
        assert shown(connection)["latency_p99"] is None
        assert shown(connection)["late_rows"] == 0


def test_malformed_records_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"v": 1}\n{"v": "x"}\nnone\n{"v": 2}\n')
    with runnel.connect() as connection:
        options = f"'path' = '{tmp_path}', 'format' = 'json', 'follow' = 'true', 'onError' = 'skip'"
        connection.execute(f"CREATE MAPPING f (v BIGINT) TYPE File OPTIONS ({options})")
        cursor = connection.cursor().execute("SELECT v FROM f")
        assert [cursor.fetchone(), cursor.fetchone()] == [(1,), (2,)]
        assert shown(connection)["malformed_records"] == 2
