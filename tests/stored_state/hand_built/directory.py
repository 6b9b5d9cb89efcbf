"""The catalog, the jobs and the input of the stored directory of hand-built jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from runnel import Connection
from runnel.dag import DAG
from tests.stored_state.hand_built import jobs

ARCHIVE = Path(__file__).parent / "stored_directory.tar.gz"
ROOT = "/proc/self/cwd"
"""Folder of the mapped files: stored positions contain absolute paths, so it must be the same
everywhere."""

START = datetime(2026, 3, 1)
PARTS = ("1", "2", "3")
PATIENCE = 60.0

SINKS = {
    "windows": "window_end TIMESTAMP, k VARCHAR, n BIGINT, total BIGINT",
    "panes": "window_end TIMESTAMP, k VARCHAR, n BIGINT, spread BIGINT",
    "sessions": "window_end TIMESTAMP, k VARCHAR, n BIGINT",
    "joined": "k VARCHAR, v BIGINT, name VARCHAR, number BIGINT",
}
"""The columns that each job writes."""

MAKERS: dict[str, Callable[[str], DAG]] = {
    "windows": jobs.windows,
    "panes": jobs.panes,
    "sessions": jobs.sessions,
    "joined": jobs.joined,
}
SUSPENDED, RUNNING, EXPORTED = ("windows", "sessions"), "panes", "joined"
"""The jobs by their status in the directory; the exported one was dropped with a snapshot."""

COMPLETE = "window_end <= TIMESTAMP '2026-03-02 00:00:00'"

EXPECTED = {
    "windows": "SELECT window_end, k, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE events, "
    "DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_end, k HAVING " + COMPLETE,
    "panes": "SELECT window_end, k, COUNT(*), MAX(v) - MIN(v) FROM TABLE(HOP(TABLE events, "
    "DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND)) GROUP BY window_end, k "
    "HAVING " + COMPLETE,
    "sessions": "SELECT window_end, k, COUNT(*) FROM TABLE(SESSION(TABLE events PARTITION BY k, "
    "DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_end, k HAVING " + COMPLETE,
    "joined": "SELECT e.k, e.v, n.name FROM (SELECT DISTINCT k, v FROM events) e "
    "LEFT JOIN names n ON e.k = n.k",
}
"""Bounded queries with the same results; of `joined` without the numbers."""


def write_part(folder: Path, part: str) -> None:
    """A file of events, in order of time; the last part ends a day later."""
    random = Random(int(part))
    folder.mkdir(parents=True, exist_ok=True)
    at = START + timedelta(minutes=int(part))
    with (folder / f"{part}.json").open("w") as file:
        for _ in range(60):
            at += timedelta(milliseconds=random.randrange(1500))
            row = {"ts": str(at), "k": "abcdd"[: random.randrange(1, 6)], "v": random.randrange(9)}
            file.write(json.dumps(row) + "\n")
        if part == PARTS[-1]:
            row = {"ts": str(START + timedelta(days=2)), "k": "end", "v": 0}
            file.write(json.dumps(row) + "\n")


def define(connection: Connection, *, follows: bool = True) -> None:
    """The mappings of the sources."""
    follow = ", 'follow' = 'true', 'pollMillis' = '10', 'partitions' = '2'" if follows else ""
    connection.execute(
        "CREATE MAPPING events (ts TIMESTAMP, k VARCHAR, v BIGINT, WATERMARK FOR ts AS ts) "
        f"TYPE File OPTIONS ('path' = '{ROOT}/in/events', 'format' = 'json'{follow})"
    )
    connection.execute(
        "CREATE MAPPING names (k VARCHAR, name VARCHAR) TYPE File "
        f"OPTIONS ('path' = '{ROOT}/in/names.csv', 'format' = 'csv')"
    )


def define_sinks(connection: Connection) -> None:
    for name, columns in SINKS.items():
        connection.execute(
            f"CREATE MAPPING {name} ({columns}) TYPE File OPTIONS "
            f"('path' = '{ROOT}/out/{name}', 'format' = 'json', 'ignoreFileNotFound' = 'true')"
        )


def submit(connection: Connection, name: str, snapshot: str | None = None) -> None:
    options: dict[str, object] = {"snapshotIntervalMillis": 20}
    if snapshot is not None:
        options["initialSnapshotName"] = snapshot
    connection.submit(MAKERS[name](name), name=name, guarantee="exactlyOnce", options=options)


def rows_read(connection: Connection, name: str) -> int:
    """The number of events that the present execution of a job has read."""
    return int(connection.job(name).metrics()["events"].rows_out)
