"""The progress of a cursor's query, as a value with a readable text."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.runtime.light_job import Job


@frozen
class StepProgress:
    """One step of a query: a vertex of its DAG.

    name: name of the vertex.
    rows_in, rows_out: number of rows that it has received and emitted so far.
    tasks_done: number of tasks that have ended.
    tasks: number of tasks of a stage of Spark; 0: it has none.
    bytes_done: number of bytes that a backup has copied.
    bytes: number of bytes that it copies; 0: it copies none, or the number is unknown.
    """

    name: str
    rows_in: int
    rows_out: int
    tasks_done: int = 0
    tasks: int = 0
    bytes_done: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        if self.bytes:
            return f"{self.name}: {self.bytes_done:,} of {self.bytes:,} bytes"
        counts = [f"{self.rows_in:,} rows in"] if self.rows_in else []
        counts.append(f"{self.rows_out:,} rows out")
        if self.tasks:
            counts.append(f"{self.tasks_done:,} of {self.tasks:,} tasks")
        return f"{self.name}: {', '.join(counts)}"


@frozen
class QueryProgress:
    """The progress of a query.

    seconds: time since it began.
    is_done: it has ended, successfully or not.
    steps: its steps, sources first.
    """

    seconds: float
    is_done: bool
    steps: tuple[StepProgress, ...]

    @property
    def share(self) -> float | None:
        """The share of the tasks that have ended, from 0 to 1; None if no step has tasks. It may
        decrease, because a stage's tasks are known only when the stage begins."""
        tasks = sum(step.tasks for step in self.steps)
        return sum(step.tasks_done for step in self.steps) / tasks if tasks else None

    def __str__(self) -> str:
        head = f"{'done in' if self.is_done else 'running for'} {self.seconds:.1f} s"
        if self.share is not None:
            head += f", {self.share:.0%} of the known tasks"
        return "\n".join([head, *(f"  {step}" for step in self.steps)])


def progress_of(job: Job) -> QueryProgress:
    """Read while the job runs: each number is right, but they may be of different instants."""
    steps = [
        StepProgress(item.vertex, item.rows_in, item.rows_out, item.tasks_done, item.tasks)
        for item in job.metrics().values()
    ]
    return QueryProgress(job.uptime, job.is_done, tuple(steps))
