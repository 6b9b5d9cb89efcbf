"""Listeners that are called at each change of a job's status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from runnel.base.frozen import frozen
from runnel.errors import InterfaceError
from runnel.named_jobs.job_locks import JobLocks
from runnel.named_jobs.serial_executor import SerialExecutor
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


class Listeners:
    """The listeners of one job, which are called on a thread of the connection.

    Locks: `add` and `remove` acquire the job's lock; `report` is called under it.
    """

    def __init__(self, locks: JobLocks, executor: SerialExecutor) -> None:
        self._locks = locks
        self._executor = executor
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """InterfaceError if the listener is not callable."""
        if not callable(listener):
            raise InterfaceError(
                f"a listener must be callable with a StatusChange, and {listener!r} is not"
            )
        with self._locks.mutex:
            self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """Does nothing if the listener was not added."""
        with self._locks.mutex, suppress(ValueError):
            self._listeners.remove(listener)

    def report(self, change: StatusChange) -> None:
        """Has the present listeners called with the change, after those before it."""
        if self._listeners:
            listeners = tuple(self._listeners)
            self._executor.post(lambda: notify(listeners, change))
