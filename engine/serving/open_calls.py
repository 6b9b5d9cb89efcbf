"""The calls of clients that the server is answering, and one thread that looks after all of them.

Flight has a thread for each call, and doesn't say when the client is gone: the server must ask. A
call that runs a statement ends it when its client is gone. A call that sends rows also ends it when
the client has taken none for too long: the job and its batches are freed then. Flight's thread
stays in its write, which nothing interrupts, until the connection ends.
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
"""Seconds between two looks at the calls, while there are any."""
_MOST_REPORTED = 100
"""Different failures that the log has."""


class Context(Protocol):
    """Flight's handle of a call. It must not be touched any more when the call is over."""

    def is_cancelled(self) -> bool:
        """Whether the client is gone, or has given the call up."""

    def peer(self) -> str:
        """The client's end of the connection."""


class OpenCall:
    """One call.

    on_gone: ends what the call does, from any thread.
    is_given_up: bool, whether its statement was ended as the client took no rows.
    """

    def __init__(self, context: Context, on_gone: Callable[[], object]) -> None:
        self.context = context
        self.on_gone = on_gone
        self.is_given_up = False

    def is_stalled(self, now: float) -> bool:
        """Whether the client has taken no rows for too long, at a time of the clock. Only a call
        that sends rows waits."""
        return False

    def on_stalled(self) -> None:
        """Frees what is kept for the client."""


class OpenCalls:
    """All of one server. Safe for threads. `chores`, called at each look, says whether there is
    still something to look after when no call is open."""

    def __init__(
        self,
        chores: Callable[[], bool],
        cut: Callable[[str], object],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`cut` ends the connection with a client, by the name of its end."""
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
        """Looks after a call meanwhile."""
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
        """Its context isn't touched any more when this returns."""
        with self._changed:
            self._open.discard(call)

    def cut(self, call: OpenCall) -> None:
        """Cuts the connection of a call, unless a call over it goes on, or the call itself is
        over."""
        with self._changed:
            if call not in self._open:
                return
            peer = call.context.peer()
            if not all(item.is_given_up for item in self._open if item.context.peer() == peer):
                return
        self._cut(peer)

    def look(self) -> bool:
        """Ends what the calls of lost clients do; False where there is nothing more to look
        after."""
        now = self.clock()
        with self._changed:
            # Within the lock: a call that is over takes itself out under it, and its context is
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
        """Looks no more."""
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
        """The answer, or `otherwise` where there is none: one call that fails must not end the
        thread for all others. The log has each kind of failure once: it may come again at every
        look."""
        try:
            return question()
        except Exception as error:
            failure = (type(error), str(error))
            if failure not in self._reported and len(self._reported) < _MOST_REPORTED:
                self._reported.add(failure)
                logger.exception("a call of a client can't be looked after")
            return otherwise
