"""A clock that stops until a test advances it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class ManualClock:
    """Monotonic and wall time advance together, and only by `advance`. Thread-safe.

    `start` is the monotonic time in nanoseconds at the beginning, `wall_start` the wall time in µs
    since 1970 (UTC).
    """

    def __init__(self, start: int = 0, wall_start: int = 0) -> None:
        self._now = start
        self._wall_offset = wall_start - start // 1000
        self._lock = Lock()
        self._subscribers: list[Callable[[], None]] = []

    def monotonic(self) -> int:
        return self._now

    def wall(self) -> int:
        return self._now // 1000 + self._wall_offset

    def advance(self, nanoseconds: int) -> None:
        """Advances the time, and calls the subscribers."""
        if nanoseconds < 0:
            raise ValueError("time doesn't go back")
        with self._lock:
            self._now += nanoseconds
            subscribers = tuple(self._subscribers)
        for moved in subscribers:
            moved()

    def advance_to(self, time: int) -> None:
        """Advances to the monotonic time `time`, unless it has passed."""
        self.advance(max(0, time - self._now))

    def timeout(self, until: int) -> float | None:
        return 0.0 if until <= self._now else None

    def subscribe(self, moved: Callable[[], None]) -> None:
        with self._lock:
            self._subscribers.append(moved)
