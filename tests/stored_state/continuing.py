"""Opens the stored directories, resumes their jobs, and reads what the jobs have written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import runnel
from runnel import Connection
from tests.stored_state.feeding import feed, resume_live
from tests.stored_state.inputs import AFTER, BEFORE
from tests.stored_state.queries import (
    DROPPED,
    ENDING,
    EXPORTED,
    JOBS,
    KILLED,
    LIVE,
    NOT_ALTERED,
    RUNNING,
    StoredJob,
)
from tests.stored_state.reading import PATIENCE, wait_until_read

ARCHIVE = Path(__file__).parent / "stored_directory.tar.gz"
KILLED_ARCHIVE = Path(__file__).parent / "killed_directory.tar.gz"
EXPECTED = Path(__file__).parent / "expected.json"
AGAIN = tuple(job.again for job in JOBS if job.name in EXPORTED)
"""The jobs that start from the older named snapshots."""
MAPS = ("people", "kinds", "texts", "named", "adults")


def described(connection: Connection) -> dict[str, Any]:
    """The catalog, the maps, the jobs and the snapshots, as a user sees them."""
    return {
        "maps": {name: contents(connection, name) for name in MAPS},
        "mappings": shown(connection, "SELECT * FROM information_schema.mappings"),
        "columns": shown(
            connection,
            "SELECT table_catalog, table_schema, table_name, column_name, column_external_name, "
            "ordinal_position, is_nullable, data_type FROM information_schema.columns "
            "WHERE table_name <> 'stream'",
        ),
        "views": shown(connection, "SHOW VIEWS"),
        "indexes": shown(connection, "SHOW INDEXES"),
        "data connections": shown(connection, "SHOW DATA CONNECTIONS"),
        "jobs": shown(connection, "SHOW JOBS FULL", "name", "status", "query", "guarantee"),
        "errors": {name: str(connection.job(name).error) for name in ("failed", "cancelled")},
        "snapshots": shown(connection, "SHOW SNAPSHOTS", "name", "job", "query"),
    }


def shown(connection: Connection, sql: str, *columns: str) -> list[list[Any]]:
    """The rows of a statement, or these columns of them."""
    cursor = connection.execute(sql)
    names = [item[0] for item in cursor.description or ()]
    places = [names.index(name) for name in columns or names]
    return sorted(([plain(row[place]) for place in places] for row in cursor.fetchall()), key=repr)


def continued(root: Path, parallelism: int = 2, alters: bool = False) -> dict[str, Any]:
    """Resumes the stored jobs over the remaining parts, and returns all that they have written.

    The working directory is the root folder. With `alters`, every second job first gets its query
    again.
    """
    with runnel.connect("directory") as connection:
        connection.execute(f"SET query_parallelism = {parallelism}")
        begin_from_snapshots(connection)
        bring_later(root)
        for job in JOBS[::2] if alters else ():
            if job.name not in (*DROPPED, *RUNNING, *NOT_ALTERED):
                connection.execute(
                    f"ALTER JOB {job.name} AS {job.sql}", job.arguments, timeout=PATIENCE
                )
        go_on(connection)
        return written(connection, (*JOBS, *ENDING, *LIVE, *AGAIN))


def continued_after_kill(root: Path) -> dict[str, Any]:
    """The same for the directory of a killed process: its jobs run as soon as it is opened."""
    jobs = [job for job in JOBS if job.name in KILLED]
    bring_later(root)
    with runnel.connect("directory") as connection:
        for job in jobs:
            wait_until_read(connection, job, AFTER, has_tables=False)
            connection.execute(f"ALTER JOB {job.name} SUSPEND", timeout=PATIENCE)
        return written(connection, jobs)


def bring_later(root: Path) -> None:
    """Moves the remaining parts to the folders that the jobs read, the oldest first. Jobs that run
    already may find them at once."""
    for number in AFTER:
        for part in (root / "later").glob(f"*/{number}.*"):
            part.rename(root / "in" / part.parent.name / part.name)


def begin_from_snapshots(connection: Connection) -> None:
    """Starts jobs from the named snapshots. Jobs with an older snapshot read the part after it."""
    for job in JOBS:
        if job.name in DROPPED:
            begin(connection, job, f"of_{job.name}")
        if job.name in EXPORTED:
            begin(connection, job.again, f"of_{job.name}")
    for job in AGAIN:
        wait_until_read(connection, job, BEFORE[1:], has_tables=False)


def go_on(connection: Connection) -> None:
    """Resumes all jobs, waits until they have read the remaining parts, and suspends them."""
    writer = resume_live(connection)
    for job in (*JOBS, *ENDING):
        if job.name not in (*DROPPED, *RUNNING):
            connection.execute(f"ALTER JOB {job.name} RESUME")
    feed(connection, writer, 1)
    for job in ENDING:
        connection.job(job.name).join(PATIENCE)
    for job in JOBS:
        wait_until_read(connection, job, AFTER, has_tables=False)
    for job in AGAIN:
        wait_until_read(connection, job, (*BEFORE[1:], *AFTER), has_tables=False)
    for job in (*JOBS, *LIVE, *AGAIN):
        connection.execute(f"ALTER JOB {job.name} SUSPEND", timeout=PATIENCE)


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
    """The rows of a mapping as JSON values, sorted."""
    rows = connection.execute(f"SELECT * FROM {mapping}").fetchall()
    return sorted(([plain(value) for value in row] for row in rows), key=repr)


def plain(value: Any) -> Any:
    """A value as JSON. Sums of DOUBLE may differ in their last digits, so these are rounded."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value if value is None or isinstance(value, bool | int | str) else str(value)
