"""ORDER BY the event time on streams: rows come out in order as watermarks complete them.

A row without a time may come at any time, so that it can't be said to come first: those rows come
with the last ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from runnel.columns.batches import MAX_ROWS
from runnel.dag import ProcessorFactory
from runnel.expressions.context import Frame
from runnel.expressions.nodes import SortKey
from runnel.processors.sorting.ordering import Ordering
from runnel.processors.stateful.row_buffer import CompiledHolding, Holding
from runnel.processors.stateful.until_watermark import HoldingProcessor


class TimedSort(HoldingProcessor):
    """Sorts the rows that a watermark completes; none that comes later is before them."""

    def __init__(self, ordering: Ordering, holding: CompiledHolding, diverts: bool) -> None:
        super().__init__(holding, diverts=diverts)
        self._ordering = ordering

    def results(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        frame = Frame(rows.columns, rows.num_rows, self.context.job.evaluation)
        order = self._ordering.indices(self._ordering.columns(frame))
        for start in range(0, rows.num_rows, MAX_ROWS):
            yield rows.take(order.slice(start, MAX_ROWS))


def timed_sort(
    keys: Sequence[SortKey], holding: Holding, diverts: bool = False
) -> ProcessorFactory:
    """A supplier of processors that give the rows in the order of `keys`; the first ascends, and
    `holding` bounds it.
    `diverts`: whether late rows go to output 1."""
    ordering, compiled = Ordering(keys), CompiledHolding(holding)
    return lambda: TimedSort(ordering, compiled, diverts)
