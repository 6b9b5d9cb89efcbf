"""The rows of a query on their way from the result sink to the reader: a bounded queue with an end.

The end, normal or not, travels the same way as the rows: it is seen after them. One thread reads at
a time. While the job belongs to the thread that fetches, reading drives it; after that, reading
waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import TIMEOUT_MAX, Lock, current_thread, main_thread
from time import monotonic

import pyarrow as pa

from runnel.errors import ErrorCode, OperationalError

DEFAULT_CAPACITY = 16
"""Batches that wait for the reader at most."""


INTERRUPTIBLE = 0.5
"""Seconds after which the main thread, waiting, looks for Ctrl-C again."""


class ResultQueue:
    """Batches from the job's sinks to its reader.

    `is_wanted`: a sink was refused and waits for room. `drive`, if there is one, lets the reading
    thread do some of the job's work; it is called without a lock, and need not come to anything.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = capacity
        self.is_wanted = False
        self.is_ended = False
        self.drive: Callable[[], None] | None = None
        self.on_room: Callable[[], None] = _nothing
        self.on_end_seen: Callable[[], None] = _nothing
        self.on_interrupt: Callable[[], None] = _nothing
        self.rows = 0
        self._error: BaseException | None = None
        self._items: deque[pa.RecordBatch] = deque()
        # Free exactly while there is news for a reader that waits.
        self._gate = Lock()
        self._gate.acquire()
        self._is_reader_waiting = False
        self._on_news: Callable[[], None] | None = None
        self._is_closed = False

    def offer(self, batch: pa.RecordBatch) -> bool:
        """Hands on rows. False: the reader is behind; the sinks are woken when there is room. After
        `close`, rows are accepted and dropped."""
        items = self._items
        if self._is_closed:
            return True
        if len(items) >= self.capacity:
            # Set, then look once more: either we see the room or the reader sees that it is wanted.
            self.is_wanted = True
            if len(items) >= self.capacity:
                return False
        items.append(batch)
        self.rows += batch.num_rows
        if self._is_reader_waiting:
            self._wake_reader()
        return True

    def end(self, error: BaseException | None = None) -> None:
        """There are no more rows; `error` is raised where the reader comes to the end."""
        self._error = error
        self.is_ended = True
        self.drive = None
        if self._is_reader_waiting:
            self._wake_reader()

    def next_batch(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """The next rows; None at the end. Waits for them, `timeout` seconds at most, then raises
        OperationalError (TIMEOUT); the job goes on. Raises the job's error where it failed. Ctrl-C
        cancels the job."""
        deadline = None if timeout is None else monotonic() + timeout
        try:
            while True:
                batch = self.poll()
                if batch is not None:
                    return batch
                if self.is_ended and not self._items:
                    self._see_end()
                    return None
                drive = self.drive
                if drive is not None:
                    drive()
                    if self._items or self.is_ended:
                        continue
                if self.drive is None and not self._wait(deadline):
                    raise OperationalError(
                        f"no row came within {timeout:g} s", code=ErrorCode.TIMEOUT
                    )
        except BaseException as error:
            if not isinstance(error, Exception):
                self.on_interrupt()
            raise

    def poll(self) -> pa.RecordBatch | None:
        """The next rows, or None if there are none at the moment; never waits and never fails."""
        try:
            batch = self._items.popleft()
        except IndexError:
            return None
        if self.is_wanted:
            self.is_wanted = False
            self.on_room()
        return batch

    @property
    def has_news(self) -> bool:
        """Whether `next_batch` wouldn't wait: there are rows, or there is the end."""
        return bool(self._items) or self.is_ended

    def tell_news(self, callback: Callable[[], None]) -> None:
        """Has `callback` called, from any thread, when there is something for a reader that waits
        without a thread: once, or at once if there is."""
        self._on_news = callback
        # Before the last look, as in `_wait`.
        self._is_reader_waiting = True
        if self.has_news:
            self._wake_reader()

    def forget_news(self) -> None:
        """Nobody waits so any more."""
        self._on_news = None
        self._is_reader_waiting = False

    def close(self) -> None:
        """The reader is gone: what is here is dropped, and so is what still comes."""
        self._is_closed = True
        self._items.clear()
        if self.is_wanted:
            self.is_wanted = False
            self.on_room()

    def _see_end(self) -> None:
        self.on_end_seen()
        if self._error is not None:
            raise self._error

    def _wait(self, deadline: float | None) -> bool:
        """Waits for news; False when the time is over. The flag is set before the last look, so
        that a sink either sees it or was seen."""
        self._is_reader_waiting = True
        try:
            if self._items or self.is_ended:
                return True
            return acquire(self._gate, deadline) or bool(self._items) or self.is_ended
        finally:
            self._is_reader_waiting = False

    def _wake_reader(self) -> None:
        on_news = self._on_news
        if on_news is not None:
            self.forget_news()
            on_news()
            return
        with suppress(RuntimeError):  # it may have been told already
            self._gate.release()

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        state = " ended" if self.is_ended else " wanted" if self.is_wanted else ""
        return f"<results {len(self._items)}/{self.capacity}{state}>"


def acquire(lock: Lock, deadline: float | None) -> bool:
    """Waits for a lock, until `deadline` (a time of `time.monotonic`) at most; False when the time
    is over. Ctrl-C gets through: CPython doesn't see a signal that comes just before it goes to
    sleep, so the main thread sleeps for a short time only."""
    longest = INTERRUPTIBLE if current_thread() is main_thread() else TIMEOUT_MAX
    while True:
        remaining = longest if deadline is None else max(0.0, min(longest, deadline - monotonic()))
        if lock.acquire(timeout=remaining):
            return True
        if deadline is not None and monotonic() >= deadline:
            return False


def _nothing() -> None:
    pass
