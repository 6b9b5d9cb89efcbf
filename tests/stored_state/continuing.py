"""Opens the stored directory, has its jobs go on, and tells what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import runnel
from runnel import Connection
from tests.stored_state.inputs import AFTER, BEFORE, BEGINNING, STREAMS, TABLES, rows_of_part
from tests.stored_state.queries import (
    DROPPED,
    ENDING,
    EXPORTED,
    JOBS,
    RUNNING,
    WITH_MODULES,
    StoredJob,
)
from tests.waiting import eventually

ARCHIVE = Path(__file__).parent / "stored_directory.tar.gz"
EXPECTED = Path(__file__).parent / "expected.json"
PATIENCE = 30
LAG = 20
"""By how many seconds of event time a sink may be behind the last row."""
MAPS = ("people", "kinds", "texts", "named", "adults")


def wait_until_read(
    connection: Connection, job: StoredJob, parts: Sequence[str], *, has_tables: bool
) -> None:
    """Waits until an execution has read these parts (and tables), and its sink has heard of the
    time of the last row."""
    named = connection.job(job.name)
    rows, time = rows_to_read(job, parts, has_tables), last_time(job, parts[-1])

    def has_read() -> bool:
        return named.rows_in >= rows and (time is None or time_at_sink(named) >= time)

    assert eventually(has_read, PATIENCE, 0.02), (
        f"job {job.name} is {named.status.value} ({named.error}): {named.rows_in} of {rows} rows, "
        f"time {time_at_sink(named)} of {time}"
    )


def rows_to_read(job: StoredJob, parts: Iterable[str], has_tables: bool) -> int:
    """How many rows of these parts a job reads."""
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


def described(connection: Connection) -> dict[str, Any]:
    """What a user sees of the catalog, the maps, the jobs and the snapshots."""
    return {
        "maps": {name: contents(connection, name) for name in MAPS},
        "mappings": shown(connection, "SELECT * FROM information_schema.mappings"),
        "columns": shown(connection, "SELECT * FROM information_schema.columns"),
        "views": shown(connection, "SHOW VIEWS"),
        "indexes": shown(connection, "SHOW INDEXES"),
        "data connections": shown(connection, "SHOW DATA CONNECTIONS"),
        "jobs": shown(connection, "SHOW JOBS", "name", "status", "query", "guarantee"),
        "snapshots": shown(connection, "SHOW SNAPSHOTS", "name", "job", "query"),
    }


def shown(connection: Connection, sql: str, *columns: str) -> list[list[Any]]:
    """The rows of a statement, or these columns of them."""
    cursor = connection.execute(sql)
    names = [item[0] for item in cursor.description or ()]
    places = [names.index(name) for name in columns or names]
    return sorted(([plain(row[place]) for place in places] for row in cursor.fetchall()), key=repr)


def continued(root: Path, parallelism: int = 2, alters: bool = False) -> dict[str, Any]:
    """What is written in all when the stored jobs go on over the parts that follow. The process is
    in the root folder.
    `alters`: every other job is given its query again first."""
    for part in (root / "later").glob("*/*"):
        part.rename(root / "in" / part.parent.name / part.name)
    with runnel.connect("directory") as connection:
        connection.execute(f"SET query_parallelism = {parallelism}")
        for job in JOBS[::2] if alters else ():
            if job.name not in (*DROPPED, *RUNNING, *WITH_MODULES):
                connection.execute(
                    f"ALTER JOB {job.name} AS {job.sql}", job.arguments, timeout=PATIENCE
                )
        go_on(connection)
        again = [job.again for job in JOBS if job.name in EXPORTED]
        return written(connection, (*JOBS, *ENDING, *again))


def go_on(connection: Connection) -> None:
    """Has all jobs read the parts that follow, and stops them."""
    for job in (*JOBS, *ENDING):
        if job.name in DROPPED:
            begin(connection, job, f"of_{job.name}")
        elif job.name not in RUNNING:
            connection.execute(f"ALTER JOB {job.name} RESUME")
        if job.name in EXPORTED:
            begin(connection, job.again, f"of_{job.name}")
    for job in ENDING:
        connection.job(job.name).join(PATIENCE)
    for job in JOBS:
        wait_until_read(connection, job, AFTER, has_tables=False)
        connection.execute(f"ALTER JOB {job.name} SUSPEND", timeout=PATIENCE)
        if job.name in EXPORTED:
            wait_until_read(connection, job.again, (*BEFORE[1:], *AFTER), has_tables=False)
            connection.execute(f"ALTER JOB {job.again.name} SUSPEND", timeout=PATIENCE)


def begin(connection: Connection, job: StoredJob, snapshot: str) -> None:
    """Starts a job from a named snapshot."""
    options = ", ".join(filter(None, (job.options, f"'initialSnapshotName' = '{snapshot}'")))
    connection.execute(
        f"CREATE JOB {job.name} OPTIONS ({options}) AS {job.sql}", job.arguments, timeout=PATIENCE
    )


def written(connection: Connection, jobs: Iterable[StoredJob]) -> dict[str, list[list[Any]]]:
    """The rows of the mappings that jobs write."""
    names = [
        name
        for job in jobs
        for name in (job.name, f"{job.name}_late")
        if name == job.name or job.late
    ]
    return {name: contents(connection, name) for name in (*names, "malformed")}


def contents(connection: Connection, mapping: str) -> list[list[Any]]:
    """The rows of a mapping as JSON values, in an order of their own."""
    rows = connection.execute(f"SELECT * FROM {mapping}").fetchall()
    return sorted(([plain(value) for value in row] for row in rows), key=repr)


def plain(value: Any) -> Any:
    """A value as JSON has it. Sums of DOUBLE may differ in their last digits."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value if value is None or isinstance(value, bool | int | str) else str(value)
