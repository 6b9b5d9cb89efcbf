"""GENERATE_SERIES for each input row: integers, or timestamps at an interval."""

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
    numbers,
    slices,
    validity,
)
from runnel.dag import ProcessorFactory
from runnel.errors import DataError, Position
from runnel.expressions.context import EvaluationInput
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.expressions.time.calendar_steps import instants_of, steps_by_calendar, wall_times
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.sqltypes import INTERVAL_MONTH, SqlType, to_arrow

SLICE_ROWS = 16_384
"""Number of input rows that are processed at a time."""

DAY = 86_400_000_000
"""A day in microseconds."""
LEAST_DAYS = 28
"""The number of days of the shortest month."""
CALENDAR_MONTHS = 4800
"""The period, in months, after which the lengths of the months repeat (400 years)."""


@frozen
class SeriesPlan:
    """A compiled Series, shared by executions.

    arguments: start, stop and step.
    type: the type of the values.
    by_month: whether the step is an interval of months.
    outer: whether a row whose series is empty is emitted once, with NULL.
    with_ordinality: whether the values are numbered from 1 in a further column.
    names: the names of the result's columns.
    columns: the indexes of the columns to emit, of the input's, the value and the number; None:
        all.
    position: where the step stands in the statement.
    """

    arguments: tuple[Evaluator, ...]
    type: SqlType
    by_month: bool
    outer: bool
    with_ordinality: bool
    names: tuple[str, ...]
    columns: tuple[int, ...] | None
    position: Position | None


@frozen
class Spans:
    """The series of several rows.

    starts: the first value of each row.
    steps: the step of each row.
    counts: the number of values of each row.
    by_month: whether the steps are in months.
    by_calendar: the rows whose values are computed as local times of `zone`; None: no row.
    zone: the zone of the session.
    """

    starts: Indexes
    steps: Indexes
    counts: Indexes
    by_month: bool
    by_calendar: Mask | None = None
    zone: str = "UTC"

    def values(self, rows: Indexes, positions: Indexes) -> Indexes:
        """Return the values at `positions`, from 0, of the series of `rows`.

        rows: ascending row numbers.
        positions: consecutive for equal rows.
        """
        if not self.by_month:
            found = self.starts[rows] + positions * self.steps[rows]
        else:
            found = _months_later(self, rows, positions)
        if self.by_calendar is not None:
            return instants_of(found, self.by_calendar[rows], self.zone)
        return found


class SeriesProcessor(EmittingProcessor):
    """Repeats each row for the values of its series.

    It emits at most MAX_ROWS rows at a time, however long a series is.
    """

    def __init__(self, plan: SeriesPlan) -> None:
        super().__init__()
        self._plan = plan

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self.emit_all(chunk for part in slices(batch, SLICE_ROWS) for chunk in self._repeated(part))

    # Example: three rows whose series have [2, 0, 3] values, without `outer`, and chunks of 4 rows
    # (instead of MAX_ROWS).
    #
    #   copies     [2, 0, 3]: the number of output rows of each input row
    #   ends       [2, 2, 5]: where the output rows of each input row end
    #   chunk 0:4  low, high = 0, 2: the input rows of the first and the last output row
    #              chosen = [0, 1, 2], begins = [0, 2, 2]; clipped to the chunk they have [2, 0, 2]
    #              output rows: rows = [0, 0, 2, 2], positions = [0, 1, 0, 1]
    #   chunk 4:5  chosen = [2], begins = [2]: rows = [2], positions = [2]
    def _repeated(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        frame = EvaluationInput(batch.columns, batch.num_rows, self.context.job.evaluation)
        spans = self._spans([evaluate(item, frame) for item in self._plan.arguments])
        counts = spans.counts
        copies = np.maximum(counts, 1) if self._plan.outer else counts
        ends = np.cumsum(copies)
        total = int(ends[-1]) if len(ends) else 0
        for first in range(0, total, MAX_ROWS):
            last = min(first + MAX_ROWS, total)
            low, high = np.searchsorted(ends, (first, last - 1), side="right")
            chosen = np.arange(low, high + 1)
            begins = ends[chosen] - copies[chosen]
            rows = np.repeat(chosen, np.minimum(ends[chosen], last) - np.maximum(begins, first))
            positions = np.arange(first, last) - (ends - copies)[rows]
            valid = counts[rows] > 0 if self._plan.outer else None
            yield self._chunk(batch, rows, positions, spans, valid)

    def _chunk(
        self,
        batch: pa.RecordBatch,
        rows: Indexes,
        positions: Indexes,
        spans: Spans,
        valid: Mask | None,
    ) -> pa.RecordBatch:
        plan = self._plan
        width = batch.num_columns
        value = to_arrow(plan.type)
        added = [from_numbers(spans.values(rows, positions), value, valid)]
        if plan.with_ordinality:
            added.append(from_numbers(positions + 1, pa.int64(), valid))
        chosen = range(width + len(added)) if plan.columns is None else plan.columns
        taken = indexes(rows)
        columns = [batch.column(i).take(taken) if i < width else added[i - width] for i in chosen]
        schema = pa.schema(
            [pa.field(name, item.type) for name, item in zip(plan.names, columns, strict=True)]
        )
        return make_batch(columns, schema, len(rows))

    def _spans(self, arguments: list[pa.Array]) -> Spans:
        """Compute the series of each row. If an argument is NULL, the series is empty."""
        valid = np.ones(len(arguments[0]), np.bool_)
        for item in arguments:
            found = validity(item)
            if found is not None:
                valid &= found
        start, stop = (numbers(item, np.int64) for item in arguments[:2])
        step = numbers(
            arguments[2], np.int32 if arguments[2].type.bit_width == 32 else np.int64
        ).astype(np.int64)
        if (valid & (step == 0)).any():
            raise DataError(
                "the step of GENERATE_SERIES cannot be equal to zero",
                hint="leave it out to count up by 1",
                position=self._plan.position,
            )
        step = np.where(valid, step, 1)
        zone = self.context.job.evaluation.zone
        calendar = steps_by_calendar(step, self._plan.by_month, self._plan.type, zone)
        if calendar is not None:
            start, stop = (
                wall_times(np.where(valid, times, 0), calendar, zone) for times in (start, stop)
            )
        if self._plan.by_month:
            counts = np.where(valid, _month_counts(start, stop, step), 0)
            return Spans(start, step, counts, True, calendar, zone)
        # Example: start [1, 5, 9], stop [4, 1, 8], step [2, -2, 1]. distance is [3, 4, 2^64 - 1]
        # and stride [2, 2, 1]; counts are [2, 3, …], and the last one becomes 0, as its start is
        # already after its stop. Unsigned numbers have room for every distance of 64-bit integers.
        up = step > 0
        distance = np.where(
            up,
            stop.view(np.uint64) - start.view(np.uint64),
            start.view(np.uint64) - stop.view(np.uint64),
        )
        stride = np.where(up, step, 0 - step).view(np.uint64)
        counts = np.minimum(distance // stride, np.uint64(1 << 62)).astype(np.int64) + 1
        has_any = valid & np.where(up, start <= stop, start >= stop)
        return Spans(start, step, np.where(has_any, counts, 0), False, calendar, zone)


def _parts(times: Indexes) -> tuple[Indexes, Indexes, Indexes]:
    """Split timestamps into months since 1970, days in the month from 0, and microseconds."""
    days = times.view("M8[us]").astype("M8[D]")
    months = days.astype("M8[M]")
    return months.view(np.int64), (days - months).view(np.int64), times - days.view(np.int64) * DAY


def _lengths(months: Indexes) -> Indexes:
    """Return the number of days of each month; `months` are counted from 1970."""
    first = months.view("M8[M]")
    days: Indexes = ((first + 1).astype("M8[D]") - first.astype("M8[D]")).view(np.int64)
    return days


def _shortest(first: Indexes, step: Indexes, positions: Indexes) -> Indexes:
    """Return the least number of days of the months first, first + step, … first + position * step.

    The arguments have one value per series. 31 for a negative position.
    """
    result = np.full(len(first), 31)
    for position in range(min(int(positions.max(initial=-1)), CALENDAR_MONTHS) + 1):
        open_ = (positions >= position) & (result > LEAST_DAYS)
        if not open_.any():
            break
        result[open_] = np.minimum(result[open_], _lengths(first[open_] + position * step[open_]))
    return result


# Example of `_months_later`: the series from January 31st, 1970 by one month, at the positions 0, 1
# and 2 (rows [0, 0, 0]).
#
#   month, day  0 and 30: January, and the days since its first
#   reached     [0, 1, 2]: January, February, March; lengths [31, 28, 31]
#   shortest    [31, 28, 28]: the least length so far
#   result      the days [30, 27, 27] of the months: January 31st, February 28th, March 28th


def _months_later(spans: Spans, rows: Indexes, positions: Indexes) -> Indexes:
    """Return the values at `positions` of series by months, as if the step were added repeatedly.

    A day that a month on the way doesn't have becomes the last day of that month, and stays so.
    """
    month, day, rest = _parts(spans.starts[rows])
    reached = month + positions * spans.steps[rows]
    lengths = _lengths(reached)
    if len(rows) and positions[0]:
        lengths[:1] = _shortest(month[:1], spans.steps[rows[:1]], positions[:1])
    # Subtracting 100 * row makes every length of a row less than all lengths of the rows before,
    # so that one running minimum serves all rows.
    below = 100 * rows
    shortest = np.minimum.accumulate(lengths - below) + below
    found: Indexes = (
        reached.view("M8[M]").astype("M8[D]").view(np.int64) + np.minimum(day, shortest - 1)
    ) * DAY + rest
    return found


def _month_counts(start: Indexes, stop: Indexes, step: Indexes) -> Indexes:
    """Return the number of values of series from `start` to `stop` by `step` months."""
    first, day, rest = _parts(start)
    last, last_day, last_rest = _parts(stop)
    up = step > 0
    positions = np.where(up, last - first, first - last) // np.abs(step)
    is_last = (positions >= 0) & (first + positions * step == last)
    # In the month of `stop` the value of the series may be after `stop`: it doesn't count then.
    # Example: from January 31st by one month, the third value is March 28th. Up to March 28th the
    # series has 3 values, up to March 27th only 2.
    mine = (
        np.minimum(day, _shortest(first, step, np.where(is_last, positions, -1)) - 1) * DAY + rest
    )
    other = last_day * DAY + last_rest
    passed = is_last & np.where(up, mine > other, mine < other)
    counts: Indexes = np.maximum(positions + 1 - passed, 0)
    return counts


def series(
    arguments: tuple[Expression, ...],
    names: tuple[str, ...],
    *,
    outer: bool = False,
    ordinality: bool = False,
    columns: tuple[int, ...] | None = None,
) -> ProcessorFactory:
    """Return a supplier of processors that emit each row once per value of its series.

    arguments: start, stop and step: BIGINTs, or two timestamps and an interval.
    names: the names of the result's columns.
    outer: whether a row whose series is empty is emitted once, with NULL as value and number.
    ordinality: whether a column with the number of the value, from 1, follows the value.
    columns: the indexes of the columns to emit, of the input's columns, the value and the number;
        None: all.
    """
    plan = SeriesPlan(
        tuple(map(compile_expression, arguments)),
        arguments[0].type,
        arguments[2].type == INTERVAL_MONTH,
        outer,
        ordinality,
        names,
        columns,
        arguments[2].position,
    )
    return lambda: SeriesProcessor(plan)
