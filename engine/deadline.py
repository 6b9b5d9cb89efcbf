"""The deadline and the cancellation of the statement that a thread runs.

Waits outside of a job (for a broker while a source is split, for a job that is being suspended, for
a table that another statement writes) are deep below the statement, under contracts that know
nothing of timeouts. Therefore the deadline is a context variable of the thread.
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

from runnel.errors import ErrorCode, FetchTimeoutError, InterfaceError, OperationalError

LEAST = 0.1
"""Minimum wait in seconds: an answer that has already arrived counts in any case."""
GOES_ON = "the change continues; SHOW JOBS reports its progress"
"""The hint for a statement that no longer waits for a job."""
LOOK = 0.05
"""Interval in seconds at which a thread that waits for a lock checks whether its statement was
cancelled."""


class Deadline:
    """The time limit of one statement, which can also be cancelled.

    deadline: time of `time.monotonic_ns`; None: no limit.
    timeout: the seconds from the start of the statement to the deadline; None: no limit.
    is_cancelled: whether the statement was cancelled.

    It has the interface of a job, so that cancelling the statement, from any thread, ends its
    waits. As a context manager it becomes the deadline of the thread that enters it; inside an
    outer deadline the earlier of the two applies.
    """

    # Most statements never change these defaults, and each statement makes an instance.
    is_cancelled = False
    timeout: float | None = None
    report: Callable[[], Any] | None = None
    """Returns the progress of a statement that starts no job, as a QueryProgress; None: it has
    none."""
    _outer: Deadline | None = None
    _wakes: AbstractSet[Callable[[], object]] = frozenset()

    def __init__(self, deadline: int | None) -> None:
        self.deadline = deadline

    def __enter__(self) -> Deadline:
        outer = _OF_THIS_THREAD.get()
        self._token: Token[Deadline | None] = _OF_THIS_THREAD.set(self)
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

    def _begin_within(self, outer: Deadline) -> None:
        self._outer = outer
        if outer.deadline is not None and (self.deadline is None or outer.deadline < self.deadline):
            self.deadline, self.timeout = outer.deadline, outer.timeout
        outer.announce()
        outer._add_wake(self.cancel)

    def announce(self) -> None:
        """Called before the statement waits or checks its deadline: from now on it can be
        cancelled."""

    def cancel(self) -> None:
        self.is_cancelled = True
        for wake in tuple(self._wakes):
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Nothing runs that could be waited for."""
        return True

    @contextmanager
    def on_cancel(self, wake: Callable[[], object]) -> Iterator[None]:
        """Calls `wake` when the statement is cancelled, or at once if it already was."""
        self._add_wake(wake)
        try:
            yield
        finally:
            self._forget(wake)

    def _add_wake(self, wake: Callable[[], object]) -> None:
        # Several threads may do so at the same time: each step is atomic in the interpreter, and
        # no thread replaces an entry that another has added.
        self.__dict__.setdefault("_wakes", set()).add(wake)
        if self.is_cancelled:  # after it was added, so that either this or `cancel` sees the other
            wake()

    def _forget(self, wake: Callable[[], object]) -> None:
        self.__dict__["_wakes"].discard(wake)

    def check(self, hint: str | None = None) -> None:
        """OperationalError with that hint if the statement was cancelled."""
        if self.is_cancelled:
            raise OperationalError(
                "the statement was cancelled while it waited", code=ErrorCode.CANCELLED, hint=hint
            )

    def check_time(self) -> None:
        """OperationalError if the deadline has passed."""
        if self.deadline is not None and monotonic_ns() > self.deadline:
            raise OperationalError(
                "the statement timed out while waiting",
                code=ErrorCode.TIMEOUT,
                hint="give it more time",
            )

    def left(self, most: float) -> float:
        """Seconds until the deadline, from 0 to `most`."""
        return (
            most
            if self.deadline is None
            else max(0.0, min(most, (self.deadline - monotonic_ns()) / 1e9))
        )


_OF_THIS_THREAD: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current() -> Deadline:
    """The deadline of the statement that this thread runs; without a statement, one without a
    limit."""
    found = _OF_THIS_THREAD.get()
    if found is None:
        return Deadline(None)
    found.announce()
    return found


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within it this thread runs without the deadline of its statement, for work that would lose
    something if it were interrupted."""
    token = _OF_THIS_THREAD.set(None)
    try:
        yield
    finally:
        _OF_THIS_THREAD.reset(token)


def seconds(most: float) -> float:
    """Seconds that this thread may wait now, at most `most`."""
    deadline = current()
    return most if deadline.deadline is None else max(LEAST, deadline.left(most))


class RunningStatements:
    """The statements of one connection that wait, or have waited, for something. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: set[Deadline] = set()
        self._is_closed = False

    def add(self, statement: Deadline) -> None:
        self._waiting.add(statement)
        if (
            self._is_closed
        ):  # after it was added, so that either this or `cancel_all` sees the other
            statement.cancel()

    def discard(self, statement: Deadline) -> None:
        self._waiting.discard(statement)

    def cancel_all(self) -> None:
        """Ends all waits, and the waits that begin later."""
        self._is_closed = True
        for statement in list(self._waiting):
            statement.cancel()


class RunningStatement(Deadline):
    """The deadline of one statement of a connection. Most statements wait for nothing: `on_start`
    is called only for one that waits, and only such a statement can be cancelled.

    deadline, timeout: as in the base class.
    on_start: receives this object when the statement first waits.
    home: the running statements of the connection.
    """

    _is_known = False

    def __init__(
        self,
        deadline: int | None,
        on_start: Callable[[Deadline], object],
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


class DeadlineLock:
    """A reentrant lock whose wait ends with the statement: OperationalError if the statement is
    cancelled or times out meanwhile.

    waiting_for: name of the guarded object, for the error.
    """

    def __init__(self, waiting_for: str) -> None:
        self._waiting_for = waiting_for
        self.inner = RLock()
        """Waiting for this lock ignores the deadline: for work that must be done however the
        statement ends."""
        self.acquire = self.inner.acquire
        self.release = self.inner.release

    def __enter__(self) -> None:
        # Most locks are free: then the deadline is not even looked up.
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
        deadline = current()
        while not self.acquire(timeout=deadline.left(LOOK)):
            if deadline.is_cancelled:
                message, code, hint = "was cancelled", ErrorCode.CANCELLED, None
            elif deadline.left(LOOK) <= 0:
                message, code, hint = (
                    "timed out",
                    ErrorCode.TIMEOUT,
                    "give it more time, or cancel the other statement",
                )
            else:
                continue
            detail = f"it waited for {self._waiting_for}, which another statement uses"
            raise OperationalError(
                f"the statement {message} before it began", code=code, detail=detail, hint=hint
            )


LONGEST_WAIT = 1e9
"""Seconds (31 years): practically no limit, and within the range of the system's calls."""


def waiting_time(timeout: Any) -> float | None:
    """The number of seconds that a caller is to wait, from 0; None: without a limit. InterfaceError
    if `timeout` is not such a number."""
    return _checked(timeout, ", 0 or more", may_be_zero=True)


def time_limit(timeout: Any) -> float | None:
    """The number of seconds that a statement may take, above 0; None: without a limit.
    InterfaceError if `timeout` is not such a number."""
    return _checked(timeout, " above 0", may_be_zero=False)


def _checked(timeout: Any, allowed: str, *, may_be_zero: bool) -> float | None:
    if timeout is None:
        return None
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not (timeout > 0 or (may_be_zero and timeout == 0))  # NaN is neither
    ):
        raise InterfaceError(f"timeout must be a number of seconds{allowed}, not {timeout!r}")
    return float(min(timeout, LONGEST_WAIT))


def end_of_wait(timeout: Any) -> float | None:
    """The time of `time.monotonic` at which that wait ends; None: never."""
    left = waiting_time(timeout)
    return None if left is None else monotonic() + left


class WaitLimit:
    """The time that one fetch may wait.

    seconds: the timeout that the caller passed.
    end: the time of `time.monotonic` at which the wait ends.
    """

    __slots__ = ("end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until the end; negative after it."""
        return self.end - monotonic()

    def error(self) -> FetchTimeoutError:
        """The error of a fetch that found no row in this time."""
        return FetchTimeoutError(
            f"no row arrived within {self.seconds:g} s",
            hint="the query continues: fetch again, or close the cursor to end the query",
        )


def wait_limit(timeout: Any) -> WaitLimit | None:
    """The limit of a wait that begins now; None: without a limit. InterfaceError if `timeout` is
    not a number of seconds from 0."""
    if timeout is None:  # the common case, without the two calls below
        return None
    seconds = waiting_time(timeout)
    return None if seconds is None else WaitLimit(seconds)


_CHECK: ContextVar[Callable[[], None]] = ContextVar("check", default=lambda: None)


@contextmanager
def within_time(check: Callable[[], None]) -> Iterator[None]:
    """Within it, planning on this thread stops when `check` raises."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def check_time() -> None:
    """Raises if the statement that this thread plans has timed out or was cancelled. Called for
    each node that is bound, rewritten or chosen, so that every stage stops early, however large the
    statement."""
    _CHECK.get()()
