"""The pool of cooperative threads, started when the first tasklet is handed over.

Each worker calls the tasklets of its own list in turn. One whose list has run dry looks at the others after each step of a
back-off and takes a tasklet over from the longest list; a tasklet in a list isn't being called, so this happens between calls
only. After the last step it parks until it is given something. The first worker that parks keeps the time: it parks only
until the next timer is due. An idle pool with no timers uses no processor time at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import count
from threading import Lock, Thread, current_thread, get_ident

from runnel.runtime.clock import Clock
from runnel.runtime.idle import Backoff, Parker
from runnel.runtime.progress import MADE_PROGRESS
from runnel.runtime.tasklet import Tasklet, take_turn
from runnel.runtime.timers import NEVER, Timers


class Workers:
    """`size` threads at most; none before the first hand-over, none after `stop`. Safe for threads."""

    def __init__(self, size: int, clock: Clock) -> None:
        self.size = size
        self.clock = clock
        self.timers = Timers()
        self.is_stopping = False
        self.workers: tuple[Worker, ...] = ()
        self._lock = Lock()
        self._timekeeper: Worker | None = None
        self._turn = count()
        clock.subscribe(self.unpark_all)

    def adopt(self, tasklets: Sequence[Tasklet]) -> None:
        """Deals ready tasklets to the workers in turn."""
        workers = self._started()
        for tasklet in tasklets:
            worker = workers[next(self._turn) % len(workers)]
            tasklet.owner = worker
            worker.ready(tasklet)

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        self._started()
        if self.timers.wake_at(tasklet, time):
            self._tell_timekeeper()

    def call_at(self, time: int, function: Callable[[], None]) -> None:
        """Will call a short function at a monotonic time."""
        self._started()
        if self.timers.call_at(time, function):
            self._tell_timekeeper()

    def forget(self, tasklets: Collection[Tasklet], function: Callable[[], None] | None = None) -> None:
        """Takes back `wake_at` for these tasklets, and `call_at` of this function."""
        if len(self.timers):
            self.timers.forget(tasklets, function)

    def rouse(self) -> None:
        """Wakes one worker that waits, if any does, to take a tasklet over."""
        for worker in self.workers:
            if worker.is_waiting:
                worker.unpark()
                return

    def unpark_all(self) -> None:
        for worker in self.workers:
            worker.unpark()

    def keep_time(self, worker: Worker) -> bool:
        """Whether the worker is the one to wake for the next timer."""
        with self._lock:
            if self._timekeeper is None:
                self._timekeeper = worker
            return self._timekeeper is worker

    def resign(self, worker: Worker) -> None:
        with self._lock:
            if self._timekeeper is worker:
                self._timekeeper = None

    def stop(self) -> None:
        """Ends the threads and waits for them. The tasklets must have ended before."""
        with self._lock:
            self.is_stopping = True
            workers = self.workers
        self.unpark_all()
        for worker in workers:
            if worker.thread is not current_thread():
                worker.thread.join()

    def _started(self) -> tuple[Worker, ...]:
        if self.workers:
            return self.workers
        with self._lock:
            if not self.workers:
                self.workers = tuple(Worker(self, number) for number in range(self.size))
                for worker in self.workers:
                    worker.thread.start()
            return self.workers

    def _tell_timekeeper(self) -> None:
        """There is a new earliest time. Without a timekeeper, every worker is up and will look at the timers anyway, or
        waits for a step of its back-off and then becomes one."""
        keeper = self._timekeeper
        if keeper is not None:
            keeper.unpark()

    def __repr__(self) -> str:
        lists = ", ".join(str(len(worker)) for worker in self.workers)
        return f"<{self.size} workers: {lists or 'not started'}>"


class Worker:
    """One thread of the pool and the tasklets that it is to call."""

    __slots__ = ("_ident", "_list", "_parker", "_pool", "is_waiting", "thread")

    def __init__(self, pool: Workers, number: int) -> None:
        self._pool = pool
        self._list: deque[Tasklet] = deque()
        self._parker = Parker()
        self._ident = 0
        self.is_waiting = False
        self.thread = Thread(target=self._run, name=f"runnel worker {number}", daemon=True)

    def ready(self, tasklet: Tasklet) -> None:
        """Takes a tasklet. If this worker may be busy with something else for a while, another one is told."""
        self._list.append(tasklet)
        if self.is_waiting:
            self._parker.unpark()
        elif len(self._list) > 1 or get_ident() != self._ident:
            self._pool.rouse()

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        self._pool.wake_at(tasklet, time)

    def unpark(self) -> None:
        self._parker.unpark()

    def _run(self) -> None:
        self._ident = get_ident()
        pool = self._pool
        now = pool.clock.monotonic
        timers = pool.timers
        backoff = Backoff()
        while True:
            if timers.next_time != NEVER:
                timers.fire(now())
            tasklet = self._take() or self._take_over()
            if tasklet is not None:
                backoff.reset()
                if take_turn(tasklet) is MADE_PROGRESS:
                    self.ready(tasklet)
            elif pool.is_stopping:
                return
            else:
                self._wait(backoff)

    def _take(self) -> Tasklet | None:
        try:
            return self._list.popleft()
        except IndexError:
            return None

    def _take_over(self) -> Tasklet | None:
        """A tasklet from the end of the longest list."""
        longest = max(self._pool.workers, key=len, default=self)
        try:
            tasklet = longest._list.pop()
        except IndexError:
            return None
        tasklet.owner = self
        return tasklet

    def _wait(self, backoff: Backoff) -> None:
        """One step of the back-off, or parking when it is over. `is_waiting` is set before the last look at the list: whoever
        appends to it looks at the flag afterwards."""
        pool = self._pool
        timeout = None if backoff.is_exhausted else backoff.next_delay() / 1e9
        keeps_time = pool.keep_time(self)
        self.is_waiting = True
        if not self._list and not pool.is_stopping:
            due = pool.timers.next_time
            if keeps_time and due != NEVER:
                until = pool.clock.timeout(due)
                if until is not None:
                    timeout = until if timeout is None else min(until, timeout)
            self._parker.park(timeout)
        self.is_waiting = False
        if keeps_time:
            pool.resign(self)

    def __len__(self) -> int:
        return len(self._list)

    def __repr__(self) -> str:
        return f"<{self.thread.name}: {len(self._list)} ready{', waiting' if self.is_waiting else ''}>"
