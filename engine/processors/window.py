"""OVER: the values of window calls beside the rows that they are computed for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.batches import MAX_ROWS, empty_columns, indexes, join_batches, make_batch, numbers
from runnel.dag import ProcessorFactory
from runnel.expressions.aggregates import is_aggregate
from runnel.expressions.context import Frame as Rows
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Expression, SortKey
from runnel.expressions.window_functions import WINDOW_FUNCTIONS
from runnel.frozen import frozen
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.constants import constant
from runnel.processors.emitting import EmittingProcessor
from runnel.processors.window_aggregates import WindowAggregate
from runnel.processors.window_frames import OrderColumn, Ranges, check_offset, frame_ranges
from runnel.processors.window_partitions import Partitions
from runnel.processors.window_values import NUMBERINGS, frame_value, ntile, shifted
from runnel.windows import Frame, FrameUnit, WindowCall

PRUNE_ROWS = 1 << 16
"""How many rows are held before those that can't be needed are looked for, at least."""

Arrangement = tuple[tuple[Expression, ...], tuple[SortKey, ...]]
"""By what the rows are partitioned and ordered."""


class CompiledCall:
    """One window call, compiled; shared by executions."""

    def __init__(self, call: WindowCall) -> None:
        self._call = call
        function = call.call.function
        self._aggregate = None if function in WINDOW_FUNCTIONS or not is_aggregate(function) else WindowAggregate(call.call)
        self._arguments = [] if self._aggregate is not None else [compile_expression(item) for item in call.call.arguments]
        key = call.order[0] if len(call.order) == 1 and call.frame.unit is FrameUnit.RANGE and call.frame.offsets else None
        self._key = key
        self._key_values = None if key is None else compile_expression(key.expression)

    def values(
        self, columns: Sequence[pa.Array], rows: Partitions, frames: dict[Frame, Ranges], context: ProcessorContext
    ) -> Iterator[pa.Array | None]:
        """The value of each row in the window's order; before it None, whenever a part of the work is done."""
        function = self._call.call.function
        if function in NUMBERINGS:
            yield NUMBERINGS[function](rows)
            return
        if self._aggregate is not None:
            yield from self._aggregate.values(columns, rows, self._ranges(columns, rows, frames, context), context)
            return
        given = Rows(columns, rows.rows, context.job.evaluation)
        arguments = [rows.sort(evaluate(item, given)) for item in self._arguments]
        position = self._call.call.position
        if function == "ntile":
            yield ntile(rows, arguments[0], position)
        elif function in ("lag", "lead"):
            yield shifted(rows, arguments, function == "lead", self._call.ignore_nulls)
        else:
            ranges = self._ranges(columns, rows, frames, context)
            yield frame_value(function, arguments, ranges, self._call.ignore_nulls, position)

    def _ranges(
        self, columns: Sequence[pa.Array], rows: Partitions, frames: dict[Frame, Ranges], context: ProcessorContext
    ) -> Ranges:
        """The frames, which calls of one arrangement share."""
        frame = self._call.frame
        found = frames.get(frame)
        if found is None:
            evaluation = context.job.evaluation
            order = None
            if self._key is not None and self._key_values is not None:
                keys = rows.sort(evaluate(self._key_values, Rows(columns, rows.rows, evaluation)))
                order = OrderColumn(keys, self._key)
            found = frames[frame] = frame_ranges(frame, rows, order, evaluation)
        return found


@frozen
class CompiledWindow:
    """Window calls, those of one arrangement together, with their places among the results. `width` columns of the input are
    kept, and `schema` is that of the output."""

    calls: tuple[WindowCall, ...]
    arrangements: tuple[tuple[Arrangement, tuple[tuple[int, CompiledCall], ...]], ...]
    width: int
    names: tuple[str, ...]
    most: tuple[int, Expression] | None


class WindowProcessor(EmittingProcessor):
    """Holds all its input; when that ends, computes the calls one after the other and emits the rows as they came."""

    def __init__(self, plan: CompiledWindow) -> None:
        super().__init__()
        self._plan = plan
        self._batches: list[pa.RecordBatch] = []
        self._held = 0
        self._is_done = False
        self._most = 0
        self._next_prune = PRUNE_ROWS

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        for call in self._plan.calls:
            for bound in (call.frame.start, call.frame.end):
                if bound.offset is not None:
                    check_offset(bound, context.job.evaluation)
        if self._plan.most is not None:
            self._most = constant(self._plan.most[1], context.job.evaluation) or 0

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._held += batch.num_rows
        if self._plan.most is not None and self._held > self._next_prune:
            self._prune(self._plan.most[0])
        self.check_accumulated(self._held)

    def _prune(self, call: int) -> None:
        """Keeps the rows that may still be among the first of their partition."""
        rows = join_batches(self._batches)
        ordered = self._arranged(self._plan.arrangements[0][0], rows)
        ranks = numbers(NUMBERINGS[self._plan.calls[call].call.function](ordered), np.int64)
        kept = np.sort(ordered.order[ranks <= self._most])
        self._batches = [rows.take(indexes(kept))]
        self._held = len(kept)
        self._next_prune = max(2 * self._held, PRUNE_ROWS)

    def complete(self) -> bool:
        if not self._is_done:
            self._is_done = True
            if self._batches:
                self.emit_all(self._computed())
        return self.drain()

    def _computed(self) -> Iterator[pa.RecordBatch]:
        rows = join_batches(self._batches)
        self._batches = []
        results: dict[int, pa.Array] = {}
        for arrangement, calls in self._plan.arrangements:
            sorted_rows = self._arranged(arrangement, rows)
            frames: dict[Frame, Ranges] = {}
            for place, call in calls:
                for values in call.values(rows.columns, sorted_rows, frames, self.context):
                    # An empty batch goes nowhere, and lets others have the thread.
                    yield empty_columns(0)
                    if values is not None:
                        results[place] = sorted_rows.unsort(values)
        columns = [*rows.columns[: self._plan.width], *(results[i] for i in range(len(results)))]
        schema = pa.schema([pa.field(name, column.type) for name, column in zip(self._plan.names, columns, strict=True)])
        for start in range(0, rows.num_rows, MAX_ROWS):
            count = min(MAX_ROWS, rows.num_rows - start)
            yield make_batch([column.slice(start, count) for column in columns], schema, count)

    def _arranged(self, arrangement: Arrangement, rows: pa.RecordBatch) -> Partitions:
        partition, order = arrangement
        frame = Rows(rows.columns, rows.num_rows, self.context.job.evaluation)

        def values(expression: Expression) -> pa.Array:
            return evaluate(compile_expression(expression), frame)

        return Partitions([values(item) for item in partition], [values(key.expression) for key in order], order, rows.num_rows)

    def state(self) -> list[pa.RecordBatch]:
        """The rows that are held; once they are computed they are emitted before a snapshot, and nothing is left."""
        return self._batches

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self.take(0, batch)

    def close(self) -> None:
        super().close()
        self._batches = []


def window(
    calls: tuple[WindowCall, ...], width: int, names: tuple[str, ...], most: tuple[int, Expression] | None = None
) -> ProcessorFactory:
    """A supplier of processors that give the first `width` columns of the input, then the value of each call, called by
    `names`. Rows of one partition must meet in one processor. `most` is a call and a number: rows for which it gives more may
    be left out; then all calls number rows (ROW_NUMBER, RANK, DENSE_RANK) in one arrangement."""
    arrangements: dict[Arrangement, list[tuple[int, CompiledCall]]] = {}
    for place, call in enumerate(calls):
        arrangements.setdefault((call.partition, call.order), []).append((place, CompiledCall(call)))
    compiled = tuple((arrangement, tuple(found)) for arrangement, found in arrangements.items())
    plan = CompiledWindow(calls, compiled, width, names, most)
    return lambda: WindowProcessor(plan)
