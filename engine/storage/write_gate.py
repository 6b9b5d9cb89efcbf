"""The gate of durable writes: while it is closed, the files of no directory change.

Each step that changes the durable state of a directory (an append to a log, the rename that
publishes a file or folder, a removal) enters the gate around its system calls, and only around
these. The steps are the ones between which a process may be killed: recovery works after each of
them. Therefore a set of files that is listed while the gate is closed is one that a crash could
have left.

Writes of files that have no final name yet need not enter the gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, local
from time import monotonic

from runnel.base.forks import SharedLock, watch
from runnel.deadline import LOOK, current
from runnel.errors import ErrorCode, OperationalError

LONGEST_CLOSING = 10.0
"""Seconds for which closing waits for the steps in progress. Steps that begin meanwhile wait."""


class WriteGate:
    """A gate that any number of steps may enter together, unless it is closed.

    Used by all threads and connections of a process: the pause is short, so connections need no
    gates of their own. A thread inside may enter again. In a forked child the gate is open.
    """

    def __init__(self) -> None:
        self._closing = SharedLock("the pause of durable writes")
        self._open()
        watch(self)

    def leave(self) -> None:
        """In a forked child no other thread is inside."""
        self._open()

    def _open(self) -> None:
        self._changed = Condition()
        self._of_thread = local()
        self._inside = 0
        self._is_closed = False

    def __enter__(self) -> None:
        depth = getattr(self._of_thread, "depth", 0)
        if not depth:
            with self._changed:
                while self._is_closed:
                    self._changed.wait()
                self._inside += 1
        self._of_thread.depth = depth + 1

    def __exit__(self, *error: object) -> None:
        self._of_thread.depth -= 1
        if not self._of_thread.depth:  # never in the thread that has closed the gate
            with self._changed:
                self._inside -= 1
                if self._is_closed and not self._inside:
                    self._changed.notify_all()

    @contextmanager
    def closed(self, seconds: float = LONGEST_CLOSING) -> Iterator[None]:
        """No step is in progress within it, and steps that begin wait. Only this thread may enter,
        for another directory: a connection may be garbage-collected, and thereby closed.

        OperationalError if the statement ends, or if a step needs longer than `seconds`.
        """
        with self._closing:
            try:
                self._close(monotonic() + seconds)
                self._of_thread.depth = 1
                try:
                    yield
                finally:
                    self._of_thread.depth = 0
            finally:
                with self._changed:
                    self._is_closed = False
                    self._changed.notify_all()

    def _close(self, until: float) -> None:
        deadline = current()
        with self._changed:
            self._is_closed = True
            while self._inside:
                deadline.check()
                deadline.check_time()
                left = until - monotonic()
                if left <= 0:
                    raise OperationalError(
                        "the writes of the directory can't be paused",
                        code=ErrorCode.TIMEOUT,
                        detail="a write has not ended in time",
                        hint="try again when the disk is less busy",
                    )
                self._changed.wait(min(left, deadline.left(LOOK)))


durable_writes = WriteGate()
"""The gate of this process."""
