"""Separates late rows from the other rows of a stream.

A row is late if it arrives after the result that it belongs to was emitted. Late rows are emitted
on output 1, all other rows on output 0.

The state consists of the watermarks only. A snapshot stores each watermark with the time before
which rows are late. Rows before that time stay late even if a later version of the query allows
more lateness: the operator downstream has already removed their state.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, Mask, from_flags, from_numbers, numbers
from runnel.dag import ProcessorFactory
from runnel.processor import Watermark
from runnel.processors.sources.partition_watermarks import LEAST_TIME
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_event import LateEvent
from runnel.processors.stateful.late_rows import LateRows
from runnel.processors.stateful.row_buffer import Buffering, CompiledBuffering

_SCHEMA = pa.schema([(name, pa.int64()) for name in ("watermark", "time", "floor")])


class LateFilterProcessor(EmittingProcessor):
    """Emits the rows that are on time on output 0, and late rows on output 1."""

    def __init__(self, buffering: CompiledBuffering, lateness: int) -> None:
        self.late = LateRows(self, buffering.unit, are_emitted=True)
        super().__init__(self.late)
        self._buffering = buffering
        self._lateness = lateness
        self._times = dict.fromkeys(buffering.watermarks, LEAST_TIME)
        self._floors = dict.fromkeys(buffering.watermarks, LEAST_TIME)
        """By watermark: rows that were due before this time are late, whatever the lateness."""
        self._restored: dict[int, tuple[int, int]] = {}

    def _deadline(self, number: int) -> int:
        """Return the time of a watermark before which rows are late."""
        return max(self._times[number] - self._lateness, self._floors[number])

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        late: Mask = np.zeros(batch.num_rows, np.bool_)
        if max(self._times.values()) > LEAST_TIME:
            for number, due in zip(
                self._buffering.watermarks,
                self._buffering.due(batch, self.context.job.evaluation),
                strict=True,
            ):
                missed = due < self._deadline(number)
                if missed.any():
                    new = missed & ~late
                    if new.any():
                        self._count(batch, np.flatnonzero(new), due[new], self._times[number])
                    late |= missed
        if late.any():
            self.late.emit(batch.filter(from_flags(late)))
            batch = batch.filter(from_flags(~late))
        if batch.num_rows:
            self.emit(batch)

    def _count(self, batch: pa.RecordBatch, rows: Indexes, due: Indexes, watermark: int) -> None:
        """Count the late `rows` of a batch, which were due at the times `due`."""

        def event(number: int) -> LateEvent:
            return LateEvent(batch.slice(int(rows[number]), 1), int(due[number]), "due")

        self.late.add(len(rows), np.maximum(watermark - due, 0), watermark, event)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        if watermark.column in self._times:
            self._times[watermark.column] = max(self._times[watermark.column], watermark.time)
        return self.outbox.offer(watermark)

    def state(self) -> Iterator[pa.RecordBatch]:
        known = self._buffering.watermarks
        columns = (
            known,
            [self._times[number] for number in known],
            [self._deadline(number) for number in known],
        )
        arrays = [from_numbers(np.array(values, np.int64), pa.int64()) for values in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        """Restore the least values of all processors: the downstream operator saw only these."""
        for number, time, floor in zip(
            *(numbers(column, np.int64).tolist() for column in batch.columns), strict=True
        ):
            if number in self._times:
                before = self._restored.get(number, (time, floor))
                self._restored[number] = min(time, before[0]), min(floor, before[1])

    def finish_restore(self) -> bool:
        for number, (time, floor) in self._restored.items():
            self._times[number], self._floors[number] = time, floor
        return True


def late_filter(buffering: Buffering, lateness: int) -> ProcessorFactory:
    """Return a supplier of processors that emit late rows on output 1 and other rows on output 0.

    buffering: the bounds by which rows are due.
    lateness: how long before the watermark, in event time, a row may be due without being late.
    """
    compiled = CompiledBuffering(buffering)
    return lambda: LateFilterProcessor(compiled, lateness)
