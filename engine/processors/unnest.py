"""UNNEST: each row once per element of an array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.batches import MAX_ROWS, Indexes, Mask, from_numbers, indexes
from runnel.dag import ProcessorFactory
from runnel.expressions.context import Frame
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.row_identity import list_items, list_lengths

PIECE_BYTES = 1 << 24
"""About how large a piece of the result may be: what is repeated per element may itself be large, such as the array."""


class Unnest(EmittingProcessor):
    """Repeats the rows and lays the elements beside them, in order."""

    def __init__(self, plan: UnnestPlan) -> None:
        super().__init__()
        self._plan = plan

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        lists = evaluate(self._plan.array, Frame(batch.columns, batch.num_rows, self.context.job.evaluation))
        lengths = list_lengths(lists)
        items = list_items(lists)
        valid: Mask | None = None
        copies = lengths
        if self._plan.outer and not lengths.all():
            copies = np.maximum(lengths, 1)
            valid = np.repeat(lengths > 0, copies)
            places = np.zeros(len(valid), np.int64)
            places[valid] = np.arange(len(items))
            items = items.take(indexes(places, valid))
        columns = [items]
        if self._plan.with_ordinality:
            within = np.arange(len(items)) - np.repeat(np.cumsum(copies) - copies, copies) + 1
            columns.append(from_numbers(within, pa.int64(), valid))
        rows = np.repeat(np.arange(batch.num_rows), copies)
        self.emit_all(self._pieces(batch, rows, columns))

    def _pieces(self, batch: pa.RecordBatch, rows: Indexes, columns: list[pa.Array]) -> Iterator[pa.RecordBatch]:
        repeated = [None if i in self._plan.unused else column for i, column in enumerate(batch.columns)]
        width = sum(column.nbytes for column in repeated if column is not None) // max(batch.num_rows, 1)
        step = min(MAX_ROWS, max(PIECE_BYTES // max(width, 1), 1))
        for start in range(0, len(rows), step):
            chosen = indexes(rows[start : start + step])
            beside = [
                pa.nulls(len(chosen), batch.schema.field(i).type) if column is None else column.take(chosen)
                for i, column in enumerate(repeated)
            ]
            added = [column.slice(start, step) for column in columns]
            yield pa.RecordBatch.from_arrays([*beside, *added], names=self._plan.names)


@dataclass(frozen=True, slots=True)
class UnnestPlan:
    """A compiled UNNEST, shared by executions."""

    array: Evaluator
    outer: bool
    with_ordinality: bool
    names: list[str]
    unused: frozenset[int]


def unnest(
    array: Expression,
    outer: bool,
    ordinality: str | None,
    names: tuple[str, ...],
    unused: frozenset[int] = frozenset(),
) -> ProcessorFactory:
    """A supplier of processors that give the input's columns, the element and, with `ordinality`, its number from 1, called
    by `names`. With `outer` a row whose array is NULL or empty comes once, with NULL for both. The input columns `unused`
    are needed by nobody and come as NULL: repeating an array for each of its elements costs the square of its length."""
    plan = UnnestPlan(compile_expression(array), outer, ordinality is not None, list(names), unused)
    return lambda: Unnest(plan)
