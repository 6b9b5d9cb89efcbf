"""OVER on streams: the rows of a partition wait until a watermark completes the partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.columns.batches import empty_columns, join_batches, slices
from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import Expression
from runnel.processors.constants import constant
from runnel.processors.over.calls import CompiledWindow, by_arrangement
from runnel.processors.over.frames import check_offset
from runnel.processors.over.spilled import SpilledWindow
from runnel.processors.stateful.row_buffer import Buffering, CompiledBuffering
from runnel.processors.stateful.until_watermark import (
    TAKEN_SHARE,
    RowCompletion,
    UntilWatermarkProcessor,
)
from runnel.relation.over import WindowCall

if TYPE_CHECKING:
    from runnel.processors.over.spilled import SpilledWindow

PRUNE_ROWS = 1 << 14
"""Minimum number of rows in memory at which rows that are not needed are removed."""


class WindowCompletion(RowCompletion):
    """Computes the calls over the rows of completed partitions.

    If the result has only the first rows of each partition, other rows are removed early.
    """

    def __init__(self, plan: CompiledWindow) -> None:
        self._plan = plan
        self._most = 0
        self._next_prune = PRUNE_ROWS
        self._window: SpilledWindow | None = None

    def init(self, processor: UntilWatermarkProcessor) -> None:
        super().init(processor)
        evaluation = self.context.job.evaluation
        for call in self._plan.calls:
            for bound in (call.frame.start, call.frame.end):
                if bound.offset is not None:
                    check_offset(bound, evaluation)
        if self._plan.most is not None:
            self._most = constant(self._plan.most[1], evaluation) or 0

    def rows_added(self) -> None:
        if self._plan.most is not None and self.buffer.count_in_memory > self._next_prune:
            self._prune(self._plan.most[0])

    def before_spill(self) -> None:
        if self._plan.most is not None:
            self._prune(self._plan.most[0], self.reservation.memory.allowed // TAKEN_SHARE)

    def _prune(self, call: int, most_bytes: int = 0) -> None:
        """Remove rows in memory that cannot be among the first of their partition.

        most_bytes: small files with at most this number of bytes are read back and pruned too, so
            that few small files remain.
        """
        in_memory = self.buffer.take_in_memory()
        if in_memory:
            rows = self._plan.first_rows(join_batches(in_memory), call, self._most, self.context)
            while (more := self.buffer.take_last_file(2 * rows.num_rows, most_bytes)) is not None:
                rows = self._plan.first_rows(
                    join_batches([more, rows]), call, self._most, self.context
                )
            self.buffer.put_back(rows, self.context.job.evaluation)
        self._set_next_prune()

    def _set_next_prune(self) -> None:
        self._next_prune = max(2 * self.buffer.count_in_memory, PRUNE_ROWS)

    def results(self, batches: Sequence[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        fits = not most or sum(batch.nbytes for batch in batches) <= 2 * most
        if fits or not self.buffer.can_spill:
            self._set_next_prune()
            yield from self._plan.results(join_batches(batches), self.context)
            return
        self._window = SpilledWindow(self._plan, self.reservation.memory, self.context)
        for batch in batches:
            for part in slices(batch):
                self._window.take(part)
                yield empty_columns(0)
        yield from self._window.results()
        self._window.close()
        self._window = None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()


def event_time_window(
    calls: tuple[WindowCall, ...],
    shape: tuple[int, tuple[str, ...]],
    buffering: Buffering,
    most: tuple[int, Expression] | None = None,
    keys: tuple[int, ...] = (),
    emits_late: bool = False,
) -> ProcessorFactory:
    """Return a supplier of processors that emit input columns and the value of each call.

    All calls partition by the expressions that `buffering` bounds.

    shape: the number of input columns to emit, and the names of all emitted columns.
    buffering: how long rows wait.
    most: as in `window.window`.
    keys: the columns by which rows are partitioned among processors.
    emits_late: whether late rows are emitted on output 1.
    """
    width, names = shape
    plan = CompiledWindow(calls, by_arrangement(enumerate(calls)), width, names, most, None)
    compiled = CompiledBuffering(buffering)
    return lambda: UntilWatermarkProcessor(compiled, WindowCompletion(plan), keys, emits_late)
