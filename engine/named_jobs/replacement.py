"""The replacement of the query or DAG of a job, which keeps its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from runnel.errors import Error
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.record.states import EXPORTING, SUSPENDED
from runnel.runtime.light_job import JobStatus

_STATE_FIELDS = ("signatures", "may_drop_state")


class ChangeableJob(Protocol):
    """A job as this needs it; see `NamedJob`."""

    @property
    def record(self) -> JobRecord: ...
    @property
    def status(self) -> JobStatus: ...
    def pause(self, timeout: float | None = None) -> None: ...
    def resume(self) -> None: ...
    def change(self, **changes: Any) -> None: ...


def replace_work(job: ChangeableJob, changes: Mapping[str, Any], timeout: float | None) -> None:
    """Changes the record of a job to other work. A running job is suspended, and resumed from its
    last snapshot; if that fails, it continues with its old work, and the error is raised.

    changes: new values of fields of the record: the query or DAG, its text and options.
    timeout: seconds that the job has to be suspended; None: no limit.
    """
    was_running = job.status not in (SUSPENDED, EXPORTING)
    if was_running:
        job.pause(timeout)
    before = {name: getattr(job.record, name) for name in (*changes, *_STATE_FIELDS)}
    try:
        job.change(**changes, may_drop_state=True)
        if was_running:
            job.resume()
    except Error as error:
        if was_running and job.status is SUSPENDED:
            try:
                job.change(**before)
                job.resume()
            except Error as second:
                # The first error is the cause; the second explains why the job is suspended.
                error.detail = (
                    f"{error.detail or error.message}; the job stays suspended, "
                    f"because it can't be resumed: {second.message}"
                )
        raise
