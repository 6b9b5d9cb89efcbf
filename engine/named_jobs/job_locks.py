"""The locks of a named job, which the objects that make up the job share."""

from __future__ import annotations

from threading import Condition, Lock

from runnel.deadline import DeadlineLock


class JobLocks:
    """The locks of one named job.

    mutex: the job's lock. Reentrant; the wait for it ends with the caller's statement.
    changed: a condition on the same lock, notified at each change of the job. `with changed:`
        acquires the lock and ignores the deadline, for work that must be done in any case.
    altering: one ALTER JOB holds it over several changes of the record. It is acquired before the
        job's lock.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.renew()

    def renew(self) -> None:
        """Replaces the locks in a forked child: a thread of the parent, which does not exist here,
        may hold them."""
        self.mutex = DeadlineLock(f'job "{self._name}"')
        self.changed = Condition(self.mutex.inner)
        self.altering = Lock()
