"""GROUP BY over windows that overlap (HOP, CUMULATE), without a row for each window of each row:
see `frames`.

Rows are grouped by the end of their frame and the other keys. What of this a watermark completes
goes to the frames of the windows to come; then the windows that it completes come out. A row may be
late for some of its windows only: it is counted as late, and still is in those to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, Mask, from_numbers, indexes, no_rows, numbers, validity
from runnel.columns.key_hash import keyed_state
from runnel.dag import ProcessorFactory
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import evaluate
from runnel.expressions.nodes import AggregateCall, Column, Expression
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage
from runnel.processors.grouping.group_state import (
    GroupLayout,
    GroupState,
    Partial,
    appended,
    exported,
)
from runnel.processors.panes.dense_states import dense_state
from runnel.processors.sources.partition_watermarks import LEAST_TIME, event_times
from runnel.processors.stateful.late_candidates import LateCandidates, copied_row
from runnel.processors.stateful.late_event import LateEvent, time_unit
from runnel.processors.time_windows.assign_windows import AssignWindowsPlan, bounds_range, place
from runnel.processors.time_windows.dense_frames import DenseFrames
from runnel.processors.time_windows.frames import FrameTimes, WindowFrames
from runnel.processors.time_windows.sparse_windows import (
    FEW_WINDOWS,
    WindowRange,
    by_frame,
    repeated_windows,
)
from runnel.processors.time_windows.spilled_frames import SpilledFrames
from runnel.processors.time_windows.timed_aggregate import TimedAggregateProcessor, Timing
from runnel.relation.streams import WINDOW_COLUMNS, TimeBound, WindowShape
from runnel.sqltypes import BIGINT, to_arrow

if TYPE_CHECKING:
    from runnel.processors.time_windows.spilled_frames import SpilledFrames

FRAME = 0
"""The number of the key that is the frame's end; the other keys follow."""

FEW_ROWS = 8192
"""Windows come out together until they have so many rows."""

NEVER_COMES = -1
"""The number of the watermark of an input that ends and has none."""


@frozen(kw_only=True)
class FramedKeys:
    """How rows are grouped: by the windows of `shape` that they are in by `time`, and by `keys`.
    `columns` says what the key columns of the result are: the number of one of `keys`, or −1, −2,
    −3 for window_time, window_end and window_start. `bound` is that of the time column (None: the
    input ends, and all comes then)."""

    shape: WindowShape
    time: Column
    keys: tuple[Expression, ...]
    columns: tuple[int, ...]
    bound: TimeBound | None

    @property
    def timing(self) -> tuple[tuple[int, TimeBound], ...]:
        return ((FRAME, TimeBound(NEVER_COMES) if self.bound is None else self.bound.moved(1)),)


class FramedAggregation(Aggregation):
    """A compiled aggregation by frames, whose results are by windows."""

    def __init__(
        self,
        framed: FramedKeys,
        aggregates: tuple[AggregateCall, ...],
        names: tuple[str, ...],
        stage: AggregationStage,
    ) -> None:
        frame = Column(index=framed.time.index, name=framed.time.name, type=BIGINT)
        internal = (
            *(f"k{i}" for i in range(1 + len(framed.keys))),
            *(f"a{i}" for i in range(len(aggregates))),
        )
        super().__init__(
            (frame, *framed.keys),
            aggregates,
            internal,
            stage,
            counts_rows=stage is not AggregationStage.SINGLE,
        )
        self.framed = framed
        self.times = FrameTimes(framed.shape)
        self.window_layout = self.plain_layout.without_first_key()
        self.distinct_layouts = [item.layout.without_first_key() for item in self.distinct_sets]
        time = to_arrow(framed.time.type)
        self.bound_type = pa.timestamp("us") if pa.types.is_date(time) else time
        time_type, position = framed.time.type, framed.time.position
        self.assigned = AssignWindowsPlan(
            framed.shape, framed.time.index, time_type, names, None, position
        )
        least, greatest = bounds_range(time_type)
        self.tame_times = (least + framed.shape.size, greatest - framed.shape.size)
        """Times whose windows have bounds of the type for sure."""
        if stage is not AggregationStage.ACCUMULATE:
            self.schema = self._window_schema(names)

    def _window_schema(self, names: tuple[str, ...]) -> pa.Schema:
        types = [
            self.bound_type if place < 0 else self.layout.key_types[1 + place]
            for place in self.framed.columns
        ]
        types += [to_arrow(call.type) for call in self.aggregates]
        return pa.schema([pa.field(name, kind) for name, kind in zip(names, types, strict=True)])

    def result_keys(self, partial: Partial) -> list[pa.Array]:
        """The key columns of the result for groups whose first key is the end of their window."""
        ends, valid = numbers(partial.keys[FRAME], np.int64), validity(partial.keys[FRAME])
        return [
            self._bounds(ends, place, valid) if place < 0 else partial.keys[1 + place]
            for place in self.framed.columns
        ]

    def _bounds(self, ends: Indexes, place: int, valid: Mask | None) -> pa.Array:
        part = WINDOW_COLUMNS[place]
        values = (
            ends
            if part == "window_end"
            else ends - 1
            if part == "window_time"
            else self.times.start(ends)
        )
        found = from_numbers(values, pa.int64(), valid)
        return (
            found.cast(self.bound_type)
            if pa.types.is_integer(self.bound_type)
            else found.view(self.bound_type)
        )


class FramedAggregateProcessor(TimedAggregateProcessor):
    """Holds the open frames, and the frames of the windows to come."""

    def __init__(self, aggregation: FramedAggregation, timing: Timing) -> None:
        super().__init__(aggregation, timing)
        self.late.unit = time_unit(aggregation.bound_type)
        self._framed = aggregation
        self._until = LEAST_TIME
        self._without_time: list[Partial | None] = []

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        aggregation = self._framed
        self._layouts = [aggregation.window_layout, *aggregation.distinct_layouts]
        self._layouts_with_frames = [
            aggregation.plain_layout,
            *(item.layout for item in aggregation.distinct_sets),
        ]
        self._spilled: list[SpilledFrames] = []
        for groups in (self._groups, *self._distinct):
            groups.divided_from = FRAME + 1
        self._begin_frames()

    def _begin_frames(self) -> None:
        self._frames: list[DenseFrames | WindowFrames] = [
            self._dense_frames(layout) or self._sparse_frames(layout) for layout in self._layouts
        ]

    def _dense_frames(self, layout: GroupLayout) -> DenseFrames | None:
        states = [dense_state(state) for state in layout.states]
        dense = [state for state in states if state is not None]
        return DenseFrames(self._framed.times, layout, dense) if len(dense) == len(states) else None

    def _sparse_frames(self, layout: GroupLayout) -> WindowFrames:
        return WindowFrames(self._framed.times, GroupState(layout, self.check_accumulated).combine)

    def spill(self) -> None:
        super().spill()
        if self._aggregation.stage is not AggregationStage.ACCUMULATE and self.can_spill:
            self._spill_frames()

    def _spill_frames(self) -> None:
        """Puts the frames of windows to come into files."""
        if self._spilled:
            return
        for layout, frames in zip(self._layouts, self._frames, strict=True):
            combine = GroupState(layout, self.check_accumulated).combine
            spilled = SpilledFrames(
                self._framed.times, layout, combine, self.account.reservation.memory
            )
            for end, partial in frames.frames():
                spilled.add(_with_end(partial, end))
            self._spilled.append(spilled)
        self._begin_frames()

    def state_size(self) -> tuple[int, int]:
        rows, size = super().state_size()
        sizes = [frames.size for frames in (*self._frames, *self._spilled)]
        return rows + sum(held for held, _ in sizes), size + sum(taken for _, taken in sizes)

    def spilled_size(self) -> tuple[int, int]:
        rows, size = super().spilled_size()
        sizes = [frames.size for frames in self._spilled]
        return rows + sum(held for held, _ in sizes), size + sum(taken for _, taken in sizes)

    def evaluated(self, batch: pa.RecordBatch) -> list[pa.Array]:
        columns = super().evaluated(batch)
        times = event_times(columns[FRAME])
        if batch.num_rows:
            self._check(times)
        columns[FRAME] = self._framed.times.frame_ends(times)
        return columns

    def _check(self, column: pa.Array) -> None:
        """DataError where a window has a bound that is none of the type's values."""
        valid = validity(column)
        times = numbers(column, np.int64)
        if valid is not None:
            times = np.where(valid, times, 0)
        least, greatest = self._framed.tame_times
        if int(times.min()) < least or int(times.max()) > greatest:
            self._framed.assigned.check(place(self._framed.framed.shape, times), valid)

    @property
    def _moment(self) -> int:
        """Windows that end until here are complete."""
        bound = self._framed.framed.bound
        return self._times[0] + (0 if bound is None else bound.offset)

    def named_keys(self, keys: Sequence[pa.Array]) -> pa.RecordBatch:
        """All keys but the frame, whose end is in the log as the time at which it is due."""
        named = super().named_keys(keys)
        return named.select(range(FRAME + 1, named.num_columns))

    @property
    def _candidates(self) -> LateCandidates:
        framed = self._framed.framed
        return LateCandidates(self.context.job, (framed.shape, framed.time.name))

    def _own_times(self, rows: pa.RecordBatch, late_rows: Indexes) -> Indexes:
        """The event times of rows of the input."""
        frame = EvaluationInput(rows.columns, rows.num_rows, self.context.job.evaluation)
        found = evaluate(self._aggregation.evaluators[FRAME], frame)
        times: Indexes = numbers(event_times(found), np.int64)[late_rows]
        return times

    def note_late(self, batch: pa.RecordBatch, columns: Sequence[pa.Array]) -> None:
        late_rows = np.flatnonzero(self.late_among(columns)[0])
        if len(late_rows):
            self._candidates.add(
                numbers(columns[FRAME], np.int64)[late_rows],
                self._own_times(batch, late_rows),
                lambda number: copied_row(batch, int(late_rows[number])),
            )

    def count_late(
        self, count: int, late: Mask, keys: Sequence[pa.Array], rows: pa.RecordBatch
    ) -> None:
        """Of groups of another stage, a row is logged that the other stage has remembered."""
        late_rows = np.flatnonzero(late)
        watermark = self._times[0]
        candidates = self._candidates
        if self._aggregation.stage is AggregationStage.SINGLE:
            times = self._own_times(rows, late_rows)
            found: list[LateEvent | None] = []
        else:
            frames = numbers(keys[FRAME], np.int64)[late_rows].tolist()
            found = [candidates.get(frame) for frame in frames]
            if None in found:
                super().count_late(count, late, keys, rows)
                return
            times = np.array([event.time for event in found if event is not None], np.int64)

        def event(number: int) -> LateEvent:
            known = found[number] if found else None
            return known or LateEvent(rows.slice(int(late_rows[number]), 1), int(times[number]))

        self.late.add(count, watermark - times, watermark, event)

    def late_among(self, keys: Sequence[pa.Array]) -> tuple[Mask, Mask]:
        frames, valid = numbers(keys[FRAME], np.int64), validity(keys[FRAME])
        late = self._framed.times.first_end(frames) <= self._moment
        gone = self._framed.times.last_end(frames) <= self._moment
        return (late, gone) if valid is None else (late & valid, gone & valid)

    def settle(self) -> None:
        if self._aggregation.stage is AggregationStage.ACCUMULATE:
            super().settle()
            return
        if self.is_spilled or self._spilled:
            if self._groups.is_due(self._times) or self._has_window():
                self.emit_all(self._windows_by_parts(self._times))
            else:
                self._until = max(self._until, self._moment)
            return
        completed = (
            [groups.take_due(self._times) for groups in (self._groups, *self._distinct)]
            if self._groups.is_due(self._times)
            else []
        )
        self._advance(completed, self._moment)

    def finish(self) -> None:
        if self._aggregation.stage is AggregationStage.ACCUMULATE:
            super().finish()
            return
        if self.is_spilled or self._spilled:
            self.emit_all(self._windows_by_parts(None))
            return
        completed = (
            []
            if self._groups.is_empty
            else [groups.take_all() for groups in (self._groups, *self._distinct)]
        )
        self._advance(completed, None)

    def _advance(self, completed: Sequence[Partial | None], until: int | None) -> None:
        """Emits the windows that end until then (None: all).

        completed: the groups of frames that are complete now, plain ones and distinct arguments.
        """
        with_times = self._with_times(completed)
        found = self._sparse_range(with_times, until)
        if found is not None:
            self.emit_all(self._sparse_windows(with_times, found, is_last=until is None))
            return
        for number, groups in enumerate(with_times):
            if groups.num_rows:
                self._add_to_frames(number, groups)
        end = self._frames[0].next_end(self._until)
        if until is None or (end is not None and end <= until):
            self.emit_all(self._windows(until))
        else:
            self._until = max(self._until, until)

    def _sparse_range(self, with_times: Sequence[Partial], until: int | None) -> WindowRange | None:
        """The windows to emit if repeating their groups is the cheaper way."""
        if not with_times or not with_times[0].num_rows:
            return None
        frames = numbers(with_times[0].keys[FRAME], np.int64)
        held = self._frames[0].ends()
        if until is None:
            until = self._framed.times.last_end(max([int(frames.max()), *held]))
        found = WindowRange(self._framed.times, self._until, until)
        if found.count(min([int(frames.min()), *held])) <= FEW_WINDOWS:
            return None
        is_sparse = found.are_sparse(frames, self._frames[0].size[0], len(held))
        return found if is_sparse else None

    def _sparse_windows(
        self, with_times: Sequence[Partial], found: WindowRange, is_last: bool
    ) -> Iterator[pa.RecordBatch]:
        """The windows of a range, without running totals; the frames of later windows remain."""
        combines = [
            GroupState(layout, self.check_accumulated).combine
            for layout in self._layouts_with_frames
        ]
        sets = []
        for combine, frames, groups in zip(combines, self._frames, with_times, strict=True):
            held = [_with_end(item, end) for end, item in frames.frames()]
            sets.append(by_frame(combine([*held, groups])))
        for parts in repeated_windows(sets, found, combines):
            yield self._result([[part] if part.num_rows else [] for part in parts])
        self._begin_frames()
        for number, groups in enumerate(sets):
            ends = found.times.last_end(numbers(groups.keys[FRAME], np.int64))
            rest = groups.take(indexes(np.flatnonzero(ends > found.until)))
            if rest.num_rows:
                self._add_to_frames(number, rest)
        self._until = max(self._until, found.until)
        if is_last:
            yield from self._rows_without_time()

    def _has_window(self) -> bool:
        """Whether a window is complete, where frames are in files."""
        end = self._spilled[0].next_end(self._until) if self._spilled else None
        return end is not None and end <= self._moment

    def _windows_by_parts(self, times: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
        """As `settle`, or without times `finish`, where groups or frames are in files: some groups
        at a time. An empty batch is a pause."""
        self._spill_frames()
        nothing = no_rows(self._framed.schema)
        untimed: list[list[Partial]] = []
        for groups, frames in zip((self._groups, *self._distinct), self._spilled, strict=True):
            untimed.append([])
            for part in groups.take_by_parts(times):
                without_time, timed = _divided(part)
                frames.add(timed)
                if without_time is not None and without_time.num_rows:
                    untimed[-1].append(without_time)
                yield nothing
        moment = None if times is None else self._moment
        sets = [
            chain(frames.windows(self._until, moment), more)
            for frames, more in zip(self._spilled, untimed, strict=True)
        ]
        for found in self.brought_together(sets) if self._distinct else sets[0]:
            yield nothing if found is None else self._result([[found]])
        if moment is not None:
            self._until = max(self._until, moment)
        if all(frames.is_empty for frames in self._spilled):
            self._spilled = []

    def _with_times(self, completed: Sequence[Partial | None]) -> list[Partial]:
        """The groups of complete frames that have a time; those without wait for the end."""
        if not completed:
            return []
        with_times: list[Partial] = []
        self._without_time = [None] * len(completed)
        for number, part in enumerate(completed):
            groups = (
                GroupState(self._layouts_with_frames[number], self.check_accumulated).combined()
                if part is None
                else part
            )
            self._without_time[number], with_time = _divided(groups)
            with_times.append(with_time)
        return with_times

    def _add_to_frames(self, number: int, groups: Partial) -> None:
        """Gives each group to its frame."""
        ends = numbers(groups.keys[FRAME], np.int64)
        if (ends[1:] < ends[:-1]).any():
            order = np.argsort(ends, kind="stable")
            groups, ends = groups.take(indexes(order)), ends[order]
        bounds = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(ends)]
        parts = ends[bounds[:-1]].tolist(), bounds, _without_frame(groups)
        if not self._frames[number].add_groups(*parts):
            sparse = self._sparse_frames(self._layouts[number])
            for end, held in self._frames[number].frames():
                sparse.add(end, held)
            sparse.add_groups(*parts)
            self._frames[number] = sparse

    def _windows(self, until: int | None) -> Iterator[pa.RecordBatch]:
        """The windows that end until then (None: all, and what has no time)."""
        found: list[list[Partial]] = [[] for _ in self._frames]
        end = self._frames[0].next_end(self._until)
        while end is not None and (until is None or end <= until):
            for frames, parts in zip(self._frames, found, strict=True):
                partial = frames.window(end)
                if partial is not None:
                    parts.append(_with_end(partial, end))
            self._until = end
            if sum(part.num_rows for parts in found for part in parts) >= FEW_ROWS:
                yield self._result(found)
                found = [[] for _ in self._frames]
            end = self._frames[0].next_end(end)
        if found[0]:
            yield self._result(found)
        if until is None:
            yield from self._rows_without_time()
        else:
            self._until = max(self._until, until)
        for frames in self._frames:
            frames.forget(self._until)

    def _rows_without_time(self) -> Iterator[pa.RecordBatch]:
        """The groups of rows whose time is NULL."""
        if self._without_time and self._without_time[0] is not None:
            yield self._result([[] if part is None else [part] for part in self._without_time])
            self._without_time = []

    def _result(self, parts: Sequence[Sequence[Partial]]) -> pa.RecordBatch:
        """The result of windows, of which there are the groups, then those with distinct arguments
        of each set."""
        plain, *distinct = parts
        joined = appended(plain)
        if distinct:
            joined = self.with_distinct(
                joined, [appended(rows) if rows else None for rows in distinct]
            )
        found = Partial(self._framed.result_keys(joined), joined.columns, joined.num_rows)
        return self._framed.result_of(found, self.context.job.evaluation)

    def state(self) -> Iterator[pa.RecordBatch]:
        """As of open groups: frames that windows to come contain are groups too, which the
        watermark then completes at once."""
        yield from super().state()
        aggregation = self._framed
        keys = [f"k{i}" for i in range(len(aggregation.keys))]
        for number, frames in enumerate(self._frames):
            parts = [_with_end(partial, end) for end, partial in frames.frames()]
            if parts:
                yield self._frame_state(number, appended(parts), keys)
        for number, spilled in enumerate(self._spilled):
            for end, partial in spilled.frames():
                yield self._frame_state(number, _with_end(partial, end), keys)

    def _frame_state(self, number: int, groups: Partial, keys: Sequence[str]) -> pa.RecordBatch:
        """Groups of frames as state, plain ones or (from 1 on) distinct arguments."""
        divided_by = keys[1:] or keys
        if number:
            names = [f"d{number - 1}_{i}" for i in range(len(groups.keys))]
            return keyed_state(
                pa.RecordBatch.from_arrays(groups.keys, names=names),
                *names[: len(keys)][-len(divided_by) :],
            )
        return keyed_state(exported(groups, self._framed.plain_layout), *divided_by)

    def finish_restore(self) -> bool:
        self.end_restore()
        if self._times[0] > LEAST_TIME:
            self._until = self._moment
        return True

    def close(self) -> None:
        super().close()
        self.__dict__.pop("_frames", None)
        self.__dict__.pop("_spilled", None)


def _divided(groups: Partial) -> tuple[Partial | None, Partial]:
    """The groups without a time (None for none), and those that have one."""
    valid = validity(groups.keys[FRAME])
    if valid is None:
        return None, groups
    return groups.take(indexes(np.flatnonzero(~valid))), groups.take(indexes(np.flatnonzero(valid)))


def _without_frame(partial: Partial) -> Partial:
    return Partial(partial.keys[1:], partial.columns, partial.num_rows)


def _with_end(partial: Partial, end: int) -> Partial:
    ends = from_numbers(np.full(partial.num_rows, end, np.int64), pa.int64())
    return Partial([ends, *partial.keys], partial.columns, partial.num_rows)


def framed_aggregate(
    framed: FramedKeys,
    aggregates: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    stage: AggregationStage,
    diverts: bool = False,
) -> ProcessorFactory:
    """A supplier of processors that aggregate by windows and keys. Between two stages the edge must
    be partitioned by k1, k2, … (k0 is the frame), or lead to a single processor; otherwise as
    `timed_aggregate`."""
    aggregation = FramedAggregation(framed, aggregates, names, stage)
    return lambda: FramedAggregateProcessor(aggregation, Timing(framed.timing, diverts))
