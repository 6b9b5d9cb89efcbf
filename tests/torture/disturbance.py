"""Statements that change jobs while they run, and what a process does that comes back after it was
killed in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from runnel import Connection, JobStatus
from runnel.errors import ErrorCode, OperationalError
from tests.torture import cases
from tests.waiting import eventually

PATIENCE = 20
"""How many seconds a job that refuses a statement may need to end."""

MOST = 8
"""Statements of one process."""

STATEMENTS = (
    ("CREATE OR REPLACE SNAPSHOT kept_{name} FOR JOB {name}",),
    ("ALTER JOB {name} RESTART",),
    ("ALTER JOB {name} SUSPEND", "ALTER JOB {name} RESUME"),
    (
        "ALTER JOB {name} SUSPEND",
        "CREATE OR REPLACE SNAPSHOT kept_{name} FOR JOB {name}",
        "ALTER JOB {name} OPTIONS ('snapshotIntervalMillis' = '70') RESUME",
    ),
    ("DROP JOB {name} WITH SNAPSHOT last_{name}", "DROP SNAPSHOT IF EXISTS kept_{name}"),
)
"""What is done to a job; each may be the last that the process does. A job that was dropped is made
anew, to begin where it ended."""

_GONE = (ErrorCode.GENERIC, ErrorCode.OBJECT_NOT_FOUND)


def disturb(connection: Connection, chosen: Sequence[cases.Case], random: Random) -> None:
    """Does some of it to some jobs, one after the other, while they and the others run."""
    for _ in range(random.randrange(1, MOST)):
        case = random.choice(chosen)
        for statement in random.choice(STATEMENTS):
            try:
                connection.execute(statement.format(name=case.name))
            except OperationalError as error:
                # It came to its end before: what can't be done to a job that has ended is said so,
                # also shortly before its status says so.
                if error.code not in _GONE or not _has_ended(connection, case.name):
                    raise
                break
        bring_back(connection, case)


def _has_ended(connection: Connection, name: str) -> bool:
    return eventually(lambda: connection.job(name).is_done, PATIENCE)


def bring_back(connection: Connection, case: cases.Case) -> None:
    """The job runs, or has come to its end: it is resumed, or made, from where a dropped one of its
    name was."""
    names = {row[1] for row in connection.execute("SHOW JOBS FULL").fetchall()}
    job = connection.job(case.name) if case.name in names else None
    if job is not None and job.status is JobStatus.FAILED:
        assert job.record.is_user_cancelled, job.error
    if job is None or job.status is JobStatus.FAILED:
        snapshots = {str(row[0]) for row in connection.execute("SHOW SNAPSHOTS").fetchall()}
        last = f"last_{case.name}"
        cases.create(connection, case, last if last in snapshots else None)
    elif job.status is JobStatus.SUSPENDED:
        job.resume()
