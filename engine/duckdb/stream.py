"""A DuckDB query that runs on a separate thread and puts its result into a bounded queue.

DuckDB blocks its caller until it has the first rows, which for a sort is nearly the whole run, and
a blocked thread cannot cancel the query. A query therefore has a thread of its own, and the reader
polls the queue and never waits. For a query that is known to be short the thread would take longer
than the query: its first rows are read by the caller, and the thread starts only if there are more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, Thread, current_thread
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from runnel.connector import BATCH_ROWS
from runnel.duckdb.errors import translated
from runnel.errors import Error, Position

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from runnel.duckdb.kernel import DuckDBKernel

PREFETCHED = 4
"""Capacity of the queue, in batches."""

_POLL_SECONDS = 0.005
"""Seconds that `close` waits for an interrupted query."""


class Input(Protocol):
    """An input of a query from outside DuckDB.

    error: the error that reading the input failed with, or None.
    """

    error: Error | None

    def register(self, cursor: DuckDBPyConnection) -> None:
        """Registers the input as a table of the cursor; called on the stream's thread."""

    def stop(self) -> None:
        """Ends a read that waits; called from any thread."""

    def close(self) -> None:
        """Releases the input; always called, after the last read."""


class DuckDBStream:
    """The rows of one SELECT. `begin`, `start` and `take` are for one thread at a time, `close` for
    any.

    kernel: the owner of the database; it waits for the stream before it closes.
    cursor: the cursor that runs the SELECT; the stream closes it.
    text: the SELECT.
    inputs: inputs from outside DuckDB; the stream closes them.
    finish: converts each batch, on the stream's thread.
    locate: returns the position in the user's statement that an error is about.
    """

    def __init__(
        self,
        kernel: DuckDBKernel,
        cursor: DuckDBPyConnection,
        text: str,
        inputs: Sequence[Input] = (),
        finish: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        locate: Callable[[Error], Position | None] | None = None,
    ) -> None:
        self._cursor: DuckDBPyConnection | None = cursor
        self._text = text
        self._inputs = inputs
        self._finish = finish
        self._locate = locate
        self._wake: Callable[[], None] = _nothing
        self._changed = Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._error: Error | None = None
        self._ended = False
        self._closed = False
        self._thread: Thread | None = None
        self._reader: pa.RecordBatchReader | None = None
        # The thread that uses the cursor now.
        self._user: Thread | None = None
        kernel.watch(self)

    def begin(self) -> None:
        """Reads the first batches on the caller's thread, before `start`. For a query that takes
        milliseconds; an error of the query is raised by `take`."""
        self._attempt(PREFETCHED)

    def start(self, wake: Callable[[], None]) -> None:
        """Starts the query, or continues it. The stream's thread calls `wake` after each batch and
        at the end; of a query that has ended, nothing does."""
        self._wake = wake
        if self._ended:
            return
        thread = Thread(target=self._run, name="runnel-duckdb", daemon=True)
        self._thread = self._user = thread
        try:
            thread.start()
        except BaseException:
            self._thread = self._user = None
            raise

    def take(self) -> pa.RecordBatch | None:
        """The next batch; None if there is none yet or the stream `is_ended`. Raises the error of
        the query."""
        with self._changed:
            if self._batches:
                batch = self._batches.popleft()
                self._changed.notify_all()
                return batch
            if self._error is not None:
                raise self._error
            return None

    @property
    def is_ended(self) -> bool:
        """Whether the query has ended without an error and every batch was taken."""
        with self._changed:
            return self._ended and not self._batches and self._error is None

    def close(self) -> None:
        """Cancels the query if it still runs, and releases cursor and inputs."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()
        # DuckDB notices an interrupt only after the call of an input returns.
        for item in self._inputs:
            item.stop()
        with self._changed:
            user = self._user
        if user is None:
            self._give_back()
        elif user is not current_thread():
            self._stop()

    def _stop(self) -> None:
        """Interrupts the query. If it does not end at once, another thread waits for it, so that
        the caller is not blocked."""
        self._interrupt()
        if not self._is_idle(_POLL_SECONDS):
            Thread(target=self.join, name="runnel-duckdb-cancel", daemon=True).start()

    def join(self) -> None:
        """Waits, after `close`, until no thread reads the query. The interrupt is repeated, because
        between two calls of DuckDB it has no effect."""
        pause = 0.001
        while not self._is_idle(pause):
            self._interrupt()
            pause = min(2 * pause, 0.1)
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()

    def _is_idle(self, seconds: float) -> bool:
        """Whether no other thread uses the cursor, after a wait of at most `seconds`."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._user is None or self._user is current_thread(), seconds
            )

    def _interrupt(self) -> None:
        cursor = self._cursor
        if cursor is not None:
            with suppress(Exception):  # closed just now by the thread
                cursor.interrupt()

    def _run(self) -> None:
        self._attempt(None)
        self._wake()

    def _attempt(self, limit: int | None) -> None:
        """Reads up to `limit` batches; if these are all, or after an error, the query has
        ended."""
        with self._changed:
            self._user = current_thread()
        has_more = False
        try:
            has_more = self._read(limit)
        except BaseException as error:
            if self._thread is None and not isinstance(error, Exception):
                raise  # the caller was interrupted
            with self._changed:
                if not self._closed:
                    own = next(
                        (item.error for item in self._inputs if item.error is not None), None
                    )
                    self._error = own or self._located(translated(error))
        finally:
            with self._changed:
                has_more = has_more and not self._closed
            try:
                if not has_more:
                    self._give_back()
            finally:
                with self._changed:
                    self._ended = not has_more
                    self._user = None
                    self._changed.notify_all()

    def _located(self, error: Error) -> Error:
        if error.position is None and self._locate is not None:
            error.position = self._locate(error)
        return error

    def _read(self, limit: int | None) -> bool:
        """Whether there may be more rows after `limit` batches."""
        cursor = self._cursor
        if cursor is None or self._closed:
            return False
        if self._reader is None:
            for item in self._inputs:
                item.register(cursor)
            self._reader = cursor.sql(self._text).to_arrow_reader(BATCH_ROWS)
        count = 0
        while not self._closed and count != limit:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return False
            if batch.num_rows:
                count += 1
                self._put(batch if self._finish is None else self._finish(batch))
        return not self._closed

    def _put(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            while len(self._batches) >= PREFETCHED and not self._closed:
                self._changed.wait()
            if self._closed:
                return
            self._batches.append(batch)
        self._wake()

    def _give_back(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()
            for item in self._inputs:
                item.close()


def _nothing() -> None:
    pass
