"""Waiting for a named job, on a thread or in a coroutine, and listening to its changes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from runnel.base.awaiting import Wake, until
from runnel.deadline import GOES_ON, LOOK, DeadlineLock, current, waiting_time
from runnel.errors import ErrorCode, InterfaceError, OperationalError, internal
from runnel.named_jobs.job_view import JobView
from runnel.named_jobs.listeners import Listener
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.record.states import FAILED, NOT_RUNNING, SUSPENDED, check_allowed
from runnel.named_jobs.run import JobRun
from runnel.runtime.light_job import JobStatus

if TYPE_CHECKING:
    from runnel.named_jobs.home import JobHome
    from runnel.snapshots.store import SnapshotStore


class JobWaiting(JobView):
    """The callers that wait for a job, and its listeners. Threads may share it."""

    def __init__(self, record: JobRecord, home: JobHome, store: SnapshotStore) -> None:
        super().__init__(record, store)
        self._home = home
        self.is_forgotten = False
        self.is_exported = False
        self.is_clean = False
        self.cleaning = Lock()
        self._make_locks()
        self._listeners: list[Listener] = []
        self._waiting: list[Wake] = []

    def leave_parent(self) -> None:
        """Replaces the locks in a forked child: a thread of the parent, which does not exist here,
        may hold them."""
        self._make_locks()

    def _make_locks(self) -> None:
        self._lock = DeadlineLock(f'job "{self.name}"')
        self._changed = Condition(self._lock.inner)
        self._altering = Lock()

    def add_listener(self, listener: Listener) -> None:
        """From now on `listener` is called with each StatusChange, in order, on a thread of the
        connection."""
        if not callable(listener):
            raise InterfaceError(
                f"a listener must be callable with a StatusChange, and {listener!r} is not"
            )
        with self._lock:
            self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """The listener is not called again; does nothing if it was not added."""
        with self._lock, suppress(ValueError):
            self._listeners.remove(listener)

    def join(self, timeout: float | None = None) -> None:
        """Waits until the job has ended, and raises its error if it failed; OperationalError
        (TIMEOUT) if it has not ended after `timeout` seconds."""
        if not self.wait(timeout):
            raise OperationalError(
                f'job "{self.name}" has not ended after {timeout:g} s', code=ErrorCode.TIMEOUT
            )
        if self._record.is_user_cancelled:
            raise OperationalError(f'job "{self.name}" was cancelled', code=ErrorCode.CANCELLED)
        if self.status is FAILED:
            raise self.error or internal("a job failed without an error")

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the job has ended; False if it has not within `timeout` seconds.
        InterfaceError if the connection is closed before."""
        return self._await(lambda: self.is_done, timeout)

    def await_status(self, status: JobStatus, timeout: float | None = None) -> bool:
        """Waits until the job has that status; False if it has not within `timeout` seconds."""
        if not isinstance(status, JobStatus):
            raise InterfaceError(f"a status is one of runnel.JobStatus, not {status!r}")
        return self._await(lambda: self.status is status, timeout)

    def __await__(self) -> Generator[Any, None, None]:
        """`await job` waits as `join` does, while other coroutines run; no thread waits for it."""
        return self._joined().__await__()

    async def _joined(self) -> None:
        await until(lambda: self.is_done or self._home.is_closed, self._watch_changes)
        if not self.is_done:
            self._home.check_open()
        self.join()

    async def reaches(self, status: JobStatus) -> bool:
        """`await_status` in a coroutine: waits until the job has that status. False: the job has
        ended with another status."""
        if not isinstance(status, JobStatus):
            raise InterfaceError(f"a status is one of runnel.JobStatus, not {status!r}")
        await until(
            lambda: self.status is status or self.is_done or self._home.is_closed,
            self._watch_changes,
        )
        if self.status is not status and not self.is_done:
            self._home.check_open()
        return self.status is status

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """For a job that another engine runs: inside, its sink contains exactly the rows of the
        batches committed so far, and no batch is written. OperationalError if the job is stopped
        meanwhile."""
        with self._lock:
            self._check_runtime()
            run = self._run
            if run is None:
                self._home.settle(self)
                yield  # a thread that resumes the job waits for the lock
                return
        assert not isinstance(run, JobRun)
        with run.between_batches():
            self._check_runtime()
            yield
            if self._run is not run:
                message = f'job "{self.name}" was stopped meanwhile'
                raise OperationalError(message, code=ErrorCode.GENERIC, hint="VERIFY it again")

    @contextmanager
    def altered_alone(self) -> Iterator[None]:
        """Waits until no other thread changes the job's record: a change that fails restores the
        record as it was before."""
        patience = current()
        while not self._altering.acquire(timeout=0.05):
            patience.check()
            patience.check_time()
            self._home.check_open()
        try:
            yield
        finally:
            self._altering.release()

    def _check_runtime(self) -> None:
        self._home.check_open()
        check_allowed("verified", self.name, self.status)

    def _watch_changes(self, wake: Wake) -> Callable[[], None]:
        """Has `wake` called at each change; returns a function that ends that."""
        with self._lock:
            self._waiting.append(wake)

        def forget() -> None:
            with self._lock:
                self._waiting.remove(wake)

        return forget

    def _notify(self) -> None:
        """Wakes all callers that wait for a change. Called under the lock."""
        self._changed.notify_all()
        for wake in self._waiting:
            wake()

    def _await(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        timeout = waiting_time(timeout)
        with self._changed:
            self._changed.wait_for(lambda: condition() or self._home.is_closed, timeout)
            if not condition():
                self._home.check_open()
            return condition()

    def _wait_for(self, condition: Callable[[], bool], timeout: float | None, what: str) -> None:
        """Waits until a requested change is complete. Returns at once on the executor's thread,
        which makes the change."""
        if self._home.executor.is_here:
            return
        until = None if timeout is None else monotonic() + timeout
        patience = current()
        with self._lock:
            while not condition():
                patience.check(GOES_ON)
                self._home.check_open()
                if self.is_done and what != "cancelled":
                    if self.status is FAILED and self.error is not None:
                        raise self.error
                    check_allowed(
                        "suspended" if what == "suspended" else "restarted", self.name, self.status
                    )
                if self.status is NOT_RUNNING and self._home.is_closing:
                    raise InterfaceError(
                        "the connection is closed",
                        hint="the job runs when its directory is opened again",
                    )
                if (
                    self.status in (SUSPENDED, NOT_RUNNING) and what == "restarted"
                ):  # it failed on the way
                    raise self.error or OperationalError(
                        f'job "{self.name}" was suspended', code=ErrorCode.GENERIC
                    )
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    message = f'job "{self.name}" is not {what} after {timeout:g} s'
                    raise OperationalError(
                        message,
                        code=ErrorCode.TIMEOUT,
                        hint=GOES_ON,
                    )
                # Cancelling the statement takes no lock, since another thread may hold this one for
                # long: therefore the statement is checked every LOOK seconds.
                self._changed.wait(LOOK if left is None else min(left, LOOK))

    def __repr__(self) -> str:
        return f"<job {self.name!r} {self.status}>"
