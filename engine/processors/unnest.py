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
from runnel.expressions.context import Frame
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.kernels.sameness import list_items, list_lengths
from runnel.expressions.nodes import Expression
from runnel.processors.stateful.buffered import EmittingProcessor

SLICE_ROWS = 16_384
"""How many rows are worked on at a time: making an array of each text with a regular expression
takes 1.5 µs a row."""

PIECE_BYTES = 1 << 24
"""About how large a piece of the result may be: what is repeated per element may itself be large,
such as the array."""


class Unnest(EmittingProcessor):
    """Repeats the rows and lays the elements beside them, in order."""

    def __init__(self, plan: UnnestPlan) -> None:
        super().__init__()
        self._plan = plan

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self.emit_all(piece for part in slices(batch, SLICE_ROWS) for piece in self._unnested(part))

    def _unnested(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        frame = Frame(batch.columns, batch.num_rows, self.context.job.evaluation)
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
            places = np.zeros(len(valid), np.int64)
            places[valid] = np.arange(len(items))
            items = items.take(indexes(places, valid))
        added = [items]
        if self._plan.with_ordinality:
            within = np.arange(len(items)) - np.repeat(np.cumsum(copies) - copies, copies) + 1
            added.append(from_numbers(within, pa.int64(), valid))
        rows = np.repeat(np.arange(batch.num_rows), copies)
        return self._pieces(batch.columns, added, rows)

    def _together(self, batch: pa.RecordBatch, arrays: list[pa.Array]) -> Iterator[pa.RecordBatch]:
        """Several arrays side by side: as many rows as the longest has elements."""
        lengths = [list_lengths(item) for item in arrays]
        most = np.maximum.reduce(lengths)
        copies = np.maximum(most, 1) if self._plan.outer else most
        rows = np.repeat(np.arange(batch.num_rows), copies)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
        added = []
        for item, length in zip(arrays, lengths, strict=True):
            valid = places < length[rows]
            starts = np.cumsum(length) - length
            added.append(
                list_items(item).take(indexes(np.where(valid, starts[rows] + places, 0), valid))
            )
        if self._plan.with_ordinality:
            added.append(from_numbers(places + 1, pa.int64(), most[rows] > 0))
        return self._pieces(batch.columns, added, rows)

    def _pieces(
        self, given: list[pa.Array], added: list[pa.Array], rows: Indexes
    ) -> Iterator[pa.RecordBatch]:
        """The chosen columns: of those given the rows repeated, those added as they are."""
        width = len(given)
        chosen = range(width + len(added)) if self._plan.columns is None else self._plan.columns
        size = sum(given[i].nbytes for i in chosen if i < width) // (len(given[0]) if given else 1)
        step = min(MAX_ROWS, max(PIECE_BYTES // max(size, 1), 1))
        for start in range(0, len(rows), step):
            place = indexes(rows[start : start + step])
            columns = [
                given[i].take(place) if i < width else added[i - width].slice(start, step)
                for i in chosen
            ]
            yield make_batch(columns, self._plan.schema(columns), len(place))


@frozen
class UnnestPlan:
    """A compiled UNNEST, shared by executions."""

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
    """A supplier of processors that give the input's columns, the element (and those of `more`
    arrays beside it, NULL behind their end) and, with `ordinality`, its number from 1; of these
    only the ones at `columns` (None: all), in that order, called by `names`. Leave out what nobody
    reads: repeating an array for each of its elements costs the square of its length. With `outer`
    a row whose array is NULL or empty comes once, with NULL for both."""
    others = tuple(map(compile_expression, more))
    plan = UnnestPlan(
        compile_expression(array), outer, ordinality is not None, names, columns, others
    )
    return lambda: Unnest(plan)
