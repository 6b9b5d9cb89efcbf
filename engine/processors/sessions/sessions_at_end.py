"""SESSION over an input that ends: all sessions are complete at its end, and found then, at once.

Rows that memory has no room for go to files, divided by the hash of their keys: a session never
reaches over two files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import empty_columns, join_batches
from runnel.errors import OperationalError
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.grouping.hash_partitions import DEEPEST, HashPartitions
from runnel.processors.sessions.session_merge import OpenSessions
from runnel.processors.sessions.session_output import Held, SessionPlan
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.storage.memory_budget import Reservation, size_of, too_large
from runnel.storage.spill import SpillFile

ROW_BYTES = 64
"""What finding its session takes for a row, beside the row."""


class SessionsAtEnd(EmittingProcessor):
    """Holds all its input."""

    holds_snapshots = True

    def __init__(self, plan: SessionPlan) -> None:
        super().__init__()
        self._plan = plan
        self._batches: list[pa.RecordBatch] = []
        self._count = self._bytes = 0
        self._files: list[HashPartitions] = []
        self._reservation = Reservation(None)
        self._is_done = False

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        self._reservation = Reservation(context.job.memory)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        timed, untimed = self._plan.divided(batch)
        if untimed is not None:
            self.emit(untimed)
        if not timed.num_rows:
            return
        if self._files:
            self._files[0].write(timed, self._plan.key_columns(timed))
            return
        self._batches.append(timed)
        self._count += timed.num_rows
        self._bytes += size_of(timed) + ROW_BYTES * timed.num_rows
        self.check_accumulated(self._count)
        if not self._reservation.is_trifle(self._bytes):
            self._reservation.set(self._bytes)
            if self._reservation.must_spill:
                self._spill(self._batches, 0)

    def _spill(self, batches: list[pa.RecordBatch], level: int) -> HashPartitions:
        if not self._plan.keys or level > DEEPEST:
            raise too_large(
                "the rows of one SESSION key, or those without PARTITION BY,",
                self._reservation.memory,
            )
        files = HashPartitions(self._reservation.memory, level)
        self._files.append(files)
        while batches:
            rows = batches.pop(0)
            files.write(rows, self._plan.key_columns(rows))
        self._reservation.release()
        return files

    def complete(self) -> bool:
        if not self._is_done:
            self._is_done = True
            self.emit_all(
                self._of_files(self._files[0], 0) if self._files else self._found(self._batches)
            )
        return self.drain()

    def _of_files(self, files: HashPartitions, level: int) -> Iterator[pa.RecordBatch]:
        for file in files:
            yield from self._of_file(file, level)
            file.close()
            self._reservation.release()

    def _of_file(self, file: SpillFile, level: int) -> Iterator[pa.RecordBatch]:
        """The sessions of a file; one that is too large is divided again. An empty batch lets
        others have the thread."""
        held: list[pa.RecordBatch] = []
        needed, reader = 0, file.read()
        for batch in reader:
            held.append(batch)
            needed += size_of(batch) + ROW_BYTES * batch.num_rows
            self._reservation.set(needed)
            if self._reservation.must_spill:
                further = self._spill(held, level + 1)
                for rest in reader:
                    further.write(rest, self._plan.key_columns(rest))
                    yield empty_columns(0)
                yield from self._of_files(further, level + 1)
                return
            yield empty_columns(0)
        yield from self._found(held)

    def _found(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not batches:
            return
        rows = join_batches(batches)
        batches.clear()
        sessions = OpenSessions(self._plan.gap)
        of, _ = sessions.add(self._plan.hashes(rows), self._plan.times(rows), None)
        yield from self._plan.results(
            [Held(rows, np.arange(rows.num_rows), of)], sessions.first, sessions.last
        )
        self._reservation.release()

    def state(self) -> Iterable[pa.RecordBatch]:
        """The rows that are held; once their sessions are found they are emitted before a snapshot,
        and nothing is left."""
        if self._files and not self._is_done:
            raise OperationalError(
                "no snapshot is possible of sessions that are in files", hint="raise memory_limit"
            )
        held: Sequence[pa.RecordBatch] = self._batches
        return held

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.take(0, batch)

    def close(self) -> None:
        super().close()
        self._batches = []
        for files in self._files:
            files.close()
        self._reservation.release()
