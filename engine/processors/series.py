"""GENERATE_SERIES of each input row: whole numbers, or timestamps by an interval."""

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
from runnel.expressions.context import Frame
from runnel.expressions.evaluate import Evaluator, compile_expression, evaluate
from runnel.expressions.nodes import Expression
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.sqltypes import INTERVAL_MONTH, SqlType, to_arrow

SLICE_ROWS = 16_384
"""How many rows are worked on at a time."""

DAY = 86_400_000_000
LEAST_DAYS = 28
CALENDAR_MONTHS = 4800
"""After so many months the lengths of months come again."""


@frozen
class SeriesPlan:
    """A compiled Series, shared by executions."""

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
    """Series by row: the first value, the step and the number of values. `by_month`: the step
    counts months."""

    starts: Indexes
    steps: Indexes
    counts: Indexes
    by_month: bool

    def values(self, rows: Indexes, places: Indexes) -> Indexes:
        """The values at `places` (from 0) of the series of `rows`, which go on from place to
        place."""
        if not self.by_month:
            return self.starts[rows] + places * self.steps[rows]
        return _months_later(self, rows, places)


class Series(EmittingProcessor):
    """Repeats each row for the values of its series, at most MAX_ROWS at a time, however long a
    series is."""

    def __init__(self, plan: SeriesPlan) -> None:
        super().__init__()
        self._plan = plan

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self.emit_all(piece for part in slices(batch, SLICE_ROWS) for piece in self._repeated(part))

    def _repeated(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        frame = Frame(batch.columns, batch.num_rows, self.context.job.evaluation)
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
            places = np.arange(first, last) - (ends - copies)[rows]
            valid = counts[rows] > 0 if self._plan.outer else None
            yield self._piece(batch, rows, places, spans, valid)

    def _piece(
        self,
        batch: pa.RecordBatch,
        rows: Indexes,
        places: Indexes,
        spans: Spans,
        valid: Mask | None,
    ) -> pa.RecordBatch:
        plan = self._plan
        width = batch.num_columns
        value = to_arrow(plan.type)
        added = [from_numbers(spans.values(rows, places), value, valid)]
        if plan.with_ordinality:
            added.append(from_numbers(places + 1, pa.int64(), valid))
        chosen = range(width + len(added)) if plan.columns is None else plan.columns
        taken = indexes(rows)
        columns = [batch.column(i).take(taken) if i < width else added[i - width] for i in chosen]
        schema = pa.schema(
            [pa.field(name, item.type) for name, item in zip(plan.names, columns, strict=True)]
        )
        return make_batch(columns, schema, len(rows))

    def _spans(self, arguments: list[pa.Array]) -> Spans:
        """The series of each row; a NULL among the arguments makes an empty one."""
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
        if self._plan.by_month:
            return Spans(start, step, np.where(valid, _month_counts(start, stop, step), 0), True)
        up = step > 0
        distance = np.where(
            up,
            stop.view(np.uint64) - start.view(np.uint64),
            start.view(np.uint64) - stop.view(np.uint64),
        )
        stride = np.where(up, step, 0 - step).view(np.uint64)
        counts = np.minimum(distance // stride, np.uint64(1 << 62)).astype(np.int64) + 1
        has_any = valid & np.where(up, start <= stop, start >= stop)
        return Spans(start, step, np.where(has_any, counts, 0), False)


def _parts(times: Indexes) -> tuple[Indexes, Indexes, Indexes]:
    """The months since 1970, the days within the month from 0, and the microseconds within the
    day."""
    days = times.view("M8[us]").astype("M8[D]")
    months = days.astype("M8[M]")
    return months.view(np.int64), (days - months).view(np.int64), times - days.view(np.int64) * DAY


def _lengths(months: Indexes) -> Indexes:
    """The days of each month."""
    first = months.view("M8[M]")
    days: Indexes = ((first + 1).astype("M8[D]") - first.astype("M8[D]")).view(np.int64)
    return days


def _shortest(first: Indexes, step: Indexes, places: Indexes) -> Indexes:
    """Of the months that are `step` apart from `first` on, as far as the one at each place, the
    least number of days."""
    result = np.full(len(first), 31)
    for place in range(min(int(places.max(initial=-1)), CALENDAR_MONTHS) + 1):
        open_ = (places >= place) & (result > LEAST_DAYS)
        if not open_.any():
            break
        result[open_] = np.minimum(result[open_], _lengths(first[open_] + place * step[open_]))
    return result


def _months_later(spans: Spans, rows: Indexes, places: Indexes) -> Indexes:
    """The values by months, as if step after step were added: a day that a month on the way hasn't
    is cut to its last day, and stays so."""
    month, day, rest = _parts(spans.starts[rows])
    reached = month + places * spans.steps[rows]
    lengths = _lengths(reached)
    if len(rows) and places[0]:
        lengths[:1] = _shortest(month[:1], spans.steps[rows[:1]], places[:1])
    # A row's lengths lie below those of the row before, so that the smallest one so far is always
    # one of its own.
    below = 100 * rows
    shortest = np.minimum.accumulate(lengths - below) + below
    found: Indexes = (
        reached.view("M8[M]").astype("M8[D]").view(np.int64) + np.minimum(day, shortest - 1)
    ) * DAY + rest
    return found


def _month_counts(start: Indexes, stop: Indexes, step: Indexes) -> Indexes:
    """How many steps of so many months lead from start as far as stop."""
    first, day, rest = _parts(start)
    last, last_day, last_rest = _parts(stop)
    up = step > 0
    places = np.where(up, last - first, first - last) // np.abs(step)
    is_last = (places >= 0) & (first + places * step == last)
    # Having come to the month of stop, the series may stand behind it.
    mine = np.minimum(day, _shortest(first, step, np.where(is_last, places, -1)) - 1) * DAY + rest
    other = last_day * DAY + last_rest
    passed = is_last & np.where(up, mine > other, mine < other)
    counts: Indexes = np.maximum(places + 1 - passed, 0)
    return counts


def series(
    arguments: tuple[Expression, ...],
    names: tuple[str, ...],
    *,
    outer: bool = False,
    ordinality: bool = False,
    columns: tuple[int, ...] | None = None,
) -> ProcessorFactory:
    """A supplier of processors that give the input's columns, the value and, with `ordinality`, its
    number from 1; of these only the ones at `columns` (None: all), called by `names`. The arguments
    are start, stop and step: BIGINTs, or two timestamps and an interval. With `outer` a row of an
    empty series comes once, with NULL for both."""
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
    return lambda: Series(plan)
