"""Computes window calls over rows in memory: sorts the rows by partition and order, then evaluates
one call after another."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import MAX_ROWS, empty_columns, indexes, make_batch, numbers
from runnel.expressions.aggregates.registry import is_aggregate
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS
from runnel.expressions.context import EvaluationInput as Rows
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Expression, SortKey
from runnel.processor import ProcessorContext
from runnel.processors.over.aggregates import WindowAggregate
from runnel.processors.over.frames import RangeKey, Ranges, frame_ranges
from runnel.processors.over.partitions import WindowPartitions
from runnel.processors.over.values import NUMBERINGS, frame_value, ntile, shifted
from runnel.relation.nodes import Field
from runnel.relation.over import FrameUnit, WindowCall, WindowFrame

ROW_BYTES = 48
"""Bytes of memory per row in addition to its values: the indexes of its position in window order,
its partition, its peers and its frame."""

Arrangement = tuple[tuple[Expression, ...], tuple[SortKey, ...]]
"""The PARTITION BY expressions and the ORDER BY keys of a call."""


class CompiledCall:
    """One window call, compiled; shared by executions.

    has_states: whether its values are rows of the columns of an aggregate's states.
    """

    def __init__(self, call: WindowCall, has_states: bool = False) -> None:
        self._call = call
        function = call.call.function
        is_user_function = call.call.python is not None
        is_window_function = not is_user_function and (
            function in WINDOW_FUNCTIONS or not is_aggregate(function)
        )
        self._aggregate = None if is_window_function else WindowAggregate(call.call, has_states)
        self._arguments = (
            []
            if self._aggregate is not None
            else [compile_expression(item) for item in call.call.arguments]
        )
        key = (
            call.order[0]
            if len(call.order) == 1 and call.frame.unit is FrameUnit.RANGE and call.frame.offsets
            else None
        )
        self._key = key
        self._key_values = None if key is None else compile_expression(key.expression)

    def values(
        self,
        columns: Sequence[pa.Array],
        rows: WindowPartitions,
        frames: dict[WindowFrame, Ranges],
        context: ProcessorContext,
    ) -> Iterator[pa.Array | None]:
        """Yield None after each step of the work, then the values of all rows in window order."""
        function = self._call.call.function
        if function in NUMBERINGS:
            yield NUMBERINGS[function](rows)
            return
        if self._aggregate is not None:
            yield from self._aggregate.values(
                columns, rows, self._ranges(columns, rows, frames, context), context
            )
            return
        unsorted = Rows(columns, rows.rows, context.job.evaluation)
        arguments = [rows.sort(evaluate(item, unsorted)) for item in self._arguments]
        position = self._call.call.position
        if function == "ntile":
            yield ntile(rows, arguments[0], position)
        elif function in ("lag", "lead"):
            yield shifted(rows, arguments, function == "lead", self._call.ignore_nulls)
        else:
            ranges = self._ranges(columns, rows, frames, context)
            yield frame_value(function, arguments, ranges, self._call.ignore_nulls, position)

    def _ranges(
        self,
        columns: Sequence[pa.Array],
        rows: WindowPartitions,
        frames: dict[WindowFrame, Ranges],
        context: ProcessorContext,
    ) -> Ranges:
        """The frame of each row; `frames` caches them for all calls of one arrangement."""
        frame = self._call.frame
        found = frames.get(frame)
        if found is None:
            evaluation = context.job.evaluation
            order = None
            if self._key is not None and self._key_values is not None:
                keys = rows.sort(evaluate(self._key_values, Rows(columns, rows.rows, evaluation)))
                order = RangeKey(keys, self._key)
            found = frames[frame] = frame_ranges(frame, rows, order, evaluation)
        return found


CallsByArrangement = tuple[tuple[Arrangement, tuple[tuple[int, CompiledCall], ...]], ...]
"""Pairs of the index of a call's result and the call, grouped by arrangement."""


def by_arrangement(
    calls: Iterable[tuple[int, WindowCall]], with_states: Container[int] = ()
) -> CallsByArrangement:
    """Compile calls and group them by arrangement; each call comes with its result's index.

    with_states: the indexes of the calls whose values are rows of the columns of their states.
    """
    found: dict[Arrangement, list[tuple[int, CompiledCall]]] = {}
    for index, call in calls:
        compiled = CompiledCall(call, index in with_states)
        found.setdefault((call.partition, call.order), []).append((index, compiled))
    return tuple((arrangement, tuple(compiled)) for arrangement, compiled in found.items())


def arranged(
    arrangement: Arrangement, rows: pa.RecordBatch, context: ProcessorContext
) -> WindowPartitions:
    """The rows sorted by an arrangement."""
    partition, order = arrangement
    frame = Rows(rows.columns, rows.num_rows, context.job.evaluation)

    def values(expression: Expression) -> pa.Array:
        return evaluate(compile_expression(expression), frame)

    return WindowPartitions(
        [values(item) for item in partition],
        [values(key.expression) for key in order],
        order,
        rows.num_rows,
    )


def computed(
    calls: CallsByArrangement, rows: pa.RecordBatch, context: ProcessorContext
) -> Iterator[tuple[int, pa.Array] | None]:
    """Yield, for each call, its index and its values, one per row of `rows`; and None after each
    other step of the work."""
    for arrangement, found in calls:
        yield from values_of(found, rows, arranged(arrangement, rows, context), context)


def values_of(
    calls: Sequence[tuple[int, CompiledCall]],
    rows: pa.RecordBatch,
    in_order: WindowPartitions,
    context: ProcessorContext,
) -> Iterator[tuple[int, pa.Array] | None]:
    """Like `computed`, for calls of one arrangement; `in_order` are the rows sorted by it."""
    frames: dict[WindowFrame, Ranges] = {}
    for index, call in calls:
        for values in call.values(rows.columns, in_order, frames, context):
            yield None if values is None else (index, in_order.unsort(values))


@frozen
class CompiledWindow:
    """Compiled window calls.

    calls: the calls, in the order of their result columns.
    arrangements: the compiled calls, grouped by arrangement.
    width: the number of input columns that are in the output.
    names: the names of the output columns: of `width` input columns, then of the calls.
    most: a numbering call, by its index, and the largest number that is needed; rows with larger
        numbers may be left out. None: all rows are needed.
    fields: the input's columns; None if DuckDB cannot run the calls.
    """

    calls: tuple[WindowCall, ...]
    arrangements: CallsByArrangement
    width: int
    names: tuple[str, ...]
    most: tuple[int, Expression] | None
    fields: tuple[Field, ...] | None

    def results(self, rows: pa.RecordBatch, context: ProcessorContext) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the values of all calls appended.

        An empty batch after each step of the work lets the tasklet return to the scheduler; no
        other operator sees it.
        """
        values: dict[int, pa.Array] = {}
        for found in computed(self.arrangements, rows, context):
            yield empty_columns(0)
            if found is not None:
                values[found[0]] = found[1]
        yield from self.output(rows, [values[i] for i in range(len(values))])

    def first_rows(
        self, rows: pa.RecordBatch, call: int, most: int, context: ProcessorContext
    ) -> pa.RecordBatch:
        """The rows that `call` numbers at most `most`, in input order."""
        ordered = arranged(self.arrangements[0][0], rows, context)
        ranks = numbers(NUMBERINGS[self.calls[call].call.function](ordered), np.int64)
        return rows.take(indexes(np.sort(ordered.order[ranks <= most])))

    def output(self, rows: pa.RecordBatch, results: list[pa.Array]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the values of all calls appended, at most MAX_ROWS a batch."""
        columns = [*rows.columns[: self.width], *results]
        schema = pa.schema(
            [pa.field(name, column.type) for name, column in zip(self.names, columns, strict=True)]
        )
        for start in range(0, rows.num_rows, MAX_ROWS):
            count = min(MAX_ROWS, rows.num_rows - start)
            yield make_batch([column.slice(start, count) for column in columns], schema, count)
