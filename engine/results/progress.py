"""How far a cursor's query has come, as a value that reads well in a terminal."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.runtime.light_job import Job


@frozen
class StepProgress:
    """One step of a query (a vertex of its DAG): the rows that it took in and gave so far. `tasks`
    is into how many parts its work is divided, `tasks_done` how many of them are over, where that
    is known (stages of Spark), else both are 0."""

    name: str
    rows_in: int
    rows_out: int
    tasks_done: int = 0
    tasks: int = 0

    def __str__(self) -> str:
        told = [f"{self.rows_in:,} rows in"] if self.rows_in else []
        told.append(f"{self.rows_out:,} rows out")
        if self.tasks:
            told.append(f"{self.tasks_done:,} of {self.tasks:,} tasks")
        return f"{self.name}: {', '.join(told)}"


@frozen
class QueryProgress:
    """What a query has done after `seconds`, step by step, sources first. `is_done`: it has ended,
    well or not."""

    seconds: float
    is_done: bool
    steps: tuple[StepProgress, ...]

    @property
    def share(self) -> float | None:
        """How much of the tasks is done, from 0 to 1; None where no step has tasks. Stages that
        haven't begun may not be known yet, so it may fall."""
        tasks = sum(step.tasks for step in self.steps)
        return sum(step.tasks_done for step in self.steps) / tasks if tasks else None

    def __str__(self) -> str:
        head = f"{'done in' if self.is_done else 'running for'} {self.seconds:.1f} s"
        if self.share is not None:
            head += f", {self.share:.0%} of the known tasks"
        return "\n".join([head, *(f"  {step}" for step in self.steps)])


def progress_of(job: Job) -> QueryProgress:
    """Read while the job runs: each number is right, all together need not be of one moment."""
    steps = [
        StepProgress(item.vertex, item.rows_in, item.rows_out, item.tasks_done, item.tasks)
        for item in job.metrics().values()
    ]
    return QueryProgress(job.uptime, job.is_done, tuple(steps))
