"""UNNEST: each row once per element of an array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runnel.batches import Mask, from_numbers, indexes
from runnel.dag import ProcessorFactory
from runnel.expressions.context import Frame
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.row_identity import list_items, list_lengths


class Unnest(EmittingProcessor):
    """Repeats the rows and lays the elements beside them, in order."""

    def __init__(self, array: Evaluator, outer: bool, with_ordinality: bool, names: list[str]) -> None:
        super().__init__()
        self._array = array
        self._outer = outer
        self._with_ordinality = with_ordinality
        self._names = names

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        lists = evaluate(self._array, Frame(batch.columns, batch.num_rows, self.context.job.evaluation))
        lengths = list_lengths(lists)
        items = list_items(lists)
        valid: Mask | None = None
        copies = lengths
        if self._outer and not lengths.all():
            copies = np.maximum(lengths, 1)
            valid = np.repeat(lengths > 0, copies)
            places = np.zeros(len(valid), np.int64)
            places[valid] = np.arange(len(items))
            items = items.take(indexes(places, valid))
        rows = np.repeat(np.arange(batch.num_rows), copies)
        columns = [*batch.take(indexes(rows)).columns, items]
        if self._with_ordinality:
            within = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies) + 1
            columns.append(from_numbers(within, pa.int64(), valid))
        self.emit(pa.RecordBatch.from_arrays(columns, names=self._names))


def unnest(array: Expression, outer: bool, ordinality: str | None, names: tuple[str, ...]) -> ProcessorFactory:
    """A supplier of processors that give the input's columns, the element and, with `ordinality`, its number from 1, called
    by `names`. With `outer` a row whose array is NULL or empty comes once, with NULL for both."""
    evaluator, given = compile_expression(array), list(names)
    return lambda: Unnest(evaluator, outer, ordinality is not None, given)
