"""Waiting of a thread: a permit that any thread can give it, and a back-off that grows to a
millisecond."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock

FIRST_DELAY = 20_000
"""Nanoseconds of the first step of a back-off."""
LAST_DELAY = 1_000_000
"""Nanoseconds of its last step."""


class Parker:
    """One thread parks, and any thread unparks it. An `unpark` before `park` lets `park` return at
    once, so none is lost; several count as one. It is a binary semaphore: the lock is free exactly
    while there is a permit."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = Lock()
        self._gate.acquire()

    def park(self, timeout: float | None = None) -> bool:
        """Waits for a permit, at most `timeout` seconds, and takes it; False on timeout."""
        return self._gate.acquire(timeout=-1 if timeout is None else timeout)

    def unpark(self) -> None:
        with suppress(RuntimeError):  # a permit may already exist
            self._gate.release()


class Backoff:
    """Delays in nanoseconds that double from FIRST_DELAY to LAST_DELAY."""

    __slots__ = ("_delay",)

    def __init__(self) -> None:
        self._delay = FIRST_DELAY

    def next_delay(self) -> int:
        delay = self._delay
        self._delay = min(2 * delay, LAST_DELAY)
        return delay

    @property
    def is_exhausted(self) -> bool:
        """Whether the longest delay is reached."""
        return self._delay == LAST_DELAY

    def reset(self) -> None:
        self._delay = FIRST_DELAY
