"""Who is told of each change of a job's status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from runnel.base.frozen import frozen
from runnel.runtime.light_job import JobStatus

logger = logging.getLogger("runnel.job")


@frozen
class StatusChange:
    """What a listener hears: the job's name, both states, why, and whether a user asked for it."""

    name: str
    old: JobStatus
    new: JobStatus
    description: str
    is_user_requested: bool


Listener = Callable[[StatusChange], object]


def tell(listeners: Iterable[Listener], change: StatusChange) -> None:
    """Calls all listeners; one that fails is told in the log, and hinders no other."""
    for listener in listeners:
        try:
            listener(change)
        except Exception:
            logger.exception('a listener of job "%s" failed', change.name)
