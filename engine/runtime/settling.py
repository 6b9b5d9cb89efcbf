"""Waiting until the jobs of a connection have nothing left to do, for tests.

A tasklet that is parked has a token, and gets a new one each time it parks. If all tasklets are
parked with the tokens that they had at an earlier look, none of them ran in between: so there was
an instant at which all were parked. Another tasklet wakes a parked tasklet, or a timer, or a thread
outside of the runtime; `tokens_or_busy` rules out the first two.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.deadline import WaitLimit, current
from runnel.errors import ErrorCode, OperationalError

if TYPE_CHECKING:
    from runnel.runtime.light_job import Jobs
    from runnel.runtime.tasklets.tasklet import Tasklet

LONGEST_PAUSE = 0.005
"""Seconds between two looks, at most."""


@frozen
class Busy:
    """Something that is not at rest, in words, for the error."""

    part: str


Tokens = dict["Tasklet", object]
"""The token of each parked tasklet."""


def tokens_or_busy(jobs: Jobs) -> Tokens | Busy:
    """The tokens of all tasklets if they are parked and no timer is due."""
    tokens: Tokens = {}
    for job in jobs.running():
        job.hand_over()  # nothing else calls its tasklets until its rows are fetched
        for tasklet in job.execution.left:
            try:
                tokens[tasklet] = tasklet.parking[0]
            except IndexError:
                vertex = getattr(tasklet, "vertex", "")
                return Busy(f'vertex "{vertex}" of {job.name} works')
        if job.execution.is_over:
            return Busy(f"{job.name} ends")
        coordinator = job.execution.snapshots
        if coordinator is not None and coordinator.is_in_progress:
            return Busy(f"{job.name} takes a snapshot")
    if jobs.ending:  # looked at after `running`, which a job leaves after it was added here
        return Busy("a job ends")
    pool = jobs.pool
    # In this order: a timer that was removed to be called is being called.
    if pool.timers.next_time <= jobs.clock.monotonic() or any(
        worker.is_firing for worker in pool.workers
    ):
        return Busy("a timer is due")
    return tokens


def wait_until_settled(jobs: Jobs, others: Callable[[], str | None], limit: WaitLimit) -> None:
    """Returns when the jobs are at rest; OperationalError (TIMEOUT) after the limit.

    others: returns other work that is in progress, in words; None: there is none.
    """
    deadline, wake, pause = current(), Event(), 0.0002
    before: Tokens | Busy = Busy("")
    with deadline.on_cancel(wake.set):
        while True:
            other = others()
            now = tokens_or_busy(jobs) if other is None else Busy(other)
            if not isinstance(now, Busy) and now == before and others() is None:
                return
            before = now
            left = limit.left
            if left <= 0:
                raise OperationalError(
                    f"the connection did not settle within {limit.seconds:g} s",
                    code=ErrorCode.TIMEOUT,
                    detail=now.part if isinstance(now, Busy) else "its jobs work again and again",
                    hint="a job never rests if its source waits in a call, or its clock advances",
                )
            deadline.check()
            wake.wait(min(pause, left))
            pause = min(LONGEST_PAUSE, 1.5 * pause)
