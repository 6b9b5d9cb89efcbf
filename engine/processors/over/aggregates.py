"""Aggregates over frames.

An aggregate's states are worked out for all frames at once (`window_states`), then its `finish`
makes the values, as after a GROUP BY. What has DISTINCT, an order, or a state of another kind is
computed by a GROUP BY over the frames written out row by row, a piece at a time. In frames that
only grow, DISTINCT is a matter of the first row of each value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    Indexes,
    Mask,
    flags,
    from_flags,
    from_numbers,
    indexes,
    join_arrays,
    make_batch,
    numbers,
)
from runnel.errors import internal
from runnel.expressions.aggregates.registry import function_of, row_arguments, states_of
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import AggregateCall, Column, Expression, columns_of, transform
from runnel.processor import Item, ProcessorContext
from runnel.processors.grouping.aggregate import AggregateProcessor
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.over.frames import Range, Ranges
from runnel.processors.over.partitions import WindowPartitions
from runnel.processors.over.states import RANGE_STATES
from runnel.sqltypes import BIGINT, BOOLEAN

WRITTEN_OUT = 1 << 19
"""About how many rows of frames are written out at a time."""


@frozen
class Frames:
    """The different frames of a window, and for each row the number of its own (None: row i has
    frame i). Those that follow each other and are the same are one. `grow`: each begins where its
    partition begins."""

    ranges: Ranges
    row: Indexes | None
    partition: Indexes
    grow: bool

    @staticmethod
    def of(ranges: Ranges, rows: WindowPartitions) -> Frames:
        grow = len(ranges) == 1 and bool((ranges[0].start == rows.start).all())
        differs = np.zeros(rows.rows, np.bool_)
        differs[:1] = True
        for bounds in (bound for item in ranges for bound in item):
            differs[1:] |= bounds[1:] != bounds[:-1]
        if differs.all():
            return Frames(ranges, None, rows.partition, grow)
        first = np.flatnonzero(differs)
        kept = [Range(item.start[first], item.end[first]) for item in ranges]
        return Frames(kept, np.cumsum(differs) - 1, rows.partition, grow)


class WindowAggregate:
    """A compiled aggregate of a window, shared by executions."""

    def __init__(self, call: AggregateCall) -> None:
        self._read = sorted(set().union(*map(columns_of, call.expressions)))
        places = {index: place for place, index in enumerate(self._read)}
        self._over_frames = _OverFrames(
            call.map_expressions(lambda item: _renumbered(item, places)), len(self._read)
        )

    def values(
        self,
        columns: Sequence[pa.Array],
        rows: WindowPartitions,
        ranges: Ranges,
        context: ProcessorContext,
    ) -> Iterator[pa.Array | None]:
        """The value of each row in the window's order; before it None, whenever a part of the work
        is done. `columns` are the input's, in its order."""
        frames = Frames.of(ranges, rows)
        parts = []
        for part in self._over_frames.values(
            [rows.sort(columns[i]) for i in self._read], rows.rows, frames, context
        ):
            parts.append(part)
            yield None
        found = join_arrays(parts)
        yield found if frames.row is None else found.take(indexes(frames.row))


def _renumbered(expression: Expression, places: dict[int, int]) -> Expression:
    def change(node: Expression) -> Expression:
        return replace(node, index=places[node.index]) if isinstance(node, Column) else node

    return transform(expression, change)


class _OverFrames:
    """An aggregate over columns that are in the window's order; there are `width` of them."""

    def __init__(self, call: AggregateCall, width: int) -> None:
        self._call = call
        self._width = width
        self._rows = row_arguments(call)
        self._arguments = [compile_expression(item) for item in self._rows.expressions]
        self._states = states_of(call)
        is_plain = (
            not call.distinct
            and not call.order
            and not self._rows.has_flag
            and len(self._arguments) <= 1
        )
        self._is_direct = is_plain and all(type(state) in RANGE_STATES for state in self._states)

    def values(
        self, columns: list[pa.Array], count: int, frames: Frames, context: ProcessorContext
    ) -> Iterator[pa.Array]:
        """The values of the frames, in pieces."""
        if self._is_direct:
            yield self._direct(columns, count, frames, context)
        elif self._call.distinct and not self._call.order and frames.grow:
            plain, marked = self._first_ones(columns, count, frames, context)
            yield from _OverFrames(plain, len(marked)).values(marked, count, frames, context)
        else:
            yield from self._written_out(columns, frames, context)

    def _direct(
        self, columns: list[pa.Array], count: int, frames: Frames, context: ProcessorContext
    ) -> pa.Array:
        evaluation = context.job.evaluation
        arguments = [
            evaluate(item, EvaluationInput(columns, count, evaluation)) for item in self._arguments
        ]
        states = [
            made
            for state in self._states
            for made in RANGE_STATES[type(state)](state, arguments, frames.ranges)
        ]
        return function_of(self._call).finish(states, self._call, evaluation)

    def _first_ones(
        self, columns: list[pa.Array], count: int, frames: Frames, context: ProcessorContext
    ) -> tuple[AggregateCall, list[pa.Array]]:
        """The call without DISTINCT over its evaluated arguments and a flag: which rows are the
        first of their partition that have these arguments and pass the FILTER."""
        rows = EvaluationInput(columns, count, context.job.evaluation)
        arguments = [evaluate(item, rows) for item in self._arguments]
        passes = np.ones(count, np.bool_)
        if self._rows.has_flag:
            passes = flags(pc.fill_null(arguments.pop(), _FALSE))
        elif arguments[0].null_count:
            passes = flags(pc.is_valid(arguments[0]))
        codes, _ = factorise([from_numbers(frames.partition, pa.int64()), *arguments])
        marked = from_flags(_first_of(codes, passes))
        given = len(arguments)
        taken = tuple(
            Column(index=i, name=f"a{i}", type=item.type)
            for i, item in enumerate(self._call.arguments[:given])
        )
        flag = Column(index=given, name="first", type=BOOLEAN)
        call = replace(
            self._call,
            distinct=False,
            predicate=flag,
            arguments=(*taken, *self._call.arguments[given:]),
        )
        return call, [*arguments, marked]

    def _written_out(
        self, columns: list[pa.Array], frames: Frames, context: ProcessorContext
    ) -> Iterator[pa.Array]:
        number = Column(index=self._width, name="frame", type=BIGINT)
        by_frame = Aggregation(
            (number,), (self._call,), ("frame", "value"), AggregationStage.SINGLE
        )
        over_nothing = Aggregation((), (self._call,), ("value",), AggregationStage.SINGLE)
        none = [
            *(column.slice(0, 0) for column in columns),
            from_numbers(np.zeros(0, np.int64), pa.int64()),
        ]
        (nothing,) = _aggregated(over_nothing, none, context)
        ranges = frames.ranges
        for first, last in _portions(ranges):
            owners, places = _rows_of(
                [Range(start[first:last], end[first:last]) for start, end in ranges]
            )
            taken = [column.take(indexes(places)) for column in columns]
            keys, values = _aggregated(
                by_frame, [*taken, from_numbers(owners, pa.int64())], context
            )
            slots = np.full(last - first, len(keys))
            slots[numbers(keys, np.int64)] = np.arange(len(keys))
            yield join_arrays([values, nothing]).take(indexes(slots))


_FALSE = from_flags(np.zeros(1, np.bool_))[0]


def _first_of(codes: Indexes, passes: Mask) -> Mask:
    """Of the rows that pass, the first of each code."""
    rows = np.flatnonzero(passes)
    is_first = np.zeros(len(codes), np.bool_)
    is_first[rows[np.unique(codes[rows], return_index=True)[1]]] = True
    return is_first


def _portions(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """Runs of frames that have about WRITTEN_OUT rows together."""
    lengths = np.add.reduce([end - start for start, end in ranges])
    total = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        before = total[first - 1] if first else 0
        last = max(int(np.searchsorted(total, before + WRITTEN_OUT, "right")), first + 1)
        yield first, last
        first = last


def _rows_of(ranges: Ranges) -> tuple[Indexes, Indexes]:
    """The rows of frames written out, frame by frame: the frame of each, and its place."""
    count = len(ranges[0].start)
    starts = np.column_stack([item.start for item in ranges]).ravel()
    lengths = np.column_stack([item.end - item.start for item in ranges]).ravel()
    owners = np.repeat(np.repeat(np.arange(count), len(ranges)), lengths)
    offsets = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return owners, np.arange(len(owners)) + offsets


class _Nowhere:
    """The outbox of an aggregation whose result is asked for."""

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        raise internal("an aggregation within a window has nothing to emit")

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        raise internal("an aggregation within a window has no snapshot")


_NOWHERE = _Nowhere()


def _aggregated(
    aggregation: Aggregation, columns: list[pa.Array], context: ProcessorContext
) -> list[pa.Array]:
    """The columns of a GROUP BY over these."""
    processor = AggregateProcessor(aggregation, stays=True)
    processor.init(_NOWHERE, context)
    schema = pa.schema([pa.field(f"c{i}", column.type) for i, column in enumerate(columns)])
    processor.take(0, make_batch(columns, schema, len(columns[-1])))
    found: list[pa.Array] = processor.finished().columns
    return found
