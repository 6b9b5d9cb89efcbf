"""A user's clock, checked at each reading.

A thread that reads the time cannot fail: it may be a worker between two tasklets. So a reading that
breaks the contract is replaced by the last valid one, and the owner of the clock is notified, which
fails all statements and jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from typing import Any

from runnel.base.clock import SYSTEM_CLOCK, Clock
from runnel.errors import InterfaceError
from runnel.testing.clock import ManualClock

METHODS = ("monotonic", "wall", "timeout", "subscribe")
FIRST_WALL, LAST_WALL = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The wall time of the first and the last microsecond of the years 1 to 9999."""
_HINT = "use runnel.testing.ManualClock, or a class with the methods of runnel.Clock"


def clock_of(clock: Any) -> Clock:
    """The clock of a connection from what `connect` received; None: the system's. InterfaceError
    for an object that is no clock."""
    if clock is None:
        return SYSTEM_CLOCK
    if isinstance(clock, type):
        raise InterfaceError(
            f"clock is the class {clock.__name__}, not an object of it",
            hint=f"pass {clock.__name__}()",
        )
    missing = [name for name in METHODS if not callable(getattr(clock, name, None))]
    if missing:
        raise InterfaceError(
            f"a value of class {type(clock).__name__} is no clock: it has no method "
            + ", ".join(missing),
            hint=_HINT,
        )
    # Its time cannot go back.
    return clock if type(clock) is ManualClock else GuardedClock(clock)


class GuardedClock:
    """A user's clock. Thread-safe.

    failure: the first breach of the contract; None: there was none.
    on_failure: is called with it, on a thread of its own.
    """

    def __init__(self, clock: Clock) -> None:
        """InterfaceError if its first readings are not valid."""
        self._clock = clock
        self._lock = Lock()
        self.failure: InterfaceError | None = None
        self.on_failure: Callable[[InterfaceError], object] = _ignore
        self._monotonic = 0
        self._wall = 0
        self._monotonic = self._read("monotonic", -(1 << 62), 1 << 62)
        self.wall()
        if self.failure is not None:
            raise self.failure

    def monotonic(self) -> int:
        with self._lock:  # so that the readings are compared in the order in which they were made
            self._monotonic = self._read("monotonic", self._monotonic, 1 << 62)
            return self._monotonic

    def wall(self) -> int:
        with self._lock:
            self._wall = self._read("wall", FIRST_WALL, LAST_WALL)
            return self._wall

    def timeout(self, until: int) -> float | None:
        try:
            found = self._clock.timeout(until)
            if found is None or found >= 0:
                return found
            self._fail(f"timeout() of the clock returned {found!r}")
        except Exception as error:
            self._fail("timeout() of the clock failed", error)
        return 0.01

    def subscribe(self, moved: Callable[[], None]) -> None:
        self._clock.subscribe(moved)

    def _read(self, method: str, least: int, most: int) -> int:
        last: int = getattr(self, f"_{method}")
        try:
            found = getattr(self._clock, method)()
        except Exception as error:
            self._fail(f"{method}() of the clock failed", error)
            return last
        if not isinstance(found, int) or isinstance(found, bool):
            self._fail(f"{method}() of the clock returned {found!r:.100}, not an int")
        elif method == "monotonic" and found < least:
            self._fail(f"the clock went back: monotonic() returned {found} after {least}")
        elif not least <= found <= most:
            self._fail(f"{method}() of the clock returned {found}, which is out of range")
        else:
            return found
        return last

    def _fail(self, message: str, cause: Exception | None = None) -> None:
        if self.failure is not None:
            return
        detail = None if cause is None else f"{type(cause).__name__}: {cause}"
        hint = "monotonic time never decreases; to set the wall time back, change only wall()"
        self.failure = InterfaceError(
            message, detail=detail, hint=hint if "went back" in message else _HINT
        )
        self.failure.__cause__ = cause
        # On another thread: the one that reads the time may hold a lock.
        Thread(
            target=lambda: self.on_failure(self.failure or InterfaceError(message)),
            name="runnel clock failed",
            daemon=True,
        ).start()


def _ignore(error: InterfaceError) -> None:
    """The failure is raised by the constructor."""
