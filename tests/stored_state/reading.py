"""How far a job of the stored directory has read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from runnel import Connection
from tests.stored_state.inputs import BEGINNING, STREAMS, TABLES, rows_of_part
from tests.stored_state.queries import StoredJob
from tests.waiting import eventually

PATIENCE = 30
LAG = 20
"""Seconds of event time by which the watermark at a sink may follow the last row."""


def wait_until_read(
    connection: Connection, job: StoredJob, parts: Sequence[str], *, has_tables: bool
) -> None:
    """Waits until the present execution has read these parts (and tables), and their watermark
    has reached the sink."""
    named = connection.job(job.name)
    rows, time = rows_to_read(job, parts, has_tables), last_time(job, parts[-1])

    def has_read() -> bool:
        return named.rows_in >= rows and (time is None or time_at_sink(named) >= time)

    assert eventually(has_read, PATIENCE, 0.02), (
        f"job {job.name} is {named.status.value} ({named.error}): {named.rows_in} of {rows} rows, "
        f"time {time_at_sink(named)} of {time}"
    )


def rows_to_read(job: StoredJob, parts: Iterable[str], has_tables: bool) -> int:
    """The number of rows that a job reads of these parts."""
    found = 0
    for name in job.reads:
        if name in TABLES:
            found += (TABLES[name].count("\n") - 1) * has_tables
        for part in parts if name in STREAMS else ():
            count = len(rows_of_part(name, part))
            found += count - (count + 4) // 5 if name == "broken" else count
    return found


def last_time(job: StoredJob, part: str) -> int | None:
    """The event time that a part brings to the sink of a job, in the units of its time column."""
    if not job.has_time:
        return None
    last = max(row["t"] for row in rows_of_part(job.reads[0], part)) - LAG
    if job.reads[0] in ("ticks", "raw"):
        return last
    return (BEGINNING + timedelta(seconds=last) - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def time_at_sink(named: Any) -> int:
    """The watermark at the sink of a job; -1 if there is none."""
    times = [
        vertex.watermark
        for name, vertex in named.metrics().items()
        if name == f"write {sink_of(named)}"
    ]
    return min((-1 if time is None else time for time in times), default=-1)


def sink_of(named: Any) -> str:
    return str(named.query.split()[2])
