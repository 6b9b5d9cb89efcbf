"""One thread that does what can't be done where it was noticed.

That an execution has ended, or that it is time to restart a job, is noticed by a worker thread,
which must not wait for a disk or plan a query. The thread is there from the first errand on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread, current_thread

logger = logging.getLogger("runnel.job")

Errand = Callable[[], object]


class Errands:
    """Runs what it is given one by one, in order, on a thread of that name. Safe for threads."""

    def __init__(self, name: str = "runnel jobs") -> None:
        self._name = name
        self._queue: SimpleQueue[Errand | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._is_closed = False

    def post(self, errand: Errand) -> None:
        """Has it done soon; not after `close`."""
        with self._lock:
            if self._is_closed:
                return
            if self._thread is None:
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._queue.put(errand)

    @property
    def is_here(self) -> bool:
        """Whether this is the thread that runs errands, which must not wait for one."""
        return current_thread() is self._thread

    def close(self, patience: float | None = None) -> None:
        """Runs what was given so far and ends the thread, which is waited for, but no longer than
        `patience` seconds."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.put(None)
        if self._thread is not None and not self.is_here:
            self._thread.join(patience)

    def _run(self) -> None:
        while (errand := self._queue.get()) is not None:
            try:
                errand()
            except Exception:
                logger.exception("an errand for a job failed")
