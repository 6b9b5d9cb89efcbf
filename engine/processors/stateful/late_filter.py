"""Leaves out the rows that come after what they belong to was emitted, by output 1; the others go
on by output 0.

It keeps the watermarks only. In a snapshot each comes with the time up to which rows are late,
which stays so if more lateness is allowed later: what was forgotten above doesn't come again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Mask, from_flags, from_numbers, numbers
from runnel.dag import ProcessorFactory
from runnel.processor import Watermark
from runnel.processors.sources.partition_watermarks import LEAST_TIME
from runnel.processors.stateful.late_output import DivertingProcessor
from runnel.processors.stateful.row_buffer import CompiledHolding, Holding

_SCHEMA = pa.schema([(name, pa.int64()) for name in ("watermark", "time", "floor")])


class LateFilter(DivertingProcessor):
    """Passes rows that are in time."""

    def __init__(self, holding: CompiledHolding, lateness: int) -> None:
        super().__init__(True, holding.unit)
        self._holding = holding
        self._lateness = lateness
        self._times = dict.fromkeys(holding.watermarks, LEAST_TIME)
        self._floors = dict.fromkeys(holding.watermarks, LEAST_TIME)
        """Rows that were due before these times are late, however much lateness is allowed."""
        self._restored: dict[int, tuple[int, int]] = {}

    def _deadline(self, number: int) -> int:
        return max(self._times[number] - self._lateness, self._floors[number])

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        late: Mask = np.zeros(batch.num_rows, np.bool_)
        if max(self._times.values()) > LEAST_TIME:
            for number, due in zip(
                self._holding.watermarks,
                self._holding.due(batch, self.context.job.evaluation),
                strict=True,
            ):
                missed = due < self._deadline(number)
                if missed.any():
                    new = missed & ~late
                    if new.any():
                        self.note_late(int(new.sum()), int(due[new].min()), self._times[number])
                    late |= missed
        if late.any():
            self.divert(batch.filter(from_flags(late)))
            batch = batch.filter(from_flags(~late))
        if batch.num_rows:
            self.emit(batch)

    def process_watermark(self, watermark: Watermark) -> bool:
        if not self.drain():
            return False
        if watermark.column in self._times:
            self._times[watermark.column] = max(self._times[watermark.column], watermark.time)
        return self.outbox.offer(watermark)

    def state(self) -> Iterator[pa.RecordBatch]:
        known = self._holding.watermarks
        columns = (
            known,
            [self._times[number] for number in known],
            [self._deadline(number) for number in known],
        )
        arrays = [from_numbers(np.array(values, np.int64), pa.int64()) for values in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        """Of what several processors had, the least: the operator above had no more."""
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


def late_filter(holding: Holding, lateness: int) -> ProcessorFactory:
    """A supplier of processors that pass on rows, but for those that are due more than `lateness`
    before their watermark: these come by output 1, as they are."""
    compiled = CompiledHolding(holding)
    return lambda: LateFilter(compiled, lateness)
