"""The pool of cooperative threads, started when the first tasklet is handed over.

Each worker calls the tasklets of its own list in turn. One whose list has run dry watches the
others: after each step of a back-off it looks at the longest list, and takes a tasklet over from a
worker that had no rest since the last look; a tasklet in a list isn't being called, so this happens
between calls only. A worker that keeps up is left alone: to hand its short calls to another thread
would cost more than they do. One watches at a time; it gives up when nothing was to be seen for a
while. Who doesn't watch parks until it is given something, or until there is work waiting that
nobody watches. The first worker that parks keeps the time: it parks only until the next timer is
due. An idle pool with no timers uses no processor time at all.

The tasklets of a stream are patient. They pass each other few rows at a time, for which two threads
take up to three times as long as one, since they get the interpreter's lock from each other at each
step. So they begin with one worker, and others take of them only while the work of all is more than
one could do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import count
from threading import Lock, Thread, current_thread, get_ident

from runnel.runtime.tasklets.progress import MADE_PROGRESS
from runnel.runtime.tasklets.tasklet import Tasklet, take_turn
from runnel.runtime.threads.clock import Clock
from runnel.runtime.threads.idle import LAST_DELAY, Backoff, Parker
from runnel.runtime.threads.timers import NEVER, Timers

LOAD_PERIOD = 100_000_000
"""Nanoseconds over which the load of the workers is looked at."""
FULL_LOAD = 0.95
"""The share of its time for which a worker is busy that is as good as always busy."""
WATCHING_ROUNDS = 8
"""So many of the longest steps follow the back-off of a worker that watches others and finds
nothing."""


class Workers:
    """`size` threads at most; none before the first hand-over, none after `stop`. Safe for
    threads."""

    def __init__(self, size: int, clock: Clock) -> None:
        self.size = size
        self.clock = clock
        self.timers = Timers()
        self.is_stopping = False
        self.workers: tuple[Worker, ...] = ()
        self._lock = Lock()
        self._timekeeper: Worker | None = None
        self._turn = count()
        self._looked = (0, 0)
        self._is_full = False
        clock.subscribe(self.unpark_all)

    def adopt(self, tasklets: Sequence[Tasklet], home: int | None = None) -> None:
        """Deals ready tasklets to the workers in turn, or gives all to the one whose number is
        `home`."""
        workers = self._started()
        for tasklet in tasklets:
            workers[next(self._turn) % len(workers) if home is None else home].give(tasklet)

    def new_home(self) -> int:
        """The number of a worker: each in turn. What is new may be much: until that is known it is
        divided."""
        now = self.clock.monotonic()
        self._looked = (now, sum(worker.rested(now) for worker in self.workers))
        self._is_full = True
        return next(self._turn) % self.size

    def wake_at(self, tasklet: Tasklet, time: int) -> None:
        self._started()
        if self.timers.wake_at(tasklet, time):
            self._tell_timekeeper()

    def call_at(self, time: int, function: Callable[[], None]) -> None:
        """Will call a short function at a monotonic time."""
        self._started()
        if self.timers.call_at(time, function):
            self._tell_timekeeper()

    def forget(
        self, tasklets: Collection[Tasklet], function: Callable[[], None] | None = None
    ) -> None:
        """Takes back `wake_at` for these tasklets, and `call_at` of this function."""
        if len(self.timers):
            self.timers.forget(tasklets, function)

    def rouse(self) -> None:
        """Has one of the workers that wait watch the others, if none does."""
        if not self.is_watched():
            for worker in self.workers:
                if worker.is_waiting:
                    worker.unpark()
                    return

    def worker_of(self, ident: int) -> Worker | None:
        """The worker whose thread that is."""
        for worker in self.workers:
            if worker.ident == ident:
                return worker
        return None

    def is_watched(self) -> bool:
        """Whether a worker that has nothing to do looks at the others' lists."""
        return any(worker.is_watching for worker in self.workers)

    def is_full(self) -> bool:
        """Whether the workers together lately did more than one of them could."""
        now = self.clock.monotonic()
        then, rested = self._looked
        if now - then >= LOAD_PERIOD:
            resting = sum(worker.rested(now) for worker in self.workers)
            busy = len(self.workers) * (now - then) - (resting - rested)
            self._is_full = busy >= FULL_LOAD * (now - then)
            self._looked = (now, resting)
        return self._is_full

    def has_work(self) -> bool:
        """Whether a tasklet waits in a list."""
        return any(map(len, self.workers))

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
        """There is a new earliest time. Without a timekeeper, every worker is up and will look at
        the timers anyway, or waits for a step of its back-off and then becomes one."""
        keeper = self._timekeeper
        if keeper is not None:
            keeper.unpark()

    def __repr__(self) -> str:
        lists = ", ".join(str(len(worker)) for worker in self.workers)
        return f"<{self.size} workers: {lists or 'not started'}>"


class Worker:
    """One thread of the pool and the tasklets that it is to call.

    `is_waiting`: it sleeps until it is given something, or for a while. `is_watching`: it has
    nothing to do, and looks at the lists of the others now or soon. `rests` counts how often its
    list ran dry."""

    __slots__ = (
        "_backoff",
        "_list",
        "_parker",
        "_pool",
        "_rested",
        "_resting_since",
        "_rounds",
        "_seen",
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
        self._seen: tuple[Worker, int] | None = None
        self._resting_since = 0
        self._rested = 0
        self.is_firing = False
        self.is_waiting = False
        self.is_watching = False
        self.rests = 0
        self.thread = Thread(target=self._run, name=f"runnel worker {number}", daemon=True)

    def ready(self, tasklet: Tasklet) -> None:
        """Takes a tasklet; but one that another worker has woken becomes that one's, as it works on
        the same rows."""
        ident = get_ident()
        waker = self if ident == self.ident else self._pool.worker_of(ident)
        (self if waker is None or waker.is_firing else waker).give(tasklet)

    def give(self, tasklet: Tasklet) -> None:
        """Takes a tasklet. If this worker may be busy with something else for a while, another one
        is told."""
        tasklet.owner = self
        self._list.append(tasklet)
        if self.is_waiting:
            self._parker.unpark()
        elif len(self._list) > 1 or get_ident() != self.ident:
            self._pool.rouse()

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
        """A tasklet from the end of the longest list, if that was the longest at the last look,
        too, and its worker had no rest in between; a patient one only where one worker is too
        few."""
        longest = max(self._pool.workers, key=len, default=self)
        if not longest._list:
            return None
        seen = (longest, longest.rests)
        if seen != self._seen:
            self._seen = seen
            self._rounds = 0
            return None
        try:
            if longest._list[-1].is_patient and not self._pool.is_full():
                return None
            tasklet = longest._list.pop()
        except IndexError:
            return None
        tasklet.owner = self
        return tasklet

    def _wait(self) -> None:
        """One step of watching, or parking where another one watches or nothing is to be seen.

        `is_waiting` is set before the last look at the list, at which whoever appends to it looks
        afterwards. In the same way `is_watching` is taken back before the last look at the
        others."""
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
                self._watch_anew()
            since, self._resting_since = self._resting_since, 0
            self._rested += pool.clock.monotonic() - since
        self.is_waiting = False
        if keeps_time:
            pool.resign(self)

    def _watch_anew(self) -> None:
        self._rounds = 0
        self._backoff.reset()

    def _next_look(self) -> float | None:
        """When to look at the others, in seconds from now; None where that isn't this worker's
        business."""
        pool = self._pool
        self.is_watching = False
        if pool.is_watched():
            return None
        if self._rounds >= WATCHING_ROUNDS and not pool.has_work():
            return None
        self.is_watching = True
        if not self._backoff.is_exhausted:
            return self._backoff.next_delay() / 1e9
        self._rounds += 1
        return LAST_DELAY / 1e9

    def _stop_watching(self) -> None:
        """It has something to do. If more is waiting, another one is to watch."""
        self.is_watching = False
        self._watch_anew()
        if self._pool.has_work():
            self._pool.rouse()

    def rested(self, now: int) -> int:
        """For how many nanoseconds it had nothing to do, up to now."""
        since = self._resting_since
        return self._rested + (now - since if since else 0)

    def __len__(self) -> int:
        return len(self._list)

    def __repr__(self) -> str:
        return (
            f"<{self.thread.name}: {len(self._list)} ready{', waiting' if self.is_waiting else ''}>"
        )
