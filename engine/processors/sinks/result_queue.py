"""The root of a query: the result sink, and the bounded queue of rows from it to the reader.

The end of the rows, normal or an error, travels the same way: the reader observes it after the
rows. One thread reads at a time. While the job belongs to the fetching thread, reading runs the
job's work; later, reading waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import TIMEOUT_MAX, Lock, current_thread, main_thread
from time import monotonic

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.deadline import WaitLimit, wait_limit
from runnel.errors import internal
from runnel.processor import (
    Epoch,
    Inbox,
    Outbox,
    Processor,
    ProcessorContext,
    ResultTarget,
    Watermark,
)

DEFAULT_CAPACITY = 16
"""Maximum number of batches in the queue."""


INTERRUPTIBLE = 0.5
"""Interval in seconds at which the waiting main thread checks for Ctrl-C."""


class ResultQueue:
    """Batches from the job's sinks to its reader.

    capacity: the maximum number of batches.
    `is_wanted`: whether a sink was refused and waits for room.
    is_ended: whether all rows are in the queue or were read.
    drive: runs some of the job's work on the reading thread; it is called without a lock, and need
        not make progress. None: other threads run the job.
    on_room: is called when there is room again for a waiting sink.
    on_end_seen: is called when the reader observes the end.
    on_interrupt: is called when the reader is interrupted.
    rows: the number of rows that were offered.
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
        self._epochs: deque[tuple[int, int]] = deque()
        self._error: BaseException | None = None
        self._items: deque[pa.RecordBatch] = deque()
        # Unlocked exactly while a waiting reader has something to read.
        self._gate = Lock()
        self._gate.acquire()
        self._is_reader_waiting = False
        self._on_news: Callable[[], None] | None = None
        self._is_closed = False

    def offer(self, batch: pa.RecordBatch) -> bool:
        """Add rows; returns false if the queue is full, and wakes the sinks when there is room.

        After `close`, rows are accepted and dropped.
        """
        items = self._items
        if self._is_closed:
            return True
        if len(items) >= self.capacity:
            # First set the flag, then check again: either this thread observes the room, or the
            # reader observes the flag.
            self.is_wanted = True
            if len(items) >= self.capacity:
                return False
        items.append(batch)
        self.rows += batch.num_rows
        if self._is_reader_waiting:
            self._wake_reader()
        return True

    def end_epoch(self, epoch: Epoch) -> None:
        """State that the rows so far and the next `epoch.rows` rows are all rows of the epochs up
        to this one."""
        epochs, rows = self._epochs, self.rows + epoch.rows
        if epochs and epochs[-1][0] == rows:
            # Without a new row the epoch before it need not be remembered. The reader only removes
            # the first item: after that, `pop` may fail or remove the same one.
            with suppress(IndexError):
                epochs.pop()
        epochs.append((rows, epoch.number))

    @property
    def has_epochs(self) -> bool:
        """Whether ends of epochs are remembered, which `epoch_of` has not passed."""
        return bool(self._epochs)

    def epoch_of(self, rows: int, before: int | None) -> int | None:
        """Return the last epoch all of whose rows are among the first `rows` rows.

        before: the result of the last call, for which `rows` was not larger.
        """
        epochs = self._epochs
        while epochs and epochs[0][0] <= rows:
            with suppress(IndexError):
                before = epochs.popleft()[1]
        return before

    def end(self, error: BaseException | None = None) -> None:
        """Mark the end of the rows; `error` is raised when the reader reaches the end."""
        self._error = error
        self.is_ended = True
        self.drive = None
        if self._is_reader_waiting:
            self._wake_reader()

    def next_batch(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """Wait for the next rows and return them; None at the end.

        After `timeout` seconds it raises FetchTimeoutError, and the job continues. If the job
        failed, its error is raised. Ctrl-C cancels the job.
        """
        return self.next_within(wait_limit(timeout))

    def next_within(self, limit: WaitLimit | None) -> pa.RecordBatch | None:
        """`next_batch` for a wait that has begun."""
        deadline = None if limit is None else limit.end
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
                    assert limit is not None
                    raise limit.error()
        except BaseException as error:
            if not isinstance(error, Exception):
                self.on_interrupt()
            raise

    def poll(self) -> pa.RecordBatch | None:
        """Return the next rows, or None if the queue is empty; never waits and never fails."""
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
        """Whether `next_batch` would return without waiting: there are rows, or the rows ended."""
        return bool(self._items) or self.is_ended

    @property
    def failure(self) -> BaseException | None:
        """The error that the reader will observe after the rows; None: none so far."""
        return self._error

    def waiting(self) -> list[pa.RecordBatch]:
        """The batches in the queue, which stay in it."""
        return list(self._items.copy())  # the copy is atomic: a sink may add a batch meanwhile

    def tell_news(self, callback: Callable[[], None]) -> None:
        """Register a callback for a reader that waits without a thread.

        It is called once, from any thread, when there is something to read; immediately if there
        already is.
        """
        self._on_news = callback
        # Set before the last check, as in `_wait`.
        self._is_reader_waiting = True
        if self.has_news:
            self._wake_reader()

    def forget_news(self) -> None:
        """Cancel the registered callback."""
        self._on_news = None
        self._is_reader_waiting = False

    def close(self) -> None:
        """Drop all rows, also those that arrive later, because the reader has left."""
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
        """Wait for something to read; returns false at the deadline.

        The flag is set before the last check, so that either a sink observes the flag or this
        thread observes the sink's rows.
        """
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
        with suppress(RuntimeError):  # the reader may have been woken already
            self._gate.release()

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        state = " ended" if self.is_ended else " wanted" if self.is_wanted else ""
        return f"<results {len(self._items)}/{self.capacity}{state}>"


def acquire(lock: Lock, deadline: float | None) -> bool:
    """Acquire a lock; returns false at the deadline.

    Ctrl-C interrupts it: CPython misses a signal that arrives just before a thread goes to sleep,
    so the main thread only sleeps for short times.

    deadline: a time of `time.monotonic`; None: no deadline.
    """
    longest = INTERRUPTIBLE if current_thread() is main_thread() else TIMEOUT_MAX
    while True:
        remaining = longest if deadline is None else max(0.0, min(longest, deadline - monotonic()))
        if lock.acquire(timeout=remaining):
            return True
        if deadline is not None and monotonic() >= deadline:
            return False


def _nothing() -> None:
    pass


class ResultSink(Processor):
    """Puts each batch into the job's result queue.

    While the queue is full, the batches remain in the inbox; the queue wakes the processor when
    there is room. Runs at parallelism 1, so that rows keep their order.
    """

    _results: ResultTarget

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        if context.job.results is None:
            raise internal("a job without a result queue has a result sink")
        self._results = context.job.results

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.peek()) is not None:
            if batch.num_rows and not self._results.offer(batch):
                return
            inbox.poll()

    def process_watermark(self, watermark: Watermark) -> bool:
        return True

    def process_epoch(self, epoch: Epoch) -> bool:
        self._results.end_epoch(epoch)
        return True


def result_sink() -> ProcessorFactory:
    """Return a supplier of processors that write to `JobContext.results`."""
    return ResultSink
