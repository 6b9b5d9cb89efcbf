"""The fetching thread as the owner of a young job's tasklets.

Most light jobs are done within a millisecond. Passing them to a worker and waiting for it would
cost more than that, so the thread that fetches the rows calls the tasklets itself. A job that takes
longer is handed over to the workers permanently.

Any number of threads may call `drive` and `sweep`; the lock `_driving` admits one of them and
rejects the rest. The hand-over loses no tasklet: `_is_gone` is set before the list is emptied, and
every thread that appends to the list checks `_is_gone` afterwards; if both find a tasklet, one of
them pops it.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, current_thread, main_thread
from typing import Any, Protocol

from runnel.base.clock import Clock
from runnel.runtime.execution import Execution
from runnel.runtime.tasklets.tasklet import MADE_PROGRESS, Tasklet, take_turn
from runnel.runtime.threads.idle import Parker


class Pool(Protocol):
    """The threads to which tasklets are passed that take too long for the caller."""

    def adopt(self, tasklets: Sequence[Tasklet], home: int | None = None) -> None:
        """Adds ready tasklets: all to one worker, if `home` is a result of `new_home`."""

    def new_home(self) -> int:
        """The number of a worker for tasklets that should run on one worker."""

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        """Will wake a tasklet, whatever its owner is."""


class CallingThread:
    """Owns the cooperative tasklets of one execution until it hands them over."""

    __slots__ = (
        "_clock",
        "_driving",
        "_execution",
        "_home",
        "_is_gone",
        "_is_waiting",
        "_list",
        "_on_gone",
        "_parker",
        "_pool",
        "_spent",
        "_timers",
    )

    def __init__(
        self, execution: Execution, pool: Pool, clock: Clock, on_gone: Callable[[], None]
    ) -> None:
        self._execution = execution
        self._pool = pool
        self._clock = clock
        self._on_gone = on_gone
        self._list: deque[Tasklet] = deque()
        self._timers: deque[tuple[Tasklet, int]] = deque()
        self._driving = Lock()
        self._parker: Parker | None = None
        self._is_waiting = False
        self._is_gone = False
        self._spent = 0
        self._home: int | None = None
        for tasklet in execution.tasklets:
            if tasklet.is_cooperative:
                tasklet.owner = self
                tasklet.is_background = execution.has_marks
                self._list.append(tasklet)

    def ready(self, tasklet: Tasklet) -> None:
        self._list.append(tasklet)
        if self._is_gone:
            self._forward()
        elif self._is_waiting and self._parker is not None:
            self._parker.unpark()

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        self._timers.append((tasklet, time))
        if self._is_gone:
            self._forward()

    def drive(self, budget: int) -> None:
        """Calls tasklets until the job has ended or waits for its reader; hands over when all
        drives together took `budget` nanoseconds. On Ctrl-C the job is cancelled and closed, then
        the exception propagates."""
        # Another thread that drives is done within the budget, so waiting for it is better than
        # retrying.
        if self._is_gone or not self._driving.acquire(timeout=budget / 1e9):
            return
        started = self._clock.monotonic()
        try:
            self._drive(started + budget - self._spent)
        except BaseException:
            self._execution.cancel()
            self._recover()
            raise
        finally:
            self._spent += self._clock.monotonic() - started
            self._driving.release()
            if self._is_gone:
                # Another thread handed over while this one was calling: hand over the tasklets that
                # this one put back since.
                self._forward()
            elif self._execution.is_cancelled:
                self.sweep()

    def _drive(self, until: int) -> None:
        now = self._clock.monotonic
        tasklets = self._list
        execution = self._execution
        while not self._is_gone:
            if tasklets:
                tasklet = tasklets.popleft()
                if take_turn(tasklet) is MADE_PROGRESS:
                    self.ready(tasklet)
                if now() > until and tasklets:
                    self.hand_over()
            elif execution.is_over or (execution.results is not None and len(execution.results)):
                return
            elif execution.is_cancelled or self._timers or not self._wait(until):
                self.hand_over()

    def _wait(self, until: int) -> bool:
        """Waits for a tasklet that runs elsewhere; False on timeout."""
        if self._parker is None:
            self._parker = Parker()
        self._is_waiting = True
        try:
            if self._list:
                return True
            timeout = self._clock.timeout(until)
            return timeout is not None and timeout > 0 and self._parker.park(timeout)
        finally:
            self._is_waiting = False

    def hand_over(self) -> None:
        """Passes the tasklets to the pool, now and whenever one of them is woken. From any
        thread."""
        with interrupts_deferred():
            if not self._is_gone:
                if self._execution.has_marks:
                    self._home = self._pool.new_home()
                self._is_gone = True
                self._on_gone()
            self._forward()

    def _forward(self) -> None:
        with suppress(IndexError):
            while self._timers:
                self._pool.wake_at(*self._timers.popleft())
        moved = []
        with suppress(IndexError):
            while self._list:
                moved.append(self._list.popleft())
        if moved:
            self._pool.adopt(moved, self._home)

    def sweep(self) -> None:
        """After a cancellation: calls the remaining tasklets, so that every processor is closed,
        unless another thread is doing it."""
        while self._list and not self._is_gone and self._driving.acquire(blocking=False):
            try:
                self._close_all()
            finally:
                self._driving.release()

    def _close_all(self) -> None:
        while self._list:
            tasklet = self._list.popleft()
            if take_turn(tasklet) is MADE_PROGRESS:
                self._list.append(tasklet)

    def _recover(self) -> None:
        """An exception may have occurred anywhere, also between taking a tasklet from the list and
        calling it. Makes all tasklets ready that have not ended; they are cancelled, so their next
        call only closes them. `_driving` is locked."""
        if self._is_gone:
            return
        for tasklet in self._execution.left:
            if tasklet.is_cooperative and tasklet not in self._list:
                tasklet.parking.clear()
                self._list.append(tasklet)
        self._close_all()


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Inside, Ctrl-C is only recorded; at the end it has its usual effect. Does nothing in other
    threads, which are not interrupted.

    Python raises KeyboardInterrupt in the main thread between any two instructions. While a tasklet
    changes owners that would lose it, and its job would never end.
    """
    handler = signal.getsignal(signal.SIGINT) if current_thread() is main_thread() else None
    if not callable(handler):
        yield
        return
    noted: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *arguments: noted.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if noted:
            handler(*noted[0])
