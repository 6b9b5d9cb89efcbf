"""The pool of cooperative threads, started when the first tasklet is handed over.

Each worker calls the tasklets of its own list in turn. A worker whose list is empty watches the
other workers: after each step of a back-off it checks the longest list, and steals a tasklet from a
worker that had no rest since the last check; a tasklet in a list is not being called, so this
happens only between calls. A worker that keeps up is left alone: passing its short calls to another
thread would cost more than the calls. One worker watches at a time; it stops if it finds nothing
for a while, or if all other workers wait. A worker that does not watch parks until it receives a
tasklet, or until work is waiting and no worker watches. The first worker that parks is the
timekeeper: it parks only until the next timer is due. An idle pool without timers uses no processor
time.

The tasklets of a stream are background tasklets. They pass each other few rows at a time, for which
two threads need up to three times as long as one, since at each step they get the interpreter's
lock from each other. So they begin on one worker, and other workers steal them only while the work
of all is more than one worker could do, and while that is worth it (`sharing`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import count
from threading import Lock, Thread, current_thread, get_ident
from typing import TYPE_CHECKING

from runnel.base.clock import Clock, weakly
from runnel.runtime.tasklets.tasklet import MADE_PROGRESS, Tasklet, take_turn
from runnel.runtime.threads.idle import LAST_DELAY, Backoff, Parker
from runnel.runtime.threads.timers import NEVER, Timers

if TYPE_CHECKING:
    from runnel.runtime.threads.sharing import Sharing

_clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)

LOAD_PERIOD = 100_000_000
"""Nanoseconds over which the load of the workers is measured."""
WATCHING_ROUNDS = 8
"""Number of longest back-off steps after which a watching worker that finds nothing stops
watching."""


class Workers:
    """At most `size` threads; none before the first hand-over, none after `stop`. Thread-safe."""

    def __init__(self, size: int, clock: Clock) -> None:
        self.size = size
        self.clock = clock
        self.timers = Timers()
        self.is_stopping = False
        self.workers: tuple[Worker, ...] = ()
        self._lock = Lock()
        self._timekeeper: Worker | None = None
        self._turn = count()
        self._looked: tuple[int, int, int | None] = (0, 0, 0)
        self._sharing: Sharing | None = None
        clock.subscribe(weakly(self.unpark_all))

    def adopt(self, tasklets: Sequence[Tasklet], home: int | None = None) -> None:
        """Distributes ready tasklets over the workers in turn, or adds all to worker `home`."""
        workers = self._started()
        for tasklet in tasklets:
            workers[next(self._turn) % len(workers) if home is None else home].give(tasklet)

    def new_home(self) -> int:
        """The number of a worker, in turn. The new tasklets may be much work: until the load is
        measured again, other workers may steal them."""
        now = self.clock.monotonic()
        self._looked = self._look(now)
        if self._sharing is None:
            # Loaded on first use: most processes run no streams.
            from runnel.runtime.threads.sharing import Sharing

            self._sharing = Sharing()
        self._sharing.begin(now)
        return next(self._turn) % self.size

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        self._started()
        if self.timers.wake_at(tasklet, time):
            self._notify_timekeeper()

    def call_at(self, time: int, function: Callable[[], None]) -> None:
        """Will call a short function at a monotonic time."""
        self._started()
        if self.timers.call_at(time, function):
            self._notify_timekeeper()

    def forget(
        self, tasklets: Collection[Tasklet], function: Callable[[], None] | None = None
    ) -> None:
        """Revokes `wake_at` for these tasklets, and `call_at` of this function."""
        if len(self.timers):
            self.timers.forget(tasklets, function)

    def rouse(self, busy: Worker) -> None:
        """Wakes a waiting worker to watch the list of a busy one, unless one watches."""
        if not self.is_watched():
            for worker in self.workers:
                if worker.is_waiting and worker is not busy:
                    worker.unpark()
                    return

    def worker_of(self, ident: int) -> Worker | None:
        """The worker with that thread, if there is one."""
        for worker in self.workers:
            if worker.ident == ident:
                return worker
        return None

    def is_watched(self) -> bool:
        """Whether an idle worker checks the other workers' lists."""
        return any(worker.is_watching for worker in self.workers)

    def has_busy_worker(self) -> bool:
        """Whether a worker calls a tasklet, or is about to."""
        return any(not worker.is_waiting or worker._list for worker in self.workers)

    def shares(self) -> bool:
        """Whether workers may steal background tasklets."""
        if self._sharing is None:
            return False
        now = self.clock.monotonic()
        then, rested, used = self._looked
        elapsed = now - then
        if elapsed >= LOAD_PERIOD:
            self._looked = _, resting, using = self._look(now)
            busy = len(self.workers) * elapsed - (resting - rested)
            spent = None if used is None or using is None else using - used
            self._sharing.measured(now, elapsed, busy, spent)
        return self._sharing.is_shared

    def _look(self, now: int) -> tuple[int, int, int | None]:
        """The time, how long the workers have rested until then, and their processor time."""
        workers = self.workers
        times = [worker.processor_time() for worker in workers]
        used = None if None in times else sum(time or 0 for time in times)
        return now, sum(worker.rested(now) for worker in workers), used

    def gathers(self) -> bool:
        """Whether background tasklets return to the first worker."""
        return self._sharing is not None and self._sharing.is_gathered

    def has_work(self) -> bool:
        """Whether a tasklet waits in a list."""
        return any(map(len, self.workers))

    def unpark_all(self) -> None:
        for worker in self.workers:
            worker.unpark()

    def keep_time(self, worker: Worker) -> bool:
        """Whether the worker is the timekeeper, which wakes for the next timer."""
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

    def _notify_timekeeper(self) -> None:
        """There is a new earliest time. Without a timekeeper, every worker is awake and will check
        the timers anyway, or waits for a step of its back-off and then becomes the timekeeper."""
        keeper = self._timekeeper
        if keeper is not None:
            keeper.unpark()

    def __repr__(self) -> str:
        lists = ", ".join(str(len(worker)) for worker in self.workers)
        return f"<{self.size} workers: {lists or 'not started'}>"


class Worker:
    """One thread of the pool and the tasklets that it is to call.

    is_waiting: it sleeps until it receives a tasklet, or for a limited time.
    is_watching: it is idle, and checks the lists of other workers now or soon.
    is_firing: it is calling timers.
    rests: number of times that its list became empty.
    """

    __slots__ = (
        "_backoff",
        "_last_victim",
        "_list",
        "_parker",
        "_pool",
        "_rested",
        "_resting_since",
        "_rounds",
        "ident",
        "is_firing",
        "is_waiting",
        "is_watching",
        "rests",
        "thread",
    )

    def __init__(self, pool: Workers, number: int) -> None:
        self._pool = pool
        self._list: deque[Tasklet] = deque()
        self._parker = Parker()
        self.ident = 0
        self._backoff = Backoff()
        self._rounds = 0
        self._last_victim: tuple[Worker, int] | None = None
        self._resting_since = 0
        self._rested = 0
        self.is_firing = False
        self.is_waiting = False
        self.is_watching = False
        self.rests = 0
        self.thread = Thread(target=self._run, name=f"runnel worker {number}", daemon=True)

    def ready(self, tasklet: Tasklet) -> None:
        """Adds a tasklet. If another worker has woken it, that worker adopts it, as both work on
        the same rows."""
        pool = self._pool
        if tasklet.is_background and pool.gathers():
            pool.workers[0].give(tasklet)
            return
        ident = get_ident()
        waker = self if ident == self.ident else pool.worker_of(ident)
        (self if waker is None or waker.is_firing else waker).give(tasklet)

    def give(self, tasklet: Tasklet) -> None:
        """Adds a tasklet. If this worker may be busy for a while, another one is woken to watch,
        unless it would not steal the tasklet."""
        tasklet.owner = self
        self._list.append(tasklet)
        is_busy = not self.is_waiting
        if not is_busy:
            self._parker.unpark()
        if (len(self._list) > 1 or (is_busy and get_ident() != self.ident)) and (
            not tasklet.is_background or self._pool.shares()
        ):
            self._pool.rouse(self)

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        self._pool.wake_at(tasklet, time)

    def unpark(self) -> None:
        self._parker.unpark()

    def _run(self) -> None:
        self.ident = get_ident()
        pool = self._pool
        now = pool.clock.monotonic
        timers = pool.timers
        while True:
            if timers.next_time != NEVER:
                self.is_firing = True
                timers.fire(now())
                self.is_firing = False
            tasklet = self._take() or self._take_over()
            if tasklet is not None:
                if self.is_watching:
                    self._stop_watching()
                if take_turn(tasklet) is MADE_PROGRESS:
                    self.ready(tasklet)
            elif pool.is_stopping:
                return
            else:
                self._wait()

    def _take(self) -> Tasklet | None:
        try:
            return self._list.popleft()
        except IndexError:
            return None

    def _take_over(self) -> Tasklet | None:
        """Steals a tasklet from the end of the longest list, if that was the longest at the last
        check too, and its worker had no rest in between; a background tasklet only if one worker is
        not enough."""
        longest = max(self._pool.workers, key=len, default=self)
        if not longest._list:
            return None
        victim = (longest, longest.rests)
        if victim != self._last_victim:
            self._last_victim = victim
            self._rounds = 0
            return None
        try:
            if longest._list[-1].is_background and not self._pool.shares():
                return None
            tasklet = longest._list.pop()
        except IndexError:
            return None
        tasklet.owner = self
        return tasklet

    def _wait(self) -> None:
        """One step of watching, or parking if another worker watches or there is nothing to find.

        `is_waiting` is set before the last check of the list, and a thread that appends to the list
        checks it afterwards. In the same way `is_watching` is cleared before the last check of the
        other lists."""
        pool = self._pool
        self.rests += 1
        keeps_time = pool.keep_time(self)
        self.is_waiting = True
        timeout = self._next_look()
        if not self._list and not pool.is_stopping:
            due = pool.timers.next_time
            if keeps_time and due != NEVER:
                until = pool.clock.timeout(due)
                if until is not None:
                    timeout = until if timeout is None else min(until, timeout)
            self._resting_since = pool.clock.monotonic()
            if self._parker.park(timeout):
                self._restart_watch()
            since, self._resting_since = self._resting_since, 0
            self._rested += pool.clock.monotonic() - since
        self.is_waiting = False
        if keeps_time:
            pool.resign(self)

    def _restart_watch(self) -> None:
        self._rounds = 0
        self._backoff.reset()

    def _next_look(self) -> float | None:
        """The time until the next check of the other lists, in seconds; None if this worker does
        not watch."""
        pool = self._pool
        self.is_watching = False
        if pool.is_watched() or not pool.has_busy_worker():
            return None
        if self._rounds >= WATCHING_ROUNDS and not pool.has_work():
            return None
        self.is_watching = True
        if not self._backoff.is_exhausted:
            return self._backoff.next_delay() / 1e9
        self._rounds += 1
        return LAST_DELAY / 1e9

    def _stop_watching(self) -> None:
        """It has found a tasklet. If more are waiting, another worker is to watch."""
        self.is_watching = False
        self._restart_watch()
        if self._pool.has_work():
            self._pool.rouse(self)

    def rested(self, now: int) -> int:
        """The nanoseconds for which it was idle, up to now."""
        since = self._resting_since
        return self._rested + (now - since if since else 0)

    def processor_time(self) -> int | None:
        """The nanoseconds of processor time that its thread has used; None where the system does
        not tell the time of other threads."""
        # Only a running thread has a clock. `self.ident` may not be set yet.
        if self.thread.ident is None or not self.thread.is_alive():
            return 0
        return None if _clock_of is None else time.clock_gettime_ns(_clock_of(self.thread.ident))

    def __len__(self) -> int:
        return len(self._list)

    def __repr__(self) -> str:
        return (
            f"<{self.thread.name}: {len(self._list)} ready{', waiting' if self.is_waiting else ''}>"
        )
