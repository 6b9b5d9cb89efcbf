"""A thread that runs tasks one after another, and exists only while there are tasks."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread, current_thread

logger = logging.getLogger("runnel.snapshots")

LINGER = 0.2
"""Seconds that the thread waits for another task before it ends."""

MOST_BYTES = 256 << 20
"""Maximum number of bytes that wait to be written; a task beyond it is refused."""


class Background:
    """Runs tasks in the order in which they were posted. A task handles its own failures.

    on_room: called when a task was refused and there is room again.
    """

    def __init__(self, name: str, most_bytes: int = MOST_BYTES) -> None:
        self._name = name
        self._most_bytes = most_bytes
        self._tasks: deque[tuple[Callable[[], None], int]] = deque()
        self._bytes = 0
        self._linger = LINGER
        self._has_refused = False
        self._is_running = False
        self._changed = Condition()
        self._thread: Thread | None = None
        self.on_room: Callable[[], None] | None = None

    def post(self, task: Callable[[], None], size: int = 0) -> bool:
        """Adds a task, which runs soon. False: too many bytes are waiting already, and `on_room` is
        called when there is room. A task without a size is always accepted."""
        with self._changed:
            if size and self._bytes and self._bytes + size > self._most_bytes:
                self._has_refused = True
                return False
            self._tasks.append((task, size))
            self._bytes += size
            if self._is_running:
                self._changed.notify_all()
            else:
                self._is_running = True
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return True

    def wait(self) -> None:
        """Waits until all posted tasks are done. Returns at once if a task calls it."""
        with self._changed:
            if current_thread() is not self._thread:
                self._changed.wait_for(lambda: not self._tasks)

    def close(self) -> None:
        """Waits until all posted tasks are done and the thread has ended."""
        with self._changed:
            self._linger = 0.0
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_running)

    def _run(self) -> None:
        while True:
            with self._changed:
                if (
                    not self._changed.wait_for(
                        lambda: bool(self._tasks) or not self._linger, self._linger
                    )
                    or not self._tasks
                ):
                    self._is_running = False
                    self._changed.notify_all()
                    return
                task, size = self._tasks[0]
            try:
                task()
            except Exception:
                # The thread must continue: other threads wait for later tasks.
                logger.exception("internal error while snapshots are written; the jobs continue")
            self._done(size)

    def _done(self, size: int) -> None:
        with self._changed:
            self._tasks.popleft()
            self._bytes -= size
            has_room = self._has_refused and self._bytes * 2 <= self._most_bytes
            if has_room:
                self._has_refused = False
            self._changed.notify_all()
        if has_room and self.on_room is not None:
            self.on_room()
