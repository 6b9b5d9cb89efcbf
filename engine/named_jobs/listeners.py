"""Listeners that are called at each change of a job's status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from runnel.base.frozen import frozen
from runnel.runtime.light_job import JobStatus

logger = logging.getLogger("runnel.job")


@frozen
class StatusChange:
    """A change of a job's status.

    name: name of the job.
    old: status before.
    new: status after.
    description: reason of the change.
    is_user_requested: whether a user requested it.
    """

    name: str
    old: JobStatus
    new: JobStatus
    description: str
    is_user_requested: bool


Listener = Callable[[StatusChange], object]


def notify(listeners: Iterable[Listener], change: StatusChange) -> None:
    """Calls all listeners. If one fails, the error is logged and the rest are called."""
    for listener in listeners:
        try:
            listener(change)
        except Exception:
            logger.exception('a listener of job "%s" failed', change.name)
