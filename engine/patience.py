"""How long the statement that a thread runs may wait for others, and that it may be cancelled meanwhile.

What waits outside of a job (for a broker while a source is divided, for a job that is being suspended) is deep below the
statement, and behind contracts that know nothing of time-outs: so the limit goes with the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic_ns

from runnel.errors import ErrorCode, OperationalError

LEAST = 0.1
"""Seconds that are waited in any case: an answer that is there already counts."""


class Patience:
    """Of one statement. `deadline` is a time of `time.monotonic_ns`, None: none. It stands where a job would, so that who
    cancels the statement ends the waiting, from any thread."""

    def __init__(self, deadline: int | None) -> None:
        self.deadline = deadline
        self.is_cancelled = False
        self._wakes: list[Callable[[], object]] = []

    def cancel(self) -> None:
        self.is_cancelled = True
        for wake in list(self._wakes):
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Nothing is left running."""
        return True

    @contextmanager
    def telling(self, wake: Callable[[], object]) -> Iterator[None]:
        """Calls `wake` when it is cancelled, or at once if it is."""
        self._wakes.append(wake)
        try:
            if self.is_cancelled:
                wake()
            yield
        finally:
            self._wakes.remove(wake)

    def check(self) -> None:
        """OperationalError where it was cancelled."""
        if self.is_cancelled:
            raise OperationalError(
                "the statement was cancelled while it waited",
                code=ErrorCode.CANCELLED,
                hint="what it asked for goes on; SHOW JOBS tells how far it is",
            )

    def check_time(self) -> None:
        """OperationalError where its time is over."""
        if self.deadline is not None and monotonic_ns() > self.deadline:
            raise OperationalError(
                "the statement's time was over while it waited", code=ErrorCode.TIMEOUT, hint="give it more time"
            )


_OF_THIS_THREAD: ContextVar[Patience | None] = ContextVar("patience", default=None)
_FOR_EVER = Patience(None)


def current() -> Patience:
    """That of the statement which this thread runs; one without an end where there is none."""
    return _OF_THIS_THREAD.get() or _FOR_EVER


@contextmanager
def patient(deadline: int | None) -> Iterator[Patience]:
    """What this thread does within has until then, and no longer than what is around it."""
    outer = _OF_THIS_THREAD.get()
    if outer is not None and outer.deadline is not None:
        deadline = outer.deadline if deadline is None else min(deadline, outer.deadline)
    made = Patience(deadline)
    token = _OF_THIS_THREAD.set(made)
    try:
        yield made
    finally:
        _OF_THIS_THREAD.reset(token)


def seconds(most: float) -> float:
    """How long this thread may wait now, at most so many seconds."""
    deadline = current().deadline
    return most if deadline is None else max(LEAST, min(most, (deadline - monotonic_ns()) / 1e9))
