"""How long the statement that a thread runs may wait for others, and that it may be cancelled
meanwhile.

What waits outside of a job (for a broker while a source is divided, for a job that is being
suspended, for a table that another statement writes) is deep below the statement, and behind
contracts that know nothing of time-outs: so the limit goes with the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import RLock
from time import monotonic, monotonic_ns
from types import TracebackType
from typing import Any

from runnel.errors import ErrorCode, InterfaceError, OperationalError

LEAST = 0.1
"""Seconds that are waited in any case: an answer that is there already counts."""
GOES_ON = "what it asked for goes on; SHOW JOBS tells how far it is"
"""The hint for those who no longer wait for a job."""
LOOK = 0.05
"""Seconds after which a thread that waits for a lock looks whether its statement was cancelled."""


class Patience:
    """Of one statement. `deadline` is a time of `time.monotonic_ns`, None: none; `timeout` the
    seconds that it had until then. It stands where a job would, so that who cancels the statement
    ends the waiting, from any thread. As a context it is that of the thread which enters it: what
    is done within has until then, and no longer than what is around it."""

    # Of most statements these stay as they are, and each has one.
    is_cancelled = False
    timeout: float | None = None
    _outer: Patience | None = None
    _wakes: AbstractSet[Callable[[], object]] = frozenset()

    def __init__(self, deadline: int | None) -> None:
        self.deadline = deadline

    def __enter__(self) -> Patience:
        outer = _OF_THIS_THREAD.get()
        self._token: Token[Patience | None] = _OF_THIS_THREAD.set(self)
        if outer is not None:
            self._begin_within(outer)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _OF_THIS_THREAD.reset(self._token)
        if self._outer is not None:
            self._outer._forget(self.cancel)

    def _begin_within(self, outer: Patience) -> None:
        self._outer = outer
        if outer.deadline is not None and (self.deadline is None or outer.deadline < self.deadline):
            self.deadline, self.timeout = outer.deadline, outer.timeout
        outer.announce()
        outer._tell(self.cancel)

    def announce(self) -> None:
        """It is about to be waited with, or to be looked at: from now on it can be cancelled."""

    def cancel(self) -> None:
        self.is_cancelled = True
        for wake in tuple(self._wakes):
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Nothing is left running."""
        return True

    @contextmanager
    def telling(self, wake: Callable[[], object]) -> Iterator[None]:
        """Calls `wake` when it is cancelled, or at once if it is."""
        self._tell(wake)
        try:
            yield
        finally:
            self._forget(wake)

    def _tell(self, wake: Callable[[], object]) -> None:
        # Threads may do so at the same time: each step is one of the interpreter's, and none
        # replaces what another has added.
        self.__dict__.setdefault("_wakes", set()).add(wake)
        if self.is_cancelled:  # after it was added, so that either this or `cancel` sees the other
            wake()

    def _forget(self, wake: Callable[[], object]) -> None:
        self.__dict__["_wakes"].discard(wake)

    def check(self, hint: str | None = None) -> None:
        """OperationalError, with that hint, where it was cancelled."""
        if self.is_cancelled:
            raise OperationalError(
                "the statement was cancelled while it waited", code=ErrorCode.CANCELLED, hint=hint
            )

    def check_time(self) -> None:
        """OperationalError where its time is over."""
        if self.deadline is not None and monotonic_ns() > self.deadline:
            raise OperationalError(
                "the statement timed out while waiting",
                code=ErrorCode.TIMEOUT,
                hint="give it more time",
            )

    def left(self, most: float) -> float:
        """Seconds until its time is over, from 0 to `most`."""
        return (
            most
            if self.deadline is None
            else max(0.0, min(most, (self.deadline - monotonic_ns()) / 1e9))
        )


_OF_THIS_THREAD: ContextVar[Patience | None] = ContextVar("patience", default=None)


def current() -> Patience:
    """That of the statement which this thread runs; one without an end where there is none."""
    found = _OF_THIS_THREAD.get()
    if found is None:
        return Patience(None)
    found.announce()
    return found


@contextmanager
def undisturbed() -> Iterator[None]:
    """What this thread does within doesn't end with its statement: broken off, it would lose
    something."""
    token = _OF_THIS_THREAD.set(None)
    try:
        yield
    finally:
        _OF_THIS_THREAD.reset(token)


def seconds(most: float) -> float:
    """How long this thread may wait now, at most so many seconds."""
    patience = current()
    return most if patience.deadline is None else max(LEAST, patience.left(most))


class RunningStatements:
    """Those of one connection that wait for something, or have waited. Safe for threads."""

    def __init__(self) -> None:
        self._waiting: set[Patience] = set()
        self._is_closed = False

    def add(self, statement: Patience) -> None:
        self._waiting.add(statement)
        if (
            self._is_closed
        ):  # after it was added, so that either this or `cancel_all` sees the other
            statement.cancel()

    def discard(self, statement: Patience) -> None:
        self._waiting.discard(statement)

    def cancel_all(self) -> None:
        """Ends all waits, and those that still begin."""
        self._is_closed = True
        for statement in list(self._waiting):
            statement.cancel()


class RunningStatement(Patience):
    """One statement of a connection. Most wait for nothing: only one that does is told to
    `on_start`, and can be cancelled."""

    _is_known = False

    def __init__(
        self,
        deadline: int | None,
        on_start: Callable[[Patience], object],
        home: RunningStatements,
        timeout: float | None = None,
    ) -> None:
        self.deadline = deadline
        self.timeout = timeout
        self._on_start = on_start
        self._home = home

    def announce(self) -> None:
        if not self._is_known:
            self._is_known = True
            if self._outer is None:  # else that one is known, and cancels this one
                self._home.add(self)
                self._on_start(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        if self._is_known:
            self._home.discard(self)


class PatientLock:
    """A lock of one thread, which may enter it several times. Waiting for it ends with the
    statement: OperationalError where the statement is cancelled or times out meanwhile. `held`
    names what the lock guards, as the error is to name it."""

    def __init__(self, held: str) -> None:
        self._held = held
        self.inner = RLock()
        """Waiting for this one hears nothing: for what must be done however the statement ends."""
        self.acquire = self.inner.acquire
        self.release = self.inner.release

    def __enter__(self) -> None:
        # Most locks are free: no statement pays for the waiting of others.
        if not self.acquire(False):
            self._wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _wait(self) -> None:
        patience = current()
        while not self.acquire(timeout=patience.left(LOOK)):
            if patience.is_cancelled:
                message, code, hint = "was cancelled", ErrorCode.CANCELLED, None
            elif patience.left(LOOK) <= 0:
                message, code, hint = (
                    "timed out",
                    ErrorCode.TIMEOUT,
                    "give it more time, or cancel the other statement",
                )
            else:
                continue
            detail = f"it waited for {self._held}, which another statement holds"
            raise OperationalError(
                f"the statement {message} before it began", code=code, detail=detail, hint=hint
            )


LONGEST_WAIT = 1e9
"""Seconds, 31 years: as good as for ever, and as short as the system's calls take it."""


def waiting_time(timeout: Any) -> float | None:
    """How many seconds a caller is to wait (None: for ever); InterfaceError for what is no such
    time."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise InterfaceError(f"timeout takes a number of seconds, 0 or more, not {timeout!r}")
    return float(min(timeout, LONGEST_WAIT))


def end_of_wait(timeout: Any) -> float | None:
    """When that time is over, by `time.monotonic`; None: never."""
    left = waiting_time(timeout)
    return None if left is None else monotonic() + left


_CHECK: ContextVar[Callable[[], None]] = ContextVar("check", default=lambda: None)


@contextmanager
def within_time(check: Callable[[], None]) -> Iterator[None]:
    """What this thread plans within ends where `check` raises."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_time() -> None:
    """Raises where the time of the statement that this thread plans is over. Called for each node
    that is bound, rewritten or chosen, so that no stage is deaf however large the statement."""
    _CHECK.get()()
