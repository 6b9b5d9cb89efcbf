"""ORDER BY the event time on streams: emits rows in order when a watermark completes them.

A row whose time is NULL may arrive at any time, so no watermark completes it. Such rows are emitted
at the end of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, join_batches
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationInput
from runnel.expressions.nodes import SortKey
from runnel.processors.sorting.ordering import Ordering
from runnel.processors.stateful.row_buffer import Buffering, CompiledBuffering
from runnel.processors.stateful.until_watermark import RowCompletion, UntilWatermarkProcessor


class SortCompletion(RowCompletion):
    """Sorts the rows that a watermark completes. Later rows belong after them."""

    def __init__(self, ordering: Ordering) -> None:
        self._ordering = ordering

    def results(self, batches: Sequence[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
        rows = join_batches(batches)
        frame = EvaluationInput(rows.columns, rows.num_rows, self.context.job.evaluation)
        order = self._ordering.indices(self._ordering.columns(frame))
        for start in range(0, rows.num_rows, MAX_ROWS):
            yield rows.take(order.slice(start, MAX_ROWS))


def event_time_sort(
    keys: Sequence[SortKey], buffering: Buffering, emits_late: bool = False
) -> ProcessorFactory:
    """Return a supplier of processors that emit their rows in the order of `keys`.

    keys: the sort keys, of which the first ascends.
    buffering: how long rows wait; its bounded column is the first key.
    emits_late: whether late rows are emitted on output 1.
    """
    ordering, compiled = Ordering(keys), CompiledBuffering(buffering)
    return lambda: UntilWatermarkProcessor(
        compiled, SortCompletion(ordering), emits_late=emits_late
    )
