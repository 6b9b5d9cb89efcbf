"""The states of a named job, and the actions allowed in each.

- NOT_RUNNING: to be started: it was just created, or waits for a restart.
- STARTING: its processors are being created.
- RUNNING: its processors run.
- COMPLETING: a last snapshot is being taken, or it is being cancelled. Afterwards it is suspended,
  restarted, or ended.
- SUSPENDED: stopped until a user resumes it.
- SUSPENDED_EXPORTING_SNAPSHOT: suspended, and its last snapshot is being copied.
- FAILED: ended with an error, or cancelled.
- COMPLETED: ended because its inputs ended.
"""

from __future__ import annotations

from runnel.errors import ErrorCode, OperationalError, as_written
from runnel.runtime.light_job import JobStatus

NOT_RUNNING, STARTING, RUNNING = JobStatus.NOT_RUNNING, JobStatus.STARTING, JobStatus.RUNNING
SUSPENDED, EXPORTING = JobStatus.SUSPENDED, JobStatus.SUSPENDED_EXPORTING_SNAPSHOT
COMPLETING, FAILED, COMPLETED = JobStatus.COMPLETING, JobStatus.FAILED, JobStatus.COMPLETED

ENDED = frozenset((FAILED, COMPLETED))
"""The final states."""

TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    NOT_RUNNING: frozenset((STARTING, SUSPENDED, FAILED)),
    STARTING: frozenset((RUNNING, NOT_RUNNING, SUSPENDED, FAILED)),
    RUNNING: frozenset((COMPLETING, NOT_RUNNING, SUSPENDED, FAILED, COMPLETED)),
    COMPLETING: frozenset((NOT_RUNNING, SUSPENDED, FAILED, COMPLETED)),
    SUSPENDED: frozenset((NOT_RUNNING, EXPORTING, FAILED)),
    EXPORTING: frozenset((SUSPENDED, FAILED)),
    FAILED: frozenset(),
    COMPLETED: frozenset(),
}
"""The states that may follow each state."""

ALLOWED: dict[str, frozenset[JobStatus]] = {
    "suspended": frozenset((RUNNING, NOT_RUNNING)),
    "restarted": frozenset((RUNNING, NOT_RUNNING)),
    "resumed": frozenset(TRANSITIONS) - ENDED,
    "cancelled": frozenset(TRANSITIONS) - ENDED,
    "changed": frozenset((SUSPENDED,)),
    "exported": frozenset((RUNNING, SUSPENDED)),
    "verified": frozenset((RUNNING, SUSPENDED, COMPLETED)),
}
"""The states in which an action is allowed. Resuming a job that is not suspended does nothing."""

_HINTS = {
    "changed": "ALTER JOB {name} SUSPEND first",
    "exported": "a snapshot is of a job that runs or is suspended",
}


def check_allowed(action: str, name: str, status: JobStatus) -> None:
    """OperationalError if a job with that status cannot be `action` ("suspended", …)."""
    allowed = ALLOWED[action]
    if status in allowed:
        return
    what = (
        f'the state of job "{name}" can\'t be {action}'
        if action == "exported"
        else f'job "{name}" can\'t be {action}'
    )
    if status in ENDED:
        raise OperationalError(
            f"{what}: it has ended",
            code=ErrorCode.GENERIC,
            detail=f"its status is {status}",
            hint="DROP JOB {0}, or CREATE JOB {0} again".format(as_written(name)),
        )
    required = SUSPENDED if action == "changed" else RUNNING
    otherwise = "ALTER JOB {name} RESUME first" if status is SUSPENDED else "try again when it runs"
    raise OperationalError(
        f"{what}: its status is {status}, and should be {required}",
        code=ErrorCode.GENERIC,
        hint=_HINTS.get(action, otherwise).format(name=as_written(name)),
    )
