"""Aggregates over frames.

The states of an aggregate are computed for all frames at once (`states.RANGE_STATES`), and its
`finish` computes the values, as for GROUP BY. An aggregate with DISTINCT, an ORDER BY, or a state
that is not in RANGE_STATES is computed by a GROUP BY over the expanded frames: one row per frame
and row in it, some frames at a time. If each frame starts at the start of its partition, DISTINCT
is a filter on the first row of each value.
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
from runnel.expressions.aggregates.states import AggregateState
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import AggregateCall, Column, Expression, columns_of, transform
from runnel.processor import Item, ProcessorContext
from runnel.processors.grouping.aggregate import AggregateProcessor
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.over.frames import Range, Ranges
from runnel.processors.over.partitions import WindowPartitions
from runnel.processors.over.states import has_rule, over_ranges
from runnel.sqltypes import BIGINT, BOOLEAN

EXPANDED_ROWS = 1 << 19
"""Approximate number of rows of expanded frames in memory at a time."""


@frozen
class Frames:
    """The distinct frames of a window; equal frames of consecutive rows are one.

    ranges: the rows of each frame.
    row: for each row the index of its frame; None: row i has frame i.
    partition: for each row the number of its partition.
    grow: whether each frame starts at the start of its partition.
    """

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
        distinct = [Range(item.start[first], item.end[first]) for item in ranges]
        return Frames(distinct, np.cumsum(differs) - 1, rows.partition, grow)


class WindowAggregate:
    """A compiled aggregate of a window, shared by executions.

    has_states: whether its values are rows of the states' columns; each state must have a rule.
    """

    def __init__(self, call: AggregateCall, has_states: bool = False) -> None:
        self._read = sorted(set().union(*map(columns_of, call.expressions)))
        new_indexes = {index: new for new, index in enumerate(self._read)}
        self._over_frames = _OverFrames(
            call.map_expressions(lambda item: _renumbered(item, new_indexes)),
            len(self._read),
            has_states,
        )

    def values(
        self,
        columns: Sequence[pa.Array],
        rows: WindowPartitions,
        ranges: Ranges,
        context: ProcessorContext,
    ) -> Iterator[pa.Array | None]:
        """Yield None after each step of the work, then the values of all rows in window order.

        `columns` are the input's, in input order.
        """
        frames = Frames.of(ranges, rows)
        chunks = []
        for chunk in self._over_frames.values(
            [rows.sort(columns[i]) for i in self._read], rows.rows, frames, context
        ):
            chunks.append(chunk)
            yield None
        found = join_arrays(chunks)
        yield found if frames.row is None else found.take(indexes(frames.row))


def state_rows(columns: Sequence[pa.Array]) -> pa.Array:
    """The columns of states as one column."""
    return pa.StructArray.from_arrays(columns, names=[f"s{i}" for i in range(len(columns))])


def _renumbered(expression: Expression, new_indexes: dict[int, int]) -> Expression:
    def change(node: Expression) -> Expression:
        return replace(node, index=new_indexes[node.index]) if isinstance(node, Column) else node

    return transform(expression, change)


class _OverFrames:
    """An aggregate over `width` columns in window order."""

    def __init__(self, call: AggregateCall, width: int, has_states: bool = False) -> None:
        self._call = call
        self._width = width
        self._rows = row_arguments(call)
        self._arguments = [compile_expression(item) for item in self._rows.expressions]
        self._states = states_of(call)
        is_plain = not call.distinct and not call.order and not self._rows.has_flag
        self._is_direct = is_plain and all(map(has_rule, self._states))
        self._has_states = has_states
        assert self._is_direct or not has_states

    def values(
        self, columns: list[pa.Array], count: int, frames: Frames, context: ProcessorContext
    ) -> Iterator[pa.Array]:
        """Yield the values of the frames, in chunks."""
        if self._is_direct:
            yield self._direct(columns, count, frames, context)
        elif self._call.distinct and not self._call.order and frames.grow:
            plain, marked = self._without_distinct(columns, count, frames, context)
            yield from _OverFrames(plain, len(marked)).values(marked, count, frames, context)
        else:
            yield from self._expanded(columns, frames, context)

    def _direct(
        self, columns: list[pa.Array], count: int, frames: Frames, context: ProcessorContext
    ) -> pa.Array:
        evaluation = context.job.evaluation
        arguments = [
            evaluate(item, EvaluationInput(columns, count, evaluation)) for item in self._arguments
        ]
        columns = [over_ranges(state, arguments, frames.ranges) for state in self._states]
        if self._has_states:
            exported = map(AggregateState.export, self._states, columns)
            return state_rows([column for item in exported for column in item])
        flat = [column for item in columns for column in item]
        return function_of(self._call).finish(flat, self._call, evaluation)

    def _without_distinct(
        self, columns: list[pa.Array], count: int, frames: Frames, context: ProcessorContext
    ) -> tuple[AggregateCall, list[pa.Array]]:
        """The call without DISTINCT, and its columns: the evaluated arguments and a flag.

        The flag is the call's FILTER. It is true for the first row of each partition and arguments
        that passes the FILTER of the original call.
        """
        rows = EvaluationInput(columns, count, context.job.evaluation)
        arguments = [evaluate(item, rows) for item in self._arguments]
        passes = np.ones(count, np.bool_)
        if self._rows.has_flag:
            passes = flags(pc.fill_null(arguments.pop(), _FALSE))
        elif arguments[0].null_count:
            passes = flags(pc.is_valid(arguments[0]))
        codes, _ = factorise([from_numbers(frames.partition, pa.int64()), *arguments])
        marked = from_flags(_first_of(codes, passes))
        width = len(arguments)
        evaluated = tuple(
            Column(index=i, name=f"a{i}", type=item.type)
            for i, item in enumerate(self._call.arguments[:width])
        )
        flag = Column(index=width, name="first", type=BOOLEAN)
        call = replace(
            self._call,
            distinct=False,
            predicate=flag,
            arguments=(*evaluated, *self._call.arguments[width:]),
        )
        return call, [*arguments, marked]

    def _expanded(
        self, columns: list[pa.Array], frames: Frames, context: ProcessorContext
    ) -> Iterator[pa.Array]:
        """Yield the values of runs of frames, by a GROUP BY over their rows."""
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
            owners, rows = _rows_of(
                [Range(start[first:last], end[first:last]) for start, end in ranges]
            )
            expanded = [column.take(indexes(rows)) for column in columns]
            keys, values = _aggregated(
                by_frame, [*expanded, from_numbers(owners, pa.int64())], context
            )
            slots = np.full(last - first, len(keys))
            slots[numbers(keys, np.int64)] = np.arange(len(keys))
            yield join_arrays([values, nothing]).take(indexes(slots))


_FALSE = from_flags(np.zeros(1, np.bool_))[0]


def _first_of(codes: Indexes, passes: Mask) -> Mask:
    """Flags the first row of each code among the rows that pass."""
    rows = np.flatnonzero(passes)
    is_first = np.zeros(len(codes), np.bool_)
    is_first[rows[np.unique(codes[rows], return_index=True)[1]]] = True
    return is_first


def _portions(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """Yield runs of frames of about EXPANDED_ROWS rows together: first frame, end."""
    lengths = np.add.reduce([end - start for start, end in ranges])
    total = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        before = total[first - 1] if first else 0
        last = max(int(np.searchsorted(total, before + EXPANDED_ROWS, "right")), first + 1)
        yield first, last
        first = last


def _rows_of(ranges: Ranges) -> tuple[Indexes, Indexes]:
    """The rows of all frames, frame by frame: the index of the frame, and of the row.

    For the frames [0, 2) and [1, 2) the frames are 0 0 1, the rows 0 1 1: each length's frame is
    repeated, and a row is its index in the output plus the offset of its range.
    """
    count = len(ranges[0].start)
    starts = np.column_stack([item.start for item in ranges]).ravel()
    lengths = np.column_stack([item.end - item.start for item in ranges]).ravel()
    owners = np.repeat(np.repeat(np.arange(count), len(ranges)), lengths)
    offsets = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return owners, np.arange(len(owners)) + offsets


class _Nowhere:
    """The outbox of an aggregation whose result is returned by a method."""

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        raise internal("an aggregation within a window has nothing to emit")

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        raise internal("an aggregation within a window has no snapshot")


_NOWHERE = _Nowhere()


def _aggregated(
    aggregation: Aggregation, columns: list[pa.Array], context: ProcessorContext
) -> list[pa.Array]:
    """The result columns of a GROUP BY over `columns`."""
    processor = AggregateProcessor(aggregation, stays=True)
    processor.init(_NOWHERE, context)
    schema = pa.schema([pa.field(f"c{i}", column.type) for i, column in enumerate(columns)])
    processor.take(0, make_batch(columns, schema, len(columns[-1])))
    found: list[pa.Array] = processor.finished().columns
    return found
