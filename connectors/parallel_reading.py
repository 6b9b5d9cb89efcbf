"""Reads the partitions of a source on several threads for a consumer that reads one stream.

DuckDB is such a consumer: it reads a stream from a single thread. Use this only for sources that
block. The batches come in no particular order; the number of waiting batches is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Thread

import pyarrow as pa

from runnel.connector import SourcePartition

WAITING = 2
"""The number of batches that may wait per thread."""

ReadRows = Callable[[SourcePartition], Iterator[pa.RecordBatch]]
"""Opens a partition and reads it to its end."""


class ParallelReading:
    """The rows of some partitions, of which `threads` are read at the same time.

    The caller closes the partitions, after `stop`.
    """

    def __init__(self, partitions: Sequence[SourcePartition], read: ReadRows, threads: int) -> None:
        self._left = deque(partitions)
        self._read = read
        self._changed = Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._most = WAITING * threads
        self._error: BaseException | None = None
        self._stopped = False
        self._threads = [
            Thread(target=self._run, name=f"runnel-duckdb-input-{i}", daemon=True)
            for i in range(min(threads, len(partitions)))
        ]
        self._running = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Starts the threads and yields the batches that they read.

        Raises the first error of a thread; no batch follows it.
        """
        self._running = len(self._threads)
        for thread in self._threads:
            thread.start()
        while True:
            with self._changed:
                while (
                    not self._batches
                    and self._running
                    and self._error is None
                    and not self._stopped
                ):
                    self._changed.wait()
                if self._error is not None:
                    raise self._error
                if self._stopped or not self._batches:
                    return
                batch = self._batches.popleft()
                self._changed.notify_all()
            yield batch

    def end(self) -> None:
        """Asks the threads to end, without waiting for them."""
        with self._changed:
            self._stopped = True
            self._batches.clear()
            self._changed.notify_all()

    def stop(self) -> None:
        """Ends the threads, and returns when they have ended."""
        self.end()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    if not self._left or self._stopped or self._error is not None:
                        return
                    partition = self._left.popleft()
                for batch in self._read(partition):
                    if not self._put(batch):
                        return
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _put(self, batch: pa.RecordBatch) -> bool:
        """Adds a batch, after waiting for room. False: the reading was stopped, the batch is not
        needed."""
        with self._changed:
            while len(self._batches) >= self._most and not self._stopped and self._error is None:
                self._changed.wait()
            if self._stopped or self._error is not None:
                return False
            self._batches.append(batch)
            self._changed.notify_all()
            return True
