"""A clock that stops until a test advances it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class ManualClock:
    """Monotonic and wall time advance together, and only by `advance`. Thread-safe.

    `start` is the monotonic time in nanoseconds at the beginning, `wall_start` the wall time: µs
    since 1970 (UTC), or a datetime, which is in UTC if it has no time zone.
    """

    def __init__(self, start: int = 0, wall_start: int | datetime = 0) -> None:
        self._now = start
        self._wall_offset = _microseconds(wall_start) - start // 1000
        self._lock = Lock()
        self._subscribers: list[Callable[[], None]] = []

    def monotonic(self) -> int:
        return self._now

    def wall(self) -> int:
        return self._now // 1000 + self._wall_offset

    def advance(self, nanoseconds: int | timedelta) -> None:
        """Advances both times, by nanoseconds or a timedelta, in one step, and calls the
        subscribers. The work that is due then runs on other threads; `Connection.settle` waits for
        it."""
        if isinstance(nanoseconds, timedelta):
            nanoseconds = nanoseconds // _MICROSECOND * 1000
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

    def set_wall(self, time: int | datetime) -> None:
        """Sets the wall time alone, also back, as an administrator or a time server may do."""
        with self._lock:
            self._wall_offset = _microseconds(time) - self._now // 1000

    def timeout(self, until: int) -> float | None:
        return 0.0 if until <= self._now else None

    def subscribe(self, moved: Callable[[], None]) -> None:
        with self._lock:
            self._subscribers.append(moved)


def _microseconds(time: int | datetime) -> int:
    if not isinstance(time, datetime):
        return time
    return (time.replace(tzinfo=time.tzinfo or UTC) - _EPOCH) // _MICROSECOND
