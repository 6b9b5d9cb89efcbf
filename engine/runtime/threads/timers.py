"""Timers: a thread-safe heap of events with their times."""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from itertools import count
from threading import Lock

from runnel.runtime.tasklets.tasklet import Tasklet

NEVER = 1 << 62
"""Later than any monotonic time."""


class Timers:
    """Tasklets to wake and functions to call, each at a monotonic time in ns.

    `next_time` is the earliest of them, or NEVER; it is read without the lock, so that a check
    whether anything is due is cheap.
    """

    __slots__ = ("_heap", "_lock", "_pending", "_sequence", "next_time")

    def __init__(self) -> None:
        self.next_time = NEVER
        self._heap: list[tuple[int, int, Tasklet | None, Callable[[], None]]] = []
        self._pending: set[tuple[Tasklet, int]] = set()
        self._sequence = count()
        self._lock = Lock()

    def wake_at(self, tasklet: Tasklet, time: int) -> bool:
        """Will wake the tasklet; returns whether this is now the earliest time. Repeating a request
        has no effect."""
        with self._lock:
            if (tasklet, time) in self._pending:
                return False
            self._pending.add((tasklet, time))
            return self._push(time, tasklet, tasklet.wake)

    def call_at(self, time: int, function: Callable[[], None]) -> bool:
        """Will call the function, on the thread that finds it due; returns whether this is now the
        earliest time."""
        with self._lock:
            return self._push(time, None, function)

    def fire(self, now: int) -> None:
        """Wakes and calls everything that is due at `now`."""
        while self.next_time <= now:
            with self._lock:
                if not self._heap or self._heap[0][0] > now:
                    return
                time, _, tasklet, function = heappop(self._heap)
                if tasklet is not None:
                    self._pending.discard((tasklet, time))
                self.next_time = self._heap[0][0] if self._heap else NEVER
            function()

    def forget(
        self, tasklets: Collection[Tasklet], function: Callable[[], None] | None = None
    ) -> None:
        """Removes the wake-ups of these tasklets, and the calls of `function`."""
        gone = set(tasklets)
        with self._lock:
            remaining = [
                entry
                for entry in self._heap
                if entry[2] not in gone and (function is None or entry[3] != function)
            ]
            if len(remaining) < len(self._heap):
                self._heap = remaining
                heapify(remaining)
                self._pending = {
                    (entry[2], entry[0]) for entry in remaining if entry[2] is not None
                }
                self.next_time = remaining[0][0] if remaining else NEVER

    def _push(self, time: int, tasklet: Tasklet | None, function: Callable[[], None]) -> bool:
        heappush(self._heap, (time, next(self._sequence), tasklet, function))
        if time < self.next_time:
            self.next_time = time
            return True
        return False

    def __len__(self) -> int:
        return len(self._heap)
