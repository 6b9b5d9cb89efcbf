"""LIMIT and OFFSET over rows in their order of arrival."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_numbers
from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import Expression
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.constants import row_count
from runnel.processors.stateful.buffered import EmittingProcessor


class LimitProcessor(EmittingProcessor):
    """Skips OFFSET rows, then emits LIMIT rows. Runs at parallelism 1.

    Once it has emitted enough rows it is satisfied, which ends its input.
    """

    def __init__(self, count: Expression | None, offset: Expression | None) -> None:
        super().__init__()
        self._count = count
        self._offset = offset
        self._to_skip = 0
        self._to_pass: int | None = None

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        evaluation = context.job.evaluation
        self._to_pass = row_count(self._count, evaluation, "LIMIT")
        self._to_skip = row_count(self._offset, evaluation, "OFFSET") or 0
        self.is_satisfied = self._to_pass == 0

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if self.is_satisfied:
            return
        if self._to_skip:
            skipped = min(self._to_skip, batch.num_rows)
            self._to_skip -= skipped
            batch = batch.slice(skipped)
        if self._to_pass is not None:
            batch = batch.slice(0, self._to_pass)
            self._to_pass -= batch.num_rows
            self.is_satisfied = self._to_pass == 0
        self.emit(batch)

    def state(self) -> list[pa.RecordBatch]:
        """Return the numbers of rows that remain to be skipped and to be emitted."""
        to_skip = from_numbers(np.array([self._to_skip], np.int64), pa.int64())
        to_pass = from_numbers(
            np.array([self._to_pass or 0], np.int64),
            pa.int64(),
            np.array([self._to_pass is not None]),
        )
        return [pa.RecordBatch.from_arrays([to_skip, to_pass], names=["to_skip", "to_pass"])]

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._to_skip, self._to_pass = (column[0].as_py() for column in batch.columns)
        self.is_satisfied = self._to_pass == 0


def limit(count: Expression | None, offset: Expression | None) -> ProcessorFactory:
    """Return a supplier of processors that skip `offset` rows and emit at most `count` rows.

    count: None: all rows.
    offset: None: 0.
    """
    return lambda: LimitProcessor(count, offset)
