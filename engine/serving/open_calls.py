"""The calls of clients that the server is answering, and one thread that watches all of them.

Flight has a thread for each call, and does not report that a client disconnected: the server must
check. A call that runs a statement ends it when its client is gone. A call that sends rows also
ends it when the client has read no rows for too long: then the job and its batches are freed.
Flight's thread stays in its write, which cannot be interrupted, until the connection ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Condition, Thread
from time import monotonic
from typing import Protocol, TypeVar

T = TypeVar("T")

logger = logging.getLogger("runnel.serving")

LOOK = 0.5
"""Seconds between two checks of the calls, while there are any."""
_MOST_REPORTED = 100
"""Maximum number of different failures that are logged."""


class Context(Protocol):
    """Flight's handle of a call. It must not be used after the call has ended."""

    def is_cancelled(self) -> bool:
        """Whether the client has disconnected, or cancelled the call."""

    def peer(self) -> str:
        """The address of the client."""


class OpenCall:
    """One call.

    context: Flight's handle.
    on_gone: ends the work of the call, from any thread.
    is_given_up: whether its statement was ended because the client read no rows.
    """

    def __init__(self, context: Context, on_gone: Callable[[], object]) -> None:
        self.context = context
        self.on_gone = on_gone
        self.is_given_up = False

    def is_stalled(self, now: float) -> bool:
        """Whether at time `now` the client has read no rows for too long. Only a call that sends
        rows can stall."""
        return False

    def on_stalled(self) -> None:
        """Frees the rows for the client."""


class OpenCalls:
    """All calls of one server. Thread-safe. `chores` is called at each check, and returns whether
    checks are needed even without an open call."""

    def __init__(
        self,
        chores: Callable[[], bool],
        cut: Callable[[str], object],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`cut` ends the connection with a client, by the client's address."""
        self.clock = clock
        self._chores = chores
        self._cut = cut
        self._open: set[OpenCall] = set()
        self._reported: set[tuple[type[Exception], str]] = set()
        self._changed = Condition()
        self._is_parked = True
        self._is_closed = False
        self._thread: Thread | None = None

    @contextmanager
    def watched(self, call: OpenCall) -> Iterator[None]:
        """Watches a call meanwhile."""
        self.add(call)
        try:
            yield
        finally:
            self.remove(call)

    def add(self, call: OpenCall) -> None:
        with self._changed:
            self._open.add(call)
            if self._thread is None and not self._is_closed:
                self._thread = Thread(target=self._watch, name="runnel clients", daemon=True)
                self._thread.start()
            if self._is_parked:
                self._changed.notify()

    def remove(self, call: OpenCall) -> None:
        """After it returns, the call's context is not used."""
        with self._changed:
            self._open.discard(call)

    def cut(self, call: OpenCall) -> None:
        """Cuts the connection of a call, unless another call over it is active, or the call itself
        has ended."""
        with self._changed:
            if call not in self._open:
                return
            peer = call.context.peer()
            if not all(item.is_given_up for item in self._open if item.context.peer() == peer):
                return
        self._cut(peer)

    def look(self) -> bool:
        """Ends the calls of disconnected clients; False if nothing remains to be watched."""
        now = self.clock()
        with self._changed:
            # With the lock: a call that ends removes itself under the lock, and its context is
            # invalid afterwards.
            # gone after that.
            gone = [call for call in self._open if self._guarded(call.context.is_cancelled, False)]
            stalled = [
                call
                for call in self._open
                if call not in gone and self._guarded(partial(call.is_stalled, now), False)
            ]
            self._open.difference_update(gone)
            is_busy = bool(self._open)
        for call in gone:
            self._guarded(call.on_gone, None)
        for call in stalled:
            self._guarded(call.on_stalled, None)
        return self._guarded(self._chores, True) or is_busy

    def close(self) -> None:
        """Stops the checks."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        is_busy = True
        while True:
            with self._changed:
                if not is_busy:
                    self._is_parked = True
                    self._changed.wait_for(lambda: self._open or self._is_closed)
                    self._is_parked = False
                if self._changed.wait_for(lambda: self._is_closed, LOOK):
                    return
            is_busy = self.look()

    def _guarded(self, question: Callable[[], T], otherwise: T) -> T:
        """The answer, or `otherwise` if the question fails: one failing call must not end the
        thread. Each kind of failure is logged once, since it may recur at every check."""
        try:
            return question()
        except Exception as error:
            failure = (type(error), str(error))
            if failure not in self._reported and len(self._reported) < _MOST_REPORTED:
                self._reported.add(failure)
                logger.exception("an open call of a client can't be checked; the server continues")
            return otherwise
