"""The callers that wait for a change of a named job, on a thread or in a coroutine."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from runnel.base.awaiting import Wake, until
from runnel.deadline import GOES_ON, LOOK, current, waiting_time
from runnel.errors import Error, ErrorCode, InterfaceError, OperationalError
from runnel.named_jobs.record.current import CurrentRecord
from runnel.named_jobs.record.states import FAILED, NOT_RUNNING, SUSPENDED, check_allowed

if TYPE_CHECKING:
    from runnel.named_jobs.home import JobHome
    from runnel.named_jobs.job_locks import JobLocks


class JobWaiters:
    """Wakes the callers that wait for a job when it changes.

    Locks: `notify` is called under the job's lock. The other methods acquire it, and release it
    while they wait, also if the caller holds it.
    """

    def __init__(self, record: CurrentRecord, locks: JobLocks, home: JobHome) -> None:
        self._record = record
        self._locks = locks
        self._home = home
        self._wakes: list[Wake] = []

    def notify(self) -> None:
        """Wakes all callers, which evaluate their conditions again."""
        self._locks.changed.notify_all()
        for wake in self._wakes:
            wake()

    def wait(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Waits for the condition; returns whether it holds after `timeout` seconds at the latest.
        InterfaceError if the connection is closed before."""
        timeout = waiting_time(timeout)
        with self._locks.changed:
            self._locks.changed.wait_for(lambda: condition() or self._home.is_closed, timeout)
            if not condition():
                self._home.check_open()
            return condition()

    async def wait_async(self, condition: Callable[[], bool]) -> None:
        """`wait` without a timeout, in a coroutine."""
        await until(lambda: condition() or self._home.is_closed, self._subscribe)
        if not condition():
            self._home.check_open()

    def wait_for_change(
        self, condition: Callable[[], bool], timeout: float | None, action: str
    ) -> None:
        """Waits until a requested change is complete; raises the reason if it failed. Returns at
        once on the executor's thread, which makes the change.

        timeout: seconds; None: no limit other than the statement's.
        action: the participle of the change: "suspended", "restarted", …
        """
        if self._home.executor.is_here:
            return
        end = None if timeout is None else monotonic() + timeout
        deadline = current()
        with self._locks.mutex:
            while not condition():
                deadline.check(GOES_ON)
                self._home.check_open()
                self._check_possible(action)
                left = None if end is None else end - monotonic()
                if left is not None and left <= 0:
                    raise OperationalError(
                        f'job "{self._name}" is not {action} after {timeout:g} s',
                        code=ErrorCode.TIMEOUT,
                        hint=GOES_ON,
                    )
                # Cancelling the statement takes no lock, since another thread may hold this one for
                # long: therefore the statement is checked every LOOK seconds.
                self._locks.changed.wait(LOOK if left is None else min(left, LOOK))

    def _check_possible(self, action: str) -> None:
        """Raises if the change can no longer be completed."""
        record = self._record
        if record.is_done and action != "cancelled":
            if record.status is FAILED and record.error is not None:
                raise record.error
            check_allowed(
                "suspended" if action == "suspended" else "restarted", self._name, record.status
            )
        if record.status is NOT_RUNNING and self._home.is_closing:
            raise InterfaceError(
                "the connection is closed",
                hint="the job runs when its directory is opened again",
            )
        if action == "restarted" and record.status in (SUSPENDED, NOT_RUNNING):
            raise self._failure  # it failed before it ran again

    @property
    def _name(self) -> str:
        return self._record.value.name

    @property
    def _failure(self) -> Error:
        return self._record.error or OperationalError(
            f'job "{self._name}" was suspended', code=ErrorCode.GENERIC
        )

    def _subscribe(self, wake: Wake) -> Callable[[], None]:
        """Has `wake` called at each change; returns the function that ends that."""
        with self._locks.mutex:
            self._wakes.append(wake)

        def forget() -> None:
            with self._locks.mutex:
                self._wakes.remove(wake)

        return forget
