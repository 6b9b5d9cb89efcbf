"""The time of a connection, injected, so that tests can stop it.

Monotonic time (nanoseconds) schedules and measures; wall time (microseconds since the epoch, UTC)
is shown to users, stored in records, and returned by NOW().
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import MethodType
from typing import Protocol
from weakref import WeakMethod


class Clock(Protocol):
    """A source of the time, for `runnel.connect(clock=…)`. Any thread calls its methods."""

    @property
    def monotonic(self) -> Callable[[], int]:
        """Nanoseconds since a fixed but unknown time; never decreases."""

    @property
    def wall(self) -> Callable[[], int]:
        """Microseconds since 1970-01-01 UTC, of the years 1 to 9999. It may be set back."""

    def timeout(self, until: int) -> float | None:
        """The real seconds that a thread may wait for the monotonic time `until`; None: until the
        callbacks of `subscribe` are called, because this time advances only on command."""

    def subscribe(self, moved: Callable[[], None]) -> None:
        """`moved` is called whenever the time jumps; the system's time never does."""


Clock.__module__ = "runnel"


class SystemClock:
    """The computer's own clock."""

    # Static methods of C functions: a reading takes 40 ns, and a Python method would double that.
    monotonic = staticmethod(time.monotonic_ns)

    @staticmethod
    def wall() -> int:
        return time.time_ns() // 1000

    def timeout(self, until: int) -> float | None:
        return max(0.0, (until - time.monotonic_ns()) / 1e9)

    def subscribe(self, moved: Callable[[], None]) -> None:
        """Does nothing: this clock never jumps."""


SYSTEM_CLOCK: Clock = SystemClock()


def steady_wall(clock: Clock) -> Callable[[], int]:
    """Returns the wall time in µs since 1970, which is not set back: it follows the monotonic
    time."""
    monotonic = clock.monotonic
    offset = clock.wall() - monotonic() // 1000
    return lambda: monotonic() // 1000 + offset


def weakly(method: Callable[[], None]) -> Callable[[], None]:
    """A subscriber that calls a method as long as its object exists: a clock of tests may outlive
    many connections."""
    assert isinstance(method, MethodType)
    found = WeakMethod(method)

    def moved() -> None:
        called = found()
        if called is not None:
            called()

    return moved
