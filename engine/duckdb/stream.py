"""A DuckDB query that runs on a thread of its own, its result in a bounded queue.

DuckDB blocks its caller until the first rows are there, which for a sort is the whole work; and the
thread that waits can't be the one that cancels. So the query has a thread, and whoever wants rows
asks and never waits.
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
"""How many batches wait at most."""

_POLL_SECONDS = 0.005
"""Seconds that `close` waits for a query that was interrupted."""


class Input(Protocol):
    """What a query reads that isn't DuckDB's: `register` makes it known to the cursor, on the
    stream's thread; `error` is what reading it failed with; `stop`, from any thread, lets a read
    that waits come to an end; `close` gives it back, in any case, when nothing reads it any
    more."""

    error: Error | None

    def register(self, cursor: DuckDBPyConnection) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...


class DuckDBStream:
    """The rows of one SELECT on a cursor, which belongs to the stream from here on, as do `inputs`.

    `finish` brings each batch into the form that is wanted, on the stream's thread; `place` says
    where in the statement an error belongs. `start` and `take` are for one thread at a time,
    `close` for any.
    """

    def __init__(
        self,
        kernel: DuckDBKernel,
        cursor: DuckDBPyConnection,
        text: str,
        inputs: Sequence[Input] = (),
        finish: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        place: Callable[[Error], Position | None] | None = None,
    ) -> None:
        self._cursor: DuckDBPyConnection | None = cursor
        self._text = text
        self._inputs = inputs
        self._finish = finish
        self._place = place
        self._wake: Callable[[], None] = _nothing
        self._changed = Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._error: Error | None = None
        self._ended = False
        self._closed = False
        self._thread: Thread | None = None
        kernel.watch(self)

    def start(self, wake: Callable[[], None]) -> None:
        """Begins. `wake` is called from another thread whenever `take` has something new to say."""
        self._wake = wake
        self._thread = Thread(target=self._run, name="runnel-duckdb", daemon=True)
        self._thread.start()

    def take(self) -> pa.RecordBatch | None:
        """The next batch; None if there is none yet, or (see `is_ended`) no more. Raises what the
        query failed with."""
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
        """Whether every batch was taken and there will be no more."""
        with self._changed:
            return self._ended and not self._batches and self._error is None

    def close(self) -> None:
        """Cancels the query if it still runs, and gives everything back."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()
        # DuckDB doesn't look whether it was interrupted while one of its inputs waits.
        for item in self._inputs:
            item.stop()
        thread = self._thread
        if thread is None:
            self._give_back()
        elif thread is not current_thread():
            self._stop(thread)

    def _stop(self, thread: Thread) -> None:
        """Interrupts the query. One that doesn't end at once is somebody else's to see off: the
        caller has work to do."""
        self._interrupt()
        thread.join(_POLL_SECONDS)
        if thread.is_alive():
            Thread(target=self.join, name="runnel-duckdb-cancel", daemon=True).start()

    def join(self) -> None:
        """After `close`: waits until nothing of the query is left. An interrupt between two calls
        of the thread hits nothing, so it is repeated."""
        thread, pause = self._thread, 0.001
        while thread is not None and thread.is_alive() and thread is not current_thread():
            self._interrupt()
            thread.join(pause)
            pause = min(2 * pause, 0.1)

    def _interrupt(self) -> None:
        cursor = self._cursor
        if cursor is not None:
            with suppress(Exception):  # closed just now by the thread
                cursor.interrupt()

    def _run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            with self._changed:
                if not self._closed:
                    own = next(
                        (item.error for item in self._inputs if item.error is not None), None
                    )
                    self._error = own or self._placed(translated(error))
        finally:
            self._give_back()
            with self._changed:
                self._ended = True
            self._wake()

    def _placed(self, error: Error) -> Error:
        if error.position is None and self._place is not None:
            error.position = self._place(error)
        return error

    def _read(self) -> None:
        cursor = self._cursor
        assert cursor is not None
        if self._closed:
            return
        for item in self._inputs:
            item.register(cursor)
        reader = cursor.sql(self._text).to_arrow_reader(BATCH_ROWS)
        try:
            while not self._closed:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                if batch.num_rows:
                    self._put(batch if self._finish is None else self._finish(batch))
        finally:
            reader.close()

    def _put(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            while len(self._batches) >= PREFETCHED and not self._closed:
                self._changed.wait()
            if self._closed:
                return
            self._batches.append(batch)
        self._wake()

    def _give_back(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()
            for item in self._inputs:
                item.close()


def _nothing() -> None:
    pass
