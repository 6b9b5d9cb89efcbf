"""Waiting for what other threads and processes bring about, where nothing tells of it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

LONGEST = 0.001


def eventually(
    condition: Callable[[], bool], seconds: float = 30.0, longest: float = LONGEST
) -> bool:
    """Whether the condition comes true in time. What is waited for (the status of a job, rows in a
    sink, the threads of a process) has no event that a test could wait on, so it is looked at again
    and again, at first often, and at least every `longest` seconds: more where looking is work for
    what is waited for."""
    until, pause = monotonic() + seconds, 0.0005
    while not condition():
        if monotonic() > until:
            return False
        sleep(pause)
        pause = min(longest, 1.5 * pause)
    return True
