"""The runtime's time, injected, so that tests can stop it.

Monotonic time (nanoseconds) schedules and measures; wall time (microseconds since the epoch, UTC)
is only shown to users and returned by NOW().
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A source of the time."""

    @property
    def monotonic(self) -> Callable[[], int]:
        """Nanoseconds since a fixed but unknown time; never decreases."""

    @property
    def wall(self) -> Callable[[], int]:
        """Microseconds since 1970-01-01 UTC."""

    def timeout(self, until: int) -> float | None:
        """The real seconds that a thread may wait for the monotonic time `until`; None: until the
        callbacks of `subscribe` are called, because this time advances only on command."""

    def subscribe(self, moved: Callable[[], None]) -> None:
        """`moved` is called whenever the time jumps; the system's time never does."""


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
