"""UNNEST: each row once per element of an array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    from_numbers,
    indexes,
    make_batch,
    slices,
)
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.kernels.sameness import list_items, list_lengths
from runnel.expressions.nodes import Expression
from runnel.processors.stateful.buffered import EmittingProcessor

SLICE_ROWS = 16_384
"""Number of input rows that are processed at a time.

Splitting a text into an array by a regular expression needs 1.5 µs per row.
"""

CHUNK_BYTES = 1 << 24
"""Approximate maximum size in bytes of a batch of the result.

The columns that are repeated for each element may be large, such as the array itself.
"""


class UnnestProcessor(EmittingProcessor):
    """Repeats each row once per element of its array, and adds the elements as columns."""

    def __init__(self, plan: UnnestPlan) -> None:
        super().__init__()
        self._plan = plan

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self.emit_all(chunk for part in slices(batch, SLICE_ROWS) for chunk in self._unnested(part))

    # Example: the arrays [[7, 8], [], [9]] with `outer` and ordinality.
    #
    #   lengths    [2, 0, 1]; copies [2, 1, 1], as the empty array yields a row too
    #   valid      [True, True, False, True]: the output rows that have an element
    #   positions  [0, 1, 0, 2]: the element of each output row; items become [7, 8, NULL, 9]
    #   within     [1, 2, 1, 1]: the number of each output row within its input row;
    #              with `valid` [1, 2, NULL, 1]
    #   rows       [0, 0, 1, 2]: the input row of each output row
    def _unnested(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        frame = EvaluationInput(batch.columns, batch.num_rows, self.context.job.evaluation)
        if self._plan.more:
            return self._together(
                batch, [evaluate(item, frame) for item in (self._plan.array, *self._plan.more)]
            )
        lists = evaluate(self._plan.array, frame)
        lengths = list_lengths(lists)
        items = list_items(lists)
        valid: Mask | None = None
        copies = lengths
        if self._plan.outer and not lengths.all():
            copies = np.maximum(lengths, 1)
            valid = np.repeat(lengths > 0, copies)
            positions = np.zeros(len(valid), np.int64)
            positions[valid] = np.arange(len(items))
            items = items.take(indexes(positions, valid))
        added = [items]
        if self._plan.with_ordinality:
            within = np.arange(len(items)) - np.repeat(np.cumsum(copies) - copies, copies) + 1
            added.append(from_numbers(within, pa.int64(), valid))
        rows = np.repeat(np.arange(batch.num_rows), copies)
        return self._chunks(batch.columns, added, rows)

    # Example: two rows with the arrays a = [[1, 2], [3]] and b = [[5], [6, 7]].
    #
    #   lengths    [2, 1] of a, [1, 2] of b; most = copies = [2, 2]
    #   rows       [0, 0, 1, 1]: the input row of each output row; positions [0, 1, 0, 1]
    #   a          valid [True, True, True, False], starts [0, 2]: the elements at [0, 1, 2, NULL]
    #   b          valid [True, False, True, True], starts [0, 1]: the elements at [0, NULL, 1, 2]
    def _together(self, batch: pa.RecordBatch, arrays: list[pa.Array]) -> Iterator[pa.RecordBatch]:
        """Expand several arrays in parallel: as many rows as the longest array has elements."""
        lengths = [list_lengths(item) for item in arrays]
        most = np.maximum.reduce(lengths)
        copies = np.maximum(most, 1) if self._plan.outer else most
        rows = np.repeat(np.arange(batch.num_rows), copies)
        positions = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
        added = []
        for item, length in zip(arrays, lengths, strict=True):
            valid = positions < length[rows]
            starts = np.cumsum(length) - length
            added.append(
                list_items(item).take(indexes(np.where(valid, starts[rows] + positions, 0), valid))
            )
        if self._plan.with_ordinality:
            added.append(from_numbers(positions + 1, pa.int64(), most[rows] > 0))
        return self._chunks(batch.columns, added, rows)

    def _chunks(
        self, source: list[pa.Array], added: list[pa.Array], rows: Indexes
    ) -> Iterator[pa.RecordBatch]:
        """Yield the requested columns, in batches of limited size.

        source: the columns of the input.
        added: the additional columns, which have one value per output row.
        rows: the input row of each output row.
        """
        width = len(source)
        chosen = range(width + len(added)) if self._plan.columns is None else self._plan.columns
        size = sum(source[i].nbytes for i in chosen if i < width) // (
            len(source[0]) if source else 1
        )
        step = min(MAX_ROWS, max(CHUNK_BYTES // max(size, 1), 1))
        for start in range(0, len(rows), step):
            taken = indexes(rows[start : start + step])
            columns = [
                source[i].take(taken) if i < width else added[i - width].slice(start, step)
                for i in chosen
            ]
            yield make_batch(columns, self._plan.schema(columns), len(taken))


@frozen
class UnnestPlan:
    """A compiled UNNEST, shared by executions.

    array: the array.
    outer: whether a row whose array is NULL or empty is emitted once, with NULL.
    with_ordinality: whether the elements are numbered from 1 in a further column.
    names: the names of the result's columns.
    columns: the indexes of the columns to emit, of the input's, the elements and the number; None:
        all.
    more: further arrays that are unnested in parallel.
    """

    array: Evaluator
    outer: bool
    with_ordinality: bool
    names: tuple[str, ...]
    columns: tuple[int, ...] | None
    more: tuple[Evaluator, ...] = ()

    def schema(self, columns: list[pa.Array]) -> pa.Schema:
        return pa.schema(
            [pa.field(name, column.type) for name, column in zip(self.names, columns, strict=True)]
        )


def unnest(
    array: Expression,
    outer: bool,
    ordinality: str | None,
    names: tuple[str, ...],
    columns: tuple[int, ...] | None = None,
    more: tuple[Expression, ...] = (),
) -> ProcessorFactory:
    """Return a supplier of processors that emit each row once per element of an array.

    Don't request columns that are not read: repeating an array for each of its elements costs the
    square of its length.

    array: an expression over the columns of the input.
    outer: whether a row whose array is NULL or empty is emitted once, with NULL as element and
        number.
    ordinality: the name of a column with the number of the element, from 1; None: no such column.
    names: the names of the result's columns.
    columns: the indexes of the columns to emit, in this order, of the input's columns, the elements
        and the number; None: all.
    more: further arrays whose elements are added as columns, followed by NULLs if they are shorter.
    """
    others = tuple(map(compile_expression, more))
    plan = UnnestPlan(
        compile_expression(array), outer, ordinality is not None, names, columns, others
    )
    return lambda: UnnestProcessor(plan)
