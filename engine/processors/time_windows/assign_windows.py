"""TUMBLE, HOP and CUMULATE: each row once per window that it is in, with the window's bounds.

Arithmetic on event times as int64, with floor division: times before 1970 are like others. A row
tells how far its first window's start lies behind it (`back`) and how many windows it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    Numbers,
    from_numbers,
    indexes,
    make_batch,
    numbers,
    validity,
)
from runnel.dag import ProcessorFactory
from runnel.errors import DataError, Position
from runnel.expressions.kernels.buffers import FIRST_US, LAST_US
from runnel.expressions.nodes import Column
from runnel.processor import Watermark
from runnel.processors.sources.partition_watermarks import EARLIEST, LATEST, LEAST_TIME, event_times
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.stateful.late_candidates import copied_row, of_windows
from runnel.relation.streams import WINDOW_COLUMNS, WindowKind, WindowShape
from runnel.sqltypes import TIMESTAMP, Kind, SqlType, to_arrow

if TYPE_CHECKING:
    import numpy.typing as npt


def into_period(times: Indexes, period: int, offset: int) -> Indexes:
    """How far each time is behind the beginning of its period, of those that begin at `offset`,
    `offset` + `period`, …"""
    # Where the product overflows it wraps, and the difference wraps back.
    within = times - times // period * period
    if offset:
        within -= offset
        within += (within < 0) * np.int64(period)
    return within


@frozen
class Placement:
    """Where the windows of some rows lie. Row i is in `counts[i]` windows (None: one); the first
    begins `back[i]` before it, and the next ones begin, or for CUMULATE end, a step later each.
    `first` (CUMULATE): how many steps the first one takes."""

    shape: WindowShape
    times: Indexes
    back: Indexes
    counts: Indexes | None = None
    first: Indexes | None = None

    def starts(self, rows: Indexes | slice, number: Indexes | None) -> Indexes:
        """The starts of the windows of `rows` that have this number."""
        starts = self.times[rows] - self.back[rows]
        return (
            starts
            if number is None or self.first is not None
            else starts + number * self.shape.step
        )

    def ends(self, starts: Indexes, rows: Indexes | slice, number: Indexes | None) -> Indexes:
        if self.first is None or number is None:
            return starts + self.shape.size
        return starts + (self.first[rows] + number) * self.shape.step


def place(shape: WindowShape, times: Indexes) -> Placement:
    """The windows of rows at these times."""
    if shape.kind is WindowKind.HOP:
        within = into_period(times, shape.step, shape.offset)
        counts = (shape.size - 1 - within) // shape.step + 1
        return Placement(shape, times, within + (counts - 1) * shape.step, counts)
    within = into_period(times, shape.size, shape.offset)
    if shape.kind is WindowKind.TUMBLE:
        return Placement(shape, times, within)
    steps = within // shape.step
    return Placement(shape, times, within, shape.size // shape.step - steps, steps + 1)


MOST_COMPARED = 4
"""The number of periods up to which rows are compared with each start, which is cheaper than a
division per row."""

MOST_PERIODS = 64
"""The number of periods up to which rows in order are divided by a search for each start."""


@frozen
class Periods:
    """The periods of time, such as tumbling windows, that some rows are in.

    starts: the starts of the periods, consecutive.
    ends: for rows in order of time, the number of rows up to the end of each period; otherwise
        None.
    later: otherwise, for each period after the first one, whether a row is in it or in a later
        one.
    num_rows: the number of rows.
    """

    starts: list[int]
    ends: list[int] | None
    later: list[Mask]
    num_rows: int

    def bounds(self, added: int, dtype: npt.DTypeLike = np.int64) -> Numbers:
        """For each row the start of its period, with a number added."""
        # Example: the times [1, 12, 9], periods of 10. starts = [0, 10], later = [[no, yes, no]].
        # All rows get 0, then the row 1 gets 10: [0, 10, 0]. The times [1, 9, 12] are in order:
        # ends = [2, 3], so the first two rows get 0, and the third one 10.
        found = np.empty(self.num_rows, dtype)
        if self.ends is not None:
            for (begin, end), start in zip(pairwise([0, *self.ends]), self.starts, strict=True):
                found[begin:end] = start + added
            return found
        found.fill(self.starts[0] + added)
        for start, mask in zip(self.starts[1:], self.later, strict=True):
            np.copyto(found, np.asarray(start + added, dtype), where=mask)
        return found


def periods_of(times: Indexes, period: int, offset: int) -> Periods | None:
    """The periods of rows; None if there are no rows, or if they are in many periods."""
    if not len(times):
        return None
    least, greatest = int(times.min()), int(times.max())
    first = least - (least - offset) % period
    count = (greatest - first) // period + 1
    starts = [first + number * period for number in range(min(count, MOST_PERIODS))]
    if count > MOST_PERIODS or first < EARLIEST or starts[-1] > LATEST - period:
        return None
    if count > 1 and (times[1:] >= times[:-1]).all():
        borders = np.searchsorted(times, np.array(starts[1:], np.int64))
        return Periods(starts, [*borders.tolist(), len(times)], [], len(times))
    if count > MOST_COMPARED:
        return None
    return Periods(starts, None, [times >= start for start in starts[1:]], len(times))


def bounds_range(time: SqlType) -> tuple[int, int]:
    """The least and the greatest bound that windows over a column of this type may have."""
    if time.is_integer:
        half = 1 << (to_arrow(time).bit_width - 1)
        return -half, half - 1
    return FIRST_US, LAST_US


@frozen
class AssignWindowsPlan:
    """What the processors of a vertex share. `columns` are those of the result that are given, of
    the input's columns and the three bounds."""

    shape: WindowShape
    time: int
    type: SqlType
    names: tuple[str, ...]
    columns: tuple[int, ...] | None
    position: Position | None

    @property
    def bound_type(self) -> SqlType:
        return TIMESTAMP if self.type.kind is Kind.DATE else self.type

    def check(self, placement: Placement, valid: Mask | None) -> None:
        """DataError where a bound is none of the type's values."""
        least, greatest = bounds_range(self.type)
        times, size = placement.times, self.shape.size
        if not len(times) or (
            int(times.min()) >= least + size and int(times.max()) <= greatest - size
        ):
            return
        back = placement.back
        if placement.counts is not None and placement.first is None:
            last = back - (placement.counts - 1) * self.shape.step
        else:
            last = back
        # No sum here leaves int64: `back` and `size` aren't negative, the limits have opposite
        # signs.
        wrong = (times < least + back) | (times > greatest - (size - last))
        if valid is not None:
            wrong &= valid
        if wrong.any():
            raise DataError(
                f"a window has a bound that is out of the range of {self.bound_type}",
                hint="leave the row out with WHERE"
                + (", or CAST the column to BIGINT" if self.type.is_integer else ""),
                position=self.position,
            )


class AssignWindowsProcessor(EmittingProcessor):
    """Puts the bounds behind the rows, repeated where a row is in several windows."""

    def __init__(self, plan: AssignWindowsPlan) -> None:
        super().__init__()
        self._plan = plan
        self._arrow = to_arrow(plan.bound_type)
        self._width = np.dtype(f"i{self._arrow.bit_width // 8}")
        self._watermark = LEAST_TIME
        self._schemas: tuple[pa.Schema, pa.Schema] | None = None

    def process_watermark(self, watermark: Watermark) -> bool:
        self._watermark = max(self._watermark, watermark.time)
        return super().process_watermark(watermark)

    def _note_late(
        self, batch: pa.RecordBatch, placement: Placement, rows: Indexes | slice, ends: Indexes
    ) -> None:
        """Remember rows of windows that the watermark has passed, for the log of an aggregation."""
        late = np.flatnonzero(ends <= self._watermark)
        found = np.arange(batch.num_rows)[rows][late]
        of_windows(self.context.job).add(
            ends[late] - 1, placement.times[found], lambda i: copied_row(batch, int(found[i]))
        )

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        column = event_times(batch.column(self._plan.time))
        valid = validity(column)
        times = numbers(column, np.int64)
        if valid is None and self._plan.shape.kind is WindowKind.TUMBLE:
            windows = periods_of(times, self._plan.shape.size, self._plan.shape.offset)
            if windows is not None and self._are_usual(windows):
                self.emit(self._of_few(batch, windows))
                return
        if valid is not None:
            times = np.where(valid, times, 0)
        placement = place(self._plan.shape, times)
        self._plan.check(placement, valid)
        if placement.counts is None:
            self.emit(self._result(batch, placement, valid, slice(None), None))
        else:
            self.emit_all(self._repeated(batch, placement, placement.counts, valid))

    def _are_usual(self, windows: Periods) -> bool:
        """Whether all bounds are values of the type, and no window is late."""
        least, greatest = bounds_range(self._plan.type)
        size = self._plan.shape.size
        first, last = windows.starts[0], windows.starts[-1] + size
        return least <= first and last <= greatest and first + size > self._watermark

    def _of_few(self, batch: pa.RecordBatch, windows: Periods) -> pa.RecordBatch:
        """The result for rows that are in few windows."""
        plan, width, size = self._plan, batch.num_columns, self._plan.shape.size
        added = (0, size, size - 1)
        chosen = range(width + len(WINDOW_COLUMNS)) if plan.columns is None else plan.columns
        columns = [
            batch.column(i)
            if i < width
            else from_numbers(windows.bounds(added[i - width], self._width), self._arrow)
            for i in chosen
        ]
        return make_batch(columns, self._schema_for(batch.schema, columns), batch.num_rows)

    def _schema_for(self, schema: pa.Schema, columns: Sequence[pa.Array]) -> pa.Schema:
        """The schema of the result, which is made once for the schema of the input."""
        if self._schemas is None or self._schemas[0] != schema:
            names = zip(self._plan.names, columns, strict=True)
            self._schemas = schema, pa.schema([pa.field(name, item.type) for name, item in names])
        return self._schemas[1]

    def _repeated(
        self, batch: pa.RecordBatch, placement: Placement, counts: Indexes, valid: Mask | None
    ) -> Iterator[pa.RecordBatch]:
        """The result in pieces of at most MAX_ROWS rows; a row may be in more windows than that."""
        if valid is not None:
            counts = np.where(valid, counts, 1)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, MAX_ROWS):
            stop = min(start + MAX_ROWS, total)
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            copies = counts[first : last + 1].copy()
            copies[-1] -= ends[last] - stop
            copies[0] -= start - (ends[first] - counts[first])
            rows = np.repeat(np.arange(first, last + 1), copies)
            number = np.arange(start, stop) - (ends - counts)[rows]
            yield self._result(batch, placement, valid, rows, number)

    def _result(
        self,
        batch: pa.RecordBatch,
        placement: Placement,
        valid: Mask | None,
        rows: Indexes | slice,
        number: Indexes | None,
    ) -> pa.RecordBatch:
        plan, width = self._plan, batch.num_columns
        chosen = range(width + len(WINDOW_COLUMNS)) if plan.columns is None else plan.columns
        starts = placement.starts(rows, number)
        ends = placement.ends(starts, rows, number)
        bounds = (starts, ends, ends - 1)
        if len(ends) and int(ends.min()) <= self._watermark:
            self._note_late(batch, placement, rows, ends)
        known = None if valid is None else valid[rows]
        taken = None if isinstance(rows, slice) else indexes(rows)
        columns = []
        for i in chosen:
            if i >= width:
                bound = bounds[i - width].astype(self._width, copy=False)
                columns.append(from_numbers(bound, self._arrow, known))
            else:
                columns.append(batch.column(i) if taken is None else batch.column(i).take(taken))
        schema = pa.schema(
            [pa.field(name, item.type) for name, item in zip(plan.names, columns, strict=True)]
        )
        return make_batch(columns, schema, len(starts))


def assign_windows(
    shape: WindowShape, time: Column, names: tuple[str, ...], columns: tuple[int, ...] | None = None
) -> ProcessorFactory:
    """A supplier of processors that give, for each row and each of its windows, the row's columns
    and the three bounds; of these only the ones at `columns` (None: all), in that order, called by
    `names`. Not for sessions."""
    plan = AssignWindowsPlan(shape, time.index, time.type, names, columns, time.position)
    return lambda: AssignWindowsProcessor(plan)
