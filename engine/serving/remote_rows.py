"""Rows on their way from a server: a thread reads them into a bounded queue, from which the cursor
reads them like the rows of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition, Thread, current_thread
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from runnel.expressions.kernels.values import canonical
from runnel.processors.sinks.result_queue import ResultQueue
from runnel.relation.nodes import Field


class RemoteRows:
    """Reads a stream of batches until its end, its failure, or `cancel`. Reads ahead at most the
    queue's capacity: meanwhile the server waits."""

    def __init__(
        self,
        reader: flight.FlightStreamReader,
        fields: Sequence[Field],
        cancel_statement: Callable[[], None],
        translated: Callable[[Callable[[], Any]], Any],
    ) -> None:
        self.results = ResultQueue()
        self.is_done = False
        self._reader = reader
        self._fields = fields
        self._cancel_statement = cancel_statement
        self._translated = translated
        self._room = Condition()
        self._is_cancelled = False
        self.results.on_room = self._has_room
        self._thread = Thread(target=self._read, name="runnel-rows", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Waits until the reading has ended, at most `timeout` seconds."""
        if self._thread is not current_thread():
            self._thread.join(timeout)

    def cancel(self) -> None:
        """Ends the statement on the server, and the reading. From any thread; does not wait."""
        with self._room:
            if self._is_cancelled or self.is_done:
                return
            self._is_cancelled = True
            self._room.notify()
        self._cancel_statement()
        self._reader.cancel()

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            while (batch := self._next()) is not None and self._put(inner(batch, self._fields)):
                continue
        except Exception as failure:
            error = failure
        self.is_done = True
        self.results.end(error)

    def _next(self) -> pa.RecordBatch | None:
        def read() -> pa.RecordBatch | None:
            try:
                return self._reader.read_chunk().data
            except StopIteration:
                return None

        batch: pa.RecordBatch | None = self._translated(read)
        return batch

    def _put(self, batch: pa.RecordBatch) -> bool:
        """Adds a batch to the cursor's queue, when there is room. False: the rows were
        cancelled."""
        while not self.results.offer(batch):
            with self._room:
                if self._is_cancelled:
                    break
                if len(self.results) >= self.results.capacity:
                    self._room.wait()
        return not self._is_cancelled

    def _has_room(self) -> None:
        with self._room:
            self._room.notify()


class InlineRows:
    """Rows that were sent with the server's answer, complete."""

    def __init__(self, fields: Sequence[Field], batches: Sequence[pa.RecordBatch]) -> None:
        self.results = ResultQueue(len(batches) + 1)
        self.is_done = True
        for batch in batches:
            self.results.offer(inner(batch, fields))
        self.results.end()

    def cancel(self) -> None:
        """Does nothing: no job is running."""


def inner(batch: pa.RecordBatch, fields: Sequence[Field]) -> pa.RecordBatch:
    """The batch in canonical types; it is sent in the types that cursors return."""
    columns = [
        canonical(column, item.type) for column, item in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
