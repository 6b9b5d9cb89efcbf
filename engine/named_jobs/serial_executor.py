"""The serial executor: one thread that runs tasks which must not run where their cause is noticed.

The end of an execution, or a due restart, is noticed by a worker thread, which must not wait for a
disk or plan a query. The thread is started with the first task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread, current_thread

logger = logging.getLogger("runnel.job")

Task = Callable[[], object]


class SerialExecutor:
    """Runs tasks one after another, in order, on a thread with the given name. Thread-safe."""

    def __init__(self, name: str = "runnel jobs") -> None:
        self._name = name
        self._queue: SimpleQueue[Task | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._is_closed = False
        self._pending = 0

    def post(self, task: Task) -> None:
        """Adds a task, which runs soon. Does nothing after `close`."""
        with self._lock:
            if self._is_closed:
                return
            if self._thread is None:
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._pending += 1
            self._queue.put(task)

    @property
    def is_idle(self) -> bool:
        """Whether it has run all tasks that were added."""
        return not self._pending

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the executor's thread, which must not wait for a task."""
        return current_thread() is self._thread

    def close(self, timeout: float | None = None) -> None:
        """Runs the tasks added so far and ends the thread. Waits for it, at most `timeout`
        seconds."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.put(None)
        if self._thread is not None and not self.is_here:
            self._thread.join(timeout)

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            try:
                task()
            except Exception:
                logger.exception("internal error in a task of a job; the job continues")
            with self._lock:
                self._pending -= 1
