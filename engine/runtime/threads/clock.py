"""Time as the runtime sees it: given from outside, so that tests can hold it still.

Monotonic time (nanoseconds) schedules and measures; wall time (microseconds since the epoch, UTC)
is only shown to users and given to NOW().
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Where the runtime gets the time from."""

    @property
    def monotonic(self) -> Callable[[], int]:
        """Nanoseconds since some fixed moment; never goes back."""

    @property
    def wall(self) -> Callable[[], int]:
        """Microseconds since 1970-01-01 UTC."""

    def timeout(self, until: int) -> float | None:
        """How many real seconds a thread may wait for the monotonic time `until`; None: until
        `subscribe`d callbacks run, because time moves only when someone moves it."""

    def subscribe(self, moved: Callable[[], None]) -> None:
        """`moved` is called whenever the time jumps, which the system's never does."""


class SystemClock:
    """The computer's own clock."""

    # Staticmethods of C functions: a reading costs 40 ns, a Python method around it would double
    # that.
    monotonic = staticmethod(time.monotonic_ns)

    @staticmethod
    def wall() -> int:
        return time.time_ns() // 1000

    def timeout(self, until: int) -> float | None:
        return max(0.0, (until - time.monotonic_ns()) / 1e9)

    def subscribe(self, moved: Callable[[], None]) -> None:
        """Nothing to do: this clock never jumps."""


SYSTEM_CLOCK: Clock = SystemClock()
